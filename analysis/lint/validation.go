package lint

import (
	"context"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/analysis"
	"espalier.dev/crd"
	"espalier.dev/internal/jsonptr"
	"espalier.dev/internal/yamledit"
	"espalier.dev/kinds/releases"
	"espalier.dev/schema"
)

// validate validates the CRD as on create.
func (d *definition) validate(ctx context.Context, o crd.Options) field.ErrorList {
	if d.beta != nil {
		return crd.ValidateCreateV1beta1(ctx, d.beta, o).Errors
	}
	return crd.ValidateCreate(ctx, d.v1, o).Errors
}

// recorder checks rules for crd and keeps the reports, which explain expensive rules in
// more detail than the errors do.
type recorder struct {
	crd.RuleChecker
	// quiet disables rule checks. Defaults are still validated against the rules.
	quiet bool
	// release is the release whose rules are checked, or zero for the latest.
	release releases.Release
	reports []ruleReport
}

type ruleReport struct {
	*schema.RuleReport
	path *field.Path
}

// CheckRules records the report and returns an empty one.
func (r *recorder) CheckRules(ctx context.Context, c crd.RuleCheck) *schema.RuleReport {
	if !r.quiet {
		if c.Remedies, c.Unguarded = true, true; r.release != 0 {
			c.Remedies, c.Unguarded, c.Root = false, false, rulesIn(c.Root, r.release)
		}
		r.reports = append(r.reports, ruleReport{r.RuleChecker.CheckRules(ctx, c), c.Path})
	}
	return &schema.RuleReport{}
}

// options returns the options for validating the CRD.
func (r *recorder) options(sem schema.Semantics) crd.Options {
	if r.RuleChecker == nil {
		return crd.Options{Semantics: sem, IgnoreRules: true}
	}
	return crd.Options{Semantics: sem, Rules: r}
}

// validation reports the errors for which the API server rejects the CRD.
func (c *check) validation(ctx context.Context) {
	r := recorder{RuleChecker: c.ruleChecker}
	errs := c.d.validate(ctx, r.options(c.sem))
	quiet := recorder{RuleChecker: c.ruleChecker, quiet: true}
	elsewhere := c.d.validate(ctx, quiet.options(c.sem.Other()))
	different := c.differences(verdicts{c.sem: errs, c.sem.Other(): elsewhere})
	for _, e := range errs {
		for _, at := range c.d.locate(e.Field) {
			c.rejected[at.pointer()] = true
		}
	}
	// Non-structural parts are reported for all schemas, even where the API server accepts
	// them.
	structural := map[string]bool{}
	for _, s := range c.d.schemas {
		c.structure(s, structural, different)
	}
	reported := map[string]bool{}
	for _, e := range errs {
		for i, at := range c.d.locate(e.Field) {
			if structural[at.pointer()] {
				continue
			}
			text := c.d.inWords(e.ErrorBody(), i)
			if reported[at.pointer()+" "+text] {
				// In v1beta1, spec.version stands for a version, too.
				continue
			}
			reported[at.pointer()+" "+text] = true
			rule := invalidDefinition
			if c.isDefault(at) {
				rule = invalidDefault
			}
			detail := different.onlyHere(at)
			if e.Field == "spec."+preserveField && c.d.beta == nil {
				detail = append(detail, "to update a CRD that was created with v1beta1, set it to false: kubectl apply keeps true if the manifest does not have the field")
			}
			c.add(rule, at, note{severity: analysis.Error, detail: detail, fix: c.repair(at)}, text)
		}
	}
	c.laterRounds(ctx, errs, &r)
	for _, report := range r.reports {
		c.rules(report)
	}
}

