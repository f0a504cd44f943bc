// Command etcd is the testbed's store. Debian's is too old to bookmark watches.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
