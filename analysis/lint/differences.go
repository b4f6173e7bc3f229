package lint

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/analysis"
	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// Differences says where the two semantics read a definition differently: one of them
// rejects it, they prune objects differently, or one of them knows nothing of what
// the definition says. Findings are those of the rules semantics-*, with places in
// the definition as v1. Rules in CEL mean the same to both and are not looked at.
func Differences(ctx context.Context, definition *api.CustomResourceDefinition) ([]analysis.Finding, error) {
	all, err := newSelection()
	if err != nil {
		return nil, err
	}
	c := newCheck(all, schema.KEP)
	if c.d, err = of(definition); err != nil {
		return nil, err
	}
	errs := verdicts{}
	for _, sem := range [...]schema.Semantics{schema.KEP, schema.Kubernetes} {
		errs[sem] = c.d.validate(ctx, crd.Options{Semantics: sem, IgnoreRules: true})
	}
	found := c.differences(errs)
	for _, r := range found.refusals {
		c.refusal(r)
	}
	analysis.Sort(c.findings)
	return c.findings, nil
}

// rejection is something that one of the semantics rejects and the other does not.
type refusal struct {
	at   *place
	by   schema.Semantics
	text string
}

// disagreement is what the semantics disagree on.
type disagreement struct {
	refusals []refusal
	// here are the places of those by the semantics at hand.
	here map[string]schema.Semantics
}

// onlyHere says, for a place that is rejected, if only one of the semantics does so.
func (d *disagreement) onlyHere(at *place) []string {
	if by, ok := d.here[at.pointer()]; ok {
		return []string{"only " + by.String() + " semantics rejects this; " + by.Other().String() + " accepts it"}
	}
	return nil
}

// differences reports where the semantics differ. What the semantics at hand rejects
// and the other does not is not reported but returned: it is an error already.
func (c *check) differences(errs verdicts) *disagreement {
	c.pruningRegions()
	c.liberties()
	c.dropped()
	c.published()
	out := &disagreement{here: map[string]schema.Semantics{}}
	for _, r := range c.refusals(errs) {
		if r.by == c.sem {
			out.here[r.at.pointer()] = r.by
			out.refusals = append(out.refusals, r)
			continue
		}
		c.refusal(r)
	}
	return out
}

func (c *check) refusal(r refusal) {
	c.inform(semanticsRefused, r.at, r.by.String(), " semantics rejects this, ", r.by.Other().String(), " accepts it: ", r.text)
}

// verdicts are what each of the semantics has against a definition.
type verdicts map[schema.Semantics]field.ErrorList

// rejections lists what only one of the semantics rejects.
func (c *check) refusals(errs verdicts) []refusal {
	id := func(e *field.Error) string { return e.Field + " " + string(e.Type) }
	seen := map[schema.Semantics]map[string]bool{}
	for sem, list := range errs {
		seen[sem] = map[string]bool{}
		for _, e := range list {
			seen[sem][id(e)] = true
		}
	}
	var all []refusal
	for _, sem := range [...]schema.Semantics{schema.KEP, schema.Kubernetes} {
		if len(errs[sem]) == 0 {
			continue
		}
		// An error can keep others from being looked for. Only those that are always
		// looked for can be compared where both have errors.
		comparable := func(*place) bool { return true }
		if len(errs[sem.Other()]) > 0 {
			structural := c.structuralPlaces(sem)
			comparable = func(at *place) bool { return structural[at.pointer()] }
		}
		for _, e := range errs[sem] {
			if seen[sem.Other()][id(e)] {
				continue
			}
			for i, at := range c.d.locate(e.Field) {
				if comparable(at) {
					all = append(all, refusal{at, sem, c.d.inWords(e.ErrorBody(), i)})
				}
			}
		}
	}
	return append(all, c.rootRefusals()...)
}

// structuralPlaces are the places that make schemas non-structural.
func (c *check) structuralPlaces(sem schema.Semantics) map[string]bool {
	places := map[string]bool{}
	for _, s := range c.d.schemas {
		for _, f := range s.check(sem) {
			if f.Refused {
				places[s.at.schemaPath(f.Path).pointer()] = true
			}
		}
	}
	return places
}

// rootRefusals looks for roots that allow no other fields. To kube-apiserver that goes
// for apiVersion, kind and metadata too.
func (c *check) rootRefusals() (all []refusal) {
	for _, s := range c.d.schemas {
		ap := s.props.AdditionalProperties
		if ap == nil || ap.Allows || ap.Schema != nil {
			continue
		}
		for _, name := range [...]string{"apiVersion", "kind", "metadata"} {
			if _, ok := s.props.Properties[name]; !ok {
				all = append(all, refusal{s.at.child("additionalProperties"), schema.Kubernetes,
					"every object has " + name + ", which is not in properties, so every object is rejected"})
				break
			}
		}
	}
	return all
}

// liberties reports where a schema is looser than the documents want it.
func (c *check) liberties() {
	severity := analysis.Info
	if c.sem.ReportsSeveralShapes() {
		severity = analysis.Warning
	}
	for _, s := range c.d.schemas {
		for _, f := range s.check(schema.KEP) {
			if !f.Refused {
				c.add(semanticsLiberty, s.at.schemaPath(f.Path), note{severity: severity}, "kep semantics reports a violation that kubernetes semantics accepts: ", f.Detail)
			}
		}
	}
}

// dropped reports what kube-apiserver knows nothing of, and drops.
func (c *check) dropped() {
	const drops = " has a meaning in kep semantics only; kube-apiserver drops it"
	for _, s := range c.d.schemas {
		walk(s, c.sem, func(n *node) {
			if n.s.ReadOnly {
				c.warn(semanticsDropped, n.at.child("readOnly"), "readOnly", drops)
			}
			if len(n.s.XUnions) > 0 {
				c.warn(semanticsDropped, n.at.child("x-kubernetes-unions"), "x-kubernetes-unions", drops, ", so any number of members may be set")
			}
		})
	}
	if c.d.legacy != nil {
		c.warn(semanticsDropped, c.d.legacy.at, "jsonSchema, the field name of 2017,", drops, ", so nothing is validated")
	}
	if _, ok := c.d.meta().Annotations[api.JSONSchemaAnnotation]; ok {
		c.warn(semanticsDropped, root().child("metadata", "annotations").key(api.JSONSchemaAnnotation),
			"the schema in this annotation has a meaning in kep semantics only; kube-apiserver ignores it, so nothing is validated")
	}
}

// published reports what reads differently in the published OpenAPI.
func (c *check) published() {
	if !c.on[semanticsPublished] {
		return
	}
	for _, s := range c.d.schemas {
		has := map[string]bool{}
		walk(s, c.sem, func(n *node) {
			if n.inJunctor {
				return
			}
			has["pattern (not part of OpenAPI v2 in kep semantics)"] = has["pattern (not part of OpenAPI v2 in kep semantics)"] || n.s.Pattern != ""
			has["x-kubernetes-int-or-string (expanded as in the design documents)"] = has["x-kubernetes-int-or-string (expanded as in the design documents)"] || n.s.XIntOrString
			has["x-kubernetes-embedded-resource (expanded in kep semantics only)"] = has["x-kubernetes-embedded-resource (expanded in kep semantics only)"] || n.s.XEmbeddedResource
		})
		var what []string
		for _, name := range sortedNames(has) {
			if has[name] {
				what = append(what, name)
			}
		}
		if len(what) > 0 {
			c.inform(semanticsPublished, s.at, "the published OpenAPI differs between the semantics: ", strings.Join(what, ", "))
		}
	}
}
