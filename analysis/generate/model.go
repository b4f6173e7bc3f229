package generate

import (
	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// Package has the types of one version of an API group.
type Package struct {
	Group, Version string
	// Kinds are the custom resources, sorted by name.
	Kinds []*Kind
	// Types are all named types, including those of Kinds, sorted by name.
	Types []*Type
}

// Dir returns the directory of the package, relative to the output directory.
func (p *Package) Dir() string { return p.Group + "/" + p.Version }

// Kind is a custom resource in one version.
type Kind struct {
	// Name is the kind as objects spell it. The name of Type differs if the kind starts with
	// a lowercase letter or contains dashes.
	Name string
	// Input is the index of the CRD in the argument of Build.
	Input   int
	Version *crd.Version
	// Type is the type of the objects.
	Type *Type
}

// ListKind returns the kind of lists of the resource.
func (k *Kind) ListKind() string {
	if name := k.Version.Definition().Names().ListKind; name != "" {
		return name
	}
	return k.Name + "List"
}

// Type is a named type of objects with fields. Identical schemas share a Type.
type Type struct {
	// Name is unique in the package: the kind as objects spell it, or a name in upper camel
	// case.
	Name string
	// Doc describes the type where the field that uses it does not.
	Doc string
	// Path is where the type was first found: the kind and the path of the field.
	Path string
	// Schema is one of the schemas that the type stands for. They differ in nothing but
	// description, title, default, nullable, example and externalDocs.
	Schema *schema.Structural
	// Fields are sorted by name. Those of a Kind do not include apiVersion, kind and metadata.
	Fields []*Field
	// Kind is the custom resource if the type is the type of its objects.
	Kind *Kind
	// Open reports that objects may have fields other than Fields, which are preserved, at least
	// with one of the semantics.
	Open bool
	// Embedded reports that objects have apiVersion, kind and metadata, even if Fields does
	// not list them.
	Embedded bool
	// at is the position in the schema where the type was first found.
	at cursors
}

// Field is a field of a Type.
type Field struct {
	// Name is the name in JSON.
	Name     string
	Required bool
	Value    *Value
	// Union is the union that the field is a member of, and Discriminates the one whose
	// discriminator the field is. They are nil for most fields.
	Union, Discriminates *api.Union
}

// Value is the type of a field, of the items of a list, or of the values of a map.
type Value struct {
	Kind ValueKind
	// Schema is the schema of the value itself, including what it shares with no other
	// Value: description, default, nullable.
	Schema *schema.Structural
	// Elem is the type of the items of a List or of the values of a Map.
	Elem *Value
	// Type is the type of an Object.
	Type *Type
}

// ValueKind is the kind of a Value.
type ValueKind uint8

const (
	// String, Integer, Number and Boolean are the scalar types. The format is in the schema.
	String ValueKind = iota
	Integer
	Number
	Boolean
	// IntOrString is an integer or a string.
	IntOrString
	// List is an array of Elem.
	List
	// Map is an object with arbitrary keys and values of type Elem.
	Map
	// Object is an object of a named type.
	Object
	// Resource is an embedded Kubernetes object of any kind.
	Resource
	// JSON is any value. If the type of the schema is object, it is any object.
	JSON
)

// String returns the name of the kind.
func (k ValueKind) String() string {
	return [...]string{"string", "integer", "number", "boolean", "int-or-string", "list", "map", "object", "resource", "JSON"}[k]
}

// KindOf returns the kind of values with a structural schema.
func KindOf(s *schema.Structural) ValueKind {
	switch {
	case s.XIntOrString:
		return IntOrString
	case s.Type == "string":
		return String
	case s.Type == "integer":
		return Integer
	case s.Type == "number":
		return Number
	case s.Type == "boolean":
		return Boolean
	case s.Type == "array" && s.Items != nil:
		return List
	case s.Type != "object":
		return JSON
	case s.XEmbeddedResource && s.XPreserveUnknownFields && onlyMeta(s):
		return Resource
	case len(s.Properties) > 0:
		return Object
	case s.AdditionalProperties != nil && s.AdditionalProperties.Bool:
		return Map
	case s.XPreserveUnknownFields:
		return JSON
	}
	return Object
}

// onlyMeta reports whether s specifies no fields other than those of all Kubernetes objects.
func onlyMeta(s *schema.Structural) bool {
	for name := range s.Properties {
		if !IsMeta(name) {
			return false
		}
	}
	return true
}

// IsMeta reports whether name is a field that all Kubernetes objects have.
func IsMeta(name string) bool { return name == "apiVersion" || name == "kind" || name == "metadata" }
