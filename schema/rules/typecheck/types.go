package typecheck

import (
	"crypto/sha256"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"

	apiservercel "k8s.io/apiserver/pkg/cel"

	"espalier.dev/schema"
)

// objectType is the CEL type of a schema.
type objectType struct {
	decl *apiservercel.DeclType
	// structs are the types of objects by name.
	structs map[string]*apiservercel.DeclType
}

// typeBuilder makes the types of a schema.
type typeBuilder struct {
	published bool
	structs   map[string]*apiservercel.DeclType
	// names has the names of types of objects by their fields. Objects with the same fields have the
	// same type, so that lists of containers and of init containers can be joined.
	names map[[sha256.Size]byte]string
}

// newObjectType returns the type of a resource.
func newObjectType(name string, s *schema.Structural, published bool) *objectType {
	b := &typeBuilder{published: published, structs: map[string]*apiservercel.DeclType{}, names: map[[sha256.Size]byte]string{}}
	t := b.build(name, s, true)
	if t == nil {
		t = apiservercel.DynType
	}
	return &objectType{decl: t, structs: b.structs}
}

// build returns the type of a schema, or nil if fields with it are not accessible. A resource has
// apiVersion, kind and metadata.
func (b *typeBuilder) build(name string, s *schema.Structural, isResource bool) *apiservercel.DeclType {
	switch {
	case s.XIntOrString && b.published && format(s) == "quantity":
		// In the published schemas, quantities have no type.
		return nil
	case s.XIntOrString:
		return apiservercel.DynType
	case !b.published && !isResource && b.isOpen(s):
		return apiservercel.DynType
	}
	switch s.Type {
	case "object":
		return b.object(name, s, isResource)
	case "array":
		if s.Items == nil {
			return b.untyped()
		}
		items := b.build(name+".@idx", s.Items, s.Items.XEmbeddedResource)
		if items == nil {
			return nil
		}
		return apiservercel.NewListType(items, -1)
	case "string":
		if b.published {
			switch format(s) {
			case "byte":
				return apiservercel.BytesType
			case "duration":
				return apiservercel.DurationType
			case "date", "date-time":
				return apiservercel.TimestampType
			}
		}
		return apiservercel.StringType
	case "boolean":
		return apiservercel.BoolType
	case "integer":
		return apiservercel.IntType
	case "number":
		if b.published {
			return apiservercel.DoubleType
		}
		// In JSON, 1 is an integer.
		return apiservercel.DynType
	}
	return b.untyped()
}

// untyped returns the type of values that can be anything.
func (b *typeBuilder) untyped() *apiservercel.DeclType {
	if b.published {
		return nil
	}
	return apiservercel.DynType
}

// isOpen reports whether an object can have fields that the schema does not specify.
func (b *typeBuilder) isOpen(s *schema.Structural) bool {
	return s.XPreserveUnknownFields || s.XEmbeddedResource ||
		s.AdditionalProperties != nil && s.AdditionalProperties.Structural == nil && s.AdditionalProperties.Bool
}

// object returns the type of an object or a map.
func (b *typeBuilder) object(name string, s *schema.Structural, isResource bool) *apiservercel.DeclType {
	if ap := s.AdditionalProperties; ap != nil && ap.Structural != nil {
		values := b.build(name+".@elem", ap.Structural, ap.Structural.XEmbeddedResource)
		if values == nil {
			return nil
		}
		return apiservercel.NewMapType(apiservercel.StringType, values, -1)
	}
	if isResource && !b.published && b.isOpen(s) {
		return apiservercel.DynType
	}
	properties := s.Properties
	if isResource {
		// CRDs specify at most restrictions of the name.
		properties = maps.Clone(properties)
		if properties == nil {
			properties = map[string]*schema.Structural{}
		}
		maps.Copy(properties, schema.MetaFields())
	}
	hash := sha256.New()
	fields := make(map[string]*apiservercel.DeclField, len(properties))
	for _, field := range slices.Sorted(maps.Keys(properties)) {
		prop := properties[field]
		t := b.build(name+"."+field, prop, prop.XEmbeddedResource)
		if t == nil {
			continue
		}
		key := field
		if b.published {
			var ok bool
			if key, ok = apiservercel.Escape(field); !ok {
				continue
			}
		}
		fields[key] = apiservercel.NewDeclField(key, t, false, nil, nil)
		_, _ = io.WriteString(hash, fmt.Sprintf("%q:%s;", key, t.CelType()))
	}
	if !b.published {
		sum := [sha256.Size]byte(hash.Sum(nil))
		if other, ok := b.names[sum]; ok {
			return b.structs[other]
		}
		b.names[sum] = name
	}
	b.structs[name] = apiservercel.NewObjectType(name, fields)
	return b.structs[name]
}

func format(s *schema.Structural) string {
	if s.ValueValidation == nil {
		return ""
	}
	return s.ValueValidation.Format
}

func sortedFields(t *apiservercel.DeclType) []string { return slices.Sorted(maps.Keys(t.Fields)) }

// keys returns the sorted names of fields.
func keys(fields map[string]*schema.Structural) iter.Seq[string] {
	return slices.Values(slices.Sorted(maps.Keys(fields)))
}

// fieldsAt returns the fields of the objects at a path of field names that end with dots, such as
// spec.containers. for the items of that list. It returns nil if these objects can have any field, or
// are none.
func fieldsAt(s *schema.Structural, path string) map[string]*schema.Structural {
	isResource := true
	for {
		for s.Type == "array" && s.Items != nil {
			s, isResource = s.Items, s.Items.XEmbeddedResource
		}
		if s.Type != "object" || s.XPreserveUnknownFields || s.XIntOrString || s.AdditionalProperties != nil || s.XEmbeddedResource {
			return nil
		}
		fields := s.Properties
		if isResource {
			all := schema.MetaFields()
			maps.Copy(all, fields)
			fields = all
		}
		name, rest, ok := strings.Cut(path, ".")
		if !ok {
			return fields
		}
		next := fields[name]
		if next == nil {
			return nil // reported where the field is set
		}
		s, path, isResource = next, rest, next.XEmbeddedResource
	}
}
