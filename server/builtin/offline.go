package builtin

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/klog/v2"

	"espalier.dev/server/builtin/kind"
	"espalier.dev/server/builtin/pods"
	"espalier.dev/server/builtin/services"
)

// What Offline gives to created objects in place of random values and the time of day.
const (
	OfflineSuffix = "abcde"
	OfflineUID    = "00000000-0000-4000-8000-000000000001"
	OfflineTime   = "2026-01-01T00:00:00Z"
)

// Offline does to objects of the built-in kinds what the server does before it stores them: it
// decodes them, fills in defaults, prepares and validates them. It needs no server, and does
// nothing that depends on one: admission plugins do not run, and services get no IPs and ports.
// It is safe for concurrent use.
type Offline struct {
	types   *types
	rules   func(*Resource) kind.Rules
	byKind  map[runtimeschema.GroupVersionKind]*Resource
	decoder runtime.Decoder
	encoder runtime.Encoder
}

// NewOffline returns an Offline. The rules of a group are made when they are first used.
func NewOffline() (*Offline, error) {
	o := &Offline{rules: Rules(), byKind: map[runtimeschema.GroupVersionKind]*Resource{}}
	for _, r := range Resources() {
		o.byKind[r.GroupVersionKind()] = r
	}
	var err error
	if o.types, err = newTypes(nil, nil); err != nil {
		return nil, err
	}
	s := json.NewSerializerWithOptions(json.DefaultMetaFactory, o.types.Scheme, o.types.Scheme, json.SerializerOptions{Strict: true})
	o.decoder, o.encoder = s, s
	return o, nil
}

// New returns an empty object of a kind.
func (o *Offline) New(gvk runtimeschema.GroupVersionKind) (runtime.Object, error) {
	return o.types.New(gvk)
}

// Decode decodes an object of a kind from JSON, converts it to the kind that is stored, and fills
// in its defaults. strict lists unknown and duplicate fields.
func (o *Offline) Decode(gvk runtimeschema.GroupVersionKind, data []byte) (obj kind.Object, strict []error, err error) {
	r := o.byKind[gvk]
	if r == nil {
		return nil, nil, fmt.Errorf("there is no built-in kind %s", gvk)
	}
	decoded, actual, err := o.decoder.Decode(data, &gvk, nil)
	if found, ok := runtime.AsStrictDecodingError(err); ok {
		strict, err = found.Errors(), nil
	}
	if err != nil {
		return nil, nil, err
	}
	if r.Stored.Kind != "" {
		conversions := o.types.conversions[reflect.TypeOf(decoded)]
		if i := slices.IndexFunc(conversions, func(c conversion) bool { return c.to == r.Stored }); i >= 0 {
			decoded = conversions[i].convert(decoded)
		}
	}
	obj, ok := decoded.(kind.Object)
	if !ok || *actual != gvk {
		return nil, nil, fmt.Errorf("%s in version %q is not a %s", actual.Kind, actual.Version, gvk.Kind)
	}
	obj.GetObjectKind().SetGroupVersionKind(runtimeschema.GroupVersionKind{})
	if f := o.rules(r).Default; f != nil {
		f(obj)
	}
	return obj, strict, nil
}

// Encode encodes an object that Decode has returned as JSON of the kind.
func (o *Offline) Encode(gvk runtimeschema.GroupVersionKind, obj kind.Object) ([]byte, error) {
	r := o.byKind[gvk]
	if r == nil {
		return nil, fmt.Errorf("there is no built-in kind %s", gvk)
	}
	var encoded runtime.Object = obj.DeepCopyObject()
	if r.Stored.Kind != "" {
		conversions := o.types.conversions[reflect.TypeOf(encoded)]
		if i := slices.IndexFunc(conversions, func(c conversion) bool { return c.to == gvk }); i >= 0 {
			encoded = conversions[i].convert(encoded)
		}
	}
	encoded.GetObjectKind().SetGroupVersionKind(gvk)
	return runtime.Encode(o.encoder, encoded)
}

// OfflineWrite is a request that writes an object.
type OfflineWrite struct {
	// Kind is the kind of the request, and Subresource the subresource, if any.
	Kind        runtimeschema.GroupVersionKind
	Subresource string
	// Namespace is the namespace of the request. If it is empty, it is that of the object, or
	// default.
	Namespace string
	// Object and Old are decoded objects. Old is nil if the object is created. Write changes
	// Object to what would be stored.
	Object, Old kind.Object
	// Requester is the user who sends the request; an administrator, if it is nil.
	Requester user.Info
}

