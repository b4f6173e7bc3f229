package object

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev"
	"espalier.dev/analysis"
	"espalier.dev/api"
	"espalier.dev/internal/jsonx"
	"espalier.dev/schema"
)

// Kinds are Kubernetes' own kinds. They are injected: their rules need packages that no part of
// analysis may depend on.
type Kinds interface {
	// New returns an empty object of a kind, of the Go type that objects are decoded to.
	New(kind runtimeschema.GroupVersionKind) (runtime.Object, error)
	// Decode decodes an object of a kind from JSON. strict reports whether it has unknown or
	// duplicate fields.
	Decode(kind runtimeschema.GroupVersionKind, source []byte) (obj KindObject, strict bool, err error)
}

// KindObject is an object of one of Kubernetes' own kinds.
type KindObject interface {
	// Stored reports whether the API server stores such objects. It only answers others, such as
	// reviews.
	Stored() bool
	// Replace sets the object that this one replaces, which is JSON. Without it, the object is
	// created.
	Replace(old []byte) error
	// Write does what the API server does before it stores the object, and returns its warnings.
	// Errors are those of the API server.
	Write(subresource string) (warnings []string, err error)
	// Encode returns the object as JSON.
	Encode() ([]byte, error)
}

// KindChecker does for the objects of Kubernetes' own kinds what a [Checker] does for those of a
// CRD. It is safe for concurrent use.
type KindChecker struct {
	kinds func() (Kinds, error)
	// structs caches the fields of Go types.
	structs sync.Map
}

// ForKinds returns a KindChecker. It calls kinds when the first object is checked.
func ForKinds(kinds func() (Kinds, error)) *KindChecker {
	return &KindChecker{kinds: sync.OnceValues(kinds)}
}

// Check is like [Checker.Check]. Objects that the API server does not store, such as reviews, are
// only decoded.
func (c *KindChecker) Check(_ context.Context, source []byte, old schema.Object, fields FieldValidation) []analysis.Finding {
	findings, err := c.check(source, old, fields)
	if err != nil {
		findings = append(findings, analysis.Finding{Rule: RuleDecode, Severity: analysis.Error, Message: err.Error()})
	}
	return findings
}

func (c *KindChecker) check(source []byte, replaced schema.Object, fields FieldValidation) (findings []analysis.Finding, _ error) {
	kinds, err := c.kinds()
	if err != nil {
		return nil, err
	}
	gvk, err := kindOf(source)
	if err != nil {
		return nil, err
	}
	obj, strict, err := kinds.Decode(gvk, source)
	if err != nil || strict && fields != Ignore {
		findings = c.compare(kinds, gvk, source, err, fields).findings
	}
	if err != nil || !obj.Stored() {
		return findings, nil
	}
	if err := replace(obj, replaced); err != nil {
		return findings, fmt.Errorf("cannot decode the old object: %w", err)
	}
	warnings, err := obj.Write("")
	if err == nil && len(warnings) == 0 {
		return findings, nil
	}
	// It can fail for numbers that no field has: then paths are located without the object.
	tree, _ := jsonx.Parse(source)
	for _, text := range warnings {
		findings = append(findings, warningFinding(text, tree))
	}
	if err != nil {
		findings = append(findings, errorFindings(err, tree)...)
	}
	return findings, nil
}

// kindOf returns the kind of an object in JSON.
func kindOf(source []byte) (runtimeschema.GroupVersionKind, error) {
	id, err := api.Identify(source)
	return runtimeschema.FromAPIVersionAndKind(id.APIVersion, id.Kind), err
}

// replace makes obj replace old, unless that is nil.
func replace(obj KindObject, old schema.Object) error {
	if old == nil {
		return nil
	}
	source, err := json.Marshal(old)
	if err != nil {
		return err
	}
	return obj.Replace(source)
}

// errorFindings converts an error of the API server to findings about the object in tree.
func errorFindings(err error, tree any) (findings []analysis.Finding) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
		return []analysis.Finding{{Rule: RuleInvalid, Severity: analysis.Error, Message: err.Error()}}
	}
	for _, cause := range status.Status().Details.Causes {
		f := analysis.Finding{Rule: CauseRule(cause), Severity: analysis.Error}
		if cause.Field != "<nil>" {
			f.Path = cause.Field
		}
		f.Pointer, _ = locate(f.Path, tree)
		f.Message, f.Detail = split(cause.Message)
		findings = append(findings, f)
	}
	return findings
}

// split splits a message into its first line and the others.
func split(message string) (first string, rest []string) {
	lines := strings.Split(strings.TrimRight(message, "\n"), "\n")
	return lines[0], lines[1:]
}

// warningFinding returns the finding about a warning of the API server. Many warnings begin with
// the path of a field.
func warningFinding(text string, tree any) analysis.Finding {
	f := serverWarning("", "", "")
	f.Message, f.Detail = split(text)
	end := strings.IndexAny(f.Message, ": ")
	if end <= 0 {
		return f
	}
	path := f.Message[:end]
	pointer, exact := locate(path, tree)
	rest, prefix := strings.CutPrefix(f.Message[end:], ": ")
	// Some names differ from those in the object: storageOS is storageos.
	if !exact && !(prefix && (strings.HasPrefix(path, "spec.") || strings.HasPrefix(path, "metadata."))) {
		return f
	}
	f.Path, f.Pointer = path, pointer
	if prefix {
		f.Message = rest
	}
	return f
}

// Create returns the object that is stored when obj is created. The causes of its errors name the
// fields that are rejected.
func (c *KindChecker) Create(_ context.Context, obj schema.Object) (*espalier.Result, error) {
	return c.write("", obj, nil)
}

// Update is like Create, and returns the object that is stored when obj replaces old.
func (c *KindChecker) Update(_ context.Context, obj, old schema.Object) (*espalier.Result, error) {
	return c.write("", obj, old)
}

// UpdateStatus is like Create, and returns the object that is stored when the status of obj replaces
// that of old.
func (c *KindChecker) UpdateStatus(_ context.Context, obj, old schema.Object) (*espalier.Result, error) {
	return c.write("status", obj, old)
}

func (c *KindChecker) write(subresource string, given, replaced schema.Object) (*espalier.Result, error) {
	kinds, err := c.kinds()
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
	obj, strict, err := kinds.Decode(gvk, source)
	if err != nil {
		return nil, undecodable(c.compare(kinds, gvk, source, err, Ignore).findings, err)
	}
	result := &espalier.Result{}
	if strict {
		result.Changes = c.compare(kinds, gvk, source, nil, Warn).pruned
	}
	if err := replace(obj, replaced); err != nil {
		return nil, err
	}
	if result.Warnings, err = obj.Write(subresource); err != nil {
		return nil, err
	}
	text, err := obj.Encode()
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
		cause := metav1.StatusCause{Type: metav1.CauseTypeTypeInvalid, Field: f.Path, Message: f.Message}
		status.ErrStatus.Details.Causes = append(status.ErrStatus.Details.Causes, cause)
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
