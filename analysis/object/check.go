package object

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"espalier.dev"
	"espalier.dev/analysis"
	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/internal/jsonptr"
	"espalier.dev/schema"
)

// Options describe the text of the CRD for a [Checker]. The zero value works without it.
type Options struct {
	// Document returns the CRD as its author wrote it, as JSON, in v1 or v1beta1. Pointers to
	// schemas point into it. Without it they point into the v1 form. It is called when the
	// text is needed, which it need not keep, and may be called concurrently.
	Document func() []byte
	// Locate returns the position of a JSON pointer into Document in a file. Findings that
	// name a schema include its position, unless Locate is nil. It may be called concurrently.
	Locate func(pointer string) analysis.Location
}

// FieldValidation selects how unknown and duplicate fields are reported.
type FieldValidation uint8

const (
	// Warn reports them as warnings.
	Warn FieldValidation = iota
	// Ignore does not report them.
	Ignore
	// Strict reports them as errors.
	Strict
)

// severity returns the severity of unknown and duplicate fields.
func (v FieldValidation) severity() analysis.Severity {
	if v == Strict {
		return analysis.Error
	}
	return analysis.Warning
}

// ParseFieldValidation parses ignore, warn or strict, ignoring case.
func ParseFieldValidation(s string) (FieldValidation, error) {
	switch strings.ToLower(s) {
	case "ignore":
		return Ignore, nil
	case "warn":
		return Warn, nil
	case "strict":
		return Strict, nil
	}
	return 0, fmt.Errorf("unknown field validation %q: choose ignore, warn or strict", s)
}

// Checker checks the objects of one CRD. It is safe for concurrent use.
type Checker struct {
	options    Options
	definition *crd.Definition
	admitter   *espalier.Admitter
	// differences has, for each version, where the two semantics can treat its objects differently.
	differences map[string]differences
	// other returns the Admitter of the other semantics, without CEL rules: they see the
	// same fields in both and are expensive to compile.
	other func() (*espalier.Admitter, error)
	// previews has the versions whose schemas are not structural, by name.
	previews map[string]func() *Preview
	// storages has, for each version, how its objects are stored.
	storages map[string]func() (storage, error)
	// document returns the layout of the schemas in the document.
	document func() document
}

// New returns a Checker for the objects of a CRD. The definition determines the semantics
// and whether CEL rules are evaluated. Schemas are compiled on first use.
func New(definition *crd.Definition, o Options) *Checker {
	c := &Checker{
		options:     o,
		definition:  definition,
		admitter:    espalier.ForDefinition(definition, ""),
		differences: map[string]differences{},
		previews:    map[string]func() *Preview{},
		storages:    map[string]func() (storage, error){},
		document:    sync.OnceValue(func() document { return readDocument(o) }),
	}
	c.other = sync.OnceValues(func() (*espalier.Admitter, error) {
		other, err := definition.With(crd.Options{Semantics: c.otherSemantics(), IgnoreRules: true})
		if err != nil {
			return nil, err
		}
		return espalier.ForDefinition(other, ""), nil
	})
	for _, v := range definition.Versions() {
		c.differences[v.Name()] = differencesOf(v)
		c.previews[v.Name()] = sync.OnceValue(func() *Preview { return c.newPreview(v) })
		c.storages[v.Name()] = sync.OnceValues(func() (storage, error) { return c.newStorage(v) })
	}
	return c
}

// Check reports how an API server responds to a request that creates the object in source,
// which is JSON, or, with old, to a request that replaces old with it: why it rejects the
// object, which fields it drops, on decoding or because the storage version does not have
// them, what it warns about, and where the other semantics would have a different result. An API
// server stops at the first error that prevents decoding. Check continues, to report everything
// that needs a fix.
//
// Old may be of another version than the object, unless a webhook converts between them. The
// findings are in no particular order; their pointers point into source.
func (c *Checker) Check(ctx context.Context, source []byte, old schema.Object, fields FieldValidation) []analysis.Finding {
	written := old
	old = convert(old, source)
	if v := c.versionOf(written); v == nil || !v.Served() {
		written = old // it cannot be converted
	}
	result, err := admit(ctx, c.admitter, source, written)
	if err != nil {
		version, unknown := c.version(source)
		if unknown != nil {
			return c.rejection(nil, err)
		}
		findings := c.rejection(version, err)
		if large := (*schema.DefaultsError)(nil); errors.As(err, &large) {
			return findings // without its defaults, the object would have other errors
		}
		findings = append(findings, c.rest(ctx, version, source, old, fields, findings)...)
		return append(findings, c.compare(ctx, source, written, result, err)...)
	}
	version := c.versionOf(result.Object)
	if version == nil {
		// The object has a second apiVersion, which takes effect. It was admitted with the first one.
		if version, err = c.version(source); err != nil {
			return c.rejection(nil, err)
		}
	}
	findings := c.resultFindings(version, result, old, fields)
	if written != nil {
		findings = append(findings, c.Ratcheted(ctx, version, result.Object, result.Violations)...)
	}
	lost, rejected := c.storageFindings(version, source, result, old, fields)
	findings = append(findings, lost...)
	// Few schemas and objects can differ between the semantics, so few are checked twice.
	if rejected != nil || c.differences[version.Name()].concern(result) || version.HasStatus() && bytes.Contains(source, []byte(`"status"`)) {
		findings = append(findings, c.compare(ctx, source, written, result, rejected)...)
	}
	return findings
}

