package lint

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/analysis"
	"espalier.dev/api"
	"espalier.dev/internal/jsonptr"
	"espalier.dev/schema"
)

// The API server stops at errors: it does not check the defaults of a schema that is not
// structural, nor the rules of a schema with invalid defaults. Lint removes what is wrong
// from a copy and validates again, so that one run finds all errors. Where that is not
// possible, it reports what was not checked.

const (
	// maxRounds is the number of validations: of the CRD, without invalid parts of the
	// structure, and without invalid defaults.
	maxRounds = 3
	// maxMisfits is the number of values of the wrong type that the rest of a CRD is checked
	// without.
	maxMisfits = 20
)

// laterRounds reports the errors that other errors hide. errs are those of the CRD itself,
// and r has the reports on rules so far.
func (c *check) laterRounds(ctx context.Context, errs field.ErrorList, r *recorder) {
	if !c.blocked(errs) {
		return
	}
	d, copied := c.d, deepCopy(c.d.tree).(map[string]any)
	for _, at := range c.misfits {
		remove(copied, at)
	}
	for range maxRounds - 1 {
		if !c.removeErrors(copied, d, errs) {
			break
		}
		// What is left of a CRD that could be decoded can be decoded, too.
		raw, _ := json.Marshal(copied)
		d, _ = read(raw, c.sem)
		next := recorder{RuleChecker: c.ruleChecker}
		errs = d.validate(ctx, next.options(c.sem))
		for _, e := range errs {
			for i, at := range c.d.locate(e.Field) {
				if c.isDefault(at) && !c.rejected[at.pointer()] {
					c.rejected[at.pointer()] = true
					c.add(invalidDefault, at, note{severity: analysis.Error}, c.d.inWords(e.ErrorBody(), i))
				}
			}
		}
		r.addNew(next.reports)
	}
	c.unchecked(d, r)
}

// addNew adds the reports on schemas that have none yet.
func (r *recorder) addNew(reports []ruleReport) {
	seen := map[string]bool{}
	for _, report := range r.reports {
		seen[report.path.String()] = true
	}
	for _, report := range reports {
		if !seen[report.path.String()] {
			r.reports = append(r.reports, report)
		}
	}
}

// blocked reports whether errors keep other parts from being checked.
func (c *check) blocked(errs field.ErrorList) bool {
	for _, e := range errs {
		for _, at := range c.d.locate(e.Field) {
			if c.siteOf(at) != nil {
				return true
			}
		}
	}
	return false
}

// siteOf returns the schema that a place is in, or nil.
func (c *check) siteOf(at *place) *schemaSite {
	for _, s := range c.d.schemas {
		if _, ok := jsonptr.CutPrefix(at.pointer(), s.at.pointer()); ok {
			return s
		}
	}
	return nil
}

// removeErrors removes from the tree of d what makes its schemas non-structural, and
// invalid defaults, as far as the rest means the same without them. It reports whether it
// has removed anything.
func (c *check) removeErrors(tree map[string]any, d *definition, errs field.ErrorList) (removed bool) {
	for _, s := range d.schemas {
		for _, e := range s.convErrs {
			removed = remove(tree, s.at.schemaPath(e.Path).child(e.Keyword)) || removed
		}
		for _, f := range s.check(c.sem) {
			switch f.Kind {
			case schema.PatternInvalid, schema.ForbiddenInJunctor, schema.MetadataRestricted, schema.MetadataInJunctor:
				if f.Refused {
					removed = remove(tree, s.at.schemaPath(f.Path)) || removed
				}
			}
		}
	}
	for _, e := range errs {
		for _, at := range d.locate(e.Field) {
			if !c.isDefault(at) {
				continue
			}
			for at.token != "default" || at.form != member {
				at = at.around
			}
			removed = remove(tree, at) || removed
		}
	}
	return removed
}

