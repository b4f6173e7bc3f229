package objects

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
)

// Deletion is the request with which a controller of Kubernetes deletes an object.
type Deletion struct {
	// Account is the name of the service account of the controller.
	Account string
	Options *metav1.DeleteOptions
	// Collection is set if the controller deletes all objects of a collection with one request.
	// Webhooks and policies then see no name and no preconditions.
	Collection bool
}

// requestTime limits the time of a request that admission sees. Webhooks can take half of it.
const requestTime = time.Minute

// Delete deletes an object, as a controller of Kubernetes: webhooks and policies see the request.
func (o *Objects) Delete(ctx context.Context, r *Resource, namespace, name string, d Deletion) error {
	return o.as(ctx, r, namespace, name, d.Account, func(ctx context.Context, q *request) error {
		validate := rest.ValidateAllObjectFunc
		if o.Admission != nil {
			seen, options := *q, d.Options
			if d.Collection {
				seen.name, options = "", d.Options.DeepCopy()
				options.Preconditions = nil
			}
			validate = rest.AdmissionToValidateObjectDeleteFunc(o.Admission,
				seen.attributes(nil, nil, admission.Delete, options), q.scope)
		}
		_, _, err := q.storage.Delete(ctx, name, validate, d.Options)
		return err
	})
}

// ErrUnchanged is returned by a change that has nothing to change. The update then ends without
// an error.
var ErrUnchanged = errors.New("nothing has changed")

// UpdateAs changes an object as Update does, but as a controller of Kubernetes, whose service
// account is named account: webhooks and policies see the request.
func (o *Objects) UpdateAs(ctx context.Context, r *Resource, namespace, name, account string, change func(metav1.Object) error) error {
	err := o.as(ctx, r, namespace, name, account, func(ctx context.Context, q *request) error {
		if o.Admission == nil {
			return Update(ctx, q.storage, name, change)
		}
		options := &metav1.UpdateOptions{}
		options.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("UpdateOptions"))
		admit := fieldmanager.NewManagedFieldsValidatingAdmissionController(o.Admission)
		mutate := func(ctx context.Context, obj, old runtime.Object) (runtime.Object, error) {
			plugins, ok := admit.(admission.MutationInterface)
			if !ok || !plugins.Handles(admission.Update) {
				return obj, nil
			}
			a := q.attributes(obj, old, admission.Update, options)
			if r.definition != nil {
				return obj, o.Custom.Mutate(ctx, r.definition, r.Version, plugins, a)
			}
			return obj, plugins.Admit(ctx, a, q.scope)
		}
		validate := rest.AdmissionToValidateObjectUpdateFunc(admit, q.attributes(nil, nil, admission.Update, options), q.scope)
		_, _, err := q.storage.Update(ctx, name, rest.DefaultUpdatedObjectInfo(nil, changing(change), mutate),
			rest.ValidateAllObjectFunc, validate, false, options)
		return err
	})
	if errors.Is(err, ErrUnchanged) {
		return nil
	}
	return err
}

// request is the request of a controller for an object.
type request struct {
	storage         rest.StandardStorage
	scope           *handlers.RequestScope
	namespace, name string
	user            user.Info
}

// attributes returns what admission sees of a request.
func (q *request) attributes(obj, old runtime.Object, op admission.Operation, options runtime.Object) admission.Attributes {
	return admission.NewAttributesRecord(obj, old, q.scope.Kind, q.namespace, q.name, q.scope.Resource, "", op, options, false, q.user)
}

// as calls f for the request of a controller, whose service account is named account.
func (o *Objects) as(ctx context.Context, r *Resource, namespace, name, account string, f func(context.Context, *request) error) error {
	s, scope, release, err := o.storage(r)
	if err != nil {
		return fmt.Errorf("storage of %s: %w", r.GroupResource(), err)
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	info := serviceaccount.UserInfo(metav1.NamespaceSystem, account, "").(*user.DefaultInfo)
	info.Groups = append(info.Groups, user.AllAuthenticated)
	ctx = apirequest.WithNamespace(apirequest.WithUser(ctx, info), namespace)
	q := &request{storage: s, scope: scope, namespace: namespace, name: name, user: info}
	if r.GroupResource() == corev1.Resource("namespaces") {
		q.namespace = name // as in requests of clients, whose paths have it
	}
	return f(ctx, q)
}
