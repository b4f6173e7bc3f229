package definitions

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/util/dryrun"

	"espalier.dev/api"
)

// deleteUnreadable deletes a CRD whose schemas cannot be decoded. It changes only the metadata
// in the stored text, and cleanUp does the rest. A CRD whose group cannot be read either is
// deleted at once: its objects are not known, and stay.
func (s *crdStorage) deleteUnreadable(ctx context.Context, c *api.CustomResourceDefinition, obj runtime.Object,
	validate rest.ValidateObjectFunc, o *metav1.DeleteOptions) (runtime.Object, bool, error) {
	e := s.definitions.config.Store.Get(s.definitions.crds.Key("", c.Name))
	if e == nil || formatRevision(e.Revision) != c.ResourceVersion {
		return nil, false, apierrors.NewConflict(s.DefaultQualifiedResource, c.Name, errors.New("the CRD has changed: try again"))
	}
	known := s.definitions.read(e, nil) != nil
	switch {
	case known && c.DeletionTimestamp != nil: // the deletion is already running
		return obj, false, nil
	case len(c.Finalizers) > 0:
		return nil, false, s.definitions.unreadableError(c.Name, nil)
	case !known:
		return s.Store.Delete(ctx, c.Name, validate, o)
	}
	if p := o.Preconditions; p != nil {
		conditions := storage.Preconditions{UID: p.UID, ResourceVersion: p.ResourceVersion}
		if err := conditions.Check(s.key(ctx, c.Name), obj); err != nil {
			return nil, false, s.failure(c.Name, err)
		}
	}
	if err := validate(ctx, obj); err != nil || dryrun.IsDryRun(o.DryRun) {
		return obj, false, err
	}
	text, err := markDeleted(e.Value)
	if err == nil {
		err = s.replace(ctx, c.Name, text, e.Revision)
	}
	if err != nil {
		return nil, false, err
	}
	return obj, false, nil
}

// markDeleted marks a stored CRD without finalizers for deletion.
func markDeleted(text []byte) ([]byte, error) {
	var crd, metadata map[string]json.RawMessage
	if err := json.Unmarshal(text, &crd); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(crd["metadata"], &metadata); err != nil {
		return nil, err
	}
	metadata["deletionTimestamp"] = json.RawMessage(`"` + time.Now().UTC().Format(time.RFC3339) + `"`)
	metadata["finalizers"] = json.RawMessage(`["` + api.CustomResourceCleanupFinalizer + `"]`)
	marked := map[string]any{}
	for name, value := range crd {
		marked[name] = value
	}
	marked["metadata"] = metadata
	return json.Marshal(marked)
}
