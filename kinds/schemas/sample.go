package schemas

import (
	_ "embed" // for samples.yaml
	"fmt"
	"strings"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

//go:embed samples.yaml
var samplesYAML string

// Sample returns a small valid object of a version of the kind.
func (k *Kind) Sample(version string) (map[string]any, error) {
	gvk := runtimeschema.GroupVersionKind{Group: k.Group, Version: version, Kind: k.Names.Kind}
	apiVersion, kind := gvk.ToAPIVersionAndKind()
	for _, text := range strings.Split(samplesYAML, "\n---\n") {
		// Comments may come first.
		if !strings.Contains(text, "apiVersion: "+apiVersion+"\nkind: "+kind+"\n") &&
			!strings.HasSuffix(text, "apiVersion: "+apiVersion+"\nkind: "+kind) {
			continue
		}
		var obj map[string]any
		if err := yaml.Unmarshal([]byte(text), &obj); err != nil {
			return nil, fmt.Errorf("sample of %s: %w", k.FullName(), err)
		}
		if meta, ok := obj["metadata"].(map[string]any); ok && k.Namespaced {
			meta["namespace"] = "default"
		}
		return obj, nil
	}
	return nil, fmt.Errorf("there is no sample of %s", k.FullName())
}
