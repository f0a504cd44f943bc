//go:build tools

// Package coredns pins the testbed's name server.
package coredns

import _ "github.com/coredns/coredns"
