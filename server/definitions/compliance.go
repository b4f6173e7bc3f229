package definitions

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/api"
	"espalier.dev/crd"
)

// Compliance checks whether stored objects comply with their CRDs.
type Compliance interface {
	// Warnings returns warnings for a client that is about to replace a CRD.
	Warnings(ctx context.Context, old, next *api.CustomResourceDefinition) []string
	// Initial returns the condition of a CRD if it is known without looking at objects, or nil.
	Initial(*crd.Definition) *api.CustomResourceDefinitionCondition
}

// withCompliance adds the condition of a CRD without objects to a status that is written
// anyway, so that it costs no write of its own.
func (d *Definitions) withCompliance(status api.CustomResourceDefinitionStatus, of *crd.Definition) api.CustomResourceDefinitionStatus {
	if d.config.Compliance == nil || of.Terminating() {
		return status
	}
	if c := d.config.Compliance.Initial(of); c != nil {
		return crd.WithCondition(status, *c, of.CRD().Generation, transition())
	}
	return status
}

// transition returns the transition time of a condition that changes now. It is stored in
// seconds, and compared with the stored one later.
func transition() metav1.Time { return metav1.NewTime(time.Now().Truncate(time.Second)) }

// WriteCondition writes a condition to the status of a CRD. It fails with a conflict if the
// CRD has changed since d, apart from its status, and with a not-found error if it is gone or
// being deleted.
func (d *Definitions) WriteCondition(ctx context.Context, of *crd.Definition, condition api.CustomResourceDefinitionCondition) error {
	s, release, err := d.storage()
	if err != nil {
		return err
	}
	defer release()
	e := d.config.Store.Get(d.crds.Key("", of.Name()))
	if e == nil || e.Err != nil {
		return apierrors.NewNotFound(s.DefaultQualifiedResource, of.Name())
	}
	c, _, err := d.kinds.readHead(e.Value)
	switch {
	case err != nil:
		return err
	case c.UID != of.CRD().UID || c.DeletionTimestamp != nil:
		return apierrors.NewNotFound(s.DefaultQualifiedResource, of.Name())
	case c.Generation != of.CRD().Generation:
		return apierrors.NewConflict(s.DefaultQualifiedResource, of.Name(), errChanged)
	}
	c.ResourceVersion = formatRevision(e.Revision)
	status := crd.WithCondition(c.Status, condition, c.Generation, transition())
	return s.replaceStatus(ctx, c, e, &status)
}
