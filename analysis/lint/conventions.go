package lint

import (
	"fmt"
	"slices"
	"strings"

	"espalier.dev/api"
)

// conventionRules applies the rules of the profile conventions to a schema: those of the
// Kubernetes API conventions that a schema shows. They are opinions, so they are off by
// default.
func (c *check) conventionRules(n *node) {
	if !c.conventions || n.inOperator || n.inMeta || n.site == c.d.legacy {
		return
	}
	c.conventionalEnum(n) // types of Kubernetes have no enums in CRDs, unless the author adds them
	if n.leftAlone() {
		return
	}
	c.conventionalName(n)
	c.conventionalType(n)
	c.conventionalList(n)
}

// conventionalType reports types that age badly or that clients read differently.
func (c *check) conventionalType(n *node) {
	s := n.s
	switch s.Type.Single() {
	case "boolean":
		c.warn(conventionBoolean, n.at.child("type"), "a boolean cannot get a third value later: use a string with an enum")
	case "number":
		c.warn(conventionFloat, n.at.child("type"),
			"languages and clients round numbers with a fraction differently: use an integer of a smaller unit, or a string")
	case "integer":
		if strings.HasPrefix(s.Format, "uint") {
			c.warn(conventionUnsigned, n.at.child("format"),
				fmt.Sprintf("not all languages have unsigned integers (%s): use int32 or int64 with minimum: 0", s.Format))
		}
	case "object":
		if ap := s.AdditionalProperties; ap != nil && ap.Schema != nil {
			if t := ap.Schema.Type.Single(); t == "object" || t == "array" {
				c.warn(conventionMap, n.at.child("additionalProperties"),
					fmt.Sprintf("a map with values of type %s has keys without a name: use a list with x-kubernetes-list-type: map and a key", t))
			}
		}
	}
}

// conventionalName reports field names that are not in lower camel case.
func (c *check) conventionalName(n *node) {
	if n.kind == fieldNode && !isCamelCase(n.name, isLower) {
		c.warn(conventionName, n.at, fmt.Sprintf("the field name %q is not in lower camel case", n.name))
	}
}

// conventionalEnum reports enum values of strings that are empty or not in camel case.
func (c *check) conventionalEnum(n *node) {
	for i := range n.s.Enum {
		v, _ := value(&n.s.Enum[i])
		text, isText := v.(string)
		at := n.at.child("enum").index(i)
		switch {
		case !isText:
		case text == "" && n.kind == fieldNode && !n.isRequired():
			c.warn(conventionEnum, at, `the field is optional and can be "": two ways to say the same, so leave the field out instead`)
		case text == "":
			c.warn(conventionEnum, at, `"" has no meaning of its own: name the value, or make the field optional`)
		case !isCamelCase(text, func(b byte) bool { return isUpper(b) || isDigit(b) }):
			c.warn(conventionEnum, at, fmt.Sprintf("the value %q is not in camel case with an initial capital", text))
		}
	}
}

// isCamelCase reports whether a name has only letters and digits, and begins with one
// that initial accepts.
func isCamelCase(name string, initial func(byte) bool) bool {
	for i := range len(name) {
		if !isUpper(name[i]) && !isLower(name[i]) && !isDigit(name[i]) {
			return false
		}
	}
	return name != "" && initial(name[0])
}

func isUpper(b byte) bool { return 'A' <= b && b <= 'Z' }

func isLower(b byte) bool { return 'a' <= b && b <= 'z' }

func isDigit(b byte) bool { return '0' <= b && b <= '9' }

// conventionalList reports lists without a list type, and conditions that clients do not
// recognize.
func (c *check) conventionalList(n *node) {
	s := n.s
	if s.Type.Single() != "array" {
		return
	}
	if n.kind == fieldNode && n.name == "conditions" && n.up.kind == fieldNode && n.up.name == "status" {
		c.conditions(n)
		return
	}
	if s.XListType == nil && !n.isAtomic() {
		c.warn(conventionListType, n.at.child("x-kubernetes-list-type"), "the list has no list type: say how server-side apply merges it")
	}
}

// conditions compares status.conditions with metav1.Condition.
func (c *check) conditions(n *node) {
	s := n.s
	if s.XListType == nil || *s.XListType != "map" || !slices.Equal(s.XListMapKeys, []string{"type"}) {
		c.warn(conventionConditions, n.at.child("x-kubernetes-list-type"),
			"conditions are identified by their type: set x-kubernetes-list-type: map and x-kubernetes-list-map-keys: [type]")
	}
	if s.Items == nil || s.Items.Schema == nil {
		return
	}
	items, at := s.Items.Schema, n.at.child("items")
	var missing []string
	for _, name := range [...]string{"type", "status", "reason", "message", "lastTransitionTime"} {
		p, ok := items.Properties[name]
		switch {
		case !ok:
			missing = append(missing, name)
		case p.Type.Single() != "string":
			c.warn(conventionConditions, at.child("properties").key(name), name+" of a condition is a string")
		}
	}
	if len(missing) > 0 {
		c.warn(conventionConditions, at, "a condition has type, status, reason, message and lastTransitionTime; missing: "+
			strings.Join(missing, ", "))
	}
	for _, name := range [...]string{"type", "status"} {
		if _, ok := items.Properties[name]; ok && !slices.Contains(items.Required, name) {
			c.warn(conventionConditions, at.child("required"), name+" of a condition is required")
		}
	}
}

// statusSubresource reports versions with a status that is not a subresource.
func (c *check) statusSubresource() {
	report := func(at *place, subresources *api.CustomResourceSubresources, site *schemaSite) {
		if site == nil || subresources != nil && subresources.Status != nil {
			return
		}
		if _, ok := site.props.Properties["status"]; ok {
			c.warn(conventionStatus, at.child("subresources", "status"),
				"the schema has a status, but it is not a subresource: users who may write the spec may write the status too")
		}
	}
	spec := root().child("spec")
	versions := c.d.versions()
	if c.d.v1 != nil {
		for i := range c.d.v1.Spec.Versions {
			report(spec.child("versions").index(i), c.d.v1.Spec.Versions[i].Subresources, versions[i].schema)
		}
		return
	}
	for _, s := range c.d.schemas {
		if s.at.around.token == "validation" {
			report(spec, c.d.beta.Spec.Subresources, s)
		}
	}
	for i, v := range c.d.beta.Spec.Versions {
		if c.d.beta.Spec.Subresources == nil {
			report(spec.child("versions").index(i), v.Subresources, versions[i].schema)
		}
	}
}
