//go:build tools

// Names what is built or read from modules, so that go.mod keeps their versions.
package tools

import (
	_ "github.com/container-storage-interface/spec/lib/go/csi"
	_ "github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity"
	_ "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)