// admit processes an object as an API server does when it is created or, with old, replaces
// old.
func admit(ctx context.Context, a *espalier.Admitter, source []byte, old schema.Object) (*espalier.Result, error) {
	if old != nil {
		return a.UpdateJSON(ctx, source, old)
	}
	return a.CreateJSON(ctx, source)
}

// convert returns old in the version of the object in source. Conversion without a webhook
// changes only the apiVersion.
func convert(old schema.Object, source []byte) schema.Object {
	if old == nil {
		return nil
	}
	id, _ := api.Identify(source) // otherwise the object is rejected
	old = maps.Clone(old)
	old["apiVersion"] = id.APIVersion
	return old
}

// Converts reports whether Check can compare old with the object in source: they have the same
// version, or the API server converts between versions without a webhook.
func (c *Checker) Converts(old schema.Object, source []byte) bool {
	id, err := api.Identify(source)
	return err != nil || old["apiVersion"] == id.APIVersion || !c.convertsByWebhook()
}

func (c *Checker) convertsByWebhook() bool {
	conversion := c.definition.CRD().Spec.Conversion
	return conversion != nil && conversion.Strategy != api.NoneConverter
}

// version returns the served version of the object in source.
func (c *Checker) version(source []byte) (*crd.Version, error) {
	id, err := api.Identify(source)
	if err != nil {
		return nil, err
	}
	for _, v := range c.definition.Versions() {
		if gvk := v.GroupVersionKind(); v.Served() && gvk.GroupVersion().String() == id.APIVersion && gvk.Kind == id.Kind {
			return v, nil
		}
	}
	return nil, fmt.Errorf("%s does not serve kind %q of apiVersion %q", c.definition.Name(), id.Kind, id.APIVersion)
}

// versionOf is like version, for an object that was admitted.
func (c *Checker) versionOf(obj schema.Object) *crd.Version {
	apiVersion, _ := obj["apiVersion"].(string)
	return c.definition.Version(strings.TrimPrefix(apiVersion, c.definition.Group()+"/"))
}

// resultFindings converts the result of admission to findings.
func (c *Checker) resultFindings(v *crd.Version, result *espalier.Result, old schema.Object,
	fields FieldValidation) (findings []analysis.Finding) {
	if fields != Ignore {
		severity := fields.severity()
		for _, changes := range [...][]schema.Change{result.Changes, result.IgnoredChanges} {
			for i := range changes {
				if f, ok := c.fieldFinding(v, &changes[i], severity); ok {
					findings = append(findings, f)
				}
			}
		}
		if result.Truncated {
			findings = append(findings, analysis.Finding{Rule: RuleUnknownField, Severity: severity,
				Message: "there are more unknown fields than listed here"})
		}
	}
	findings = append(findings, serverWarnings(v, result.Object, old)...)
	findings = append(findings, c.violationFindings(v, result.Violations)...)
	if result.Violations.Truncated() {
		findings = append(findings, analysis.Finding{
			Rule: ViolationRule(result.Violations[0].Kind), Severity: analysis.Error, Message: schema.MoreErrors().Detail,
		})
	}
	return findings
}

// Ratcheted returns findings about what an update of a version with obj is accepted with because the old object has
// it too. found are the violations of the update.
func (c *Checker) Ratcheted(ctx context.Context, v *crd.Version, obj schema.Object, found schema.Violations) []analysis.Finding {
	program, err := v.Program()
	if err != nil {
		return nil // no object can be checked
	}
	findings := c.violationFindings(v, program.Tolerated(ctx, obj, found))
	for i := range findings {
		f := &findings[i]
		f.Rule, f.Severity = RuleRatcheted, analysis.Info
		f.Message += "; tolerated in an update that does not change the value (ratcheting)"
	}
	return findings
}

