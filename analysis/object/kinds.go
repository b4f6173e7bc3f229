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
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev"
	"espalier.dev/analysis"
	"espalier.dev/api"
	"espalier.dev/internal/jsonx"
	"espalier.dev/kinds"
	"espalier.dev/kinds/admissionregistration"
	"espalier.dev/kinds/kind"
	"espalier.dev/schema"
)

// KindChecker does for the objects of Kubernetes' own kinds what a [Checker] does for those of a
// CRD. It is safe for concurrent use.
type KindChecker struct {
	rules func() (*kinds.Offline, error)
	// structs caches the fields of Go types.
	structs sync.Map
}

// ForKinds returns a KindChecker. It makes the rules when the first object is checked.
func ForKinds(cel admissionregistration.CEL) *KindChecker {
	return &KindChecker{rules: sync.OnceValues(func() (*kinds.Offline, error) { return kinds.NewOffline(cel) })}
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

func (c *KindChecker) check(source []byte, old schema.Object, fields FieldValidation) (findings []analysis.Finding, _ error) {
	r, err := c.decode(source)
	if err != nil {
		return nil, err
	}
	if r.undecodable != nil || r.strict && fields != Ignore {
		findings = c.compare(r, fields).findings
	}
	if r.undecodable != nil || kinds.ByKind(r.kind).CreateOnly {
		return findings, nil
	}
	if err := r.replace(old); err != nil {
		return findings, fmt.Errorf("cannot decode the old object: %w", err)
	}
	warnings, err := r.write("")
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

// kindRequest is a request that creates an object or, with old, replaces old with it.
type kindRequest struct {
	rules    *kinds.Offline
	kind     runtimeschema.GroupVersionKind
	source   []byte
	obj, old kind.Object
	// strict is set if the object has unknown or duplicate fields.
	strict bool
	// undecodable is set if the object cannot be decoded.
	undecodable error
}

// decode returns the request that creates an object.
func (c *KindChecker) decode(source []byte) (r *kindRequest, err error) {
	r = &kindRequest{source: source}
	if r.rules, err = c.rules(); err != nil {
		return nil, err
	}
	if r.kind, err = kindOf(source); err != nil {
		return nil, err
	}
	obj, strict, err := r.rules.Decode(r.kind, source)
	r.obj, r.strict, r.undecodable = obj, len(strict) > 0, err
	return r, nil
}

// kindOf returns the kind of an object in JSON.
func kindOf(source []byte) (runtimeschema.GroupVersionKind, error) {
	id, err := api.Identify(source)
	return runtimeschema.FromAPIVersionAndKind(id.APIVersion, id.Kind), err
}

// replace sets the object that is replaced, unless it is nil. It gives both objects the metadata
// that a server sets, as far as they lack it: files often do.
func (r *kindRequest) replace(replaced schema.Object) error {
	if replaced == nil {
		return nil
	}
	source, err := json.Marshal(replaced)
	if err != nil {
		return err
	}
	gvk, err := kindOf(source)
	if err != nil {
		return err
	}
	old, _, err := r.rules.Decode(gvk, source)
	if err != nil {
		return err
	}
	obj, namespaced := r.obj, kinds.ByKind(gvk).Namespaced
	if old.GetUID() == "" {
		old.SetUID(obj.GetUID())
	}
	if old.GetUID() == "" {
		old.SetUID(kinds.OfflineUID)
	}
	if old.GetCreationTimestamp().Time.IsZero() {
		old.SetCreationTimestamp(obj.GetCreationTimestamp())
	}
	if namespaced && old.GetNamespace() == "" {
		old.SetNamespace(obj.GetNamespace())
		if old.GetNamespace() == "" {
			old.SetNamespace(metav1.NamespaceDefault)
		}
	}
	if namespaced && obj.GetNamespace() == "" {
		obj.SetNamespace(old.GetNamespace())
	}
	if old.GetResourceVersion() == "" {
		old.SetResourceVersion("1")
	}
	obj.SetResourceVersion(old.GetResourceVersion())
	if obj.GetName() == "" && old.GetName() == "" && obj.GetGenerateName() != "" {
		name := obj.GetGenerateName() + kinds.OfflineSuffix
		obj.SetName(name)
		old.SetName(name)
	}
	r.old = old
	return nil
}

// write does what the API server does before it stores the object, and returns its warnings. Errors
// are those of the API server.
func (r *kindRequest) write(subresource string) ([]string, error) {
	if subresource == "" {
		finish, err := r.rules.Begin(r.obj, r.old)
		if err != nil {
			return nil, err
		}
		defer finish()
	}
	return r.rules.Write(kinds.OfflineWrite{Kind: r.kind, Subresource: subresource, Object: r.obj, Old: r.old})
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

// UpdateStatus is like Create, and returns the object that is stored when the status of obj
// replaces that of old.
func (c *KindChecker) UpdateStatus(_ context.Context, obj, old schema.Object) (*espalier.Result, error) {
	return c.write("status", obj, old)
}

func (c *KindChecker) write(subresource string, given, replaced schema.Object) (*espalier.Result, error) {
	source, err := json.Marshal(given)
	if err != nil {
		return nil, err
	}
	r, err := c.decode(source)
	if err != nil {
		return nil, err
	}
	if r.undecodable != nil {
		return nil, undecodable(c.compare(r, Ignore).findings, r.undecodable)
	}
	result := &espalier.Result{}
	if r.strict {
		result.Changes = c.compare(r, Warn).pruned
	}
	if err := r.replace(replaced); err != nil {
		return nil, err
	}
	if result.Warnings, err = r.write(subresource); err != nil {
		return nil, err
	}
	text, err := r.rules.Encode(r.kind, r.obj)
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
