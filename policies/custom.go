package policies

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/internal/jsonx"
	"espalier.dev/kinds"
	"espalier.dev/schema"
)

// stored returns an object that was written before as the API server serves it in a version: it is
// stored in the storage version, and converted from it.
func stored(v *crd.Version, obj schema.Object) (schema.Object, error) {
	d := v.Definition()
	apiVersion, _ := obj["apiVersion"].(string)
	gv, err := runtimeschema.ParseGroupVersion(apiVersion)
	if err != nil {
		return nil, err
	}
	from, storage := d.Version(gv.Version), d.Storage()
	if from == nil || gv.Group != d.Group() {
		return nil, fmt.Errorf("%s has no version %q", d.Name(), apiVersion)
	}
	if convertsByWebhook(d) {
		if from != v {
			return nil, errWebhook
		}
		storage = v
	} else if storage == nil {
		storage = v
	}
	for i, at := range slices.Compact([]*crd.Version{from, storage, v}) {
		p, err := at.Program()
		if err != nil {
			return nil, err
		}
		obj["apiVersion"] = at.GroupVersionKind().GroupVersion().String()
		if _, err := p.Normalize(obj, schema.DecodeOptions{FromStorage: true, WithoutDefaults: i > 0 && at != storage}); err != nil {
			return nil, err
		}
	}
	return obj, nil
}

var errWebhook = errors.New("a webhook converts between the versions, which cannot be called without a server")

// needsConversion is why a policy or a webhook for another version is not judged.
func needsConversion(gvk runtimeschema.GroupVersionKind) string {
	return fmt.Sprintf("needs the object in %s, and a webhook converts it", gvk.GroupVersion())
}

func convertsByWebhook(d *crd.Definition) bool {
	c := d.CRD().Spec.Conversion
	return c != nil && c.Strategy != api.NoneConverter
}

// customSubject is a request for a custom resource.
type customSubject struct {
	version  *crd.Version
	program  *schema.Program
	obj, was *unstructured.Unstructured
	status   bool
	given    schema.Object
	// equivalents returns the versions of a CRD that policies may match interchangeably.
	equivalents func(*crd.Definition) runtime.EquivalentResourceMapper
	// changed is set when a policy has changed the object, and err if the result is malformed.
	changed bool
	err     error
}

// newCustom decodes a request for a custom resource.
func (e *Evaluator) newCustom(d *crd.Definition, gvk runtimeschema.GroupVersionKind, r Request) (*customSubject, error) {
	v := d.Version(gvk.Version)
	if v == nil || !v.Served() {
		return nil, fmt.Errorf("%s does not serve version %q", d.Name(), gvk.Version)
	}
	p, err := v.Program()
	if err != nil {
		return nil, err
	}
	s := &customSubject{version: v, program: p, status: r.Subresource != "", equivalents: e.equivalentsOf}
	if s.status && (r.Subresource != "status" || !v.HasStatus() || r.Old == nil) {
		return nil, fmt.Errorf("version %s of %s has no subresource %q to update", v.Name(), d.Name(), r.Subresource)
	}
	var before schema.Object
	if r.Old != nil {
		value, err := jsonx.Parse(r.Old)
		if err != nil {
			return nil, fmt.Errorf("old object: %w", err)
		}
		before, _ = value.(schema.Object)
		if before, err = stored(v, before); err != nil {
			return nil, fmt.Errorf("old object: %w", err)
		}
		s.was = &unstructured.Unstructured{Object: before}
		setNamespace(s.was, d.Namespaced(), r.Namespace)
		if s.was.GetResourceVersion() == "" {
			s.was.SetResourceVersion("1")
		}
	}
	obj, _, err := p.Decode(r.Object, schema.DecodeOptions{Old: before})
	if err != nil {
		return nil, err
	}
	s.obj = &unstructured.Unstructured{Object: obj}
	s.given = runtime.DeepCopyJSON(obj)
	namespace := r.Namespace
	if s.was != nil {
		namespace = s.was.GetNamespace()
		if s.obj.GetResourceVersion() == "" {
			s.obj.SetResourceVersion(s.was.GetResourceVersion())
		}
	}
	setNamespace(s.obj, d.Namespaced(), namespace)
	return s, nil
}

