package suite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"espalier.dev"
	"espalier.dev/analysis"
	"espalier.dev/internal/jsonptr"
	"espalier.dev/internal/jsonx"
	"espalier.dev/internal/yamlx"
	"espalier.dev/schema"
)

// openshiftCase is a case in OpenShift's format: an object that is created and, for
// updates, replaced.
type openshiftCase struct {
	update bool
	// patches are applied to the CRD under which the initial object is created. The update
	// runs under the CRD without them.
	patches                            []patch
	initial, updated, expected         string
	expectedError, expectedStatusError string
}

// patch is a JSON patch operation (RFC 6902).
type patch struct {
	Op, Path string
	Value    any
}

// openshift reads a suite in OpenShift's format.
func (p *parser) openshift(root map[string]any) *Suite {
	// OpenShift's suites describe the behaviour of kube-apiserver.
	sem := schema.Kubernetes
	s := &Suite{openshift: true, Semantics: &sem}
	ignore := func(any, string) {}
	cases := func(section string, update bool) func(any, string) {
		return func(v any, pointer string) {
			p.list(v, pointer, func(v any, pointer string) {
				c := &Case{Section: section, Pointer: pointer, openshift: &openshiftCase{update: update}}
				before := len(p.findings)
				if p.openshiftCase(c, v, pointer) && len(p.findings) == before {
					s.Cases = append(s.Cases, c)
				}
			})
		}
	}
	p.fields(root, "", map[string]func(any, string){
		"apiVersion":   ignore,
		"name":         p.text(&s.Name),
		"crdName":      p.text(&s.Definition),
		"version":      p.text(&s.Version),
		"featureGates": ignore,
		"featureGate":  ignore,
		"tests": func(v any, pointer string) {
			p.fields(v, pointer, map[string]func(any, string){
				"onCreate": cases("onCreate", false),
				"onUpdate": cases("onUpdate", true),
			})
		},
	})
	return s
}

func (p *parser) openshiftCase(c *Case, v any, pointer string) bool {
	o := c.openshift
	known := map[string]func(any, string){
		"name":          p.text(&c.Name),
		"initial":       p.text(&o.initial),
		"expected":      p.text(&o.expected),
		"expectedError": p.text(&o.expectedError),
	}
	if o.update {
		known["updated"] = p.text(&o.updated)
		known["expectedStatusError"] = p.text(&o.expectedStatusError)
		known["initialCRDPatches"] = func(v any, pointer string) {
			p.list(v, pointer, func(v any, pointer string) {
				var x patch
				p.fields(v, pointer, map[string]func(any, string){
					"op": p.text(&x.Op), "path": p.text(&x.Path), "value": func(v any, _ string) { x.Value = v },
				})
				o.patches = append(o.patches, x)
			})
		}
	}
	if !p.fields(v, pointer, known) {
		return false
	}
	p.named(c)
	return true
}

// runOpenShift does the same as OpenShift's runner does with a client.
func (r *Runner) runOpenShift(ctx context.Context, c *Case) []analysis.Finding {
	run := r.openshiftCreate
	if c.openshift.update {
		run = r.openshiftUpdate
	}
	if f := run(ctx, c); f != nil {
		return []analysis.Finding{*f}
	}
	return nil
}

func (r *Runner) openshiftCreate(ctx context.Context, c *Case) *analysis.Finding {
	o := c.openshift
	initial, err := readObject(o.initial)
	if err != nil {
		return broken(c, "initial", err)
	}
	stored, err := outcome(r.admitter.Create(ctx, initial))
	if done, f := expectError(c, "expectedError", err, o.expectedError); done {
		return f
	}
	return compareOpenShift(c, stored, o.initial)
}

