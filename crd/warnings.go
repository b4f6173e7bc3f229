package crd

import (
	"fmt"
	"slices"
	"strings"

	"espalier.dev/api"
	"espalier.dev/schema"
)

// warnings returns the warnings about a CRD. On update, only new warnings are returned.
func (d *demands) warnings(f *form) []string {
	all := d.warningsOf(&f.spec)
	if d.stored == nil {
		return all
	}
	before := map[string]bool{}
	for _, text := range d.warningsOf(&d.stored.spec) {
		before[text] = true
	}
	return slices.DeleteFunc(all, func(text string) bool { return before[text] })
}

func (d *demands) warningsOf(spec *formSpec) (all []string) {
	sets := map[string]bool{}
	for _, props := range spec.schemas() {
		var formats []string
		schema.WalkSubschemas(props, func(_ schema.SchemaPath, s *api.JSONSchemaProps) bool {
			if s.Format != "" && !KnownFormat(typeOf(s), s.Format) {
				formats = append(formats, fmt.Sprintf("unrecognized format %q", s.Format))
			}
			if t := itemTypeOfSet(s); t == "object" || t == "array" {
				sets[fmt.Sprintf("x-kubernetes-list-type: set for items of type %q is not supported by server-side apply or CEL validation rules", t)] = true
			}
			return true
		})
		slices.Sort(formats)
		all = append(all, formats...)
	}
	all = append(all, sortedKeys(sets)...)
	if !warnsOfLooseSchemas(d.semantics) {
		return all
	}
	for _, props := range spec.schemas() {
		s, err := schema.NewStructural(props)
		if err != nil {
			continue
		}
		for _, f := range schema.Check(s, d.semantics) {
			if !f.Refused {
				all = append(all, f.String())
			}
		}
	}
	return all
}

// itemTypeOfSet returns the type of the items of s if s is a set, or "".
func itemTypeOfSet(s *api.JSONSchemaProps) string {
	if s.XListType == nil || *s.XListType != "set" || s.Items == nil || s.Items.Schema == nil {
		return ""
	}
	return s.Items.Schema.Type.Single()
}

// KnownFormat reports whether a format is known for values of a type, which may be empty.
// Unknown formats are accepted and ignored.
func KnownFormat(typ, format string) bool {
	switch typ {
	case "", "string":
		switch strings.ReplaceAll(format, "-", "") {
		case "bsonobjectid", "uri", "email", "hostname", "ipv4", "ipv6", "cidr", "mac", "uuid", "uuid3", "uuid4", "uuid5",
			"isbn", "isbn10", "isbn13", "creditcard", "ssn", "hexcolor", "rgbcolor", "byte", "password", "date", "duration", "datetime",
			"k8sshortname", "k8slongname":
			return true
		}
		return false
	case "integer":
		return format == "int32" || format == "int64"
	case "number":
		return format == "float" || format == "double"
	}
	return false
}
