package crd

import (
	"espalier.dev/api"
	"espalier.dev/schema"
)

// demands are the requirements that are ratcheted: a stored CRD that does not meet them
// can still be updated.
type demands struct {
	semantics schema.Semantics
	// beta is true if the request is v1beta1.
	beta bool

	// defaults allows defaults; if it is false, noDefaults is the reason.
	defaults   bool
	noDefaults string
	// knownReviews requires a version of ConversionReview that the server supports.
	knownReviews bool
	// sameNames makes scope and kind immutable.
	sameNames bool
	// anySchema requires a schema for every version.
	anySchema bool
	// knownTypes requires types that OpenAPI has.
	knownTypes bool
	// structural requires structural schemas.
	structural bool
	// prunedDefaults requires defaults without unknown fields.
	prunedDefaults bool
	// atomicSets requires that the items of a set are atomic.
	atomicSets bool
	// completeKeys requires that the items of maps and sets are not nullable, and that
	// maps always have their keys.
	completeKeys bool
	// looseCA allows an invalid CA bundle.
	looseCA bool
	// manySelectable are the versions that may have too many selectable fields; ""
	// means all versions.
	manySelectable map[string]bool
	// unchanged are the versions whose schema an update does not change.
	unchanged map[string]bool
	// stored is the CRD that an update replaces.
	stored *form
	// expressions are those of the stored CRD, computed on first use.
	expressions *expressions
	// hasLegacy is true if there is a draft-4 schema, which is never structural.
	hasLegacy bool
	// rules checks rules.
	rules       RuleChecker
	ignoreRules bool
}

const noBetaDefaults = "(cannot set default values in apiextensions.k8s.io/v1beta1 CRDs, must use apiextensions.k8s.io/v1)"

// demandsOn returns the requirements for a CRD; old is nil on create.
func demandsOn(f, old *form, o Options) *demands {
	d := &demands{
		semantics:      o.Semantics,
		beta:           f.beta,
		hasLegacy:      f.hasLegacy(o.Semantics),
		defaults:       true,
		knownReviews:   true,
		anySchema:      true,
		knownTypes:     true,
		structural:     true,
		prunedDefaults: true,
		atomicSets:     true,
		completeKeys:   true,
		looseCA:        true,
		rules:          o.Rules,
		ignoreRules:    o.IgnoreRules,
		stored:         old,
	}
	if f.beta {
		// v1beta1 does not require these.
		d.anySchema, d.knownTypes, d.structural = false, false, false
		if rejectsBetaDefaults(o.Semantics) && (old == nil || !old.spec.anySchema(hasDefault)) {
			d.defaults, d.noDefaults = false, noBetaDefaults
		}
	}
	if old != nil {
		d.forgive(f, old, o)
	}
	d.structural = d.structural || f.spec.prunes() || d.defaults && f.spec.anySchema(hasDefault) || f.spec.anySchema(hasExtension) ||
		o.Semantics.KnowsUnions() && f.spec.anySchema(hasUnions)
	return d
}

// forgive drops the requirements that the stored CRD does not meet.
func (d *demands) forgive(f, old *form, o Options) {
	spec := &old.spec
	d.knownReviews = spec.conversion == nil || len(spec.conversion.ConversionReviewVersions) == 0 ||
		hasKnownReview(spec.conversion.ConversionReviewVersions)
	d.sameNames = isTrue(old.status, api.Established)
	d.anySchema = d.anySchema && spec.allHaveSchemas()
	d.knownTypes = d.knownTypes && !spec.anySchema(hasUnknownType)
	d.structural = d.structural && spec.isStructural(o.Semantics)
	d.prunedDefaults = !spec.hasUnprunedDefaults(o.Semantics)
	d.atomicSets = !spec.anySchema(hasMergedSet)
	d.completeKeys = !spec.anySchema(hasIncompleteKeys)
	d.looseCA = allowsLooseCA(old)
	d.manySelectable = manySelectable(&f.spec, spec)
	d.unchanged = map[string]bool{}
	for i := range f.spec.versions {
		name := f.spec.versions[i].name
		now, ok := f.spec.schemaFor(name)
		before, okBefore := spec.schemaFor(name)
		if ok && okBefore && equal(now, before) {
			d.unchanged[name] = true
		}
	}
}

// isTrue reports whether a condition is present and true.
func isTrue(status *api.CustomResourceDefinitionStatus, typ api.CustomResourceDefinitionConditionType) bool {
	for i := range status.Conditions {
		if status.Conditions[i].Type == typ {
			return status.Conditions[i].Status == api.ConditionTrue
		}
	}
	return false
}

// allHaveSchemas reports whether every version has a schema.
func (s *formSpec) allHaveSchemas() bool {
	if openAPI(s.common.schema) != nil {
		return true
	}
	for i := range s.versions {
		if openAPI(s.versions[i].parts.schema) == nil {
			return false
		}
	}
	return true
}

// isStructural reports whether every schema is structural.
func (s *formSpec) isStructural(sem schema.Semantics) bool {
	for _, props := range s.schemas() {
		if !isStructural(props, sem) {
			return false
		}
	}
	return true
}

func isStructural(props *api.JSONSchemaProps, sem schema.Semantics) bool {
	s, err := schema.NewStructural(props)
	return err == nil && len(violations(s, sem)) == 0
}

// violations returns the findings that make a schema non-structural.
func violations(s *schema.Structural, sem schema.Semantics) []schema.Finding {
	var refused []schema.Finding
	for _, f := range schema.Check(s, sem) {
		if f.Refused {
			refused = append(refused, f)
		}
	}
	return refused
}

// hasUnprunedDefaults reports whether pruning would remove fields from a default.
func (s *formSpec) hasUnprunedDefaults(sem schema.Semantics) bool {
	for _, props := range s.schemas() {
		if !schema.AnySubschema(props, hasDefault) {
			continue
		}
		structural, err := schema.NewStructural(props)
		if err == nil && len(violations(structural, sem)) == 0 && losesDefaults(structural, sem) {
			return true
		}
	}
	return false
}

// manySelectable returns the versions whose selectable fields do not change, so that they may
// have too many.
func manySelectable(now, before *formSpec) map[string]bool {
	allowed := map[string]bool{}
	if equal(now.common.selectable, before.common.selectable) {
		allowed[""] = true
	}
	old := map[string]*formVersion{}
	for i := range before.versions {
		old[before.versions[i].name] = &before.versions[i]
	}
	for i := range now.versions {
		v := &now.versions[i]
		if o := old[v.name]; o != nil && equal(v.parts.selectable, o.parts.selectable) {
			allowed[v.name] = true
		}
	}
	return allowed
}