// structure reports the non-structural parts of a schema and adds their places to seen.
func (c *check) structure(s *schemaSite, seen map[string]bool, different *disagreement) {
	severity := func(at *place) analysis.Severity {
		pointer := at.pointer()
		seen[pointer] = true
		if c.rejected[pointer] {
			return analysis.Error
		}
		return analysis.Warning
	}
	for _, e := range s.convErrs {
		at := s.at.schemaPath(e.Path).child(e.Keyword)
		if c.rejected[at.pointer()] || c.rejected[s.at.schemaPath(e.Path).pointer()] {
			// The validation of the CRD reports it.
			continue
		}
		message := e.Keyword + " " + e.Reason
		if e.Err != nil {
			message += ": " + e.Err.Error()
		}
		c.add(nonStructural, at, note{severity: severity(at)}, message)
	}
	base := fieldPath(s.at)
	for _, f := range s.check(c.sem) {
		if !f.Refused {
			continue
		}
		at := s.at.schemaPath(f.Path)
		n := note{severity: severity(at), detail: different.onlyHere(at), fix: c.structuralFix(s, &f, at)}
		if n.severity == analysis.Warning {
			n.detail = append(n.detail, "the API server accepts it and sets the condition NonStructuralSchema")
		}
		if f.Kind == schema.PatternInvalid {
			pattern, _ := f.Value.(string)
			n.detail = append(n.detail, lacks(pattern)...)
			c.add(invalidPattern, at, n, f.FieldError(base).ErrorBody())
			continue
		}
		c.add(nonStructural, at, n, f.FieldError(base).ErrorBody())
	}
}

// fieldPath returns the place of a schema as a path of field errors.
func fieldPath(at *place) *field.Path {
	var path *field.Path
	for _, s := range at.steps() {
		if s.form == index {
			i, _ := strconv.Atoi(s.token)
			path = path.Index(i)
		} else {
			path = path.Child(s.token)
		}
	}
	return path
}

// isDefault reports whether a place is in a default of a schema.
func (c *check) isDefault(at *place) bool {
	for p := at; p != nil && p.around != nil; p = p.around {
		if p.token != "default" || p.form != member || !p.exists(c.d.tree) {
			continue
		}
		for _, site := range c.d.schemas {
			if _, ok := jsonptr.CutPrefix(p.pointer(), site.at.pointer()); ok {
				return true
			}
		}
	}
	return false
}

// repair returns a safe fix for an error, or nil.
func (c *check) repair(at *place) *analysis.Fix {
	if v, ok := at.value(c.d.tree); ok && v == false && at.token == "x-kubernetes-preserve-unknown-fields" {
		return removal(at, "remove what has no effect")
	}
	return nil
}

// removal returns a fix that removes the value at a place.
func removal(at *place, message string) *analysis.Fix {
	return &analysis.Fix{Message: message, Edits: []analysis.Edit{{Op: yamledit.Remove, Pointer: at.pointer()}}}
}

// structuralFix returns edits that fix a finding and change nothing else.
func (c *check) structuralFix(s *schemaSite, f *schema.Finding, at *place) *analysis.Fix {
	switch {
	case f.Kind == schema.TypeMissing && len(f.Path) == 1:
		return &analysis.Fix{
			Message: "set type: object at the root",
			Edits:   []analysis.Edit{{Op: yamledit.Set, Pointer: at.pointer(), Value: "object"}},
		}
	case f.Kind != schema.ForbiddenInJunctor:
		return nil
	}
	switch at.token {
	case "description", "title", "default":
		return removal(at, "remove the "+at.token+", which has no effect here")
	case "type":
		core := coreOf(s.structural, f.Path)
		typ, _ := at.value(c.d.tree)
		if core != nil && !core.Nullable && !core.XIntOrString && core.Type != "" &&
			(typ == core.Type || typ == "number" && core.Type == "integer") {
			return removal(at, "remove the type, which the schema already has")
		}
	}
	return nil
}

// coreOf returns the schema outside of logical operators that describes the same value as a
// path through logical operators, or nil. The last step of the path is a keyword.
func coreOf(s *schema.Structural, path schema.SchemaPath) *schema.Structural {
	for _, step := range path[:len(path)-1] {
		if s == nil {
			return nil
		}
		switch step.Keyword {
		case "properties":
			s = s.Properties[step.Name]
		case "items":
			s = s.Items
		case "additionalProperties":
			// Below logical operators there is no such step.
			s = s.AdditionalProperties.Structural
		}
	}
	return s
}
