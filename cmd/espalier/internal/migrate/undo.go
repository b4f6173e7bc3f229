package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/flowcontrol"

	"espalier.dev/api"
	"espalier.dev/cmd/espalier/internal/workdir"
)

// Undone is the result of putting an object back.
type Undone string

// The results.
const (
	// PutBack objects were written as they are in the backup, apart from what the server drops.
	PutBack Undone = "putBack"
	// Recreated objects had been deleted.
	Recreated Undone = "recreated"
	// Same objects are served as they are in the backup: there is nothing to put back.
	Same Undone = "same"
	// Changed objects were written by others after the migration, and are left alone.
	Changed Undone = "changed"
	// Gone objects were deleted after the migration, and stay deleted.
	Gone Undone = "deleted"
	// Rejected objects were not accepted by the server.
	Rejected Undone = "rejected"
)

// Restored is what happened to an object of a backup.
type Restored struct {
	CRD, Namespace, Name string
	Result               Undone
	// Err is why the object was rejected.
	Err error
	// Missing are the paths that are in the backup and that the server has dropped or changed:
	// the CRD still does not specify them.
	Missing []string
	// ServedOnly is set if the backup has the object as it was served. Data that was stored but
	// not served is not in it.
	ServedOnly bool
}

// String returns the namespace and the name.
func (r *Restored) String() string { return (&Object{Namespace: r.Namespace, Name: r.Name}).String() }

// Undo puts the objects of a backup back that a migration has changed, and that nobody else has
// written since.
type Undo struct {
	Client *Client
	// DryRun makes the server check all writes, but store nothing.
	DryRun bool
	// Recreate creates objects again that were deleted after the migration.
	Recreate bool
	// Limiter limits the rate of writes. It may be nil.
	Limiter flowcontrol.RateLimiter
	// Report is called for each object that the migration has changed.
	Report func(*Restored) error
}

// Run puts the objects of a backup back. Each one is recorded in the file, so Run can be called
// again if it fails, or to put fields back that the CRD did not specify before.
func (u *Undo) Run(ctx context.Context, dir workdir.Dir, path string) error {
	f, err := dir.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	run := &undoing{Undo: u, backup: &Backup{file: f}, resources: map[string]*Resource{}, changes: map[string]*change{}}
	return errors.Join(run.all(ctx), f.Close())
}

// undoing is one run of Undo.
type undoing struct {
	*Undo
	backup    *Backup
	resources map[string]*Resource
	// changes has what the migration did to each object, by its UID, and order has the UIDs in
	// the order of the file.
	changes map[string]*change
	order   []string
}

// change is what a migration did to an object.
type change struct {
	// first is the position of the object as it was before, and from its resource version.
	first int64
	from  string
	// to is the resource version after the last write. It is empty if the result of the write
	// is not known, because the migration was interrupted: then last is the position of the
	// object before that write.
	to   string
	last int64
	// recreated is the UID of the object that an undo has created in its place, or empty.
	recreated string
}

