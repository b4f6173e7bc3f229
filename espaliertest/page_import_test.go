package espaliertest_test

import (
	"testing"

	envtest "espalier.dev/espaliertest" // was "sigs.k8s.io/controller-runtime/pkg/envtest"
)

// TestPageImport starts a server as envtest does.
func TestPageImport(t *testing.T) {
	env := &envtest.Environment{CRDDirectoryPaths: []string{"testdata/crds"}, ErrorIfCRDPathMissing: true}
	if _, err := env.Start(); err != nil {
		t.Fatal(err)
	}
	if err := env.Stop(); err != nil {
		t.Fatal(err)
	}
}
