package crd

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/api"
)

// Status computes the status of a CRD from its old status, the CRD, and the other CRDs
// (peers may include the CRD itself). now is the transition time of conditions that
// change.
//
// Parts of the status that are not computed here, such as the progress of a deletion or
// of a migration, are kept. A status that is up to date is returned unchanged.
func Status(old api.CustomResourceDefinitionStatus, d *Definition, peers *Catalog, now metav1.Time) api.CustomResourceDefinitionStatus {
	crd := d.crd
	holder := (&api.CustomResourceDefinition{Status: old}).DeepCopy()
	s := statusWriter{status: &holder.Status, generation: crd.Generation, now: now}

	names, accepted := acceptNames(old.AcceptedNames, d, peers)
	s.status.AcceptedNames = names
	s.set(accepted)
	s.set(established(isTrue(&old, api.Established), find(&old, api.Established), accepted.Status == api.ConditionTrue, crd))
	if !d.settled(&old) {
		s.setOrRemove(api.NonStructuralSchema, d.nonStructuralCondition())
	}
	s.setOrRemove(api.KubernetesAPIApprovalPolicyConformant, conformant(crd))
	if crd.DeletionTimestamp != nil && find(&old, api.Terminating) == nil {
		s.set(api.CustomResourceDefinitionCondition{
			Type: api.Terminating, Status: api.ConditionTrue, Reason: api.ReasonInstanceDeletionPending,
			Message: "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
		})
	}
	if v := d.Storage(); v != nil && !slices.Contains(s.status.StoredVersions, v.Name()) {
		s.status.StoredVersions = append(s.status.StoredVersions, v.Name())
	}
	s.status.ObservedGeneration = crd.Generation
	return *s.status
}

// Condition returns the condition of a type in a status, or nil if it has none.
func Condition(s *api.CustomResourceDefinitionStatus,
	typ api.CustomResourceDefinitionConditionType) *api.CustomResourceDefinitionCondition {
	return find(s, typ)
}

// WithCondition returns the status of a CRD in a generation with a condition. now is the
// transition time of the condition if its status changes.
func WithCondition(old api.CustomResourceDefinitionStatus, c api.CustomResourceDefinitionCondition,
	generation int64, now metav1.Time) api.CustomResourceDefinitionStatus {
	holder := (&api.CustomResourceDefinition{Status: old}).DeepCopy()
	s := statusWriter{status: &holder.Status, generation: generation, now: now}
	s.set(c)
	return holder.Status
}

// statusWriter changes conditions.
type statusWriter struct {
	status     *api.CustomResourceDefinitionStatus
	generation int64
	now        metav1.Time
}

func find(s *api.CustomResourceDefinitionStatus, typ api.CustomResourceDefinitionConditionType) *api.CustomResourceDefinitionCondition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == typ {
			return &s.Conditions[i]
		}
	}
	return nil
}

// set replaces the condition of the same type. The transition time is that of the last
// change of its status.
func (w *statusWriter) set(c api.CustomResourceDefinitionCondition) {
	c.LastTransitionTime, c.ObservedGeneration = w.now, w.generation
	old := find(w.status, c.Type)
	if old == nil {
		w.status.Conditions = append(w.status.Conditions, c)
		return
	}
	if old.Status == c.Status && !old.LastTransitionTime.IsZero() {
		c.LastTransitionTime = old.LastTransitionTime
	}
	*old = c
}

// setOrRemove sets a condition, or removes the one of the type if c is nil.
func (w *statusWriter) setOrRemove(typ api.CustomResourceDefinitionConditionType, c *api.CustomResourceDefinitionCondition) {
	if c != nil {
		w.set(*c)
		return
	}
	w.status.Conditions = slices.DeleteFunc(w.status.Conditions,
		func(c api.CustomResourceDefinitionCondition) bool { return c.Type == typ })
}

// acceptNames accepts the requested names that no other CRD of the group has.
func acceptNames(old api.CustomResourceDefinitionNames, d *Definition,
	peers *Catalog) (api.CustomResourceDefinitionNames, api.CustomResourceDefinitionCondition) {
	group := peers.group(d.Group())
	taken := func(how, name string) bool {
		own := name == old.Kind || name == old.ListKind
		if how == takesResource {
			own = name == old.Plural || name == old.Singular || slices.Contains(old.ShortNames, name)
		}
		return own || group.takenFrom(d, how, name)
	}
	condition := api.CustomResourceDefinitionCondition{
		Type: api.NamesAccepted, Status: api.ConditionTrue, Reason: api.ReasonNoConflicts, Message: "no conflicts found",
	}
	conflict := func(reason string, err error) {
		condition.Status, condition.Reason, condition.Message = api.ConditionFalse, reason, err.Error()
	}
	free := func(wanted, has, how string) error {
		if wanted == has || !taken(how, wanted) {
			return nil
		}
		return fmt.Errorf("%q is already in use", wanted)
	}
	wanted, names := d.crd.Spec.Names, old
	one := func(wanted string, has *string, how, reason string) {
		if err := free(wanted, *has, how); err != nil {
			conflict(reason, err)
			return
		}
		*has = wanted
	}
	one(wanted.Plural, &names.Plural, takesResource, api.ReasonPluralConflict)
	one(wanted.Singular, &names.Singular, takesResource, api.ReasonSingularConflict)
	if !slices.Equal(wanted.ShortNames, old.ShortNames) {
		var errs []error
		for _, short := range wanted.ShortNames {
			if slices.Contains(old.ShortNames, short) {
				continue
			}
			if err := free(short, "", takesResource); err != nil {
				errs = append(errs, err)
			}
		}
		if err := utilerrors.NewAggregate(errs); err != nil {
			conflict(api.ReasonShortNamesConflict, err)
		} else {
			names.ShortNames = slices.Clone(wanted.ShortNames)
		}
	}
	one(wanted.Kind, &names.Kind, takesKind, api.ReasonKindConflict)
	one(wanted.ListKind, &names.ListKind, takesKind, api.ReasonListKindConflict)
	names.Categories = slices.Clone(wanted.Categories)
	return names, condition
}

