package custom

import (
	"context"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"

	"espalier.dev/server/fence"
	serverrest "espalier.dev/server/rest"
)

// admit runs the mutating admission plugins, and the checks that follow them. old is nil if
// the object is created. Creates are rejected early while the CRD is being deleted, also in a
// dry run; the fence of the CRD makes the final decision when the object is stored.
func (w *write) admit(ctx context.Context, obj, old *unstructured.Unstructured) error {
	if err := serverrest.Ended(ctx); err != nil {
		return err
	}
	op := operation(old)
	if op == admission.Create && w.serving.terminating() {
		return apierrors.NewForbidden(w.scope.Resource.GroupResource(), w.name, fence.ErrTerminating)
	}
	if plugins := w.serving.handler.config.Admission(); plugins.Handles(op) {
		if m, ok := admission.WithAudit(plugins).(admission.MutationInterface); ok {
			managed := managedFields(obj)
			seen, err := w.mutate(ctx, m, obj, old)
			if err != nil {
				return err
			}
			if seen {
				restoreManagedFields(ctx, obj, managed)
			}
		}
	}
	w.dedupOwners(obj, true)
	return nil
}

// managedFields returns the managed fields of an object as they are in its tree.
func managedFields(obj *unstructured.Unstructured) any {
	fields, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "metadata", "managedFields")
	return fields
}

// restoreManagedFields restores the managed fields from before admission if a plugin has made them
// invalid. k8s.io/apiserver decodes them after each admission, also if none has changed them.
func restoreManagedFields(ctx context.Context, obj *unstructured.Unstructured, before any) {
	if reflect.DeepEqual(managedFields(obj), before) {
		return
	}
	err := managedfields.ValidateManagedFields(obj.GetManagedFields())
	if err == nil {
		return
	}
	if metadata, ok := obj.Object["metadata"].(map[string]any); ok && before != nil {
		metadata["managedFields"] = before
	} else {
		obj.SetManagedFields(nil)
	}
	warning.AddWarning(ctx, "", fmt.Sprintf(fieldmanager.InvalidManagedFieldsAfterMutatingAdmissionWarningFormat, err))
}

// validate runs the validating admission plugins, on copies of the objects.
func (w *write) validate(ctx context.Context, obj, old *unstructured.Unstructured) error {
	plugins := w.serving.handler.config.Admission()
	if !plugins.Handles(operation(old)) {
		return nil
	}
	v, ok := admission.WithAudit(plugins).(admission.ValidationInterface)
	if !ok {
		return nil
	}
	a := w.attributesOf(ctx, obj, old, duplicate)
	err := v.Validate(ctx, a, w.scope)
	w.observer.admitted(a)
	return err
}

// authorizeCreate checks that the user may create the object that a server-side apply creates.
func (w *write) authorizeCreate(ctx context.Context) error {
	user, _ := apirequest.UserFrom(ctx)
	create := authorizer.AttributesRecord{
		User: user, ResourceRequest: true, Path: w.req.URL.Path, Verb: "create",
		APIGroup: w.scope.Resource.Group, APIVersion: w.scope.Resource.Version,
		Resource: w.scope.Resource.Resource, Subresource: w.scope.Subresource, Namespace: w.info.Namespace, Name: w.name,
	}
	// An authorizer may allow a request and report an error.
	decision, reason, err := w.scope.Authorizer.Authorize(ctx, create)
	switch {
	case decision == authorizer.DecisionAllow:
		return nil
	case err != nil:
		return apierrors.NewInternalError(err)
	}
	return responsewriters.ForbiddenStatusError(create, reason)
}

func operation(old *unstructured.Unstructured) admission.Operation {
	if old == nil {
		return admission.Create
	}
	return admission.Update
}
