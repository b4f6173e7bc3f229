package crd

import "espalier.dev/schema"

// The differences between the documents and Kubernetes about which CRDs are valid.
// Differences about schemas are in schema.Semantics.

// rejectsBetaDefaults reports whether v1beta1 rejects all defaults. The documents
// reject defaults only in schemas that are not structural.
func rejectsBetaDefaults(s schema.Semantics) bool { return s == schema.Kubernetes }

// needsSchemaToPrune reports whether a version that prunes must have a schema.
// According to the documents it need not: everything but apiVersion, kind and metadata
// is pruned.
func needsSchemaToPrune(s schema.Semantics) bool { return s == schema.Kubernetes }

// webhookNeedsPruning reports whether a conversion webhook requires
// preserveUnknownFields: false. The documents require structural schemas instead, when
// a webhook is added.
func webhookNeedsPruning(s schema.Semantics) bool { return s == schema.Kubernetes }

// weakensDefaultSchemas reports whether defaults are validated differently from objects
// (see kubeErrors).
func weakensDefaultSchemas(s schema.Semantics) bool { return s == schema.Kubernetes }

// countsPreserveAsViolation reports whether preserveUnknownFields: true causes the
// condition NonStructuralSchema. According to the documents, only schemas do.
func countsPreserveAsViolation(s schema.Semantics) bool { return s == schema.Kubernetes }

// givesUpOnUnconvertible reports whether the condition lists no violations if a schema
// cannot be converted to a Structural.
func givesUpOnUnconvertible(s schema.Semantics) bool { return s == schema.Kubernetes }

// warnsOfLooseSchemas reports whether there are warnings for schemas that are accepted
// although they are looser than the documents require.
func warnsOfLooseSchemas(s schema.Semantics) bool { return s == schema.KEP }

// knowsSuperseded reports whether spellings of earlier drafts are errors.
// kube-apiserver drops them as unknown fields.
func knowsSuperseded(s schema.Semantics) bool { return s == schema.KEP }
