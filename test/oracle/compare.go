package oracle

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// Case is a schema with at most one object.
type Case struct {
	// Schema is a schema as in v1; nil means no schema.
	Schema map[string]any
	// Kind and Namespaced describe the resource; the default is the test kind.
	Kind       schema.GroupVersionKind
	Namespaced bool
	// Preserve is preserveUnknownFields of the CRD.
	Preserve bool
	// Mode and Doc are an object as bytes, Old the stored object that it replaces, if any.
	// Without Doc only the schema is compared.
	Mode Mode
	Doc  []byte
	Old  []byte
	// Name identifies the origin of the case.
	Name string
}

// Difference is a disagreement between the two sides.
type Difference struct {
	Case *Case
	// What names the part of the outcome that differs.
	What string
	// Reference and Ours are the two outcomes.
	Reference, Ours string
	// Known is the ID of the known difference that explains this one, if any.
	Known string
}

// String formats the difference with all that is needed to reproduce it.
func (d *Difference) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s differs\n", d.Case.Name, d.What)
	if d.Case.Schema != nil {
		fmt.Fprintf(&b, "  schema:    %s\n", encode(d.Case.Schema))
	}
	if d.Case.Preserve {
		fmt.Fprintf(&b, "  preserveUnknownFields: true\n")
	}
	if d.Case.Doc != nil {
		fmt.Fprintf(&b, "  object:    %s\n", printable(d.Case.Doc))
	}
	if d.Case.Old != nil {
		fmt.Fprintf(&b, "  old:       %s\n", printable(d.Case.Old))
	}
	if d.Case.Mode == FromStorage {
		fmt.Fprintf(&b, "  read from storage\n")
	}
	fmt.Fprintf(&b, "  reference: %s\n  ours:      %s\n", d.Reference, d.Ours)
	return b.String()
}

func printable(b []byte) string {
	if strings.ToValidUTF8(string(b), "") == string(b) && !slices.ContainsFunc(b, func(c byte) bool { return c < 0x20 && c != '\n' && c != '\t' }) {
		return string(b)
	}
	return fmt.Sprintf("%q", b)
}

// pair is a schema on both sides.
type pair struct {
	base Case
	ref  *Reference
	ours *Ours
	// embeds reports whether the schema has embedded resources.
	embeds bool
	// retries counts how often the reference was asked again.
	retries int
}

// newPair compiles a schema on both sides. It returns the differences of the schema itself,
// and no pair if the schema cannot be used for objects.
func newPair(base Case) (*pair, []*Difference) {
	if base.Kind.Empty() {
		base.Kind, base.Namespaced = testKind, true
	}
	p := &pair{base: base}
	var schemaJSON []byte
	if base.Schema != nil {
		schemaJSON = encode(base.Schema)
	}
	var refErr, ourErr error
	if out := guard(func() { p.ref, refErr = NewReference(schemaJSON, base.Kind, base.Namespaced, base.Preserve) }); out != "" {
		return nil, nil
	}
	if out := guard(func() { p.ours, ourErr = NewOurs(schemaJSON, base.Kind, base.Namespaced, base.Preserve) }); out != "" {
		return nil, []*Difference{p.difference(&base, "compile", "no panic", out)}
	}
	if (refErr == nil) != (ourErr == nil) {
		return nil, []*Difference{p.difference(&base, "compile", errText(refErr), errText(ourErr))}
	}
	if refErr != nil {
		return nil, nil
	}
	p.embeds = bytes.Contains(schemaJSON, []byte("x-kubernetes-embedded-resource"))
	return p, nil
}

func (p *pair) difference(c *Case, what, ref, ours string) *Difference {
	d := &Difference{Case: c, What: what, Reference: ref, Ours: ours}
	d.Known = explain(d)
	return d
}

// tries is the number of times that the reference is asked again. It walks maps in random
// order, and some results depend on that.
const tries = 24

