//go:build tools

// Package helm names the program that the tests build, so that go.mod and go.sum cover it.
package helm

import _ "helm.sh/helm/v3/cmd/helm"
