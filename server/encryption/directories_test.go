package encryption

import (
	"testing"

	"espalier.dev/kinds"
	"espalier.dev/server/keys"
)

// TestDirectories makes sure that the keys of all kinds lead back to their resources, so that none
// has the directory of another.
func TestDirectories(t *testing.T) {
	root := keys.NewRoot(keys.DefaultPrefix)
	for _, r := range kinds.Resources() {
		if !r.IsStored() {
			continue
		}
		namespace := ""
		if r.Namespaced {
			namespace = "default"
		}
		key := root.Builtin(r.GroupResource()).Key(namespace, "a")
		o, ok := root.Parse(key)
		if !ok || o.Namespace != namespace || o.Name != "a" {
			t.Errorf("%s is parsed as %+v", key, o)
		}
		if got, ok := resourceAt(o.Directory); !ok || got != r.GroupResource() {
			t.Errorf("%s is the key of %s, not of %s", key, got, r.GroupResource())
		}
		if !o.Resource.Empty() && o.Resource != r.GroupResource() {
			t.Errorf("%s is the key of %s", key, o.Resource)
		}
	}
}
