package golang

import (
	"fmt"
	"strconv"
	"strings"
)

// register returns the file with the package comment and the registration with a scheme.
func (w *writer) register() string {
	var b strings.Builder
	b.WriteString(w.header(fmt.Sprintf(`// Package %s has the types of version %s of API group %s.
//
// controller-gen derives the schemas again with
// crd:allowDangerousTypes=true,generateEmbeddedObjectMeta=true.
//
// +groupName=%[3]s
// +versionName=%[2]s
`, w.packageName(), w.p.Version, w.p.Group)))
	fmt.Fprintf(&b, `
var (
	// %[1]s is the group and version of the types.
	%[1]s = schema.GroupVersion{Group: %[4]q, Version: %[5]q}
	// %[2]s registers the types with a scheme.
	%[2]s = runtime.NewSchemeBuilder(addKnownTypes)
	// %[3]s adds the types to a scheme.
	%[3]s = %[2]s.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
`, w.groupVersion, w.schemeBuilder, w.addToScheme, w.p.Group, w.p.Version)
	for _, s := range w.structs {
		if s.Kind == nil {
			continue
		}
		fmt.Fprintf(&b, "scheme.AddKnownTypeWithName(%s.WithKind(%q), &%s{})\n", w.groupVersion, s.Kind.Name, s.Name)
		if list := s.Kind.ListKind(); !w.isKind(list) {
			fmt.Fprintf(&b, "scheme.AddKnownTypeWithName(%s.WithKind(%q), &%s{})\n", w.groupVersion, list, s.list)
		}
	}
	fmt.Fprintf(&b, "metav1.AddToGroupVersion(scheme, %s)\nreturn nil\n}\n", w.groupVersion)
	return b.String()
}

// isKind reports whether the package has a kind of that name.
func (w *writer) isKind(name string) bool {
	for _, k := range w.p.Kinds {
		if k.Name == name {
			return true
		}
	}
	return false
}

// unknown returns the file with the methods that preserve unknown fields, or nothing if no
// type does.
func (w *writer) unknown() string {
	var b strings.Builder
	for _, s := range w.structs {
		if s.open {
			s.writeUnknown(&b)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return w.header("") + b.String() + `
// marshalWithUnknown adds unknown fields to an object in JSON.
func marshalWithUnknown(known []byte, unknown map[string]apiextensionsv1.JSON) ([]byte, error) {
	if len(unknown) == 0 {
		return known, nil
	}
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(known, &all); err != nil {
		return nil, err
	}
	for name, value := range unknown {
		if _, taken := all[name]; taken {
			continue
		}
		raw, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		all[name] = raw
	}
	return json.Marshal(all)
}

// unmarshalUnknown returns the fields of an object in JSON without the known ones, or nil if
// there are no others.
func unmarshalUnknown(data []byte, known ...string) (map[string]apiextensionsv1.JSON, error) {
	var all map[string]apiextensionsv1.JSON
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	for _, name := range known {
		delete(all, name)
	}
	if len(all) == 0 {
		return nil, nil
	}
	return all, nil
}
`
}

// writeUnknown writes the methods of a struct that preserves unknown fields.
func (s *structType) writeUnknown(b *strings.Builder) {
	var known []string
	if s.Kind != nil {
		known = []string{`"apiVersion"`, `"kind"`, `"metadata"`}
	}
	for _, f := range s.fields {
		known = append(known, strconv.Quote(f.json))
	}
	fmt.Fprintf(b, `
// MarshalJSON returns the object in JSON, with its unknown fields.
func (in %[1]s) MarshalJSON() ([]byte, error) {
	type known %[1]s
	data, err := json.Marshal(known(in))
	if err != nil {
		return nil, err
	}
	return marshalWithUnknown(data, in.%[2]s)
}

// UnmarshalJSON reads an object in JSON, with its unknown fields.
func (in *%[1]s) UnmarshalJSON(data []byte) (err error) {
	type known %[1]s
	if err := utiljson.Unmarshal(data, (*known)(in)); err != nil {
		return err
	}
	in.%[2]s, err = unmarshalUnknown(data, %[3]s)
	return err
}
`, s.Name, s.unknown, strings.Join(known, ", "))
}
