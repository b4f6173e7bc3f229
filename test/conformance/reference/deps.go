//go:build tools

package reference

// What the suite and the binary under test are built from must be in go.mod.
import (
	_ "espalier.dev/cmd/espalier"
	_ "k8s.io/apiextensions-apiserver/test/integration"
	_ "k8s.io/apiextensions-apiserver/test/integration/conversion"
	_ "k8s.io/apiextensions-apiserver/test/integration/fixtures"
)