// established reports whether the resource is served. It is, once all names have been
// accepted.
func established(was bool, old *api.CustomResourceDefinitionCondition, accepted bool,
	crd *api.CustomResourceDefinition) api.CustomResourceDefinitionCondition {
	if was {
		return *old
	}
	c := api.CustomResourceDefinitionCondition{Type: api.Established, Status: api.ConditionFalse}
	switch {
	case !accepted:
		if old != nil {
			return *old
		}
		c.Reason, c.Message = api.ReasonNotAccepted, "not all names are accepted"
	case hasBrokenCA(crd):
		c.Reason, c.Message = api.ReasonInvalidCABundle, "The conversion webhook CABundle is invalid"
	default:
		c.Status, c.Reason, c.Message = api.ConditionTrue, api.ReasonInitialNamesAccepted, "the initial names have been accepted"
	}
	return c
}

func hasBrokenCA(crd *api.CustomResourceDefinition) bool {
	c := crd.Spec.Conversion
	return c != nil && c.Webhook != nil && c.Webhook.ClientConfig != nil && checkCABundle(c.Webhook.ClientConfig.CABundle) != nil
}

// settled reports whether an old status already has what follows from the schemas alone,
// so that a Definition with schemas to read need not read them.
func (d *Definition) settled(old *api.CustomResourceDefinitionStatus) bool {
	return d.schemas.load != nil && old.ObservedGeneration == d.crd.Generation && d.crd.Generation > 0 && isTrue(old, api.Established)
}

// nonStructuralCondition lists the reasons why the schemas of a CRD are not structural.
// It returns nil if there are none.
func (d *Definition) nonStructuralCondition() *api.CustomResourceDefinitionCondition {
	d.nonStructuralOnce.Do(func() { d.nonStructural = d.computeNonStructural() })
	return d.nonStructural
}

func (d *Definition) computeNonStructural() *api.CustomResourceDefinitionCondition {
	var errs field.ErrorList
	if d.crd.Spec.PreserveUnknownFields && countsPreserveAsViolation(d.semantics) {
		errs = append(errs, field.Invalid(field.NewPath("spec", "preserveUnknownFields"), true, "must be false"))
	}
	for i, v := range d.versions {
		at := field.NewPath("spec", "versions").Index(i).Child("schema", "openAPIV3Schema")
		s, err := v.schemas()
		switch {
		case err != nil:
			errs = append(errs, field.Invalid(at, "", err.Error()))
			continue
		case s.legacy != nil:
			errs = append(errs, field.Invalid(field.NewPath("spec", "validation", "jsonSchema"),
				"", "is not structural: use openAPIV3Schema"))
		case s.unconvertible != nil && givesUpOnUnconvertible(d.semantics):
			return &api.CustomResourceDefinitionCondition{
				Type: api.NonStructuralSchema, Status: api.ConditionUnknown, Reason: "StructuralError",
				Message: fmt.Sprintf("failed to check validation schema for version %s: %s", v.Name(), unsupportedKeyword(s.props)),
			}
		case s.unconvertible != nil:
			errs = append(errs, field.Invalid(at, "", s.unconvertible.Error()))
		}
		for _, f := range violations(s.structural, d.semantics) {
			errs = append(errs, f.FieldError(at))
		}
		if s.legacy != nil {
			break // all versions have the same schema
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return &api.CustomResourceDefinitionCondition{
		Type: api.NonStructuralSchema, Status: api.ConditionTrue, Reason: api.ReasonViolations, Message: errs.ToAggregate().Error(),
	}
}

// conformant returns whether an API in one of Kubernetes' own groups is approved. It
// returns nil for other groups.
func conformant(crd *api.CustomResourceDefinition) *api.CustomResourceDefinitionCondition {
	if !isProtected(crd.Spec.Group) {
		return nil
	}
	state, message := approvalOf(crd.Annotations)
	c := &api.CustomResourceDefinitionCondition{Type: api.KubernetesAPIApprovalPolicyConformant,
		Status: api.ConditionFalse, Message: message}
	switch state {
	case approved:
		c.Status, c.Reason = api.ConditionTrue, api.ReasonApprovedAnnotation
	case approvalBypassed:
		c.Reason = api.ReasonUnapprovedAnnotation
	case approvalMissing:
		c.Reason = api.ReasonMissingAnnotation
	default:
		c.Reason = api.ReasonInvalidAnnotation
	}
	return c
}
