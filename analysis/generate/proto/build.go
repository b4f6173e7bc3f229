package proto

import (
	"maps"
	"slices"
	"strings"

	"espalier.dev/analysis/generate"
	"espalier.dev/schema"
)

// File has the messages of one version of an API group.
type File struct {
	group, version, pkg string
	// goPackage is the import path of the Go package, or empty.
	goPackage string
	// kinds are the names of the messages of the kinds, by kind.
	kinds    map[string]string
	messages []*message
	lock     *Lock
}

// NewFile returns the messages of a package. It adds what is new to the lock, which
// [NewLock] or [ParseLock] has returned for the [PackageName] of the package.
func NewFile(p *generate.Package, lock *Lock) *File {
	b := &builder{file: &File{group: p.Group, version: p.Version, pkg: PackageName(p.Group, p.Version),
		kinds: map[string]string{}, lock: lock}, shared: map[string]bool{}}
	for _, k := range p.Kinds {
		b.addKind(k.Name, k.Type.Schema, k.Version.Definition().Semantics())
	}
	slices.SortFunc(b.file.messages, func(x, y *message) int { return strings.Compare(x.name, y.name) })
	return b.file
}

// Package returns the name of the Protobuf package.
func (f *File) Package() string { return f.pkg }

// Lock returns the lock that NewFile was called with.
func (f *File) Lock() *Lock { return f.lock }

// MessageName returns the name of the message of a kind, without the package. It is empty if
// there is no such kind.
func (f *File) MessageName(kind string) string { return f.kinds[kind] }

// builder adds messages to a File.
type builder struct {
	file *File
	// kind is the message of the kind whose schema is visited.
	kind string
	// semantics are those of the CRD whose schema is visited.
	semantics schema.Semantics
	// shared has the messages of all packages that were added.
	shared map[string]bool
}

// place is where a value occurs: the message of the object around it, the field there, and the
// name of the message that the value gets if it is an object.
type place struct {
	in, at, name string
}

func (b *builder) addKind(name string, s *schema.Structural, sem schema.Semantics) {
	preferred := typeName(name)
	if isDigit(rune(preferred[0])) {
		preferred = "Kind" + preferred
	}
	lock := b.file.lock.message(messageKey{at: name, as: "kind"}, preferred)
	b.file.kinds[name], b.kind, b.semantics = lock.name, lock.name, sem
	b.object(rootCursor(s, sem), lock)
}

// rootCursor returns a cursor at the objects of a kind. These are never null, and objects even
// if the schema does not mention it.
func rootCursor(s *schema.Structural, sem schema.Semantics) schema.Cursor {
	root := *s
	root.Type, root.Nullable, root.XEmbeddedResource = "object", false, false
	return schema.NewCursor(&root, sem, schema.PruningOn)
}

// object adds the message of an object with fields.
func (b *builder) object(c schema.Cursor, lock *lockMessage) {
	s := c.Schema()
	out := &message{name: lock.name, comment: s.Description}
	if c.IsResource() {
		out.comment = generate.Doc(s, true)
	}
	add := func(name string, f *field) {
		f.json = jsonName(name)
		lock.assign(f, name)
		out.fields = append(out.fields, f)
	}
	names := slices.Sorted(maps.Keys(s.Properties))
	if c.IsResource() {
		names = slices.DeleteFunc(names, schema.IsMetaField)
		add("apiVersion", &field{typ: valueType{scalar: stringType}})
		add("kind", &field{typ: valueType{scalar: stringType}})
		add("metadata", &field{typ: b.objectMeta()})
	}
	for _, name := range names {
		sub, _ := c.Field(name)
		f := b.field(sub, place{lock.name, name, joinNames(b.kind, lock.name, name)})
		f.comment = fieldComment(s, name)
		add(name, f)
	}
	if slices.ContainsFunc(out.fields, func(f *field) bool { return f.label != optional }) {
		out.fields = append(out.fields, &field{name: emptyName, json: emptyJSON, number: emptyNumber, label: repeated,
			typ: valueType{scalar: uint32Type}, comment: "The numbers of the lists and maps that are present and empty."})
	}
	if isOpen(c) {
		out.fields = append(out.fields, &field{name: unknownName, json: unknownJSON, number: unknownNumber,
			typ: valueType{scalar: bytesType}, comment: "All other fields, as a JSON object."})
	}
	sortFields(out.fields)
	lock.reserve(out)
	b.file.messages = append(b.file.messages, out)
}

// fieldComment returns the comment of a field: its description, and what its type does not
// express.
func fieldComment(s *schema.Structural, name string) string {
	comment := generate.Doc(s.Properties[name], true)
	if s.Properties[name].ReadOnly {
		comment += "\n@readOnly"
	}
	if v := s.ValueValidation; v != nil && slices.Contains(v.Required, name) {
		comment += "\n@required"
	}
	return strings.TrimLeft(comment, "\n")
}

// isOpen reports whether an object with fields keeps those that its schema does not specify.
func isOpen(c schema.Cursor) bool {
	ap := c.Schema().AdditionalProperties
	return !c.Prunes() || ap != nil && ap.Bool
}

