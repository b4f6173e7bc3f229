package proto

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Descriptor returns the descriptor that a compiler makes of Text, without comments. path is
// the name of the file.
func (f *File) Descriptor(path string) (protoreflect.FileDescriptor, error) {
	out := &descriptorpb.FileDescriptorProto{Name: proto.String(path), Package: proto.String(f.pkg), Syntax: proto.String("proto3")}
	for _, m := range f.messages {
		out.MessageType = append(out.MessageType, m.descriptor("."+f.pkg+"."))
	}
	return protodesc.NewFile(out, nil)
}

// descriptor returns the descriptor of a message. scope is the prefix of the names of messages.
func (m *message) descriptor(scope string) *descriptorpb.DescriptorProto {
	out := &descriptorpb.DescriptorProto{Name: proto.String(m.name), ReservedName: m.reservedNames}
	for _, n := range m.reservedNumbers {
		out.ReservedRange = append(out.ReservedRange,
			&descriptorpb.DescriptorProto_ReservedRange{Start: proto.Int32(n), End: proto.Int32(n + 1)})
	}
	if m.kind == nullableMessage || m.kind == intOrStringMessage {
		out.OneofDecl = append(out.OneofDecl, &descriptorpb.OneofDescriptorProto{Name: proto.String(choiceName)})
	}
	for _, f := range m.fields {
		d := f.descriptor(scope)
		switch f.label {
		case optional:
			// A compiler declares a oneof for each optional field. No name of a field begins with _.
			name := "_" + f.name
			d.Proto3Optional = proto.Bool(true)
			d.OneofIndex = proto.Int32(int32(len(out.OneofDecl)))
			out.OneofDecl = append(out.OneofDecl, &descriptorpb.OneofDescriptorProto{Name: proto.String(name)})
		case chosen:
			d.OneofIndex = proto.Int32(0)
		case mapped:
			entry := entryName(f.name)
			out.NestedType = append(out.NestedType, mapEntry(entry, d))
			d.Type, d.TypeName = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), proto.String(scope+m.name+"."+entry)
		}
		out.Field = append(out.Field, d)
	}
	return out
}

func (f *field) descriptor(scope string) *descriptorpb.FieldDescriptorProto {
	d := &descriptorpb.FieldDescriptorProto{Name: proto.String(f.name), JsonName: proto.String(f.json), Number: proto.Int32(f.number)}
	d.Label = descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()
	if f.label == repeated || f.label == mapped {
		d.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	}
	switch f.typ.scalar {
	case stringType:
		d.Type = descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum()
	case boolType:
		d.Type = descriptorpb.FieldDescriptorProto_TYPE_BOOL.Enum()
	case int32Type:
		d.Type = descriptorpb.FieldDescriptorProto_TYPE_INT32.Enum()
	case int64Type:
		d.Type = descriptorpb.FieldDescriptorProto_TYPE_INT64.Enum()
	case uint32Type:
		d.Type = descriptorpb.FieldDescriptorProto_TYPE_UINT32.Enum()
	case doubleType:
		d.Type = descriptorpb.FieldDescriptorProto_TYPE_DOUBLE.Enum()
	case bytesType:
		d.Type = descriptorpb.FieldDescriptorProto_TYPE_BYTES.Enum()
	default:
		d.Type, d.TypeName = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), proto.String(scope+f.typ.message)
	}
	return d
}

// mapEntry returns the message that a compiler declares for a map. value has the type of the
// values.
func mapEntry(name string, value *descriptorpb.FieldDescriptorProto) *descriptorpb.DescriptorProto {
	one := descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()
	return &descriptorpb.DescriptorProto{
		Name:    proto.String(name),
		Options: &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)},
		Field: []*descriptorpb.FieldDescriptorProto{
			{Name: proto.String("key"), JsonName: proto.String("key"), Number: proto.Int32(1), Label: one,
				Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum()},
			{Name: proto.String("value"), JsonName: proto.String("value"), Number: proto.Int32(2),
				Label: one, Type: value.Type, TypeName: value.TypeName},
		},
	}
}

// entryName returns the name of the message that a compiler declares for a map field.
func entryName(field string) string {
	out := []byte{}
	upper := true
	for i := range len(field) {
		c := field[i]
		switch {
		case c == '_':
			upper = true
			continue
		case upper && isLower(rune(c)):
			c -= 'a' - 'A'
		}
		out = append(out, c)
		upper = false
	}
	return string(out) + "Entry"
}
