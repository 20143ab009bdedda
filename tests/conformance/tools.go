//go:build tools

// Package tools names what `make conformance` builds, so that go.mod keeps it.
package tools

import (
	_ "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	_ "k8s.io/kubernetes/test/e2e"
	_ "sigs.k8s.io/kwok/pkg/kwok/cmd"

	// Imported by the tests of test/e2e only; others of them need no further modules.
	_ "k8s.io/kubernetes/test/e2e/apimachinery"
	_ "k8s.io/kubernetes/test/e2e/dra"
	_ "k8s.io/kubernetes/test/e2e/network"
)
