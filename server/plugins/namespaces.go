package plugins

import (
	"context"

	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// inNamespace reports whether a request is for an object in a namespace.
func inNamespace(a admission.Attributes) bool {
	return a.GetNamespace() != "" && a.GetKind().GroupKind() != (schema.GroupKind{Kind: "Namespace"})
}

// exists rejects requests in namespaces that do not exist.
type exists struct {
	*admission.Handler
	objects Lister
}

var _ admission.ValidationInterface = &exists{}

func newExists(objects Lister) *exists {
	return &exists{admission.NewHandler(admission.Create, admission.Update, admission.Delete), objects}
}

// Validate implements admission.ValidationInterface.
func (p *exists) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !inNamespace(a) {
		return nil
	}
	_, err := p.objects.Get(ctx, namespaces, "", a.GetNamespace())
	if err != nil && !errors.IsNotFound(err) {
		return errors.NewInternalError(err)
	}
	return err
}

// provision creates the namespaces of new objects.
type provision struct {
	*admission.Handler
	objects Lister
	create  func(ctx context.Context, name string) error
}

var _ admission.MutationInterface = &provision{}

func newProvision(objects Lister, create func(context.Context, string) error) *provision {
	return &provision{admission.NewHandler(admission.Create), objects, create}
}

// Admit implements admission.MutationInterface.
func (p *provision) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.IsDryRun() || !inNamespace(a) {
		return nil
	}
	_, err := p.objects.Get(ctx, namespaces, "", a.GetNamespace())
	if errors.IsNotFound(err) {
		err = p.create(ctx, a.GetNamespace())
	}
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	return nil
}
