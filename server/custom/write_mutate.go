package custom

import (
	"context"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/endpoints/handlers"

	"espalier.dev/crd"
	"espalier.dev/schema"
	"espalier.dev/server/served"
)

// mutation is what admission plugins use to change the object of one request. They call the
// defaulter after each change. In kep semantics it also normalizes the object: the next plugin
// sees no unknown fields, and values of the right types.
type mutation struct {
	*handlers.RequestScope
	kind *customKind
	// old is the object that is replaced, or nil.
	old *unstructured.Unstructured
	// changed is set when a plugin has changed the object. err is set if the result was
	// malformed, and stop ends the context of the plugins then: none sees the object.
	changed bool
	err     error
	stop    context.CancelFunc
}

var _ admission.ObjectInterfaces = &mutation{}

// mutate runs the mutating plugins, and reports whether one of them may have changed the object.
func (w *write) mutate(ctx context.Context, plugins admission.MutationInterface, obj, old *unstructured.Unstructured) (bool, error) {
	a := w.attributesOf(ctx, obj, old, itself)
	err := runMutation(ctx, w.kind, w.scope, plugins, a, obj, old)
	w.observer.admitted(a)
	return a.wasSeen(), err
}

// Mutate runs mutating plugins on an object of a CRD for a request of the server itself.
func (h *Handler) Mutate(ctx context.Context, d *crd.Definition, version string, plugins admission.MutationInterface, a admission.Attributes) error {
	s, err := h.acquire(d)
	if err != nil {
		return err
	}
	defer s.requests.Release()
	e, err := s.endpoint(version)
	if err != nil {
		return err
	}
	obj, _ := a.GetObject().(*unstructured.Unstructured) // a CRD is none
	old, _ := a.GetOldObject().(*unstructured.Unstructured)
	return runMutation(ctx, e.kind, e.scope, plugins, a, obj, old)
}

// runMutation runs mutating plugins with attributes.
func runMutation(ctx context.Context, k Kind, scope *handlers.RequestScope, plugins admission.MutationInterface,
	a admission.Attributes, obj, old *unstructured.Unstructured) error {
	kind, ok := k.(*customKind)
	if !ok {
		return plugins.Admit(ctx, a, scope)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	m := &mutation{RequestScope: scope, kind: kind, old: old, stop: stop}
	err := plugins.Admit(ctx, a, m)
	if err == nil && m.changed && kind.Definition().Semantics().NormalizesMutations() {
		m.normalize(obj)
	}
	if m.err != nil {
		return m.err
	}
	return err
}

// GetObjectDefaulter returns what normalizes the object after a change.
func (m *mutation) GetObjectDefaulter() runtime.ObjectDefaulter { return m }

// Default normalizes an object, or applies its defaults, in the version in which a plugin has changed it.
func (m *mutation) Default(in runtime.Object) {
	m.changed = true
	obj, ok := in.(*unstructured.Unstructured)
	if !ok || obj.GroupVersionKind().GroupKind() != m.kind.GroupVersionKind().GroupKind() {
		m.RequestScope.Defaulter.Default(in)
		return // its kind is validated later
	}
	m.normalize(obj)
}

func (m *mutation) normalize(obj *unstructured.Unstructured) {
	gv := obj.GroupVersionKind().GroupVersion()
	changed, err := m.kind.kinds.kind(gv.Version)
	if err != nil {
		return // as above
	}
	kind := changed.(*customKind)
	if !kind.Definition().Semantics().NormalizesMutations() {
		m.fail(kind.applyDefaults(obj.Object))
		return
	}
	o := schema.DecodeOptions{}
	if m.old != nil {
		// A conversion that fails leaves nothing to compare with.
		o.Old, _ = m.kind.kinds.convertCopy(m.old.Object, gv, reading)
	}
	err = tooLarge(kind.normalize(obj.Object, o))
	if err != nil && !apierrors.IsRequestEntityTooLargeError(err) {
		err = apierrors.NewBadRequest(fmt.Sprintf("the object is malformed after the changes of mutating admission: %v", err))
	}
	m.fail(err)
}

// fail ends the admission of an object with an error, unless it is nil or admission has failed already.
func (m *mutation) fail(err error) {
	if err != nil && m.err == nil {
		m.err = err
		m.stop()
	}
}

// normalize normalizes an object that an admission plugin has changed.
func (k *customKind) normalize(obj schema.Object, o schema.DecodeOptions) error {
	program, err := k.program()
	if err != nil {
		return err
	}
	if _, err := program.Normalize(obj, o); err != nil {
		return err
	}
	return k.contradictsStorage(obj, o)
}

// scaleCreator creates the objects of the scale endpoint of a resource.
type scaleCreator struct{ creator }

func (c scaleCreator) New(gvk runtimeschema.GroupVersionKind) (runtime.Object, error) {
	if gvk != served.ScaleKind() {
		return c.creator.New(gvk)
	}
	scale := &autoscalingv1.Scale{}
	scale.SetGroupVersionKind(gvk)
	return scale, nil
}
