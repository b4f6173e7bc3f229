package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CustomResourceDefinitionStatus is what the server makes of a definition.
type CustomResourceDefinitionStatus struct {
	// Conditions say how the definition is doing, one for each type.
	Conditions []CustomResourceDefinitionCondition `json:"conditions"`
	// AcceptedNames are the names that are served. They differ from those in the
	// spec where another definition took a name first.
	AcceptedNames CustomResourceDefinitionNames `json:"acceptedNames"`
	// StoredVersions are the versions in which objects may be stored. A version has
	// to leave this list before it may leave spec.versions.
	StoredVersions []string `json:"storedVersions"`
	// ObservedGeneration is the generation of the definition that this status is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// CustomResourceDefinitionCondition says how one aspect of a definition is doing.
type CustomResourceDefinitionCondition struct {
	// Type is the aspect.
	Type CustomResourceDefinitionConditionType `json:"type"`
	// Status reports whether the definition is in the condition.
	Status ConditionStatus `json:"status"`
	// LastTransitionTime is when Status last changed.
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
	// Reason is one word for programs.
	Reason string `json:"reason,omitempty"`
	// Message is text for people.
	Message string `json:"message,omitempty"`
	// ObservedGeneration is the generation of the definition that this is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// ConditionStatus reports whether a condition holds.
type ConditionStatus string

// The three values of a condition.
const (
	ConditionTrue    ConditionStatus = "True"
	ConditionFalse   ConditionStatus = "False"
	ConditionUnknown ConditionStatus = "Unknown"
)

// CustomResourceDefinitionConditionType is an aspect that a condition is about.
type CustomResourceDefinitionConditionType string

// The types of conditions.
const (
	// Established: the resource is served. Once true, it stays until deletion.
	Established CustomResourceDefinitionConditionType = "Established"
	// NamesAccepted: no other definition of the group has one of the names.
	NamesAccepted CustomResourceDefinitionConditionType = "NamesAccepted"
	// NonStructuralSchema: a schema is not structural, for the reasons in the
	// message. The condition is there only while it is true.
	NonStructuralSchema CustomResourceDefinitionConditionType = "NonStructuralSchema"
	// Terminating: the definition is deleted, and its objects are being removed.
	Terminating CustomResourceDefinitionConditionType = "Terminating"
	// KubernetesAPIApprovalPolicyConformant: whether an API in a group of
	// Kubernetes is approved, going by KubeAPIApprovedAnnotation.
	KubernetesAPIApprovalPolicyConformant CustomResourceDefinitionConditionType = "KubernetesAPIApprovalPolicyConformant"
	// StorageMigrating: stored objects are being rewritten in another version.
	StorageMigrating CustomResourceDefinitionConditionType = "StorageMigrating"
)

// The reasons of conditions, by the type of condition that gives them.
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