func (r *Runner) openshiftUpdate(ctx context.Context, c *Case) *analysis.Finding {
	o := c.openshift
	stored, f := r.initial(ctx, c)
	if f != nil {
		return f
	}
	var err error
	if len(o.patches) > 0 {
		// The unpatched CRD applies now. The stored object must survive an unchanged
		// update.
		if stored, err = outcome(r.admitter.Update(ctx, stored, stored)); err != nil {
			return broken(c, "initial", fmt.Errorf("write the initial object again: %w", err))
		}
	}
	updated, err := readObject(o.updated)
	if err != nil {
		return broken(c, "updated", err)
	}
	meta, _ := updated["metadata"].(map[string]any)
	storedMeta, _ := stored["metadata"].(map[string]any)
	for _, k := range []string{"name", "namespace"} {
		meta[k] = storedMeta[k]
	}
	got, err := outcome(r.admitter.Update(ctx, updated, stored))
	if done, f := expectError(c, "expectedError", err, o.expectedError); done {
		return f
	}
	if status, ok := updated["status"]; ok {
		got, err = writeStatus(ctx, r.admitter, got, status)
		if done, f := expectError(c, "expectedStatusError", err, o.expectedStatusError); done {
			return f
		}
	}
	return compareOpenShift(c, got, o.updated)
}

// initial creates the object that an update replaces.
func (r *Runner) initial(ctx context.Context, c *Case) (espalier.Object, *analysis.Finding) {
	o := c.openshift
	a := r.admitter
	if len(o.patches) > 0 {
		key := fmt.Sprint(o.patches)
		if a = r.patched[key]; a == nil {
			var err error
			if a, err = r.compile(ctx, o.patches); err != nil {
				return nil, broken(c, "initialCRDPatches", err)
			}
			r.patched[key] = a
		}
	}
	initial, err := readObject(o.initial)
	if err != nil {
		return nil, broken(c, "initial", err)
	}
	stored, err := outcome(a.Create(ctx, initial))
	if err != nil {
		return nil, broken(c, "initial", fmt.Errorf("create the initial object: %w", err))
	}
	if status, ok := initial["status"]; ok {
		if stored, err = writeStatus(ctx, a, stored, status); err != nil {
			return nil, broken(c, "initial", fmt.Errorf("write the initial status: %w", err))
		}
	}
	return stored, nil
}

func broken(c *Case, key string, err error) *analysis.Finding {
	f := failure(c, jsonptr.Child(c.Pointer, key), firstLine(err), restLines(err)...)
	return &f
}

// readObject reads an object and sets its name, as OpenShift's runner and the API server
// do.
func readObject(text string) (espalier.Object, error) {
	if err := yamlx.CheckExpanded([]byte(text), yamlx.DefaultMaxDocument); err != nil {
		return nil, err
	}
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return nil, err
	}
	v, err := jsonx.Parse(data)
	if err != nil {
		return nil, err
	}
	obj, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("must be an object")
	}
	meta, ok := obj["metadata"].(map[string]any)
	if !ok {
		meta = map[string]any{}
		obj["metadata"] = meta
	}
	meta["generateName"], meta["namespace"] = "test-", "default"
	if meta["name"] == nil {
		meta["name"] = "test-4x7bq"
	}
	return obj, nil
}

// outcome returns the stored object of a request, or its error.
func outcome(result *espalier.Result, err error) (espalier.Object, error) {
	if err != nil {
		return nil, err
	}
	var invalid *espalier.InvalidError
	if errors.As(result.Err(), &invalid) {
		return nil, &worded{error: invalid, earlier: earlierWording(invalid, result.Violations)}
	}
	return result.Object, nil
}

// writeStatus updates the status of a stored object.
func writeStatus(ctx context.Context, a *espalier.Admitter, stored espalier.Object, status any) (espalier.Object, error) {
	sent := maps.Clone(stored)
	sent["status"] = status
	return outcome(a.UpdateStatus(ctx, sent, stored))
}

// expectError compares err with the expected error. done reports whether the case ends
// here; the finding describes a mismatch.
func expectError(c *Case, key string, err error, want string) (done bool, _ *analysis.Finding) {
	var w *worded
	switch {
	case want == "" && err == nil:
		return false, nil
	case want == "":
		f := failure(c, c.Pointer, "rejected, but it should be accepted", strings.Split(err.Error(), "\n")...)
		return true, &f
	case err == nil:
		f := failure(c, jsonptr.Child(c.Pointer, key), "accepted, but it should be rejected", "- "+want)
		return true, &f
	case strings.Contains(err.Error(), want), errors.As(err, &w) && strings.Contains(w.earlier, want):
		return true, nil
	}
	f := failure(c, jsonptr.Child(c.Pointer, key), "rejected, but not for this reason", "- "+want, "+ "+err.Error())
	return true, &f
}