func (u *undoing) all(ctx context.Context) error {
	end, err := u.backup.read(u.replay)
	if err != nil {
		return err
	}
	if end == 0 {
		return &BackupError{File: u.backup.file.Name(), Reason: "is empty"}
	}
	for _, uid := range u.order {
		c := u.changes[uid]
		if c == nil || c.to == c.from {
			continue // put back, or never changed
		}
		delete(u.changes, uid) // it may be in order twice
		r, err := u.object(ctx, c)
		if err != nil {
			return err
		}
		if r != nil && u.Report != nil {
			if err := u.Report(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// replay takes in a record.
func (u *undoing) replay(at int64, r *record) error {
	c := u.changes[r.UID]
	switch r.Type {
	case recordBefore:
		same, err := u.continues(c, r)
		if err != nil {
			return err
		}
		if !same {
			u.changes[r.UID] = &change{first: at, from: r.ResourceVersion, last: at}
			u.order = append(u.order, r.UID)
			return nil
		}
		c.to, c.last = "", at
	case recordAfter:
		if c != nil {
			c.to = r.New
		}
	case recordUndone:
		if c != nil && r.Dropped > 0 {
			// The CRD did not specify all fields. It may do so at the next undo.
			c.to, c.recreated = r.New, r.NewUID
			return nil
		}
		delete(u.changes, r.UID)
	}
	return nil
}

// continues reports whether an object was written by nobody but the migration between a change
// and the record of another write.
func (u *undoing) continues(c *change, r *record) (bool, error) {
	switch {
	case c == nil:
		return false, nil
	case c.to != "":
		return c.to == r.ResourceVersion, nil
	}
	last, err := recordAt(u.backup.file, c.last)
	if err != nil {
		return false, err
	}
	return last.ResourceVersion == r.ResourceVersion || sameContent(last.Object, r.Object), nil
}

// sameContent reports whether two texts of an object differ at most in what a write without a
// change may change.
func sameContent(a, b []byte) bool {
	x, err := decodeTree(a)
	y, err2 := decodeTree(b)
	if err != nil || err2 != nil {
		return false
	}
	for _, tree := range []map[string]any{x, y} {
		if meta, ok := tree["metadata"].(map[string]any); ok {
			delete(meta, "resourceVersion")
			delete(meta, "managedFields")
			delete(meta, "generation")
		}
	}
	return len(differences(nil, "", x, y)) == 0 && len(differences(nil, "", y, x)) == 0
}

// object puts an object back. The result is nil if the migration did not change it.
func (u *undoing) object(ctx context.Context, c *change) (*Restored, error) {
	rec, err := recordAt(u.backup.file, c.first)
	if err != nil {
		return nil, err
	}
	r, err := u.resource(ctx, rec.CRD)
	if err != nil {
		return nil, err
	}
	out := &Restored{CRD: rec.CRD, Namespace: rec.Namespace, Name: rec.Name, ServedOnly: rec.Stored == nil}
	text, err := u.Client.get(ctx, r.path(r.Version, rec.Namespace, rec.Name), nil)
	if apierrors.IsNotFound(err) {
		out.Result = Gone
		if u.Recreate {
			return out, u.write(ctx, r, rec, c, nil, out)
		}
		return out, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read %s %s: %w", rec.CRD, out, err)
	}
	current, err := newObject(text)
	if err != nil {
		return nil, err
	}
	switch {
	case current.UID != cmp.Or(c.recreated, rec.UID):
		out.Result = Changed
		return out, nil
	case c.to == "" && current.ResourceVersion == c.from:
		return nil, nil // the migration was interrupted before it
	case c.to == "":
		last, err := recordAt(u.backup.file, c.last)
		if err != nil {
			return nil, err
		}
		if current.ResourceVersion != last.ResourceVersion && !sameContent(last.Object, text) {
			out.Result = Changed
			return out, nil
		}
	case c.to != current.ResourceVersion:
		out.Result = Changed
		return out, nil
	}
	return out, u.write(ctx, r, rec, c, current, out)
}

// resource returns the CRD as it is now.
func (u *undoing) resource(ctx context.Context, name string) (*Resource, error) {
	if r := u.resources[name]; r != nil {
		return r, nil
	}
	r, err := u.Client.Resource(ctx, name)
	if err != nil {
		return nil, err
	}
	u.resources[name] = r
	return r, r.check()
}

// write writes an object as it is in the backup, and sets the result. current is the object that
// it replaces, or nil to create it.
func (u *undoing) write(ctx context.Context, r *Resource, rec *record, c *change, current *Object, out *Restored) error {
	text, version := rec.Object, r.Version
	if rec.Stored != nil {
		if v := versionOf(rec.Stored, r); r.isServed(v) {
			text, version = rec.Stored, v
		} else {
			out.ServedOnly = true
		}
	}
	tree, err := decodeTree(text)
	if err != nil {
		return err
	}
	path, method := r.path(version, rec.Namespace, rec.Name), http.MethodPut
	meta, _ := tree["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
		tree["metadata"] = meta
	}
	if current != nil {
		meta["uid"], meta["resourceVersion"] = current.UID, current.ResourceVersion
	} else {
		path, method = r.path(version, rec.Namespace, ""), http.MethodPost
		for _, k := range []string{"uid", "resourceVersion", "creationTimestamp", "generation",
			"deletionTimestamp", "deletionGracePeriodSeconds"} {
			delete(meta, k)
		}
	}
	got, err := u.send(ctx, method, path, tree)
	if err == nil && r.hasStatus(version) && tree["status"] != nil && !u.DryRun {
		got, err = u.status(ctx, r.path(version, rec.Namespace, rec.Name)+"/status", tree, got)
	}
	switch {
	case err != nil && isFatal(ctx, err):
		return err
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		out.Result = Changed // just now
		return nil
	case err != nil:
		out.Result, out.Err = Rejected, err
		return nil
	}
	return u.wrote(rec, c, current, tree, got, out)
}

// wrote sets the result of a write that has succeeded, and records it.
func (u *undoing) wrote(rec *record, c *change, current *Object, sent map[string]any, got []byte, out *Restored) error {
	result, err := decodeTree(got)
	if err != nil {
		return err
	}
	delete(sent, "metadata") // it has what servers set
	out.Missing = differences(nil, "", sent, result)
	written, err := newObject(got)
	if err != nil {
		return err
	}
	switch {
	case current == nil:
		out.Result = Recreated
	case written.ResourceVersion == current.ResourceVersion && !u.DryRun:
		out.Result = Same
	default:
		out.Result = PutBack
	}
	if u.DryRun {
		return nil
	}
	undone := &record{Type: recordUndone, CRD: rec.CRD, Namespace: rec.Namespace, Name: rec.Name, UID: rec.UID,
		ResourceVersion: c.to, New: written.ResourceVersion, Dropped: len(out.Missing)}
	if written.UID != rec.UID {
		undone.NewUID = written.UID
	}
	return u.backup.append(true, undone)
}

// send writes an object and returns the answer.
func (u *undoing) send(ctx context.Context, method, path string, tree map[string]any) ([]byte, error) {
	if u.Limiter != nil {
		if err := u.Limiter.Wait(ctx); err != nil {
			return nil, err
		}
	}
	body, err := marshal(tree)
	if err != nil {
		return nil, err
	}
	query := url.Values{"fieldManager": {manager}}
	if u.DryRun {
		query.Set("dryRun", metav1.DryRunAll)
	}
	return u.Client.do(ctx, request{method: method, path: path, query: query, contentType: "application/json", body: body})
}

// status writes the status of an object whose other parts were written with the answer got. It
// returns that answer if the status is already as it should be.
func (u *undoing) status(ctx context.Context, path string, tree map[string]any, got []byte) ([]byte, error) {
	result, err := decodeTree(got)
	if err != nil {
		return nil, err
	}
	if len(differences(nil, "", tree["status"], result["status"])) == 0 {
		return got, nil
	}
	result["status"] = tree["status"]
	return u.send(ctx, http.MethodPut, path, result)
}

// versionOf returns the version of an object of a CRD, or an empty string.
func versionOf(text []byte, r *Resource) string {
	id, err := api.Identify(text)
	if err != nil {
		return ""
	}
	gv, err := runtimeschema.ParseGroupVersion(id.APIVersion)
	if err != nil || gv.Group != r.CRD.Spec.Group {
		return ""
	}
	return gv.Version
}
