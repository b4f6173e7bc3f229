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

// Differences reports where the two schema semantics interpret a CRD differently: only one
// rejects it, they prune objects differently, or one ignores part of the CRD. The findings
// belong to the rules semantics-*, and their locations refer to the CRD as v1. CEL rules
// mean the same in both semantics and are not checked.
func Differences(ctx context.Context, definition *api.CustomResourceDefinition) ([]analysis.Finding, error) {
	c := newCheck(defaultSelection(), schema.KEP)
	c.d = decoded(definition)
	errs := verdicts{}
	if !c.d.acceptedAlike() {
		var err error
		if c.d, err = of(definition); err != nil {
			return nil, err
		}
		for _, sem := range [...]schema.Semantics{schema.KEP, schema.Kubernetes} {
			errs[sem] = c.d.validate(ctx, crd.Options{Semantics: sem, IgnoreRules: true})
		}
	}
	found := c.differences(errs)
	for _, r := range found.rejections {
		c.rejection(r)
	}
	analysis.Sort(c.findings)
	return c.findings, nil
}

// rejection is an error that only one of the semantics reports.
type rejection struct {
	at   *place
	by   schema.Semantics
	text string
}

// disagreement holds the rejections on which the semantics disagree.
type disagreement struct {
	rejections []rejection
	// here holds the places that only the selected semantics rejects.
	here map[string]schema.Semantics
}

// onlyHere returns a detail line if only one of the semantics rejects the place.
func (d *disagreement) onlyHere(at *place) []string {
	if by, ok := d.here[at.pointer()]; ok {
		return []string{"only " + by.String() + " semantics rejects this; " + by.Other().String() + " accepts it"}
	}
	return nil
}

// differences reports where the semantics differ. It returns the errors of the selected
// semantics that the other does not have: they are reported as errors already.
func (c *check) differences(errs verdicts) *disagreement {
	if c.sem.ReportsOtherPruning() {
		c.pruningRegions()
	}
	c.liberties()
	c.dropped()
	c.published()
	out := &disagreement{here: map[string]schema.Semantics{}}
	for _, r := range c.rejections(errs) {
		if r.by == c.sem {
			out.here[r.at.pointer()] = r.by
			out.rejections = append(out.rejections, r)
			continue
		}
		c.rejection(r)
	}
	return out
}

func (c *check) rejection(r rejection) {
	c.inform(semanticsRefused, r.at, r.by.String(), " semantics rejects this, ", r.by.Other().String(), " accepts it: ", r.text)
}

// verdicts holds the validation errors of each semantics.
type verdicts map[schema.Semantics]field.ErrorList

// rejections returns the errors that only one of the semantics reports.
func (c *check) rejections(errs verdicts) []rejection {
	id := func(e *field.Error) string { return e.Field + " " + string(e.Type) }
	seen := map[schema.Semantics]map[string]bool{}
	for sem, list := range errs {
		seen[sem] = map[string]bool{}
		for _, e := range list {
			seen[sem][id(e)] = true
		}
	}
	var all []rejection
	for _, sem := range [...]schema.Semantics{schema.KEP, schema.Kubernetes} {
		if len(errs[sem]) == 0 {
			continue
		}
		// An error can prevent further checks. Where both semantics have errors, only the
		// checks that always run can be compared.
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
					all = append(all, rejection{at, sem, c.d.inWords(e.ErrorBody(), i)})
				}
			}
		}
	}
	return append(all, c.rootRejections()...)
}

// structuralPlaces returns the places that make schemas non-structural.
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

// rootRejections finds root schemas that forbid additional fields. In kube-apiserver this
// also forbids apiVersion, kind and metadata.
func (c *check) rootRejections() (all []rejection) {
	for _, s := range c.d.schemas {
		ap := s.props.AdditionalProperties
		if ap == nil || ap.Allows || ap.Schema != nil {
			continue
		}
		for _, name := range [...]string{"apiVersion", "kind", "metadata"} {
			if _, ok := s.props.Properties[name]; !ok {
				all = append(all, rejection{s.at.child("additionalProperties"), schema.Kubernetes,
					"every object has " + name + ", which is not in properties, so every object is rejected"})
				break
			}
		}
	}
	return all
}

// liberties reports schemas that are less strict than the specification requires.
func (c *check) liberties() {
	severity := analysis.Info
	if c.sem.ReportsSeveralShapes() {
		severity = analysis.Warning
	}
	for _, s := range c.d.schemas {
		for _, f := range s.check(schema.KEP) {
			if !f.Refused {
				c.add(semanticsLiberty, s.at.schemaPath(f.Path), note{severity: severity},
					"kep semantics reports a violation that kubernetes semantics accepts: ", f.Detail)
			}
		}
	}
}

// dropped reports fields and annotations that kube-apiserver drops or ignores.
func (c *check) dropped() {
	const drops = " has a meaning in kep semantics only; kube-apiserver drops it"
	for _, s := range c.d.schemas {
		walk(s, c.sem, func(n *node) {
			if n.s.ReadOnly {
				c.warn(semanticsDropped, n.at.child("readOnly"), "readOnly", drops)
			}
			if len(n.s.XUnions) > 0 {
				c.warn(semanticsDropped, n.at.child("x-kubernetes-unions"), "x-kubernetes-unions",
					drops, ", so any number of members may be set")
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

// published reports schemas that the two semantics publish differently as OpenAPI.
func (c *check) published() {
	if !c.on[semanticsPublished] {
		return
	}
	for _, s := range c.d.schemas {
		has := map[string]bool{}
		walk(s, c.sem, func(n *node) {
			if n.inOperator {
				return
			}
			has["pattern (not part of OpenAPI v2 in kep semantics)"] = has["pattern (not part of OpenAPI v2 in kep semantics)"] ||
				n.s.Pattern != ""
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
