// Command pulumi-resource-kubernetes is the Kubernetes provider that the engine starts.
//
// The two schemas that it is given serve GetSchema alone, which no program asks for.
package main

import "github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"

// The version of the Python package pulumi-kubernetes in requirements.lock.
const version = "4.34.2"

func main() {
	provider.Serve("kubernetes", version, []byte("{}"), []byte("{}"))
}
