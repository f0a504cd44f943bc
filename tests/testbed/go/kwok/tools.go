//go:build tools

// Package kwok pins the controller that plays the testbed's further nodes.
package kwok

import _ "sigs.k8s.io/kwok/cmd/kwok"
