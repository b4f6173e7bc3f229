package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/klog/v2"

	"espalier.dev/server/builtin/kind"
)

// What the reference gives to created objects.
const (
	generatedSuffix = "abcde"
	createdUID      = "00000000-0000-4000-8000-000000000001"
)

// requester is the user whose requests the reference runs.
var requester = &user.DefaultInfo{Name: "admin", Groups: []string{"system:masters", "system:authenticated"}}

var createdAt = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))

// strategy runs the rules of a kind as the registry does.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
	namespaced bool
	rules      *kind.Rules
	write      *kind.Write
}

func (s *strategy) NamespaceScoped() bool                                       { return s.namespaced }
func (s *strategy) AllowCreateOnUpdate(context.Context) bool                    { return s.rules.CreateOnUpdate }
func (s *strategy) AllowUnconditionalUpdate(context.Context) bool               { return !s.rules.Conditional }
func (s *strategy) PrepareForCreate(_ context.Context, obj runtime.Object)      { s.prepare(obj, nil) }
func (s *strategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) { s.prepare(obj, old) }
func (s *strategy) WarningsOnCreate(_ context.Context, obj runtime.Object) []string {
	return s.warnings(obj, nil)
}
func (s *strategy) WarningsOnUpdate(_ context.Context, obj, old runtime.Object) []string {
	return s.warnings(obj, old)
}
func (s *strategy) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	return s.validate(obj, nil)
}
func (s *strategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	return s.validate(obj, old)
}

func (s *strategy) Canonicalize(obj runtime.Object) {
	if s.write.Canonicalize != nil {
		s.write.Canonicalize(obj.(kind.Object))
	}
}

func (s *strategy) prepare(obj, old runtime.Object) {
	if s.write.Prepare != nil {
		before, _ := old.(kind.Object)
		s.write.Prepare(obj.(kind.Object), before)
	}
	if old == nil && s.rules.Requester != nil {
		s.rules.Requester(obj.(kind.Object), requester)
	}
}

func (s *strategy) validate(obj, old runtime.Object) field.ErrorList {
	if s.write.Validate == nil {
		return nil
	}
	before, _ := old.(kind.Object)
	return s.write.Validate(obj.(kind.Object), before)
}

func (s *strategy) warnings(obj, old runtime.Object) []string {
	if s.write.Warnings == nil {
		return nil
	}
	before, _ := old.(kind.Object)
	return s.write.Warnings(obj.(kind.Object), before)
}

// recorder collects warnings.
type recorder []string

// AddWarning implements warning.Recorder.
func (r *recorder) AddWarning(_, text string) { *r = append(*r, text) }

// Ours answers a request with the rules of this project, in the way of the reference.
func Ours(k *Kind, req *Request) (a *Answer) {
	a = &Answer{}
	defer func() {
		if r := recover(); r != nil {
			a = &Answer{Panic: fmt.Sprint(r), Stack: string(debug.Stack())}
		}
	}()
	var warnings recorder
	obj, err := run(k, req, &warnings)
	a.Warnings = warnings
	if err == nil {
		a.Object, err = encode(obj, k.stored())
	}
	if err == nil {
		return a
	}
	a.Error = err.Error()
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		s := status.Status()
		a.Error, a.Reason = s.Message, string(s.Reason)
		if s.Details != nil {
			for _, c := range s.Details.Causes {
				a.Errors = append(a.Errors, Cause{Type: string(c.Type), Field: c.Field, Message: c.Message})
			}
		}
	}
	return a
}

func encode(obj runtime.Object, gvk schema.GroupVersionKind) (json.RawMessage, error) {
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	text, err := json.Marshal(obj)
	return withoutClock(text), err
}