func (s *customSubject) kind() runtimeschema.GroupVersionKind { return s.version.GroupVersionKind() }

func (s *customSubject) resource() runtimeschema.GroupVersionResource {
	return s.kind().GroupVersion().WithResource(s.version.Definition().Names().Plural)
}

func (s *customSubject) objects() (obj, old runtime.Object) {
	if s.was == nil {
		return s.obj, nil
	}
	return s.obj, s.was
}

func (s *customSubject) interfaces() admission.ObjectInterfaces { return customInterfaces{s} }

// mutated is called when the mutating policies have been applied.
func (s *customSubject) mutated() error {
	if s.changed && s.version.Definition().Semantics().NormalizesMutations() {
		s.normalize(s.obj)
	}
	return s.err
}

func (s *customSubject) encode() ([]byte, error) {
	return jsonx.Append(nil, map[string]any(s.obj.Object))
}

// prepare does what the API server does between mutating and validating admission, but for
// validation.
func (s *customSubject) prepare() error {
	switch {
	case s.status:
		s.version.PrepareStatusUpdate(s.obj.Object, s.was.Object)
	case s.was != nil:
		s.version.PrepareUpdate(s.obj.Object, s.was.Object)
	default:
		s.version.PrepareCreate(s.obj.Object)
		s.obj.SetUID(kinds.OfflineUID)
		if meta, ok := s.obj.Object["metadata"].(map[string]any); ok {
			meta["creationTimestamp"] = kinds.OfflineTime
		}
		if s.obj.GetName() == "" && s.obj.GetGenerateName() != "" {
			s.obj.SetName(s.obj.GetGenerateName() + kinds.OfflineSuffix)
		}
	}
	return nil
}

// result returns the object without what only a server knows.
func (s *customSubject) result() (schema.Object, error) {
	out := runtime.DeepCopyJSON(s.obj.Object)
	meta, _ := out["metadata"].(map[string]any)
	given, _ := s.given["metadata"].(map[string]any)
	remove := []string{"resourceVersion"}
	if s.was == nil {
		remove = append(remove, "uid", "creationTimestamp")
	}
	if given["name"] == nil && s.was == nil {
		remove = append(remove, "name")
	}
	for _, key := range remove {
		if key != "resourceVersion" || given[key] == nil {
			delete(meta, key)
		}
	}
	return out, nil
}

// customInterfaces is how admission plugins handle a custom resource.
type customInterfaces struct{ *customSubject }

var _ admission.ObjectInterfaces = customInterfaces{}

func (i customInterfaces) GetObjectCreater() runtime.ObjectCreater     { return i }
func (i customInterfaces) GetObjectTyper() runtime.ObjectTyper         { return i }
func (i customInterfaces) GetObjectDefaulter() runtime.ObjectDefaulter { return i }
func (i customInterfaces) GetObjectConvertor() runtime.ObjectConvertor { return i }
func (i customInterfaces) GetEquivalentResourceMapper() runtime.EquivalentResourceMapper {
	return i.equivalents(i.version.Definition())
}

// New implements [runtime.ObjectCreater].
func (i customInterfaces) New(gvk runtimeschema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	return u, nil
}

// ObjectKinds implements [runtime.ObjectTyper].
func (i customInterfaces) ObjectKinds(obj runtime.Object) ([]runtimeschema.GroupVersionKind, bool, error) {
	gvk := obj.GetObjectKind().GroupVersionKind()
	switch {
	case gvk.Kind == "":
		return nil, false, runtime.NewMissingKindErr("object has no kind field")
	case gvk.Version == "":
		return nil, false, runtime.NewMissingVersionErr("object has no apiVersion field")
	}
	return []runtimeschema.GroupVersionKind{gvk}, false, nil
}

// Recognizes implements [runtime.ObjectTyper].
func (i customInterfaces) Recognizes(runtimeschema.GroupVersionKind) bool { return true }

