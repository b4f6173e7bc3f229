//go:build tools

package reference

// The dependencies of the suite and of the binary under test must be in go.mod.
import (
	_ "espalier.dev/cmd/espalier"
	_ "k8s.io/apiextensions-apiserver/test/integration"
	_ "k8s.io/apiextensions-apiserver/test/integration/conversion"
	_ "k8s.io/apiextensions-apiserver/test/integration/fixtures"
)
