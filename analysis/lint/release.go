package lint

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/analysis"
	"espalier.dev/analysis/lookup"
	"espalier.dev/api"
	"espalier.dev/kinds/releases"
	"espalier.dev/schema"
)

// The releases that begin to evaluate rules, and to validate formats of names. The formats are also
// for the previous release, so that a server can be downgraded.
const rulesSince, nameFormatsSince releases.Release = 25, 35

// later reports a field that the release drops. The fields of rules are not reported if it drops
// the rules.
func (u *unknowns) later(t reflect.Type, name string, at *place) {
	if t == reflect.TypeFor[api.ValidationRule]() && u.release < rulesSince {
		return
	}
	if f := releases.CRDFields(t.Name())[name]; !f.In(u.release) {
		u.add(kubernetesVersion, at.child(name), note{severity: analysis.Warning, part: analysis.FieldName},
			fmt.Sprintf("unknown field %q: %s", name, f.Missing(u.release)))
	}
}

// nameFormat reports formats that the release ignores.
func (c *check) nameFormat(n *node) {
	if c.release == 0 || c.release >= nameFormatsSince || n.typ() != "string" {
		return
	}
	switch f := n.s.Format; f {
	case "k8s-short-name", "k8s-long-name":
		c.warn(kubernetesVersion, n.at.child("format"),
			fmt.Sprintf("Kubernetes %s ignores the format %q, which %s validates", c.release, f, nameFormatsSince))
	}
}

// unsupported reports why the release would reject the CRD, although the latest one would not.
func (c *check) unsupported(ctx context.Context) {
	if c.release == 0 || !c.on[kubernetesVersion] {
		return
	}
	if c.d.beta != nil {
		if findings, served := lookup.AtRelease(c.d.beta.APIVersion, c.d.beta.Kind, c.release); !served {
			c.add(kubernetesVersion, root().child("apiVersion"), note{severity: analysis.Error}, findings[0].Message)
		}
	}
	if c.rulesOf == nil || c.release < rulesSince {
		return
	}
	failures := map[releases.Release]field.ErrorList{}
	errors := func(r releases.Release) field.ErrorList {
		found, ok := failures[r]
		if !ok {
			report := recorder{RuleChecker: c.rulesOf(r), release: r}
			c.d.validate(ctx, report.options(c.sem))
			for _, s := range report.reports {
				found = append(found, s.FieldErrors(s.path, false)...)
			}
			// What rules cost is estimated as in the latest release, and the rest depends on their expressions.
			found = slices.DeleteFunc(found, func(e *field.Error) bool {
				return e.Type != field.ErrorTypeInvalid || !strings.HasSuffix(e.Field, ".rule") && !strings.HasSuffix(e.Field, ".messageExpression")
			})
			failures[r] = found
		}
		return found
	}
	rejects := func(r releases.Release, e *field.Error) bool { // its text differs if a release has some of the functions
		return slices.ContainsFunc(errors(r), func(other *field.Error) bool { return other.Field == e.Field })
	}
	for _, e := range errors(c.release) {
		if rejects(releases.Last, e) {
			continue
		}
		since := c.release + 1
		for rejects(since, e) {
			since++
		}
		for i, at := range c.d.locate(e.Field) {
			c.add(kubernetesVersion, at, note{severity: analysis.Error}, c.d.inWords(fmt.Sprintf(
				"Kubernetes %s rejects the expression, which %s accepts: %s", c.release, since, e.Detail), i))
		}
	}
}

// rulesIn returns a schema with the rules that a release has: it drops some of their fields.
func rulesIn(s *schema.Structural, r releases.Release) *schema.Structural {
	s = s.DeepCopy()
	fields := releases.CRDFields("ValidationRule")
	var strip func(*schema.Structural)
	strip = func(s *schema.Structural) {
		if s == nil {
			return
		}
		for i := range s.XValidations {
			rule := &s.XValidations[i]
			if !fields["messageExpression"].In(r) {
				rule.MessageExpression = ""
			}
			if !fields["optionalOldSelf"].In(r) {
				rule.OptionalOldSelf = nil
			}
		}
		strip(s.Items)
		if s.AdditionalProperties != nil {
			strip(s.AdditionalProperties.Structural)
		}
		for _, property := range s.Properties {
			strip(property)
		}
	}
	strip(s)
	return s
}