// worded is the error of an invalid object.
type worded struct {
	error
	// earlier is the message of earlier Kubernetes releases, for which many suites were
	// written.
	earlier string
}

// Unwrap returns the error.
func (w *worded) Unwrap() error { return w.error }

// earlierWording returns an error in the wording of earlier Kubernetes releases. For a rule
// violation, they printed the type of the value. They did not print composite values and
// null as JSON.
func earlierWording(invalid *espalier.InvalidError, violations schema.Violations) string {
	earlier := espalier.InvalidError{Kind: invalid.Kind, Name: invalid.Name}
	for _, v := range violations {
		for _, e := range (schema.Violations{v}).FieldErrors() {
			e := *e
			switch value := e.BadValue.(type) {
			case nil:
				e.BadValue = "null"
			case map[string]any:
				e.BadValue = goSyntax{value}
			}
			if v.Kind == schema.Rule {
				switch v.Value.(type) {
				case map[string]any:
					e.BadValue = "object"
				case []any:
					e.BadValue = "array"
				case string:
					e.BadValue = "string"
				case int64:
					e.BadValue = "integer"
				}
			}
			earlier.Errors = append(earlier.Errors, &e)
		}
	}
	return earlier.Error()
}

// goSyntax is a value that field.Error prints in Go syntax, because it cannot be marshaled
// to JSON.
type goSyntax struct{ value any }

// MarshalJSON returns an error, so that field.Error uses String.
func (g goSyntax) MarshalJSON() ([]byte, error) { return nil, errors.New("not JSON") }

// String returns the value in Go syntax.
func (g goSyntax) String() string { return fmt.Sprintf("%#v", g.value) }

// compareOpenShift compares an object with the expected one, except for fields that the API
// server generates. The default for the expected object is the one that was sent.
func compareOpenShift(c *Case, got espalier.Object, sent string) *analysis.Finding {
	key, text := "expected", c.openshift.expected
	if strings.TrimSpace(text) == "" {
		key, text = "initial", sent
		if c.openshift.update {
			key = "updated"
		}
	}
	want, err := readObject(text)
	if err != nil {
		return broken(c, key, err)
	}
	if lines := difference(want, got, nil); len(lines) > 0 {
		f := failure(c, jsonptr.Child(c.Pointer, key), "the stored object differs", lines...)
		return &f
	}
	return nil
}

// apply applies the operation to v, where path is the rest of its path.
func (p patch) apply(v any, path string) (any, error) {
	if path == "" {
		if p.Op == "replace" || p.Op == "add" {
			return p.Value, nil
		}
		return nil, fmt.Errorf("cannot %q here", p.Op)
	}
	token, rest := jsonptr.Cut(path)
	switch v := v.(type) {
	case map[string]any:
		child, ok := v[token]
		switch {
		case rest == "" && p.Op == "add":
			v[token] = p.Value
			return v, nil
		case !ok:
			return nil, fmt.Errorf("%q not found", token)
		case rest == "" && p.Op == "remove":
			delete(v, token)
			return v, nil
		}
		child, err := p.apply(child, rest)
		v[token] = child
		return v, err
	case []any:
		i, err := strconv.Atoi(token)
		if token == "-" && rest == "" && p.Op == "add" {
			i, err = len(v), nil
		}
		last := len(v)
		if rest == "" && p.Op == "add" {
			last++
		}
		if err != nil || i < 0 || i >= last {
			return nil, fmt.Errorf("element %q not found", token)
		}
		switch {
		case rest == "" && p.Op == "add":
			return slices.Insert(v, i, p.Value), nil
		case rest == "" && p.Op == "remove":
			return slices.Delete(v, i, i+1), nil
		}
		v[i], err = p.apply(v[i], rest)
		return v, err
	}
	return nil, fmt.Errorf("a %T has no fields", v)
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

func restLines(err error) []string {
	_, rest, ok := strings.Cut(err.Error(), "\n")
	if !ok {
		return nil
	}
	return strings.Split(rest, "\n")
}