// field returns a field without its name and number.
func (b *builder) field(c schema.Cursor, at place) *field {
	if s := c.Schema(); s != nil && !s.Nullable {
		switch generate.KindOf(s) {
		case generate.List:
			return &field{label: repeated, typ: b.value(c.Items(), at)}
		case generate.Map:
			return &field{label: mapped, typ: b.value(mapValue(c), at)}
		}
	}
	return &field{typ: b.value(c, at)}
}

// mapValue returns the cursor at the values of a map.
func mapValue(c schema.Cursor) schema.Cursor {
	value, _ := c.MapValue()
	return value
}

// value returns the type of a single value. Lists, maps and null need a message around them.
func (b *builder) value(c schema.Cursor, at place) valueType {
	s := c.Schema()
	if s == nil {
		return valueType{scalar: bytesType}
	}
	if s.Nullable {
		inner := b.value(c.WithSchema(notNull(s)), at)
		return b.wrap(nullableMessage, "nullable ", "OrNull", at, inner,
			&field{name: nullName, json: nullName, number: 1, label: chosen, typ: valueType{scalar: boolType}},
			&field{name: valueName, json: valueName, number: 2, label: chosen, typ: inner})
	}
	switch generate.KindOf(s) {
	case generate.String:
		return valueType{scalar: stringType}
	case generate.Integer:
		if v := s.ValueValidation; v != nil && v.Format == "int32" {
			return valueType{scalar: int32Type}
		}
		return valueType{scalar: int64Type}
	case generate.Number:
		return valueType{scalar: doubleType}
	case generate.Boolean:
		return valueType{scalar: boolType}
	case generate.IntOrString:
		return b.addShared(&message{name: intOrStringName, kind: intOrStringMessage, comment: "An integer or a string.", fields: []*field{
			{name: intName, json: intName, number: 1, label: chosen, typ: valueType{scalar: int64Type}},
			{name: stringName, json: stringName, number: 2, label: chosen, typ: valueType{scalar: stringType}},
		}})
	case generate.Resource:
		return b.addShared(&message{name: resourceName, kind: resourceMessage,
			comment: "A Kubernetes object of any kind, as JSON.", fields: []*field{
				{name: rawName, json: rawName, number: 1, typ: valueType{scalar: bytesType}},
			}})
	case generate.List:
		item := b.value(c.Items(), at)
		return b.wrap(listMessage, "list of ", "List", at, item,
			&field{name: itemsName, json: itemsName, number: 1, label: repeated, typ: item})
	case generate.Map:
		value := b.value(mapValue(c), at)
		return b.wrap(mapMessage, "map of ", "Map", at, value, &field{name: entriesName,
			json: entriesName, number: 1, label: mapped, typ: value})
	case generate.Object:
		return b.objectValue(c, at)
	case generate.JSON:
		if s.Type == "object" {
			return b.objectValue(c, at)
		}
	}
	return valueType{scalar: bytesType}
}

// objectValue adds the message of an object with fields.
func (b *builder) objectValue(c schema.Cursor, at place) valueType {
	lock := b.file.lock.message(messageKey{at.in, at.at, "object"}, at.name)
	b.object(c, lock)
	return valueType{message: lock.name}
}

// wrap adds a message around a value of the type inner. It is never changed: with another
// inner type it is another message.
func (b *builder) wrap(kind messageKind, as, suffix string, at place, inner valueType, fields ...*field) valueType {
	lock := b.file.lock.message(messageKey{at.in, at.at, as + inner.String()}, at.name+suffix)
	b.file.messages = append(b.file.messages, &message{name: lock.name, kind: kind, fields: fields})
	return valueType{message: lock.name}
}

// addShared adds a message that is the same in all packages, once.
func (b *builder) addShared(m *message) valueType {
	if !b.shared[m.name] {
		b.shared[m.name] = true
		b.file.messages = append(b.file.messages, m)
	}
	return valueType{message: m.name}
}

// objectMeta adds the message of metadata.
func (b *builder) objectMeta() valueType {
	if !b.shared[objectMetaName] {
		b.shared[objectMetaName] = true
		lock := b.file.lock.message(sharedKey(objectMetaName), objectMetaName)
		kind := b.kind
		b.kind = objectMetaName
		b.object(metadataCursor(b.semantics), lock)
		b.kind = kind
	}
	return valueType{message: objectMetaName}
}

// notNull returns s without nullable.
func notNull(s *schema.Structural) *schema.Structural {
	out := *s
	out.Nullable = false
	return &out
}

// metadataCursor returns a cursor at the fields of metadata. They are those of ObjectMeta,
// whatever the schema of the resource contains.
func metadataCursor(sem schema.Semantics) schema.Cursor {
	around := &schema.Structural{Generic: schema.Generic{Type: "object"},
		Properties: map[string]*schema.Structural{"fields": schema.ObjectMeta()}}
	c, _ := schema.NewCursor(around, sem, schema.PruningOn).Field("fields")
	return c
}
