package builtin

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	storeerrors "k8s.io/apiserver/pkg/storage/errors"
	"k8s.io/apiserver/pkg/util/dryrun"
)

// namespaceREST is the storage of namespaces. A deletion only marks a namespace: it goes when
// the finalizers of its spec and of its metadata are gone.
type namespaceREST struct{ *registry.Store }

var _ rest.StandardStorage = &namespaceREST{}

// finalized reports whether an update removes the last finalizer of a namespace that is being
// deleted. Then it deletes the namespace.
func finalized(ctx context.Context, key string, obj, old runtime.Object) bool {
	ns, ok := obj.(*corev1.Namespace)
	return ok && len(ns.Spec.Finalizers) == 0 && registry.ShouldDeleteDuringUpdate(ctx, key, obj, old)
}

// Delete marks a namespace as deleted, or deletes it if it is marked and has no finalizers.
func (r *namespaceREST) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc,
	o *metav1.DeleteOptions) (runtime.Object, bool, error) {
	obj, err := r.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, false, err
	}
	ns := obj.(*corev1.Namespace)
	if o == nil {
		o = metav1.NewDeleteOptions(0)
	}
	if o.Preconditions == nil {
		o.Preconditions = &metav1.Preconditions{}
	}
	if o.Preconditions.UID == nil {
		o.Preconditions.UID = &ns.UID
	}
	gr := r.DefaultQualifiedResource
	if want := *o.Preconditions.UID; want != ns.UID {
		return nil, false, apierrors.NewConflict(gr, name,
			fmt.Errorf("Precondition failed: UID in precondition: %v, UID in object meta: %v", want, ns.UID))
	}
	if want := o.Preconditions.ResourceVersion; want != nil && *want != ns.ResourceVersion {
		return nil, false, apierrors.NewConflict(gr, name,
			fmt.Errorf("Precondition failed: ResourceVersion in precondition: %v, ResourceVersion in object meta: %v", *want,
				ns.ResourceVersion))
	}
	switch {
	case ns.DeletionTimestamp.IsZero():
		out, err := r.mark(ctx, name, validate, o)
		return out, false, err
	case len(ns.Spec.Finalizers) > 0:
		return ns, false, nil
	}
	return r.Store.Delete(ctx, name, validate, o)
}

// mark marks a namespace as deleted.
func (r *namespaceREST) mark(ctx context.Context, name string, validate rest.ValidateObjectFunc,
	o *metav1.DeleteOptions) (runtime.Object, error) {
	key, err := r.KeyFunc(ctx, name)
	if err != nil {
		return nil, err
	}
	out := r.NewFunc()
	err = r.Storage.GuaranteedUpdate(ctx, key, out, false,
		&storage.Preconditions{UID: o.Preconditions.UID, ResourceVersion: o.Preconditions.ResourceVersion},
		storage.SimpleUpdate(func(existing runtime.Object) (runtime.Object, error) {
			ns := existing.(*corev1.Namespace)
			if validate != nil {
				if err := validate(ctx, ns); err != nil {
					return nil, err
				}
			}
			if ns.DeletionTimestamp.IsZero() {
				now := metav1.Now()
				ns.DeletionTimestamp = &now
			}
			ns.Status.Phase = corev1.NamespaceTerminating
			ns.Finalizers = deletionFinalizers(ns.Finalizers, o)
			return ns, nil
		}), dryrun.IsDryRun(o.DryRun), nil)
	if err == nil {
		return out, nil
	}
	gr := r.DefaultQualifiedResource
	err = storeerrors.InterpretUpdateError(storeerrors.InterpretGetError(err, gr, name), gr, name)
	if _, ok := err.(apierrors.APIStatus); !ok {
		err = apierrors.NewInternalError(err)
	}
	return nil, err
}

// deletionFinalizers returns the finalizers of an object that is deleted with options: those
// that the policy asks for, in place of those of another policy.
func deletionFinalizers(finalizers []string, o *metav1.DeleteOptions) []string {
	var want string
	//lint:ignore SA1019 clients may set the deprecated field
	orphan := o.OrphanDependents
	switch {
	case orphan != nil && *orphan:
		want = metav1.FinalizerOrphanDependents
	case orphan != nil:
		want = metav1.FinalizerDeleteDependents
	case o.PropagationPolicy == nil:
		return finalizers
	case *o.PropagationPolicy == metav1.DeletePropagationOrphan:
		want = metav1.FinalizerOrphanDependents
	case *o.PropagationPolicy == metav1.DeletePropagationForeground:
		want = metav1.FinalizerDeleteDependents
	}
	out := slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool {
		return f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
	})
	if want != "" {
		out = append(out, want)
	}
	return out
}
