package assist

import (
	"strings"

	"espalier.dev/schema"
)

// kinds completes the apiVersion and kind of the document, of an embedded resource, and of an owner
// or another reference. It reports whether the place is one of these.
func (c *completion) kinds() bool {
	p := c.place
	name := p.Path[len(p.Path)-1].Key
	if name != "apiVersion" && name != "kind" || c.env.Kinds == nil {
		return false
	}
	if c.env.BuiltIn && knownValues(c.env.Version.GroupVersionKind().Kind, p.Path) != nil {
		return false
	}
	parent := p.Parent()
	if len(parent) > 0 && !c.isReference(parent) {
		return false
	}
	seen := map[string]bool{}
	for _, matching := range []bool{true, false} {
		for _, k := range c.env.Kinds() {
			label, other, detail := k.Kind, "apiVersion", k.APIVersion
			if name == "apiVersion" {
				label, other, detail = k.APIVersion, "kind", ""
			}
			given := p.Siblings[other]
			matches := given == "" || given == detail || name == "apiVersion" && given == k.Kind
			if matches != matching || seen[label] {
				continue
			}
			seen[label] = true
			item := Item{Label: label, Kind: KindItem, Detail: detail, Deprecated: k.Deprecated, Sort: "1"}
			if name == "kind" {
				item.Documentation = k.Description
			}
			c.addValue(item, label)
		}
		if len(seen) > 0 {
			return true
		}
	}
	return true
}

// isReference reports whether the object at a path names another one: an embedded resource, an owner
// reference, or an object with the fields apiVersion, kind and name.
func (c *completion) isReference(path schema.Path) bool {
	at, ok := c.env.cursor(c.place, path)
	if !ok {
		return false
	}
	s := at.Schema()
	return at.IsResource() || s.Properties["kind"] != nil && s.Properties["name"] != nil
}

// documents adds the starts of objects of all kinds, for an empty document.
func (c *completion) documents() {
	if c.env.Kinds == nil || c.place.Flow {
		return
	}
	for _, k := range c.env.Kinds() {
		w := newWriter(c.place)
		w.write("apiVersion: " + k.APIVersion).line(0).write("kind: " + k.Kind).line(0)
		w.write("metadata:").line(w.step).write("name: ").placeholder("name")
		if c.env.Resource != nil {
			w.lines = maxLines
		}
		c.add(Item{Label: k.Kind, Kind: KindItem, Detail: k.APIVersion, Documentation: k.Description, Deprecated: k.Deprecated,
			Sort: "6" + k.Kind + k.APIVersion, Filter: k.Kind}, w)
	}
}

// names completes the name of another object. It reports whether the place refers to one.
func (c *completion) names() bool {
	ref, ok := c.reference()
	if !ok || c.env.Names == nil {
		return false
	}
	found := c.env.Names(ref)
	if c.place.node == nil && !c.place.Flow {
		c.lead = "- "
	}
	for _, name := range found {
		c.addValue(Item{Kind: NameItem, Detail: ref.Kind, Sort: "1"}, name)
	}
	return len(found) > 0
}

// knownKey is a key of a map that has a meaning of its own.
type knownKey struct{ name, detail string }

// knownKeys returns well-known keys of the map at a path.
func knownKeys(path schema.Path) []knownKey {
	n := len(path)
	if n == 0 {
		return nil
	}
	name, around := path[n-1].Key, ""
	if n > 1 {
		around = path[n-2].Key
	}
	switch {
	case around == "resources" && (name == "limits" || name == "requests"):
		keys := []knownKey{{"cpu", "CPU in cores, such as 100m"}, {"memory", "memory in bytes, such as 128Mi"},
			{"ephemeral-storage", "local storage in bytes, such as 1Gi"}}
		if n > 2 && path[n-3].Key == "spec" || strings.Contains(path.String(), "volumeClaim") {
			keys = append(keys, knownKey{"storage", "size of a volume, such as 1Gi"})
		}
		return keys
	case name == "labels" || name == "matchLabels":
		return []knownKey{{"app.kubernetes.io/name", "name of the application"}, {"app.kubernetes.io/instance", "name of the instance"},
			{"app.kubernetes.io/version", "version of the application"}, {"app.kubernetes.io/component", "component in the architecture"},
			{"app.kubernetes.io/part-of", "application that it is a part of"}, {"app.kubernetes.io/managed-by", "tool that manages it"}}
	case name == "nodeSelector":
		return []knownKey{{"kubernetes.io/os", "operating system of the node"}, {"kubernetes.io/arch", "architecture of the node"},
			{"kubernetes.io/hostname", "name of the node"}, {"topology.kubernetes.io/zone", "zone of the node"},
			{"topology.kubernetes.io/region", "region of the node"}, {"node.kubernetes.io/instance-type", "type of the machine"}}
	}
	return nil
}
