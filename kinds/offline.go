package kinds

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/crd"
	"espalier.dev/internal/jsonx/typed"
	"espalier.dev/kinds/kind"
	"espalier.dev/kinds/pods"
	"espalier.dev/kinds/services"
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
	types   *Scheme
	rules   func(*Resource) kind.Rules
	decoder runtime.Decoder
	encoder runtime.Encoder
	// structs caches the fields of Go types.
	structs sync.Map
}

// NewOffline returns an Offline. The rules of a group are made when they are first used. cel is
// that of [Rules].
func NewOffline(cel CEL) (*Offline, error) {
	o := &Offline{rules: Rules(cel)}
	var err error
	if o.types, err = NewScheme(nil, nil); err != nil {
		return nil, err
	}
	s := json.NewSerializerWithOptions(metaFactory{}, o.types.Scheme, o.types.Scheme, json.SerializerOptions{Strict: true})
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
	r := ByKind(gvk)
	if r == nil {
		return nil, nil, fmt.Errorf("there is no built-in kind %s", gvk)
	}
	decoded, actual := o.decodeUsual(gvk, data), &gvk
	if decoded == nil {
		decoded, actual, err = o.decoder.Decode(data, &gvk, nil)
		if found, ok := runtime.AsStrictDecodingError(err); ok {
			strict, err = found.Errors(), nil
		}
		if err != nil {
			return nil, nil, err
		}
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

// decodeUsual decodes an object as the decoder does, in a fraction of its time. It returns nil if the object has
// problems, or is of another kind.
func (o *Offline) decodeUsual(gvk runtimeschema.GroupVersionKind, data []byte) runtime.Object {
	obj, err := o.types.New(gvk)
	if err != nil || !typed.Decode(data, obj) || obj.GetObjectKind().GroupVersionKind() != gvk {
		return nil
	}
	return obj
}

// Encode encodes an object that Decode has returned as JSON of the kind.
func (o *Offline) Encode(gvk runtimeschema.GroupVersionKind, obj kind.Object) ([]byte, error) {
	r := ByKind(gvk)
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
	Requester kind.User
}

// Write does what the API server does to an object before it is stored, and returns the warnings
// for the client. Errors are those of the API server.
func (o *Offline) Write(w OfflineWrite) (warnings []string, err error) {
	warnings, errs, err := o.validate(w)
	if len(errs) == 0 {
		return warnings, err
	}
	gvks, _, err := o.types.ObjectKinds(w.Object)
	if err != nil {
		return nil, err
	}
	return nil, apierrors.NewInvalid(gvks[0].GroupKind(), w.Object.GetName(), errs)
}

// validate is like Write, and returns the errors of validation as errs.
func (o *Offline) validate(w OfflineWrite) (warnings []string, errs field.ErrorList, err error) {
	r := ByKind(w.Kind)
	if r == nil {
		return nil, nil, fmt.Errorf("there is no built-in kind %s", w.Kind)
	}
	rules := o.rules(r)
	write, ok := rules.Write(w.Subresource)
	if !ok {
		return nil, nil, fmt.Errorf("the rules have no subresource %q", w.Subresource)
	}
	obj, old := w.Object, w.Old
	if old == nil {
		wipeSystemFields(obj)
	}
	expected := w.namespace(r)
	if r.Group == "" && r.Kind == "Namespace" {
		expected = ""
	}
	if err := matchNamespace(obj, expected); err != nil {
		return nil, nil, err
	}
	if old != nil {
		if err := checkResourceVersion(r, &rules, obj, old); err != nil {
			return nil, nil, err
		}
	} else if err := fillSystemFields(obj, rules.KeepsPrefix); err != nil {
		return nil, nil, err
	}
	if !r.Namespaced {
		expected = ""
	}
	if err := matchNamespace(obj, expected); err != nil {
		return nil, nil, err
	}
	if old != nil {
		errs = prepareUpdate(&write, r, obj, old)
	} else {
		errs = w.prepareCreate(&rules, &write, r)
	}
	if len(errs) > 0 {
		return nil, errs, nil
	}
	if write.Warnings != nil {
		warnings = write.Warnings(obj, old)
	}
	if write.Canonicalize != nil {
		write.Canonicalize(obj)
	}
	return warnings, nil, nil
}

// prepareCreate prepares and validates an object that is created.
func (w *OfflineWrite) prepareCreate(rules *kind.Rules, write *kind.Write, r *Resource) field.ErrorList {
	if write.Prepare != nil {
		write.Prepare(w.Object, nil)
	}
	if rules.Requester != nil {
		by := w.Requester
		if by == nil {
			by = administrator{}
		}
		rules.Requester(w.Object, by)
	}
	if write.Validate != nil {
		if errs := crd.BoundErrors(write.Validate(w.Object, nil)); len(errs) > 0 {
			return errs
		}
	}
	return validation.ValidateObjectMetaAccessor(w.Object, r.Namespaced, pathSegment, field.NewPath("metadata"))
}

// prepareUpdate prepares and validates an object that replaces another one.
func prepareUpdate(write *kind.Write, r *Resource, obj, old kind.Object) field.ErrorList {
	obj.SetGeneration(old.GetGeneration())
	if write.Prepare != nil {
		write.Prepare(obj, old)
	}
	// What a client cannot change.
	if obj.GetUID() == "" {
		obj.SetUID(old.GetUID())
	}
	if created := old.GetCreationTimestamp(); !created.IsZero() {
		obj.SetCreationTimestamp(created)
	}
	if deleted := old.GetDeletionTimestamp(); !deleted.IsZero() {
		obj.SetDeletionTimestamp(deleted)
	}
	if period := old.GetDeletionGracePeriodSeconds(); period != nil && obj.GetDeletionGracePeriodSeconds() == nil {
		obj.SetDeletionGracePeriodSeconds(period)
	}
	path := field.NewPath("metadata")
	errs := validation.ValidateObjectMetaAccessor(obj, r.Namespaced, pathSegment, path)
	errs = append(errs, validation.ValidateObjectMetaAccessorUpdate(obj, old, path)...)
	if write.Validate != nil {
		errs = append(errs, crd.BoundErrors(write.Validate(obj, old))...)
	}
	return errs
}

// pathSegment checks that a name can be a segment of a URL.
func pathSegment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}

// wipeSystemFields removes what a client cannot set when it creates an object.
func wipeSystemFields(obj kind.Object) {
	obj.SetCreationTimestamp(metav1.Time{})
	obj.SetUID("")
	obj.SetDeletionTimestamp(nil)
	obj.SetDeletionGracePeriodSeconds(nil)
	obj.SetSelfLink("")
}

// fillSystemFields sets what the server sets when an object is created.
func fillSystemFields(obj kind.Object, keepsPrefix bool) error {
	created, err := time.Parse(time.RFC3339, OfflineTime)
	if err != nil {
		return err
	}
	obj.SetUID(OfflineUID)
	obj.SetCreationTimestamp(metav1.NewTime(created))
	prefix := obj.GetGenerateName()
	if prefix == "" || obj.GetName() != "" {
		return nil
	}
	if keepsPrefix {
		obj.SetName(prefix)
		return nil
	}
	const longest = 63 // the server shortens the prefix
	obj.SetName(prefix[:min(len(prefix), longest-len(OfflineSuffix))] + OfflineSuffix)
	return nil
}

// matchNamespace gives an object the namespace of the request, and returns an error if it has
// another one.
func matchNamespace(obj kind.Object, expected string) error {
	if has := obj.GetNamespace(); has != "" && expected != "" && has != expected {
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	obj.SetNamespace(expected)
	return nil
}

// administrator is the user of a request that names none.
type administrator struct{}

func (administrator) GetName() string               { return "admin" }
func (administrator) GetUID() string                { return "" }
func (administrator) GetGroups() []string           { return []string{"system:masters", "system:authenticated"} }
func (administrator) GetExtra() map[string][]string { return nil }

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
func checkResourceVersion(r *Resource, rules *kind.Rules, obj, old kind.Object) error {
	version := obj.GetResourceVersion()
	switch {
	case version == "" && !rules.Conditional:
		obj.SetResourceVersion(old.GetResourceVersion())
	case version == "":
		return apierrors.NewInvalid(runtimeschema.GroupKind{Group: r.Group, Kind: r.Plural}, old.GetName(), field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), uint64(0), "must be specified for an update"),
		})
	case version != old.GetResourceVersion():
		return apierrors.NewConflict(r.GroupResource(), old.GetName(),
			errors.New("the object has been modified; please apply your changes to the latest version and try again"))
	}
	return nil
}
