package proto

import (
	"cmp"
	"slices"
	"strings"
)

// messageKind is the purpose of a message.
type messageKind uint8

const (
	// objectMessage has the fields of an object, from number 3.
	objectMessage messageKind = iota
	// listMessage has a list, where Protobuf allows no repeated field.
	listMessage
	// mapMessage has a map, where Protobuf allows none.
	mapMessage
	// nullableMessage has null or a value.
	nullableMessage
	// intOrStringMessage has an integer or a string.
	intOrStringMessage
	// resourceMessage has an embedded resource of any kind as JSON.
	resourceMessage
)

// The numbers and names of the fields that objects have beside those of the schema, and of
// the fields of all other messages.
const (
	emptyNumber, emptyName, emptyJSON       = 1, "empty_fields", "@empty"
	unknownNumber, unknownName, unknownJSON = 2, "unknown_fields", "@unknown"
	firstNumber                             = 3

	itemsName   = "items"   // field 1 of a listMessage
	entriesName = "entries" // field 1 of a mapMessage
	nullName    = "null"    // field 1 of a nullableMessage
	valueName   = "value"   // field 2 of a nullableMessage
	intName     = "int"     // field 1 of an intOrStringMessage
	stringName  = "string"  // field 2 of an intOrStringMessage
	rawName     = "raw"     // field 1 of a resourceMessage
	choiceName  = "kind"    // the oneof of nullableMessage and intOrStringMessage
)

// The names of the messages that all packages share. They have the same fields everywhere.
const (
	objectMetaName  = "ObjectMeta"
	intOrStringName = "IntOrString"
	resourceName    = "EmbeddedResource"
)

// label is what surrounds the type of a field.
type label uint8

const (
	optional label = iota
	repeated
	mapped
	// chosen is the label of the fields of a oneof.
	chosen
)

// scalar is a scalar type of Protobuf.
type scalar string

const (
	stringType scalar = "string"
	boolType   scalar = "bool"
	int32Type  scalar = "int32"
	int64Type  scalar = "int64"
	uint32Type scalar = "uint32"
	doubleType scalar = "double"
	// bytesType has JSON.
	bytesType scalar = "bytes"
)

// valueType is the type of a field without its label: a scalar, or a message.
type valueType struct {
	scalar  scalar
	message string
}

// String returns the type as a .proto file spells it.
func (t valueType) String() string { return cmp.Or(t.message, string(t.scalar)) }

// message is a message of a File.
type message struct {
	name    string
	kind    messageKind
	comment string
	// fields are sorted by number.
	fields []*field
	// reservedNumbers and reservedNames are sorted.
	reservedNumbers []int32
	reservedNames   []string
}

// field is a field of a message.
type field struct {
	name, json string
	number     int32
	label      label
	typ        valueType
	comment    string
}

// typeText returns the type with its label, as a .proto file spells it.
func (f *field) typeText() string {
	switch f.label {
	case optional:
		return "optional " + f.typ.String()
	case repeated:
		return "repeated " + f.typ.String()
	case mapped:
		return "map<string, " + f.typ.String() + ">"
	}
	return f.typ.String()
}

// lockType returns the type as the lock has it: int32 and int64 are the same on the wire.
func (f *field) lockType() string {
	g := *f
	if g.typ.scalar == int32Type {
		g.typ.scalar = int64Type
	}
	return strings.TrimPrefix(g.typeText(), "optional ")
}

func sortFields(fields []*field) {
	slices.SortFunc(fields, func(a, b *field) int { return cmp.Compare(a.number, b.number) })
}
