package proto_test

import (
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// otherMessages returns descriptors of messages that were not generated from a schema.
func otherMessages() []protoreflect.MessageDescriptor {
	return []protoreflect.MessageDescriptor{
		(&timestamppb.Timestamp{}).ProtoReflect().Descriptor(),
		(&structpb.Struct{}).ProtoReflect().Descriptor(),
		(&structpb.Value{}).ProtoReflect().Descriptor(),
		(&wrapperspb.StringValue{}).ProtoReflect().Descriptor(),
		(&descriptorpb.DescriptorProto{}).ProtoReflect().Descriptor(),
	}
}