// Default implements [runtime.ObjectDefaulter]: it normalizes an object that a policy has changed, or
// fills in its defaults, as the semantics has it.
func (s *customSubject) Default(in runtime.Object) {
	s.changed = true
	obj, ok := in.(*unstructured.Unstructured)
	if !ok || obj.GroupVersionKind().GroupKind() != s.kind().GroupKind() {
		return
	}
	if s.version.Definition().Semantics().NormalizesMutations() {
		s.normalize(obj)
		return
	}
	if v := s.version.Definition().Version(obj.GroupVersionKind().Version); v != nil {
		if p, err := v.Program(); err == nil {
			if err := p.Default(obj.Object); err != nil && s.err == nil {
				s.err = apierrors.NewRequestEntityTooLargeError(err.Error())
			}
		}
	}
}

func (s *customSubject) normalize(obj *unstructured.Unstructured) {
	v := s.version.Definition().Version(obj.GroupVersionKind().Version)
	if v == nil {
		return
	}
	p, err := v.Program()
	if err != nil {
		return
	}
	o := schema.DecodeOptions{}
	if s.was != nil {
		o.Old, _ = s.convert(s.was.Object, v.GroupVersionKind().GroupVersion())
	}
	if _, err := p.Normalize(obj.Object, o); err != nil && s.err == nil {
		s.err = apierrors.NewBadRequest(fmt.Sprintf("the object is malformed after the changes of mutating admission: %v", err))
	}
}

// convert returns an object in another version.
func (s *customSubject) convert(obj schema.Object, to runtimeschema.GroupVersion) (schema.Object, error) {
	if obj["apiVersion"] == any(to.String()) {
		return obj, nil
	}
	d := s.version.Definition()
	if convertsByWebhook(d) {
		return nil, errWebhook
	}
	v := d.Version(to.Version)
	if v == nil || to.Group != d.Group() {
		return nil, fmt.Errorf("%s has no version %s", d.Name(), to)
	}
	p, err := v.Program()
	if err != nil {
		return nil, err
	}
	out := runtime.DeepCopyJSON(obj)
	out["apiVersion"] = to.String()
	_, err = p.Normalize(out, schema.DecodeOptions{WithoutDefaults: true, FromStorage: true})
	return out, err
}

// ConvertToVersion implements [runtime.ObjectConvertor].
func (s *customSubject) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	obj, ok := in.(*unstructured.Unstructured)
	if !ok {
		return in, nil
	}
	gvk := obj.GroupVersionKind()
	to, ok := target.KindForGroupVersionKinds([]runtimeschema.GroupVersionKind{gvk})
	if !ok {
		return nil, fmt.Errorf("%s cannot be converted to %s", gvk, target)
	}
	out, err := s.convert(runtime.DeepCopyJSON(obj.Object), to.GroupVersion())
	if err != nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: out}, nil
}

// Convert implements [runtime.ObjectConvertor].
func (s *customSubject) Convert(in, out, _ any) error {
	from, ok := in.(*unstructured.Unstructured)
	into, ok2 := out.(*unstructured.Unstructured)
	if !ok || !ok2 {
		return fmt.Errorf("%v cannot be converted to %v", reflect.TypeOf(in), reflect.TypeOf(out))
	}
	d := s.version.Definition()
	if gvk := from.GroupVersionKind(); gvk.Group != d.Group() || d.Version(gvk.Version) == nil {
		return fmt.Errorf("request to convert CR from an invalid group/version: %s", gvk.GroupVersion())
	}
	gv := into.GroupVersionKind().GroupVersion()
	if gv.Empty() {
		gv = from.GroupVersionKind().GroupVersion()
	}
	obj, err := s.convert(runtime.DeepCopyJSON(from.Object), gv)
	if err != nil {
		return err
	}
	into.Object = obj
	return nil
}

// ConvertFieldLabel implements [runtime.ObjectConvertor].
func (s *customSubject) ConvertFieldLabel(_ runtimeschema.GroupVersionKind, label, value string) (string, string, error) {
	return runtime.DefaultMetaV1FieldSelectorConversion(label, value)
}

// metadataOf returns the metadata of a request's object.
func metadataOf(obj runtime.Object) metav1.Object {
	m, _ := obj.(metav1.Object)
	return m
}
