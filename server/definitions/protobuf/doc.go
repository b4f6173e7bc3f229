// Package protobuf reads and writes CRDs as protobuf, which client-go's typed clients for
// CRDs speak. Both directions use the same tables of messages: Decode returns the JSON of a
// CRD, Encode takes the Go types of packages api and api/v1beta1.
package protobuf
