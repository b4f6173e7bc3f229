package custom

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// attributes are the attributes of a write for admission plugins. The objects are made when a plugin
// asks for them, which most plugins do not do for custom resources.
type attributes struct {
	admission.Attributes
	object, old func() runtime.Object

	mu sync.Mutex
	// seen is set when a plugin has asked for an object.
	seen        bool
	annotations map[string]annotation
}

// annotation is an annotation of the audit event, for a level and those above it.
type annotation struct {
	value string
	level auditinternal.Level
}

var (
	_ admission.Attributes        = &attributes{}
	_ admission.AnnotationsGetter = &attributes{}
)

// attributes returns the attributes of a write of an object with a name. old is nil if it is created. Both functions are
// called once.
func (w *write) attributes(ctx context.Context, name string, object, old func() runtime.Object) *attributes {
	var options runtime.Object = w.options.create()
	op := admission.Create
	if old != nil {
		options, op = w.options.update(), admission.Update
	} else {
		old = func() runtime.Object { return nil }
	}
	user, _ := apirequest.UserFrom(ctx)
	return &attributes{
		object: sync.OnceValue(object), old: sync.OnceValue(old),
		Attributes: admission.NewAttributesRecord(nil, nil, w.scope.Kind, w.info.Namespace, name, w.scope.Resource, w.scope.Subresource,
			op, options, w.options.isDryRun(), user),
	}
}

// attributesOf returns the attributes of a write of an object that replaces another one, or none. Plugins get what get makes
// of the objects.
func (w *write) attributesOf(ctx context.Context, obj, old *unstructured.Unstructured, get func(*unstructured.Unstructured) runtime.Object) *attributes {
	name := w.name
	if name == "" {
		name = obj.GetName() // has been generated
	}
	var before func() runtime.Object
	if old != nil {
		before = func() runtime.Object { return get(old) }
	}
	return w.attributes(ctx, name, func() runtime.Object { return get(obj) }, before)
}

// itself returns an object that plugins may change, and duplicate a copy of one that they must not change.
func itself(u *unstructured.Unstructured) runtime.Object    { return u }
func duplicate(u *unstructured.Unstructured) runtime.Object { return u.DeepCopy() }

// GetObject returns the object.
func (a *attributes) GetObject() runtime.Object {
	a.see()
	return a.object()
}

// GetOldObject returns the object that is replaced, or nil.
func (a *attributes) GetOldObject() runtime.Object {
	a.see()
	return a.old()
}

func (a *attributes) see() {
	a.mu.Lock()
	a.seen = true
	a.mu.Unlock()
}

// wasSeen reports whether a plugin has asked for an object.
func (a *attributes) wasSeen() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seen
}

// AddAnnotation adds an annotation to the audit event.
func (a *attributes) AddAnnotation(key, value string) error {
	return a.AddAnnotationWithLevel(key, value, auditinternal.LevelMetadata)
}

// AddAnnotationWithLevel adds an annotation to the audit event, for a level and those above it.
func (a *attributes) AddAnnotationWithLevel(key, value string, level auditinternal.Level) error {
	if err := a.Attributes.AddAnnotationWithLevel(key, value, level); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.annotations == nil {
		a.annotations = map[string]annotation{}
	}
	a.annotations[key] = annotation{value, level}
	return nil
}

// GetAnnotations returns the annotations for a level. The record that a embeds tells its own ones only to
// its package.
func (a *attributes) GetAnnotations(level auditinternal.Level) map[string]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	found := map[string]string{}
	for key, n := range a.annotations {
		if !level.Less(n.level) {
			found[key] = n.value
		}
	}
	return found
}
