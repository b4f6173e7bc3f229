package fields

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"espalier.dev/crd"
	"espalier.dev/schema"
	"espalier.dev/server/served"
)

// The names of types that do not come from a schema.
const (
	deduced    = "__untyped_deduced_"
	untyped    = "__untyped_atomic_"
	objectMeta = "ObjectMeta"
)

// Types are the types of a CRD's objects for server-side apply: which lists are sets or maps,
// and which values are atomic. Each version's types are built on first use: those for walks by
// most writes, those for the stock field manager by few. Types is safe for concurrent use.
type Types struct {
	kind     string
	versions map[string]*versionTypes // by apiVersion
	scale    func() typed.ParseableType
}

// versionTypes are the types of a version, and the same prepared for walks.
type versionTypes struct {
	stock  func() typed.ParseableType
	walked func() *typ
}

var _ managedfields.TypeConverter = &Types{}

// NewTypes returns the types of all versions of a CRD.
func NewTypes(d *crd.Definition) *Types {
	t := &Types{kind: d.Names().Kind, versions: map[string]*versionTypes{}, scale: sync.OnceValue(scaleType)}
	for _, v := range d.Versions() {
		types := &versionTypes{}
		types.stock = sync.OnceValue(func() typed.ParseableType { return stockType(v) })
		types.walked = sync.OnceValue(func() *typ {
			stock := stockType(v) // not kept
			return common().compiler(stock.Schema).compile(stock.TypeRef)
		})
		t.versions[v.GroupVersionKind().GroupVersion().String()] = types
	}
	return t
}

// stockType returns the type of a version's objects for the stock field manager.
func stockType(v *crd.Version) typed.ParseableType {
	parser := &typed.Parser{Schema: smd.Schema{Types: append(slices.Clone(common().types), smd.TypeDef{Name: v.Name(), Atom: rootType(v)})}}
	return parser.Type(v.Name())
}

// version returns the type of the objects of a version, and false if there is none.
func (t *Types) version(apiVersion string) (typed.ParseableType, bool) {
	v, ok := t.versions[apiVersion]
	if !ok {
		return typed.ParseableType{}, false
	}
	return v.stock(), true
}

// ObjectToTyped returns an object with its type.
func (t *Types) ObjectToTyped(obj runtime.Object, o ...typed.ValidationOptions) (*typed.TypedValue, error) {
	switch obj := obj.(type) {
	case *unstructured.Unstructured:
		if obj.GroupVersionKind() == served.ScaleKind() {
			return t.scale().FromUnstructured(obj.Object, o...)
		}
		v, ok := t.version(obj.GetAPIVersion())
		if !ok || obj.GetKind() != t.kind {
			// The field manager skips versions that no longer exist.
			return nil, runtime.NewNotRegisteredErrForKind("custom resources", obj.GroupVersionKind())
		}
		return v.FromUnstructured(obj.Object, o...)
	case *autoscalingv1.Scale:
		return t.scale().FromStructured(obj, o...)
	}
	// CRDs are Go types, as they are stored.
	gvk := obj.GetObjectKind().GroupVersionKind()
	v, ok := t.version(gvk.GroupVersion().String())
	if !ok {
		return nil, runtime.NewNotRegisteredErrForKind("resources", gvk)
	}
	return v.FromStructured(obj, o...)
}

// TypedToObject returns an object without its type.
func (t *Types) TypedToObject(v *typed.TypedValue) (runtime.Object, error) {
	switch o := v.AsValue().Unstructured().(type) {
	case map[string]any:
		obj := &unstructured.Unstructured{Object: o}
		if obj.GroupVersionKind() != served.ScaleKind() {
			return obj, nil
		}
		scale := &autoscalingv1.Scale{}
		return scale, runtime.DefaultUnstructuredConverter.FromUnstructured(o, scale)
	default:
		return nil, fmt.Errorf("expected an object, got %T", o)
	}
}

// rootType returns the type of a version's objects.
func rootType(v *crd.Version) smd.Atom {
	s := v.Structural()
	preserve := v.Definition().PreservesUnknownFields()
	if s == nil {
		s, preserve = &schema.Structural{Generic: schema.Generic{Type: "object"}}, true
	}
	m := mapType(s, preserve || s.XPreserveUnknownFields)
	addResourceFields(m)
	return smd.Atom{Map: m}
}

// addResourceFields adds the fields that all resources have, including embedded ones. A
// schema may restrict metadata, but not define how it merges.
func addResourceFields(m *smd.Map) {
	m.Fields = slices.DeleteFunc(m.Fields, func(f smd.StructField) bool {
		return schema.IsMetaField(f.Name)
	})
	m.Fields = append(m.Fields,
		smd.StructField{Name: "apiVersion", Type: scalarRef(smd.String)},
		smd.StructField{Name: "kind", Type: scalarRef(smd.String)},
		smd.StructField{Name: "metadata", Type: namedRef(objectMeta)})
}

// typeOf returns the type of a value. preserve is set if unknown fields are preserved here.
func typeOf(s *schema.Structural, preserve bool) smd.TypeRef {
	preserve = preserve || s.XPreserveUnknownFields
	ref := smd.TypeRef{Nullable: s.Nullable}
	switch s.Type {
	case "object":
		ref.Inlined.Map = mapType(s, preserve)
		if s.XEmbeddedResource {
			addResourceFields(ref.Inlined.Map)
		}
	case "array":
		ref.Inlined.List = listType(s, preserve)
	case "integer", "number":
		ref.Inlined.Scalar = scalar(smd.Numeric)
	case "boolean":
		ref.Inlined.Scalar = scalar(smd.Boolean)
	case "string":
		ref.Inlined.Scalar = scalar(smd.String)
		if s.ValueValidation != nil && s.ValueValidation.Format != "" && s.ValueValidation.Format != "byte" {
			ref.Inlined.Scalar = scalar("untyped")
		}
	default:
		ref.Inlined = smd.Atom{Scalar: scalar("untyped"), List: listType(s, preserve), Map: mapType(s, preserve)}
	}
	return ref
}