// agree reports whether two answers are the same. If they are not, it asks the reference
// again, because its answer may change.
func (p *pair) agree(ref string, again func() string, ours string) bool {
	if ref == ours {
		return true
	}
	for range tries {
		if again() == ours {
			p.retries++
			return true
		}
	}
	return false
}

// check compares the two sides on an object. It returns the object as the reference decodes
// it, if it can.
func (p *pair) check(c Case) (map[string]any, []*Difference) {
	c.Schema, c.Preserve, c.Kind, c.Namespaced = p.base.Schema, p.base.Preserve, p.base.Kind, p.base.Namespaced
	if c.Name == "" {
		c.Name = p.base.Name
	}
	var out []*Difference
	report := func(what, ref, ours string) {
		out = append(out, p.difference(&c, what, ref, ours))
	}
	var ref Decoded
	if g := guard(func() { ref = p.ref.Decode(c.Doc, c.Mode) }); g != "" {
		return nil, nil // the reference panics: nothing to compare
	}
	if errors.Is(ref.Err, errNotThisResource) {
		// The server responds before it uses the schema.
		return nil, nil
	}
	var ours Decoded
	if g := guard(func() { ours = p.ours.Decode(c.Doc, c.Mode) }); g != "" {
		report("decode", "no panic", g)
		return nil, out
	}
	p.compareDecoded("decode", c, ref, ours, report)
	p.checkTree(c, ref, report)
	if c.Old == nil && len(c.Doc)%8 == 1 {
		// Validation does not depend on the result of decoding.
		p.checkRaw(c, report)
	}
	if ref.Err != nil {
		return nil, out
	}
	p.checkValidation(c, ref.Object, report)
	return ref.Object, out
}

func (p *pair) compareDecoded(what string, c Case, ref, ours Decoded, report func(what, ref, ours string)) {
	compare := func(what string, text func(Decoded) string) bool {
		again := func() string { return text(p.ref.Decode(c.Doc, c.Mode)) }
		if p.agree(text(ref), again, text(ours)) {
			return true
		}
		report(what, text(ref)+because(ref.Err), text(ours)+because(ours.Err))
		return false
	}
	if !compare(what+" error", func(d Decoded) string { return verdict(d.Err) }) || ours.Err != nil || ref.Err != nil {
		return
	}
	compare(what+" object", func(d Decoded) string { return render(d.Object) })
	if c.Mode == FromRequest {
		compare(what+" unknown fields", func(d Decoded) string { return fmt.Sprintf("%q", sortedCopy(d.Unknown)) })
	}
	if what == "decode" {
		compare(what+" duplicate fields", func(d Decoded) string { return fmt.Sprintf("%q", sortedCopy(d.Duplicate)) })
	}
}