// serverWarnings returns the warnings that the API server sends to a client that writes obj.
func serverWarnings(v *crd.Version, obj, old schema.Object) (findings []analysis.Finding) {
	warn := func(path, pointer, message string) {
		findings = append(findings, serverWarning(path, pointer, message))
	}
	if warning := v.DeprecationWarning(); warning != "" {
		warn("apiVersion", "/apiVersion", warning)
	}
	all, _, _ := unstructured.NestedStringSlice(obj, "metadata", "finalizers")
	for _, name := range crd.NewFinalizers(obj, old) {
		for _, problem := range crd.FinalizerNameProblems(name) {
			i := slices.Index(all, name)
			warn(fmt.Sprintf("metadata.finalizers[%d]", i), fmt.Sprintf("/metadata/finalizers/%d", i), fmt.Sprintf("%q: %s", name, problem))
		}
	}
	return findings
}

// serverWarning returns the finding about a warning of the API server. Its severity is that of what
// it is called: kubectl prints it as one.
func serverWarning(path, pointer, message string) analysis.Finding {
	return analysis.Finding{Rule: RuleServerWarning, Severity: analysis.Warning, Path: path, Pointer: pointer, Message: message}
}

// fieldFinding returns the finding about an unknown or duplicate field.
func (c *Checker) fieldFinding(v *crd.Version, change *schema.Change, severity analysis.Severity) (f analysis.Finding, ok bool) {
	switch change.Kind {
	case schema.Pruned:
		f = unknownField(change.Path, change.Nearest(), severity)
		var special string
		if f.Schema, special = c.pruningSchema(v, change); special != "" {
			f.Detail = []string{special}
		}
	case schema.Duplicate:
		f = duplicateField(change.Path, severity)
	default:
		return analysis.Finding{}, false
	}
	return f, true
}

// unknownField returns the finding about an unknown field. meant is a known field with a similar
// name, or "".
func unknownField(path schema.Path, meant string, severity analysis.Severity) analysis.Finding {
	message := fmt.Sprintf("unknown field %q: the API server drops it", path.String())
	if meant != "" {
		message += fmt.Sprintf("; did you mean %q?", meant)
	}
	return analysis.Finding{Rule: RuleUnknownField, Severity: severity, Path: path.String(),
		Pointer: path.Pointer(), Part: analysis.FieldName, Message: message}
}

// duplicateField returns the finding about a field that occurs twice.
func duplicateField(path schema.Path, severity analysis.Severity) analysis.Finding {
	return analysis.Finding{Rule: RuleDuplicateField, Severity: severity, Path: path.String(),
		Pointer: path.Pointer(), Part: analysis.RepeatedName,
		Message: fmt.Sprintf("duplicate field %q: the last one takes effect", path.String())}
}

// rest reports the remaining problems of an object that an API server cannot decode. The
// server stops there, but the author of the object wants to see all problems at once.
// rejected has the findings so far.
func (c *Checker) rest(ctx context.Context, v *crd.Version, source []byte, old schema.Object,
	fields FieldValidation, rejected []analysis.Finding) []analysis.Finding {
	program, err := v.Program()
	if err != nil {
		return nil
	}
	obj, changes, err := program.Decode(source, schema.DecodeOptions{Report: true, FromStorage: true})
	if err != nil {
		return nil
	}
	if v.HasStatus() {
		delete(obj, "status")
	}
	result := &espalier.Result{Object: obj, Changes: changes.Changes,
		Truncated: changes.Truncated, Violations: program.Validate(ctx, obj, old)}
	reported := func(f analysis.Finding) bool {
		return slices.ContainsFunc(rejected, func(r analysis.Finding) bool {
			_, below := jsonptr.CutPrefix(f.Pointer, r.Pointer)
			return below
		})
	}
	dropped := slices.DeleteFunc(droppedMetadata(source, changes.Changes), reported)
	rejected = slices.Concat(rejected, dropped)
	return append(dropped, slices.DeleteFunc(c.resultFindings(v, result, old, fields), func(f analysis.Finding) bool {
		// An API server sets these fields before validation.
		return slices.Contains([]string{"metadata.name", "metadata.namespace", "metadata.resourceVersion"}, f.Path) || reported(f)
	})...)
}
