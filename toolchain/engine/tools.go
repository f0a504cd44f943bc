//go:build tools

// Package engine pins the Pulumi engine: `go build` of the imported command
// resolves every dependency from this module's go.mod and go.sum.
package engine

import _ "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"