// checkTree compares Normalize with Decode, and IsNormal with both.
func (p *pair) checkTree(c Case, ref Decoded, report func(what, ref, ours string)) {
	tree := map[string]any{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(c.Doc, &tree); err != nil || tree == nil {
		return
	}
	var normalized Decoded
	var normal bool
	if g := guard(func() {
		normalized = p.ours.Normalize(clone(tree), c.Mode)
		normal = p.ours.IsNormal(c.Doc)
	}); g != "" {
		report("normalize", "no panic", g)
		return
	}
	p.compareDecoded("normalize", c, ref, normalized, report)
	if c.Mode != FromRequest {
		return
	}
	switch same := ref.Err == nil && equal(ref.Object, tree); {
	case normal && !same:
		report("is normal", "false", "true")
	case !normal && same && len(ref.Duplicate) == 0 && !p.embeds && plainMetadata(tree["metadata"]):
		// IsNormal may be conservative about unusual metadata and duplicates, but nothing
		// else.
		report("is normal", "true", "false")
	}
}

// plainMetadata reports whether metadata has only strings, where strings are expected.
func plainMetadata(v any) bool {
	m, ok := v.(map[string]any)
	for k, x := range m {
		if _, isString := x.(string); !isString || k != "name" && k != "namespace" {
			return false
		}
	}
	return ok
}

// checkValidation compares the errors of an object that the reference decoded.
func (p *pair) checkValidation(c Case, obj map[string]any, report func(what, ref, ours string)) {
	var old map[string]any
	if c.Old != nil {
		if old = p.ref.Decode(c.Old, FromStorage).Object; old == nil {
			return
		}
	}
	run := func(what string, ref, ours func(obj, old map[string]any) field.ErrorList) {
		p.compareErrors(what, obj, old, ref, ours, report)
	}
	run("validate with identity", p.ref.ValidateIdentity, p.ours.ValidateIdentity)
	// Validate reports a subset of these errors, so a sample of the cases is enough.
	if len(c.Doc)%4 == 0 {
		run("validate", p.ref.Validate, p.ours.Validate)
	}
}

// checkRaw compares the errors of an object before decoding.
func (p *pair) checkRaw(c Case, report func(what, ref, ours string)) {
	if obj := parse(c.Doc); obj != nil {
		p.compareErrors("validate as written", obj, nil, p.ref.Validate, p.ours.Validate, report)
	}
}

func (p *pair) compareErrors(what string, obj, old map[string]any, ref, ours func(obj, old map[string]any) field.ErrorList, report func(what, ref, ours string)) {
	var refText, ourText string
	ask := func() string { return errorsText(ref(clone(obj), clone(old))) }
	if guard(func() { refText = ask() }) != "" {
		return // the reference panics: nothing to compare
	}
	before := render(obj)
	if g := guard(func() { ourText = errorsText(ours(obj, old)) }); g != "" {
		report(what, "no panic", g)
		return
	}
	if after := render(obj); after != before {
		report(what+" changes the object", before, after)
	}
	if !p.agree(refText, ask, ourText) {
		report(what, refText, ourText)
	}
}

// compareStructural compares the errors of a schema on both sides, and its derived forms.
func compareStructural(c Case) []*Difference {
	p := &pair{base: c}
	var out []*Difference
	report := func(what, ref, ours string) { out = append(out, p.difference(&c, what, ref, ours)) }
	schemaJSON := encode(c.Schema)
	props, refErr := ReferenceSchema(schemaJSON)
	_, ourErr := OurSchema(schemaJSON)
	if (refErr == nil) != (ourErr == nil) {
		report("reading the schema", errText(refErr), errText(ourErr))
		return out
	}
	if refErr != nil {
		return nil
	}
	refStructural, refErrs, refErr := ReferenceStructural(props)
	ourStructural, ourErrs, ourErr := OurStructural(schemaJSON)
	if (refErr == nil) != (ourErr == nil) {
		report("structural form", errText(refErr), errText(ourErr))
		return out
	}
	if refErr != nil {
		return nil
	}
	if ref, ours := errorsText(refErrs), errorsText(ourErrs); ref != ours {
		report("structural verdict", ref, ours)
	}
	compareForms(refStructural, ourStructural, len(refErrs) == 0, report)
	return out
}

func verdict(err error) string {
	if err != nil {
		return "error"
	}
	return "no error"
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}

func errText(err error) string {
	if err == nil {
		return "no error"
	}
	return "error: " + err.Error()
}

// errorsText formats errors, sorted, so that lists with the same errors have the same text.
func errorsText(errs field.ErrorList) string {
	if len(errs) == 0 {
		return "no errors"
	}
	lines := make([]string, len(errs))
	for i, e := range errs {
		lines[i] = fmt.Sprintf("\n    %s %T", e.Error(), e.BadValue)
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func render(obj map[string]any) string {
	if obj == nil {
		return "nil"
	}
	return string(encode(obj))
}

// guard runs f and returns the panic, if any.
func guard(f func()) (panicked string) {
	defer func() {
		if r := recover(); r != nil {
			panicked = fmt.Sprintf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	f()
	return ""
}

// equal compares trees. It distinguishes integers from floats, and 0 from -0.
func equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, x := range a {
			y, ok := b[k]
			if !ok || !equal(x, y) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equal)
	case float64:
		b, ok := b.(float64)
		return ok && math.Float64bits(a) == math.Float64bits(b)
	}
	return a == b
}
