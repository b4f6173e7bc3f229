package compare

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
	"espalier.dev/schema"
)

// Difference is a disagreement between the two sides.
type Difference struct {
	// Case names the compared case, What the part of the outcome that differs.
	Case, What string
	// Reference and Ours are the two outcomes. For a list of errors, each is the error that
	// the other side does not have.
	Reference, Ours string
	// Input is the data to reproduce the difference, if it is not in the corpus.
	Input string
	// Drift is the ID of the drift that explains it, if any.
	Drift string
	// Beside lists the drifts in the same list of errors.
	Beside []string
}

// String formats the difference with all that is needed to reproduce it.
func (d *Difference) String() string {
	s := fmt.Sprintf("%s: %s differs\n  reference: %s\n  ours:      %s", d.Case, d.What, d.Reference, d.Ours)
	if d.Input != "" {
		s += "\n  input:     " + d.Input
	}
	return s
}

// pair holds both sides and their differences.
type pair struct {
	ref   *Reference
	found []*Difference
	count Count
}

// Count counts the comparisons.
type Count struct {
	Definitions, Malformed, Schemas, Structural, Formless, Objects, Changed, Valid int
	Created, Accepted, Updated, UpdatesAccepted                                    int
}

func (c *Count) add(o Count) {
	c.Definitions += o.Definitions
	c.Malformed += o.Malformed
	c.Schemas += o.Schemas
	c.Structural += o.Structural
	c.Formless += o.Formless
	c.Objects += o.Objects
	c.Changed += o.Changed
	c.Valid += o.Valid
	c.Created += o.Created
	c.Accepted += o.Accepted
	c.Updated += o.Updated
	c.UpdatesAccepted += o.UpdatesAccepted
}

func (p *pair) report(name, what, ref, ours, input string) {
	d := &Difference{Case: name, What: what, Reference: ref, Ours: ours, Input: input}
	d.Drift = explain(d)
	p.found = append(p.found, d)
}

// errors compares two lists of errors, in any order. forgiven are the errors that ours would
// report without the old object.
func (p *pair) errors(name, what string, ref, ours, forgiven []Error, input string) {
	a, b := lines(ref), lines(ours)
	b = slices.DeleteFunc(b, func(o line) bool {
		i := slices.IndexFunc(a, func(r line) bool { return r.text == o.text && (r.value == "" || r.value == o.value) })
		if i >= 0 {
			a = slices.Delete(a, i, i+1)
		}
		return i >= 0
	})
	c := lines(forgiven)
	before := len(p.found)
	// The remaining errors may be different texts of the same error.
	for _, r := range a {
		i := slices.IndexFunc(b, func(o line) bool {
			return explain(&Difference{What: what, Reference: r.String(), Ours: o.String()}) != ""
		})
		switch {
		case i >= 0:
			p.report(name, what, r.String(), b[i].String(), input)
			b = slices.Delete(b, i, i+1)
		case r.forgivenBy(c):
			p.report(name, what+forgivenSuffix, r.String(), "", input)
		default:
			p.report(name, what, r.String(), "", input)
		}
	}
	for _, o := range b {
		p.report(name, what, "", o.String(), input)
	}
	var drifts []string
	for _, d := range p.found[before:] {
		drifts = append(drifts, d.Drift)
	}
	for _, d := range p.found[before:] {
		if d.Drift == "" {
			d.Beside = drifts
			d.Drift = explain(d)
		}
	}
}

// forgivenSuffix marks errors that ratcheting ignores in an update.
const forgivenSuffix = ", forgiven"

// line is an error in comparable form.
type line struct{ text, value string }

func (l line) String() string {
	if l.value == "" {
		return l.text
	}
	return l.text + " (" + l.value + ")"
}

func (l line) forgivenBy(all []line) bool {
	return slices.ContainsFunc(all, func(o line) bool { return l.text == o.text || l.text == withoutIndices(o.text) })
}

