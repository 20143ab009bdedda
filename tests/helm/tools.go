//go:build tools

// Package tools names what the tests of the chart are run with, so that go.mod keeps it.
package tools

import _ "helm.sh/helm/v3/cmd/helm"
