package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/api"
	"espalier.dev/api/codec"
)

const crdsPath = "/apis/" + api.GroupName + "/v1/customresourcedefinitions"

// manager is the field manager of all writes. A write that changes nothing is not recorded
// under it.
const manager = "espalier-migrate"

// ChangedError is returned if a CRD was deleted or changed while its objects were migrated.
type ChangedError struct {
	CRD    string
	Change string
}

// Error says what has changed.
func (e *ChangedError) Error() string {
	return fmt.Sprintf("the CRD %s %s during the migration", e.CRD, e.Change)
}

// Resource is a CRD as it was when its migration began.
type Resource struct {
	// CRD is the CRD, and JSON its text.
	CRD  *api.CustomResourceDefinition
	JSON []byte
	// Storage is the version in which objects are stored, and Version the served version in
	// which they are read.
	Storage, Version string
}

// Resource reads a CRD.
func (c *Client) Resource(ctx context.Context, name string) (*Resource, error) {
	data, err := c.get(ctx, crdsPath+"/"+url.PathEscape(name), nil)
	if err != nil {
		return nil, fmt.Errorf("cannot read the CRD %s: %w", name, err)
	}
	return newResource(data)
}

// Resources reads all CRDs. They are sorted by name.
func (c *Client) Resources(ctx context.Context) (names []string, err error) {
	err = c.list(ctx, crdsPath, func(items []json.RawMessage) error {
		for _, item := range items {
			var crd metav1.PartialObjectMetadata
			if err := json.Unmarshal(item, &crd); err != nil {
				return err
			}
			names = append(names, crd.Name)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot list the CRDs: %w", err)
	}
	slices.Sort(names)
	return names, nil
}

func newResource(data []byte) (*Resource, error) {
	crd, err := codec.DecodeLenient(data)
	if err != nil {
		return nil, fmt.Errorf("cannot decode the CRD: %w", err)
	}
	r := &Resource{CRD: crd, JSON: data}
	for _, v := range crd.Spec.Versions {
		if v.Storage {
			r.Storage = v.Name
		}
	}
	for _, v := range crd.Spec.Versions {
		// Any served version will do, but the storage version needs no conversion.
		if v.Served && (r.Version == "" || v.Name == r.Storage) {
			r.Version = v.Name
		}
	}
	return r, nil
}

// check returns an error if the objects of the CRD cannot be migrated.
func (r *Resource) check() error {
	switch name := r.CRD.Name; {
	case r.CRD.DeletionTimestamp != nil:
		return fmt.Errorf("the CRD %s is being deleted", name)
	case r.Storage == "":
		return fmt.Errorf("the CRD %s has no storage version", name)
	case r.Version == "":
		return fmt.Errorf("the CRD %s has no served version: its objects cannot be read", name)
	case !slices.ContainsFunc(r.CRD.Status.Conditions, func(c api.CustomResourceDefinitionCondition) bool {
		return c.Type == api.Established && c.Status == api.ConditionTrue
	}):
		return fmt.Errorf("the CRD %s is not established: its objects are not served", name)
	}
	return nil
}

// same returns a *ChangedError if the CRD is not what it was before.
func (r *Resource) same(before *Resource) error {
	change := ""
	switch {
	case r.CRD.UID != before.CRD.UID:
		change = "was replaced"
	case r.CRD.DeletionTimestamp != nil:
		change = "was deleted"
	case r.Storage != before.Storage:
		change = fmt.Sprintf("got the storage version %s", r.Storage)
	case r.CRD.Generation != before.CRD.Generation:
		change = "was changed"
	default:
		return nil
	}
	return &ChangedError{r.CRD.Name, change}
}

// again reads a CRD again, and returns a *ChangedError if it has changed.
func (c *Client) again(ctx context.Context, before *Resource) (*Resource, error) {
	r, err := c.Resource(ctx, before.CRD.Name)
	if apierrors.IsNotFound(err) {
		return nil, &ChangedError{before.CRD.Name, "was deleted"}
	}
	if err != nil {
		return nil, err
	}
	return r, r.same(before)
}

// path returns the path of an object in a version, or of all objects if its name is empty.
func (r *Resource) path(version, namespace, name string) string {
	path := "/apis/" + r.CRD.Spec.Group + "/" + version
	if namespace != "" {
		path += "/namespaces/" + url.PathEscape(namespace)
	}
	path += "/" + r.CRD.Spec.Names.Plural
	if name != "" {
		path += "/" + url.PathEscape(name)
	}
	return path
}

// pageSize is the number of objects that are read at once.
const pageSize = 200

// list reads a list in pages. If a page is no longer available, the list is continued at a
// newer revision: it has every object that existed all the time.
func (c *Client) list(ctx context.Context, path string, page func(items []json.RawMessage) error) error {
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	for {
		data, err := c.get(ctx, path, query)
		if status := (*apierrors.StatusError)(nil); errors.As(err, &status) &&
			status.ErrStatus.Code == http.StatusGone && status.ErrStatus.Continue != "" {
			query.Set("continue", status.ErrStatus.Continue)
			continue
		}
		if err != nil {
			return err
		}
		var l struct {
			Metadata metav1.ListMeta   `json:"metadata"`
			Items    []json.RawMessage `json:"items"`
		}
		if err := json.Unmarshal(data, &l); err != nil {
			return fmt.Errorf("cannot decode the list: %w", err)
		}
		if err := page(l.Items); err != nil {
			return err
		}
		if l.Metadata.Continue == "" {
			return nil
		}
		query.Set("continue", l.Metadata.Continue)
	}
}

// isServed reports whether a version is served.
func (r *Resource) isServed(version string) bool {
	return slices.ContainsFunc(r.CRD.Spec.Versions,
		func(v api.CustomResourceDefinitionVersion) bool { return v.Name == version && v.Served })
}

// hasStatus reports whether the status of a version is a subresource.
func (r *Resource) hasStatus(version string) bool {
	return slices.ContainsFunc(r.CRD.Spec.Versions, func(v api.CustomResourceDefinitionVersion) bool {
		return v.Name == version && v.Subresources != nil && v.Subresources.Status != nil
	})
}

// maxConflicts is the number of times that a write is repeated because another writer was
// faster.
const maxConflicts = 5

// finish sets status.storedVersions to the storage version: no object is stored in another one
// any more. It returns a *ChangedError if the CRD has changed since the migration began: then
// the migration proves nothing.
func (c *Client) finish(ctx context.Context, before *Resource) (err error) {
	for range maxConflicts {
		r, changed := c.again(ctx, before)
		if changed != nil {
			return changed
		}
		if slices.Equal(r.CRD.Status.StoredVersions, []string{r.Storage}) {
			return nil
		}
		_, err = c.patch(ctx, crdsPath+"/"+url.PathEscape(r.CRD.Name)+"/status", url.Values{"fieldManager": {manager}}, map[string]any{
			"metadata": map[string]any{"uid": r.CRD.UID, "resourceVersion": r.CRD.ResourceVersion},
			"status":   map[string]any{"storedVersions": []string{r.Storage}},
		})
		if !apierrors.IsConflict(err) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("cannot update status.storedVersions of the CRD %s: %w", before.CRD.Name, err)
	}
	return nil
}