func mapType(s *schema.Structural, preserve bool) *smd.Map {
	m := &smd.Map{}
	if s.XMapType != nil {
		switch *s.XMapType {
		case "atomic":
			m.ElementRelationship = smd.Atomic
		case "granular":
			m.ElementRelationship = smd.Separable
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		f := smd.StructField{Name: name, Type: typeOf(p, preserve)}
		if p.Default != nil {
			f.Default = p.Default.Value
		}
		m.Fields = append(m.Fields, f)
	}
	switch ap := s.AdditionalProperties; {
	case ap != nil && ap.Structural != nil:
		m.ElementType = typeOf(ap.Structural, preserve)
	case ap != nil && ap.Bool, ap == nil && (preserve || len(s.Properties) == 0):
		m.ElementType = namedRef(deduced)
	}
	return m
}

func listType(s *schema.Structural, preserve bool) *smd.List {
	l := &smd.List{ElementRelationship: smd.Atomic, ElementType: namedRef(untyped)}
	if s.XListType != nil {
		switch *s.XListType {
		case "set":
			l.ElementRelationship = smd.Associative
		case "map":
			l.ElementRelationship, l.Keys = smd.Associative, slices.Clone(s.XListMapKeys)
		}
	}
	if s.Items != nil {
		l.ElementType = typeOf(s.Items, preserve)
	}
	return l
}

func scalar(s smd.Scalar) *smd.Scalar { return &s }

func scalarRef(s smd.Scalar) smd.TypeRef {
	return smd.TypeRef{Inlined: smd.Atom{Scalar: &s}}
}

func namedRef(name string) smd.TypeRef { return smd.TypeRef{NamedType: &name} }

// metadataType returns the type of metadata. The schema does not define how its lists merge.
func metadataType() *smd.Map {
	meta := schema.ObjectMeta()
	set, byKey, atomic := "set", "map", "atomic"
	meta.Properties["finalizers"].XListType = &set
	owners := meta.Properties["ownerReferences"]
	owners.XListType, owners.XListMapKeys, owners.Items.XMapType = &byKey, []string{"uid"}, &atomic
	// Embedded metadata need not be valid: owners without a uid are the same one.
	owners.Items.Properties["uid"].Default = &schema.JSON{Value: ""}
	return mapType(meta, false)
}

// shared are the types that all resources have in common. It is immutable.
type shared struct {
	types []smd.TypeDef
	// named and scalars are the same, prepared for walks.
	named   map[string]*typ
	scalars map[smd.Scalar]*typ
}

// common returns the types that all resources have in common: there may be very many
// resources.
var common = sync.OnceValue(func() *shared {
	s := &shared{types: commonTypes()}
	c := s.compiler(&smd.Schema{Types: s.types})
	for _, t := range s.types {
		c.compile(namedRef(t.Name))
	}
	for _, scalar := range []smd.Scalar{smd.Numeric, smd.String, smd.Boolean, smd.Untyped} {
		c.compile(scalarRef(scalar))
	}
	s.named, s.scalars = c.named, c.scalars
	return s
})

// compiler returns a compiler of further types.
func (s *shared) compiler(of *smd.Schema) *compiler {
	c := &compiler{schema: of, named: map[string]*typ{}, scalars: map[smd.Scalar]*typ{}}
	maps.Copy(c.named, s.named)
	maps.Copy(c.scalars, s.scalars)
	return c
}

// commonTypes returns the types of metadata, and of values without a schema: merged by their
// keys (deduced), or replaced as a whole (untyped).
func commonTypes() []smd.TypeDef {
	anything := func(name, inMaps string, relationship smd.ElementRelationship) smd.TypeDef {
		return smd.TypeDef{Name: name, Atom: smd.Atom{
			Scalar: scalar("untyped"),
			List:   &smd.List{ElementType: namedRef(untyped), ElementRelationship: smd.Atomic},
			Map:    &smd.Map{ElementType: namedRef(inMaps), ElementRelationship: relationship},
		}}
	}
	return []smd.TypeDef{
		{Name: objectMeta, Atom: smd.Atom{Map: metadataType()}},
		anything(untyped, untyped, smd.Atomic),
		anything(deduced, deduced, smd.Separable),
	}
}

// scaleType returns the type of an autoscaling/v1 Scale.
func scaleType() typed.ParseableType {
	str, num := scalarRef(smd.String), scalarRef(smd.Numeric)
	fields := func(of map[string]smd.TypeRef) *smd.Map {
		m := &smd.Map{}
		for _, name := range slices.Sorted(maps.Keys(of)) {
			m.Fields = append(m.Fields, smd.StructField{Name: name, Type: of[name]})
		}
		return m
	}
	scale := fields(map[string]smd.TypeRef{
		"apiVersion": str, "kind": str, "metadata": namedRef(objectMeta),
		"spec":   {Inlined: smd.Atom{Map: fields(map[string]smd.TypeRef{"replicas": num})}},
		"status": {Inlined: smd.Atom{Map: fields(map[string]smd.TypeRef{"replicas": num, "selector": str})}},
	})
	parser := &typed.Parser{Schema: smd.Schema{Types: append(slices.Clone(common().types),
		smd.TypeDef{Name: "Scale", Atom: smd.Atom{Map: scale}})}}
	return parser.Type("Scale")
}
