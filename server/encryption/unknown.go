package encryption

import (
	"fmt"
	"os"
	"slices"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"espalier.dev/kinds"
)

// Unknown returns the resources of the configuration that do not exist, as after a typing error: the
// objects that are meant are not encrypted. exists reports whether there is a custom resource, and an
// empty resource stands for all of a group.
func (e *Encryption) Unknown(exists func(runtimeschema.GroupResource) bool) ([]string, error) {
	if e.config.File == "" {
		return nil, nil
	}
	text, err := os.ReadFile(e.config.File)
	if err != nil {
		return nil, fmt.Errorf("read the encryption configuration: %w", err)
	}
	var c struct {
		Resources []struct {
			Resources []string `json:"resources"`
		} `json:"resources"`
	}
	if err := yaml.Unmarshal(text, &c); err != nil {
		return nil, fmt.Errorf("read the encryption configuration %s: %w", e.config.File, err)
	}
	var unknown []string
	for _, rule := range c.Resources {
		for _, name := range rule.Resources {
			r := runtimeschema.ParseGroupResource(name)
			if r.Resource == "*" {
				r.Resource = ""
			}
			if r.Group != "*" && !isBuiltin(r) && !exists(r) && !slices.Contains(unknown, name) {
				unknown = append(unknown, name)
			}
		}
	}
	return unknown, nil
}

// isBuiltin reports whether there is a built-in resource, or a group of some if the resource is empty.
func isBuiltin(r runtimeschema.GroupResource) bool {
	if r.Group == "apiextensions.k8s.io" || r.Group == "apiregistration.k8s.io" {
		return true // they have packages of their own
	}
	for _, one := range kinds.Resources() {
		if have := one.GroupResource(); have == r || r.Resource == "" && have.Group == r.Group {
			return true
		}
	}
	return false
}