func lines(errs []Error) []line {
	var out []line
	for _, e := range errs {
		out = append(out, line{fmt.Sprintf("%s: %s: %s", e.Field, e.Type, e.Detail), meaning(e.Value)})
	}
	slices.SortFunc(out, func(a, b line) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// meaning returns the canonical text of a value.
func meaning(data json.RawMessage) string {
	if len(data) == 0 {
		return ""
	}
	v, err := tree(data)
	if err != nil {
		return string(data)
	}
	return string(encode(v))
}

// trees compares two JSON texts.
func (p *pair) trees(name, what string, ref, ours []byte, input string) {
	a, errA := tree(ref)
	b, errB := tree(ours)
	if errA != nil || errB != nil {
		p.report(name, what, fmt.Sprint(errA), fmt.Sprint(errB), input)
		return
	}
	for _, d := range diff("", dropNulls(a), dropNulls(b), nil) {
		p.report(name, what, d, "", input)
	}
}

// dropNulls removes nulls that only encode an absent value.
func dropNulls(v any) any {
	root, ok := v.(map[string]any)
	if !ok {
		return v
	}
	if meta, ok := root["metadata"].(map[string]any); ok && meta["creationTimestamp"] == nil {
		delete(meta, "creationTimestamp")
	}
	if status, ok := root["status"].(map[string]any); ok {
		for k, x := range status {
			if x == nil {
				delete(status, k)
			}
		}
	}
	return v
}

func outcome(err error) string {
	if err == nil {
		return "no error"
	}
	return "error: " + err.Error()
}

// definition compares reading, defaults, conversion and creation of a v1beta1 CRD. It returns
// the reference's result, if both sides can read the CRD.
func (p *pair) definition(name string, data []byte, input string) (*v1beta1.CustomResourceDefinition, *Answer, error) {
	p.count.Definitions++
	a, err := p.ref.Ask(Request{Op: "convert", CRD: data})
	if err != nil {
		return nil, nil, err
	}
	def, ourErr := readBeta(data)
	if (a.Error != "") != (ourErr != nil) {
		p.report(name, "reading", a.Error, outcome(ourErr), input)
		return nil, nil, nil
	}
	if ourErr != nil || a.Panic != "" {
		return nil, nil, nil
	}
	if v1beta1.CheckForm(def) != nil || len(def.Spec.Versions) == 0 {
		// Two values for one field, or values for all versions and no version: the result
		// does not matter, because the CRD is rejected.
		p.count.Malformed++
		return def, a, nil
	}
	hub, err := v1beta1.ToV1(def)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	p.trees(name, "v1beta1", a.V1beta1, encode(v1beta1.FromV1(hub)), input)
	p.trees(name, "v1", a.V1, encode(hub), input)
	// The other direction: the reference converts its own v1 back.
	back, err := p.ref.Ask(Request{Op: "convert", CRD: a.V1})
	if err != nil {
		return nil, nil, err
	}
	if back.Error != "" {
		p.report(name, "reading v1", back.Error, "", input)
		return def, a, nil
	}
	fromV1 := &api.CustomResourceDefinition{}
	if err := api.Unmarshal(a.V1, fromV1); err != nil {
		p.report(name, "reading v1", "", err.Error(), input)
		return def, a, nil
	}
	api.SetDefaults(fromV1)
	p.trees(name, "v1beta1 of v1", back.V1beta1, encode(v1beta1.FromV1(fromV1)), input)
	return def, a, nil
}

// create compares the validation of a new CRD, and returns the CRD that would be stored.
func (p *pair) create(name string, data []byte, input string) (json.RawMessage, error) {
	p.count.Created++
	a, err := p.ref.Ask(Request{Op: "create", CRD: data})
	if err != nil {
		return nil, err
	}
	def, ourErr := readBeta(data)
	if a.Panic != "" || a.Error != "" || ourErr != nil {
		return nil, nil // see definition
	}
	if len(a.Errors) == 0 {
		p.count.Accepted++
	}
	p.errors(name, "create", a.Errors, ourErrors(create(def)), nil, input)
	return a.V1beta1, nil
}

// update compares the validation of a CRD that replaces another one.
func (p *pair) update(name string, data, oldData []byte, input string) error {
	def, err := readBeta(data)
	if err != nil {
		return nil
	}
	old, err := readBeta(oldData)
	if err != nil || v1beta1.CheckForm(old) != nil || len(old.Spec.Versions) == 0 {
		// No server stores such a CRD.
		return nil
	}
	a, err := p.ref.Ask(Request{Op: "update", CRD: data, Old: oldData})
	if err != nil {
		return err
	}
	if a.Panic != "" || a.Error != "" {
		return nil
	}
	p.count.Updated++
	if len(a.Errors) == 0 {
		p.count.UpdatesAccepted++
	}
	errs, err := update(def, old)
	if err != nil {
		return err
	}
	p.errors(name, "update", a.Errors, ourErrors(errs), nil, input)
	return nil
}

// schema compares the structural errors of a schema. It returns whether the reference finds
// it structural, and whether it has a structural form.
func (p *pair) schema(name string, props *api.JSONSchemaProps) (isStructural, hasForm bool, err error) {
	p.count.Schemas++
	text := encode(props)
	a, err := p.ref.Ask(Request{Op: "structural", Schema: text})
	if err != nil {
		return false, false, err
	}
	_, errs, ourErr := structural(props)
	if (a.Error != "") != (ourErr != nil) {
		p.report(name, "structural form", a.Error, outcome(ourErr), string(text))
		return false, false, nil
	}
	if ourErr != nil {
		p.count.Formless++
		return false, false, nil
	}
	p.errors(name, "structural", a.Errors, ourErrors(errs), nil, string(text))
	if len(a.Errors) == 0 {
		p.count.Structural++
	}
	return len(a.Errors) == 0, true, nil
}

// objects compares the results for objects.
func (p *pair) objects(name string, props *api.JSONSchemaProps, id schema.Identity, preserve bool, objs []ObjectRequest) error {
	group, version, _ := strings.Cut(id.APIVersion, "/")
	req := Request{Op: "objects", Group: group, Version: version, Kind: id.Kind, Namespaced: id.Namespaced, Preserve: preserve, Objects: objs}
	if props != nil {
		req.Schema = encode(props)
	}
	a, err := p.ref.Ask(req)
	if err != nil {
		return err
	}
	prog, ourErr := program(props, id, preserve)
	if (a.Error != "") != (ourErr != nil) {
		p.report(name, "compiling", a.Error, outcome(ourErr), "")
		return nil
	}
	if ourErr != nil || a.Panic != "" {
		return nil
	}
	for i, o := range objs {
		p.count.Objects++
		p.object(fmt.Sprintf("%s #%d preserve %v", name, i, preserve), prog, o, a.Results[i])
	}
	return nil
}

func (p *pair) object(name string, prog *schema.Program, o ObjectRequest, ref ObjectAnswer) {
	if ref.Panic != "" || strings.HasPrefix(ref.Error, "old: ") {
		return
	}
	input := string(o.Object)
	if len(o.Old) > 0 {
		input += " replaces " + string(o.Old)
	}
	obj, _, err := prog.Decode(o.Object, schema.DecodeOptions{FromStorage: o.FromStorage})
	if (ref.Error != "") != (err != nil) {
		p.report(name, "decoding", ref.Error, outcome(err), input)
		return
	}
	if err != nil {
		return
	}
	p.trees(name, "object", ref.Object, encode(obj), input)
	if meaning(o.Object) != meaning(encode(obj)) {
		p.count.Changed++
	}
	var old schema.Object
	if len(o.Old) > 0 {
		if old, _, err = prog.Decode(o.Old, schema.DecodeOptions{FromStorage: true}); err != nil {
			p.report(name, "decoding the old object", "no error", err.Error(), input)
			return
		}
	}
	// Both sides validate the object that the reference decoded.
	decoded := object(ref.Object)
	var errs, forgiven field.ErrorList
	errs = prog.Validate(context.Background(), decoded, old).FieldErrors()
	if old != nil {
		forgiven = prog.Validate(context.Background(), decoded, nil).FieldErrors()
	}
	if len(ref.Errors) == 0 {
		p.count.Valid++
	}
	p.errors(name, "validation", ref.Errors, ourErrors(errs), ourErrors(forgiven), input)
}
