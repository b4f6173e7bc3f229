package encryption

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
)

func TestUnknown(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	if err := os.WriteFile(file, []byte(`{resources: [
		{resources: [secret, secrets, deployments.apps, deployments, customresourcedefinitions.apiextensions.k8s.io]},
		{resources: [things.example.com, thing.example.com, "*.example.com", "*.example.org", "*.apps", "*.", "*.*", secret]}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	e := &Encryption{config: Config{File: file}}
	got, err := e.Unknown(func(r runtimeschema.GroupResource) bool {
		return r.Group == "example.com" && (r.Resource == "" || r.Resource == "things")
	})
	if want := []string{"secret", "deployments", "thing.example.com", "*.example.org"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, expected %q", got, err, want)
	}
	if got, err := (&Encryption{}).Unknown(nil); len(got) != 0 || err != nil {
		t.Errorf("without a configuration: %q, %v", got, err)
	}
}
