package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CustomResourceDefinitionStatus is the observed state of a CustomResourceDefinition.
type CustomResourceDefinitionStatus struct {
	// Conditions are the conditions of the CustomResourceDefinition, one for each type.
	Conditions []CustomResourceDefinitionCondition `json:"conditions"`
	// AcceptedNames are the names that are served. They differ from those in the spec
	// if another CustomResourceDefinition already has a name.
	AcceptedNames CustomResourceDefinitionNames `json:"acceptedNames"`
	// StoredVersions are the versions in which objects may be stored. A version must be
	// removed from this list before it can be removed from spec.versions.
	StoredVersions []string `json:"storedVersions"`
	// ObservedGeneration is the generation that this status was computed from.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// CustomResourceDefinitionCondition says how one aspect of a definition is doing.
type CustomResourceDefinitionCondition struct {
	// Type is the aspect.
	Type CustomResourceDefinitionConditionType `json:"type"`
	// Status is True, False or Unknown.
	Status ConditionStatus `json:"status"`
	// LastTransitionTime is when Status last changed.
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
	// Reason is a machine-readable word.
	Reason string `json:"reason,omitempty"`
	// Message is human-readable text.
	Message string `json:"message,omitempty"`
	// ObservedGeneration is the generation that this condition was computed from.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// ConditionStatus is the status of a condition.
type ConditionStatus string

// The values of ConditionStatus.
const (
	ConditionTrue    ConditionStatus = "True"
	ConditionFalse   ConditionStatus = "False"
	ConditionUnknown ConditionStatus = "Unknown"
)

// CustomResourceDefinitionConditionType is the type of a condition.
type CustomResourceDefinitionConditionType string

// The types of conditions.
const (
	// Established: the resource is served. Once true, it stays true until deletion.
	Established CustomResourceDefinitionConditionType = "Established"
	// NamesAccepted: no other CustomResourceDefinition of the group has one of the
	// names.
	NamesAccepted CustomResourceDefinitionConditionType = "NamesAccepted"
	// NonStructuralSchema: a schema is not structural, for the reasons in the message.
	// The condition is present only while it is true.
	NonStructuralSchema CustomResourceDefinitionConditionType = "NonStructuralSchema"
	// Terminating: the CustomResourceDefinition and its objects are being deleted.
	Terminating CustomResourceDefinitionConditionType = "Terminating"
	// KubernetesAPIApprovalPolicyConformant: an API in a group of Kubernetes is
	// approved, according to KubeAPIApprovedAnnotation.
	KubernetesAPIApprovalPolicyConformant CustomResourceDefinitionConditionType = "KubernetesAPIApprovalPolicyConformant"
	// Compliant: all stored objects comply with the CRD. Kubernetes has no such condition.
	Compliant CustomResourceDefinitionConditionType = "Compliant"
	// StorageMigrating: stored objects are being rewritten in another version.
	StorageMigrating CustomResourceDefinitionConditionType = "StorageMigrating"
)

// The reasons of conditions, by the type of the condition.
const (
	// Established.
	ReasonInitialNamesAccepted = "InitialNamesAccepted"
	ReasonInstalling           = "Installing"
	ReasonNotAccepted          = "NotAccepted"
	ReasonInvalidCABundle      = "InvalidCABundle"

	// NamesAccepted.
	ReasonNoConflicts        = "NoConflicts"
	ReasonPluralConflict     = "PluralConflict"
	ReasonSingularConflict   = "SingularConflict"
	ReasonShortNamesConflict = "ShortNamesConflict"
	ReasonKindConflict       = "KindConflict"
	ReasonListKindConflict   = "ListKindConflict"

	// NonStructuralSchema.
	ReasonViolations = "Violations"

	// Terminating.
	ReasonInstanceDeletionPending    = "InstanceDeletionPending"
	ReasonInstanceDeletionInProgress = "InstanceDeletionInProgress"
	ReasonInstanceDeletionFailed     = "InstanceDeletionFailed"
	ReasonInstanceDeletionCheck      = "InstanceDeletionCheck"
	ReasonInstanceDeletionCompleted  = "InstanceDeletionCompleted"
	ReasonOverlappingBuiltIn         = "OverlappingBuiltInResource"

	// KubernetesAPIApprovalPolicyConformant.
	ReasonApprovedAnnotation   = "ApprovedAnnotation"
	ReasonUnapprovedAnnotation = "UnapprovedAnnotation"
	ReasonMissingAnnotation    = "MissingAnnotation"
	ReasonInvalidAnnotation    = "InvalidAnnotation"
	ReasonUnknownAnnotation    = "UnknownAnnotation"
)