// decode decodes an object of a kind and fills in its defaults.
func decode(k *Kind, data []byte, gvk schema.GroupVersionKind) (kind.Object, error) {
	decoded, actual, err := codecs.UniversalDeserializer().Decode(data, &gvk, nil)
	if err != nil {
		if actual == nil {
			actual = &gvk
		}
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", actual.Kind, actual.Version, gvk.Kind, err))
	}
	if k.convert != nil && gvk != k.stored() {
		decoded = k.convert(decoded)
	}
	obj, ok := decoded.(kind.Object)
	if !ok || actual.Kind != gvk.Kind {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s", actual.Kind, actual.Version, gvk.Kind))
	}
	obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	if k.rules.Default != nil {
		k.rules.Default(obj)
	}
	return obj, nil
}

// run does what the API server does to an object before it is stored.
func run(k *Kind, req *Request, warnings *recorder) (kind.Object, error) {
	write, ok := k.rules.Subresources[req.Subresource]
	switch {
	case req.Subresource == "":
		write = k.rules.Main
	case req.Subresource == "status" && k.rules.Status != nil:
		write = *k.rules.Status
	case !ok:
		return nil, fmt.Errorf("the rules have no subresource %q", req.Subresource)
	}
	obj, err := decode(k, req.Object, k.requested())
	if err != nil {
		return nil, err
	}
	var old kind.Object
	namespace := req.Namespace
	if req.Op == "update" {
		if old, err = decode(k, req.Old, k.stored()); err != nil {
			return nil, err
		}
		if old.GetResourceVersion() == "" {
			old.SetResourceVersion("1")
		}
	}
	if k.Resource.Kind == "Namespace" {
		namespace = obj.GetName()
		if old != nil {
			namespace = old.GetName()
		}
	}
	s := &strategy{Scheme, names.SimpleNameGenerator, k.Namespaced, &k.rules, &write}
	// The registry logs duplicate errors, of which generated objects have many.
	ctx := klog.NewContext(context.Background(), klog.Logger{})
	ctx = genericapirequest.WithNamespace(ctx, namespace)
	ctx = warning.WithWarningRecorder(ctx, warnings)
	gvr := schema.GroupVersionResource{Group: k.Group, Version: k.Version, Resource: k.Resource.Resource}
	ctx = genericapirequest.WithRequestInfo(ctx, &genericapirequest.RequestInfo{
		IsResourceRequest: true, Verb: req.Op, APIPrefix: "apis", APIGroup: gvr.Group, APIVersion: gvr.Version,
		Namespace: namespace, Resource: gvr.Resource, Subresource: req.Subresource,
	})
	if old == nil {
		rest.WipeObjectMetaSystemFields(obj)
	}
	if err := rest.EnsureObjectNamespaceMatchesRequestNamespace(rest.ExpectedNamespaceForResource(namespace, gvr), obj); err != nil {
		return nil, err
	}
	if old != nil {
		if err := checkResourceVersion(ctx, s, gvr, obj, old); err != nil {
			return nil, err
		}
		return obj, rest.BeforeUpdate(s, ctx, obj, old)
	}
	obj.SetUID(createdUID)
	obj.SetCreationTimestamp(createdAt)
	if prefix := obj.GetGenerateName(); prefix != "" && obj.GetName() == "" && s.rules.KeepsPrefix {
		obj.SetName(prefix)
	} else if prefix != "" && obj.GetName() == "" {
		name := s.GenerateName(prefix)
		obj.SetName(name[:len(name)-len(generatedSuffix)] + generatedSuffix)
	}
	return obj, rest.BeforeCreate(s, ctx, obj)
}

// checkResourceVersion compares the versions of two objects as the store does.
func checkResourceVersion(ctx context.Context, s *strategy, gvr schema.GroupVersionResource, obj, old kind.Object) error {
	version := obj.GetResourceVersion()
	switch {
	case version == "" && s.AllowUnconditionalUpdate(ctx):
		obj.SetResourceVersion(old.GetResourceVersion())
	case version == "":
		return apierrors.NewInvalid(schema.GroupKind{Group: gvr.Group, Kind: gvr.Resource}, old.GetName(), field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), uint64(0), "must be specified for an update"),
		})
	case version != old.GetResourceVersion():
		return apierrors.NewConflict(gvr.GroupResource(), old.GetName(), errors.New("the object has been modified; please apply your changes to the latest version and try again"))
	}
	return nil
}