// unchecked reports the schemas whose defaults or rules have not been checked in any round.
func (c *check) unchecked(d *definition, r *recorder) {
	checked := map[string]bool{}
	for _, report := range r.reports {
		for _, at := range c.d.locate(report.path.String()) {
			checked[at.pointer()] = true
		}
	}
	for i, s := range c.d.schemas {
		last := s
		if i < len(d.schemas) {
			last = d.schemas[i]
		}
		structural := last.structural != nil
		for _, f := range last.check(c.sem) {
			structural = structural && !f.Refused
		}
		hasDefaults, hasRules := false, false
		schema.AnySubschema(s.props, func(p *api.JSONSchemaProps) bool {
			hasDefaults = hasDefaults || p.Default != nil
			hasRules = hasRules || len(p.XValidations) > 0
			return false
		})
		var parts []string
		if hasDefaults && !structural {
			parts = append(parts, "defaults")
		}
		if hasRules && c.ruleChecker != nil && !checked[s.at.pointer()] {
			parts = append(parts, "x-kubernetes-validations")
		}
		if len(parts) > 0 {
			c.inform(notChecked, s.at, strings.Join(parts, " and "), " of this schema are not checked until its other errors are fixed")
		}
	}
}

// remove removes the value at a place from a tree, and reports whether it was there.
func remove(tree map[string]any, at *place) bool {
	if at.around == nil {
		return false
	}
	around, _ := at.around.value(tree)
	switch v := around.(type) {
	case map[string]any:
		_, ok := v[at.token]
		delete(v, at.token)
		return ok
	case []any:
		// Its neighbours keep their places.
		if i, err := strconv.Atoi(at.token); err == nil && i < len(v) && v[i] != nil {
			v[i] = nil
			return true
		}
	}
	return false
}

func deepCopy(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, sub := range v {
			out[k] = deepCopy(sub)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, sub := range v {
			out[i] = deepCopy(sub)
		}
		return out
	}
	return v
}

// readAround decodes a CRD. It reports values of the wrong type, and continues without them
// if the rest does not depend on them. It returns nil if the CRD cannot be decoded.
func (c *check) readAround(raw []byte) *definition {
	d, err := read(raw, c.sem)
	if err == nil {
		return d
	}
	if d == nil {
		c.add(undecodable, root(), note{severity: analysis.Error}, err.Error())
		return nil
	}
	original, copied := d.tree, deepCopy(d.tree).(map[string]any)
	var misfits, blocking []*misfit
	for m, ok := err.(*misfit); ok; m, ok = err.(*misfit) {
		misfits = append(misfits, m)
		last := len(misfits) > maxMisfits || !isRemovable(m.at) || !remove(copied, m.at)
		if last || !isIndependent(m.at) {
			blocking = append(blocking, m)
		}
		if last {
			break
		}
		next, _ := json.Marshal(copied) // it was JSON
		d, err = read(next, c.sem)
	}
	for _, m := range misfits {
		n := note{severity: analysis.Error}
		switch {
		case len(blocking) == 0:
			n.detail = []string{"the rest of the CRD is checked without this value"}
			c.misfits = append(c.misfits, m.at)
		case slices.Contains(blocking, m):
			n.detail = []string{"nothing else in the CRD is checked until this is fixed"}
		}
		c.add(undecodable, m.at, n, m.message)
	}
	if len(blocking) > 0 {
		return nil
	}
	d.raw, d.tree = raw, original
	return d
}

// isRemovable reports whether a CRD can be decoded without the value at a place: part of a
// schema or of a printer column.
func isRemovable(at *place) bool {
	steps := at.steps()
	for i, s := range steps {
		switch s.token {
		case "openAPIV3Schema", "jsonSchema", "additionalPrinterColumns":
			return i < len(steps)-1
		}
	}
	return false
}

// isIndependent reports whether the rest of a CRD means the same without the removable value
// at a place. Without the schema of a field, for example, rules and columns that read the
// field would be reported.
func isIndependent(at *place) bool {
	if at.form != member {
		at = at.around
	}
	switch at.token {
	case "properties", "items", "additionalProperties", "nullable",
		"x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource":
		return false
	}
	return true
}

// inMisfit reports whether a finding is about a value that was ignored because of its type.
func (c *check) inMisfit(pointer string) bool {
	for _, m := range c.misfits {
		if _, ok := jsonptr.CutPrefix(pointer, m.pointer()); ok {
			return true
		}
	}
	return false
}