// Write does what the API server does to an object before it is stored, and returns the warnings
// for the client. Errors are those of the API server.
func (o *Offline) Write(w OfflineWrite) (warnings []string, err error) {
	r := o.byKind[w.Kind]
	if r == nil {
		return nil, fmt.Errorf("there is no built-in kind %s", w.Kind)
	}
	rules := o.rules(r)
	write, ok := rules.Subresources[w.Subresource]
	switch {
	case w.Subresource == "":
		write = rules.Main
	case w.Subresource == "status" && rules.Status != nil:
		write = *rules.Status
	case !ok:
		return nil, fmt.Errorf("the rules have no subresource %q", w.Subresource)
	}
	obj, old := w.Object, w.Old
	namespace := w.namespace(r)
	s := &strategy{ObjectTyper: o.types.Scheme, NameGenerator: nameGenerator(&rules), resource: r, rules: &rules, write: &write}
	gvr := r.GroupVersionResource()
	// The registry logs duplicate errors, of which a caller can cause many.
	ctx := klog.NewContext(context.Background(), klog.Logger{})
	ctx = apirequest.WithNamespace(ctx, namespace)
	ctx = warning.WithWarningRecorder(ctx, (*recorder)(&warnings))
	if w.Requester == nil {
		w.Requester = &user.DefaultInfo{Name: "admin", Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}
	}
	ctx = apirequest.WithUser(ctx, w.Requester)
	verb := "create"
	if old != nil {
		verb = "update"
	} else {
		rest.WipeObjectMetaSystemFields(obj)
	}
	ctx = apirequest.WithRequestInfo(ctx, &apirequest.RequestInfo{
		IsResourceRequest: true, Verb: verb, APIPrefix: "apis", APIGroup: gvr.Group, APIVersion: gvr.Version,
		Namespace: namespace, Resource: gvr.Resource, Subresource: w.Subresource,
	})
	if err := rest.EnsureObjectNamespaceMatchesRequestNamespace(rest.ExpectedNamespaceForResource(namespace, gvr), obj); err != nil {
		return nil, err
	}
	if old != nil {
		if err := checkResourceVersion(ctx, s, gvr, obj, old); err != nil {
			return nil, err
		}
		err = rest.BeforeUpdate(s, ctx, obj, old)
		return warnings, err
	}
	obj.SetUID(OfflineUID)
	created, err := time.Parse(time.RFC3339, OfflineTime)
	if err != nil {
		return nil, err
	}
	obj.SetCreationTimestamp(metav1.NewTime(created))
	if prefix := obj.GetGenerateName(); prefix != "" && obj.GetName() == "" {
		name := s.GenerateName(prefix)
		if !rules.KeepsPrefix {
			name = name[:len(name)-len(OfflineSuffix)] + OfflineSuffix
		}
		obj.SetName(name)
	}
	err = rest.BeforeCreate(s, ctx, obj)
	return warnings, err
}

// namespace returns the namespace of the request.
func (w *OfflineWrite) namespace(r *Resource) string {
	switch {
	case r.Group == "" && r.Kind == "Namespace" && w.Old != nil:
		return w.Old.GetName()
	case r.Group == "" && r.Kind == "Namespace":
		return w.Object.GetName()
	case w.Namespace != "":
		return w.Namespace
	case !r.Namespaced:
		return ""
	case w.Object.GetNamespace() != "":
		return w.Object.GetNamespace()
	}
	return metav1.NamespaceDefault
}

// Begin does what the API server does before [Offline.Write], as far as validation depends on it:
// it completes the IP families of services, and keeps the values that were allocated for the old
// service. Pods get a service account, as from the ServiceAccount admission plugin, until finish.
// Managed fields that cannot be decoded are dropped. The errors are those of the API server. It may
// change old. Call finish after Write.
func (o *Offline) Begin(obj, old kind.Object) (finish func(), err error) {
	if managedfields.ValidateManagedFields(obj.GetManagedFields()) != nil {
		obj.SetManagedFields(nil)
	}
	switch obj := obj.(type) {
	case *corev1.Service:
		before, _ := old.(*corev1.Service)
		return services.Complete(obj, before)
	case *corev1.Pod:
		before, _ := old.(*corev1.Pod)
		return completePod(obj, before), nil
	}
	return func() {}, nil
}

// completePod gives a new pod a service account, and an old one that has none, because it comes
// from a file. finish takes it away again.
func completePod(pod, old *corev1.Pod) (finish func()) {
	all := []*corev1.Pod{pod}
	if old != nil && old.Spec.ServiceAccountName == "" {
		all = append(all, old)
	} else if old != nil {
		all = nil // an update must repeat the account
	}
	all = slices.DeleteFunc(all, func(p *corev1.Pod) bool { return !pods.SetDefaultAccount(p) })
	return func() {
		for _, p := range all {
			p.Spec.ServiceAccountName, p.Spec.DeprecatedServiceAccount = "", ""
		}
	}
}

// checkResourceVersion compares the versions of two objects as the store does.
func checkResourceVersion(ctx context.Context, s *strategy, gvr runtimeschema.GroupVersionResource, obj, old kind.Object) error {
	version := obj.GetResourceVersion()
	switch {
	case version == "" && s.AllowUnconditionalUpdate(ctx):
		obj.SetResourceVersion(old.GetResourceVersion())
	case version == "":
		return apierrors.NewInvalid(runtimeschema.GroupKind{Group: gvr.Group, Kind: gvr.Resource}, old.GetName(), field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), uint64(0), "must be specified for an update"),
		})
	case version != old.GetResourceVersion():
		return apierrors.NewConflict(gvr.GroupResource(), old.GetName(), errors.New("the object has been modified; please apply your changes to the latest version and try again"))
	}
	return nil
}

// recorder collects warnings.
type recorder []string

// AddWarning implements warning.Recorder.
func (r *recorder) AddWarning(_, text string) { *r = append(*r, text) }
