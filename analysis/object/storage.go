package object

import (
	"errors"
	"fmt"
	"sync"

	"espalier.dev"
	"espalier.dev/analysis"
	"espalier.dev/crd"
	"espalier.dev/internal/jsonx"
	"espalier.dev/schema"
)

// storage describes in which form the objects of a version are stored. Its zero value is for
// objects that are stored in their own version.
type storage struct {
	// version is the storage version, compiled without CEL rules, if the API server converts
	// objects to it by changing their apiVersion, the conversion strategy None.
	version *crd.Version
	// webhook is set if a webhook converts the objects.
	webhook *analysis.Finding
}

// newStorage returns the storage of the objects of a version.
func (c *Checker) newStorage(v *crd.Version) (s storage, err error) {
	to := c.definition.Storage()
	if to == nil || to == v {
		return s, nil
	}
	if c.convertsByWebhook() {
		s.webhook = &analysis.Finding{
			Rule: RuleWebhookConversion, Severity: analysis.Info, Path: "spec.conversion.strategy", Pointer: "/spec/conversion/strategy",
			Message: fmt.Sprintf("a webhook converts objects of version %s to storage version %s: it is not called, and its changes are not shown", v.Name(), to.Name()),
		}
		return s, nil
	}
	// Rules are expensive to compile, and do not apply to conversions.
	plain, err := c.definition.With(crd.Options{Semantics: c.definition.Semantics(), IgnoreRules: true})
	if err == nil {
		s.version = plain.Version(to.Name())
	}
	return s, err
}

// relabel returns an object in another version, as conversion with the strategy None does: it
// changes the apiVersion and prunes with the schema of that version. It applies no defaults,
// and leaves obj unchanged. The error is a [*schema.ContradictionError].
func relabel(obj schema.Object, to *crd.Version, p *schema.Program, old schema.Object) (schema.Object, *schema.Report, error) {
	apiVersion := to.GroupVersionKind().GroupVersion().String()
	o := schema.DecodeOptions{Report: true, WithoutDefaults: true, Old: old}
	out := jsonx.CopyObject(obj)
	out["apiVersion"] = apiVersion
	report, err := p.Normalize(out, o)
	if malformed := (*schema.MetadataError)(nil); errors.As(err, &malformed) {
		// The metadata of an embedded resource. The API server drops what is malformed.
		out = jsonx.CopyObject(obj)
		out["apiVersion"] = apiVersion
		return out, read(p, out, o), nil
	}
	return out, report, err
}

// read normalizes a stored object, in place. It does not add a generation. It cannot fail, because the
// object has been normalized before.
func read(p *schema.Program, obj schema.Object, o schema.DecodeOptions) *schema.Report {
	meta, _ := obj["metadata"].(map[string]any)
	_, had := meta["generation"]
	o.FromStorage = true
	report, _ := p.Normalize(obj, o)
	if meta, ok := obj["metadata"].(map[string]any); ok && !had {
		delete(meta, "generation")
	}
	return report
}

// step is a step of an object on its way to the storage and back.
type step struct {
	// version is the version whose schema decides.
	version *crd.Version
	report  *schema.Report
	// object is the result.
	object schema.Object
}

// steps returns what happens to an object of a version: it is decoded, converted to the
// storage version, read from the storage, and converted back. The last two steps are omitted
// if stored is set, and the last three if the object is stored in its own version. program
// returns the programs of versions. If the object contradicts the types of a version, steps
// returns that version with the error.
func steps(v *crd.Version, s storage, source []byte, stored bool,
	program func(*crd.Version) (*schema.Program, error)) ([]step, *crd.Version, error) {
	p, err := program(v)
	if err != nil {
		return nil, nil, err
	}
	obj, report, err := p.Decode(source, schema.DecodeOptions{Report: true})
	if err != nil {
		return nil, v, err
	}
	all := []step{{v, report, obj}}
	to := s.version
	if to == nil {
		return all, nil, nil
	}
	q, err := program(to)
	if err != nil {
		return nil, nil, err
	}
	if obj, report, err = relabel(obj, to, q, nil); err != nil {
		return nil, to, err
	}
	if all = append(all, step{to, report, obj}); stored {
		return all, nil, nil
	}
	obj = jsonx.CopyObject(obj)
	all = append(all, step{to, read(q, obj, schema.DecodeOptions{Report: true}), obj})
	obj = jsonx.CopyObject(obj)
	obj["apiVersion"] = v.GroupVersionKind().GroupVersion().String()
	return append(all, step{v, read(p, obj, schema.DecodeOptions{Report: true, WithoutDefaults: true}), obj}), nil, nil
}

// storageFindings reports the fields of a valid object that are lost because the storage
// version does not specify them. It returns an error if the API server rejects the object
// because it contradicts the types of the storage version.
func (c *Checker) storageFindings(v *crd.Version, source []byte, result *espalier.Result,
	old schema.Object, fields FieldValidation) ([]analysis.Finding, error) {
	s, err := c.storages[v.Name()]()
	if err != nil || s.version == nil {
		return nil, nil
	}
	program, err := s.version.Program()
	if err != nil {
		return nil, nil // the conversion fails, whatever the object is
	}
	_, report, err := relabel(result.Object, s.version, program, old)
	if err != nil {
		return c.rejection(s.version, err), err
	}
	if fields == Ignore {
		return nil, nil
	}
	given := sync.OnceValue(func() any {
		value, _ := jsonx.Parse(source) // it has been decoded
		return value
	})
	var findings []analysis.Finding
	for i := range report.Changes {
		change := &report.Changes[i]
		if v.HasStatus() && change.Path[0].Key == "status" {
			continue // the request does not write it
		}
		if _, found := change.Path.Find(given()); !found {
			continue // a default
		}
		f := analysis.Finding{
			Rule: RuleStorageVersion, Severity: analysis.Warning, Path: change.Path.String(),
			Pointer: change.Path.Pointer(), Part: analysis.FieldName,
			Message: fmt.Sprintf("field %q is not in storage version %s: the API server drops it", change.Path.String(), s.version.Name()),
		}
		f.Schema, _ = c.pruningSchema(s.version, change)
		if change.Kind == schema.NullDropped {
			f.Message = fmt.Sprintf("field %q cannot be null in storage version %s: the API server drops it", change.Path.String(),
				s.version.Name())
		}
		findings = append(findings, f)
	}
	if report.Truncated {
		findings = append(findings, analysis.Finding{Rule: RuleStorageVersion, Severity: analysis.Warning,
			Message: fmt.Sprintf("there are more fields that are not in storage version %s than listed here", s.version.Name())})
	}
	return findings, nil
}
