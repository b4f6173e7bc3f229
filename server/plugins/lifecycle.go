package plugins

import (
	"context"
	goerrors "errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// lifecycle rejects new objects in namespaces that do not exist or are being deleted, and the
// deletion of the namespaces that the server needs. The one of k8s.io/apiserver needs informers and
// a client. A namespace that is deleted at the same time is not its concern: the transaction that
// stores the object checks the namespace again.
type lifecycle struct {
	*admission.Handler
	objects Lister
}

var _ admission.MutationInterface = &lifecycle{}

func newLifecycle(objects Lister) *lifecycle {
	return &lifecycle{admission.NewHandler(admission.Create, admission.Delete), objects}
}

// Admit implements admission.MutationInterface.
func (l *lifecycle) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetKind().GroupKind() == (schema.GroupKind{Kind: "Namespace"}) {
		if a.GetOperation() == admission.Delete {
			switch a.GetName() {
			case metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic:
				return errors.NewForbidden(a.GetResource().GroupResource(), a.GetName(), goerrors.New("this namespace may not be deleted"))
			}
		}
		return nil
	}
	review := schema.GroupResource{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"}
	if a.GetOperation() != admission.Create || a.GetNamespace() == "" || a.GetResource().GroupResource() == review {
		return nil
	}
	ns, err := get[*corev1.Namespace](ctx, l.objects, namespaces, "", a.GetNamespace())
	switch {
	case errors.IsNotFound(err):
		return err
	case err != nil:
		return errors.NewInternalError(err)
	case ns.Status.Phase != corev1.NamespaceTerminating:
		return nil
	}
	err = forbidden(a, "unable to create new content in namespace %s because it is being terminated", a.GetNamespace())
	if status := (*errors.StatusError)(nil); goerrors.As(err, &status) && status.ErrStatus.Details != nil {
		status.ErrStatus.Details.Causes = append(status.ErrStatus.Details.Causes, metav1.StatusCause{
			Type:    corev1.NamespaceTerminatingCause,
			Message: fmt.Sprintf("namespace %s is being terminated", a.GetNamespace()),
			Field:   "metadata.namespace",
		})
	}
	return err
}
