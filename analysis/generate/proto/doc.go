// Package proto derives Protobuf messages from the structural schemas of CRDs, converts
// objects between JSON and these messages, and derives the schema from the messages again.
//
// Each object of a schema is a message of its own, also where schemas are equal: the numbers
// of its fields then depend on its own history only. A [Lock] holds that history. A number
// belongs to a field of one name and type forever, so that data written with one version of
// the messages is never misread with another:
//
//   - A new field gets a number that was never used in its message.
//   - A removed field keeps its number, which the message reserves. If the field is added
//     again with the same type, it gets its number back.
//   - A field that changes its type gets a new number, and the old one is reserved. int32
//     and int64 count as one type: they are encoded alike.
//
// Field 1 of a message (empty_fields) has the numbers of the lists and maps that are present
// and empty, because Protobuf does not distinguish them from absent ones. Field 2
// (unknown_fields) has the fields that the schema does not specify but preserves, as a JSON
// object. The fields of the schema follow from 3.
package proto
