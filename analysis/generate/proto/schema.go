package proto

import (
	"google.golang.org/protobuf/reflect/protoreflect"

	"espalier.dev/analysis/generate"
	"espalier.dev/schema"
)

// Schema returns the schema that a generated message of a kind stands for. It is equal to
// [Skeleton] of the schema that the message was generated from.
func Schema(root protoreflect.MessageDescriptor) (*schema.Structural, error) {
	all, err := plans(root)
	if err != nil {
		return nil, err
	}
	if !all[root.FullName()].isResource() {
		return nil, &DescriptorError{root.FullName(), "the message of a kind has metadata of type " + objectMetaName}
	}
	s := recovery(all).message(root)
	s.XEmbeddedResource = false
	addRootFields(s)
	return s.WithoutValueValidations(), nil
}

// recovery makes schemas of messages.
type recovery map[protoreflect.FullName]*plan

func (r recovery) message(m protoreflect.MessageDescriptor) *schema.Structural {
	p := r[m.FullName()]
	switch p.kind {
	case nullableMessage:
		s := r.value(p.second)
		s.Nullable = true
		return s
	case intOrStringMessage:
		return &schema.Structural{Extensions: schema.Extensions{XIntOrString: true}}
	case resourceMessage:
		s := typed("object")
		s.XEmbeddedResource, s.XPreserveUnknownFields = true, true
		return s
	case listMessage, mapMessage:
		return r.field(p.first)
	}
	s := typed("object")
	s.XPreserveUnknownFields = p.unknown != nil
	s.XEmbeddedResource = p.isResource()
	for _, name := range p.names {
		if !p.isMetaField(name) {
			setProperty(s, name, r.field(p.fields[name]))
		}
	}
	return s
}

func (r recovery) field(f protoreflect.FieldDescriptor) *schema.Structural {
	switch {
	case f.IsList():
		return listOf(r.value(f))
	case f.IsMap():
		return mapOf(r.value(f.MapValue()))
	}
	return r.value(f)
}

func (r recovery) value(f protoreflect.FieldDescriptor) *schema.Structural {
	switch f.Kind() {
	case protoreflect.MessageKind:
		return r.message(f.Message())
	case protoreflect.BytesKind:
		return anyValue()
	case protoreflect.StringKind:
		return typed("string")
	case protoreflect.BoolKind:
		return typed("boolean")
	case protoreflect.DoubleKind:
		return typed("number")
	}
	return typed("integer")
}

func typed(t string) *schema.Structural {
	return &schema.Structural{Generic: schema.Generic{Type: t}}
}

func anyValue() *schema.Structural {
	return &schema.Structural{Extensions: schema.Extensions{XPreserveUnknownFields: true}}
}

func listOf(items *schema.Structural) *schema.Structural {
	s := typed("array")
	s.Items = items
	return s
}

func mapOf(values *schema.Structural) *schema.Structural {
	s := typed("object")
	s.AdditionalProperties = &schema.StructuralOrBool{Structural: values, Bool: true}
	return s
}

func setProperty(s *schema.Structural, name string, property *schema.Structural) {
	if s.Properties == nil {
		s.Properties = map[string]*schema.Structural{}
	}
	s.Properties[name] = property
}

// addRootFields adds the fields of all resources to the schema of a kind.
func addRootFields(s *schema.Structural) {
	setProperty(s, "apiVersion", typed("string"))
	setProperty(s, "kind", typed("string"))
	setProperty(s, "metadata", typed("object"))
}

// Skeleton returns what messages keep of a schema: the form without value validations (see
// [schema.Structural.WithoutValueValidations]), except that
//
//   - annotations are dropped: description, title, default, example, externalDocs, readOnly,
//     and the list types, map types and unions of x-kubernetes-*. The .proto file has the
//     descriptions as comments.
//   - the kind has apiVersion, kind and metadata without further fields. They are implied.
//   - x-kubernetes-preserve-unknown-fields is set exactly on the objects that preserve unknown
//     fields, including those that inherit it, and on values without a type.
//   - a value without a type has no fields or items, which would specify a part of its values
//     only. So has an array without items.
//   - additionalProperties: true is the schema of any value, and additionalProperties: false
//     is dropped.
//
// The result accepts what s accepts, and prunes nothing that s preserves.
func Skeleton(s *schema.Structural, sem schema.Semantics) *schema.Structural {
	out := skeletonOf(rootCursor(s, sem))
	addRootFields(out)
	return out.WithoutValueValidations()
}

func skeletonOf(c schema.Cursor) *schema.Structural {
	s := c.Schema()
	if s == nil {
		return anyValue()
	}
	out := skeletonOfNotNull(c, s)
	out.Nullable = s.Nullable
	return out
}

func skeletonOfNotNull(c schema.Cursor, s *schema.Structural) *schema.Structural {
	switch kind := generate.KindOf(s); {
	case kind == generate.IntOrString:
		return &schema.Structural{Extensions: schema.Extensions{XIntOrString: true}}
	case kind == generate.List:
		return listOf(skeletonOf(c.Items()))
	case kind == generate.Map:
		return mapOf(skeletonOf(mapValue(c)))
	case kind == generate.JSON && s.Type != "object":
		return anyValue()
	case s.Type != "object":
		return typed(s.Type)
	}
	out := typed("object")
	out.XEmbeddedResource = s.XEmbeddedResource
	out.XPreserveUnknownFields = isOpen(c)
	for name := range s.Properties {
		if c.IsResource() && schema.IsMetaField(name) {
			continue
		}
		sub, _ := c.Field(name)
		setProperty(out, name, skeletonOf(sub))
	}
	return out
}
