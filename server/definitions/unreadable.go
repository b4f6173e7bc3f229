package definitions

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/util/dryrun"

	"espalier.dev/api"
	"espalier.dev/server/backend"
	"espalier.dev/server/fence"
)

// deleteUnreadable deletes a CRD whose schemas cannot be decoded. It changes only the metadata
// in the stored text, and cleanUp does the rest. A CRD whose group cannot be read either is
// deleted at once: its objects are not known, and stay.
func (s *crdStorage) deleteUnreadable(ctx context.Context, c *api.CustomResourceDefinition, obj runtime.Object,
	validate rest.ValidateObjectFunc, o *metav1.DeleteOptions) (runtime.Object, bool, error) {
	e := s.definitions.config.Store.Get(s.definitions.crds.Key("", c.Name))
	if e == nil || strconv.FormatInt(e.Revision, 10) != c.ResourceVersion {
		return nil, false, apierrors.NewConflict(s.DefaultQualifiedResource, c.Name, errors.New("the CRD has changed: try again"))
	}
	replacer, ok := s.Storage.Storage.(*backend.Storage)
	known := ok && s.definitions.read(e, nil) != nil
	switch {
	case known && c.DeletionTimestamp != nil: // the deletion is already running
		return obj, false, nil
	case len(c.Finalizers) > 0:
		return nil, false, s.definitions.unreadableError(c.Name, nil)
	case !known:
		return s.Store.Delete(ctx, c.Name, validate, o)
	}
	key, err := s.KeyFunc(ctx, c.Name)
	if err != nil {
		return nil, false, err
	}
	if p := o.Preconditions; p != nil {
		conditions := storage.Preconditions{UID: p.UID, ResourceVersion: p.ResourceVersion}
		if err := conditions.Check(key, obj); err != nil {
			return nil, false, s.failure(c.Name, err)
		}
	}
	if err := validate(ctx, obj); err != nil || dryrun.IsDryRun(o.DryRun) {
		return obj, false, err
	}
	text, err := markDeleted(e.Value)
	if err != nil {
		return nil, false, s.definitions.unreadableError(c.Name, err)
	}
	if err := replacer.Replace(fence.WithReserve(ctx), key, text, e.Revision); err != nil {
		return nil, false, s.failure(c.Name, err)
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
	now, err := json.Marshal(metav1.Now())
	if err != nil {
		return nil, err
	}
	metadata["deletionTimestamp"] = now
	metadata["finalizers"] = json.RawMessage(`["` + api.CustomResourceCleanupFinalizer + `"]`)
	if crd["metadata"], err = json.Marshal(metadata); err != nil {
		return nil, err
	}
	return json.Marshal(crd)
}
