package builtin

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev"
	"espalier.dev/analysis"
	"espalier.dev/analysis/object"
	"espalier.dev/internal/jsonx"
	"espalier.dev/schema"
	"espalier.dev/server/builtin/kind"
)

// Admitter does what the API server does to objects of built-in kinds, for test suites.
type Admitter struct{ Checker *Checker }

// Create returns the object that is stored when obj is created.
func (a Admitter) Create(_ context.Context, obj schema.Object) (*espalier.Result, error) {
	return a.Checker.write("", obj, nil)
}

// Update returns the object that is stored when obj replaces old.
func (a Admitter) Update(_ context.Context, obj, old schema.Object) (*espalier.Result, error) {
	return a.Checker.write("", obj, old)
}

// UpdateStatus returns the object that is stored when the status of obj replaces that of old.
func (a Admitter) UpdateStatus(_ context.Context, obj, old schema.Object) (*espalier.Result, error) {
	return a.Checker.write("status", obj, old)
}

// write writes an object. The causes of its errors name the fields that are rejected.
func (c *Checker) write(subresource string, given, replaced schema.Object) (*espalier.Result, error) {
	rules, err := c.rules()
	if err != nil {
		return nil, err
	}
	source, err := json.Marshal(given)
	if err != nil {
		return nil, err
	}
	gvk, err := kindOf(source)
	if err != nil {
		return nil, err
	}
	obj, strict, err := rules.Decode(gvk, source)
	if err != nil {
		return nil, undecodable(c.decoding(gvk, source, err, object.Ignore), err)
	}
	result := &espalier.Result{}
	if len(strict) > 0 {
		result.Changes = c.compare(gvk, source, nil, object.Warn).pruned
	}
	var before kind.Object
	if replaced != nil {
		old, err := json.Marshal(replaced)
		if err != nil {
			return nil, err
		}
		if before, err = c.old(rules, obj, old); err != nil {
			return nil, err
		}
	}
	if result.Warnings, err = admit(rules, gvk, subresource, obj, before); err != nil {
		return nil, err
	}
	text, err := rules.Encode(gvk, obj)
	if err != nil {
		return nil, err
	}
	tree, err := jsonx.Parse(text)
	if err != nil {
		return nil, err
	}
	result.Object, _ = tree.(schema.Object)
	if subresource == "" && replaced["status"] == nil {
		delete(result.Object, "status") // it has only what Go or the server fills in
	}
	result.Changes = append(result.Changes, defaulted(given, result.Object)...)
	return result, nil
}

// undecodable returns the error about an object that cannot be decoded.
func undecodable(findings []analysis.Finding, err error) error {
	status := apierrors.NewBadRequest(err.Error())
	status.ErrStatus.Code = http.StatusBadRequest
	status.ErrStatus.Details = &metav1.StatusDetails{}
	for _, f := range findings {
		status.ErrStatus.Details.Causes = append(status.ErrStatus.Details.Causes, metav1.StatusCause{Type: metav1.CauseTypeTypeInvalid, Field: f.Path, Message: f.Message})
	}
	return status
}

// defaulted returns the fields that the API server has added to an object, without metadata and
// status.
func defaulted(given, stored schema.Object) (changes []schema.Change) {
	var path schema.Path
	var compare func(given, stored any)
	below := func(s schema.Step, f func()) {
		path = append(path, s)
		f()
		path = path[:len(path)-1]
	}
	compare = func(given, stored any) {
		switch stored := stored.(type) {
		case map[string]any:
			given, ok := given.(map[string]any)
			if !ok {
				return
			}
			for name, value := range stored {
				if len(path) == 0 && (name == "metadata" || name == "status") {
					continue
				}
				below(schema.Step{Key: name}, func() {
					before := given[name]
					if m, ok := value.(map[string]any); before == nil && !(ok && len(m) == 0) {
						changes = append(changes, schema.Change{Kind: schema.Defaulted, Path: slices.Clone(path)})
						return
					}
					compare(before, value)
				})
			}
		case []any:
			given, ok := given.([]any)
			if !ok || len(given) != len(stored) {
				return
			}
			for i := range stored {
				below(schema.Step{Kind: schema.Index, Index: i}, func() { compare(given[i], stored[i]) })
			}
		}
	}
	compare(given, stored)
	return changes
}
