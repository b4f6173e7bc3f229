package crd

import "espalier.dev/schema"

// Where the documents and Kubernetes disagree on which definitions are valid. What
// they disagree on in schemas is in schema.Semantics.

// refusesBetaDefaults reports whether v1beta1 rejects every default. The documents
// reject defaults in schemas that are not structural, and no others.
func refusesBetaDefaults(s schema.Semantics) bool { return s == schema.Kubernetes }

// needsSchemaToPrune reports whether a version that prunes must have a schema. To the
// documents it is what it is: everything is pruned but apiVersion, kind and
// metadata.
func needsSchemaToPrune(s schema.Semantics) bool { return s == schema.Kubernetes }

// webhookNeedsPruning reports whether conversion by a webhook needs
// preserveUnknownFields: false. The documents ask for structural schemas instead,
// when a webhook is set that was not set before.
func webhookNeedsPruning(s schema.Semantics) bool { return s == schema.Kubernetes }

// weakensDefaultSchemas reports whether defaults are held against another reading of
// their schema than objects are.
func weakensDefaultSchemas(s schema.Semantics) bool { return s == schema.Kubernetes }

// countsPreserveAsViolation reports whether preserveUnknownFields: true makes for the
// condition NonStructuralSchema. To the documents that is about schemas.
func countsPreserveAsViolation(s schema.Semantics) bool { return s == schema.Kubernetes }

// givesUpOnUnconvertible reports whether a schema that has no structural form leaves it
// unknown whether there are violations, and which.
func givesUpOnUnconvertible(s schema.Semantics) bool { return s == schema.Kubernetes }

// reportsLiberties reports whether there are warnings where a schema is looser than the
// documents want it, but not rejected.
func reportsLiberties(s schema.Semantics) bool { return s == schema.KEP }

// knowsSuperseded reports whether spellings of earlier drafts are errors. To
// kube-apiserver they are fields that it does not know, and drops.
func knowsSuperseded(s schema.Semantics) bool { return s == schema.KEP }
