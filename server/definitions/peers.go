package definitions

import (
	"context"
	"slices"
	"time"

	"espalier.dev/api"
	"espalier.dev/crd"
)

// Peers are the other servers that store their CRDs in the same etcd.
type Peers interface {
	// Reach records that the catalog of this server has all changes of CRDs up to a revision.
	Reach(revision int64)
	// Reached reports whether the catalogs of all live servers have a CRD that is stored at a
	// revision, and Await waits until they do.
	Reached(ctx context.Context, revision int64) (bool, error)
	Await(ctx context.Context, revision int64) error
}

// reach records that the catalog reflects all changes up to a revision.
func (d *Definitions) reach(revision uint64) {
	d.progress.Reach(revision)
	if d.config.Peers != nil {
		d.config.Peers.Reach(int64(revision))
	}
}

// held is a status that is written when all live servers can serve the CRD.
type held struct {
	crd    *api.CustomResourceDefinition
	status api.CustomResourceDefinitionStatus
	err    error // the reason why the status must be computed again
	// installing is set if the wait is long and the CRD has no condition Established yet.
	installing bool
}

// installingAfter is the time after which a CRD that waits for other servers gets its conditions:
// clients that wait for one fail if there are none. Most CRDs wait for less, and are written once.
const installingAfter = 50 * time.Millisecond

// hold reports whether a status must not be written yet, because it establishes a CRD that
// other servers cannot serve. The CRD comes back through d.released when they can. The
// goroutine that waits belongs to Run, which waits for it, and ends with ctx.
func (d *Definitions) hold(ctx context.Context, c *api.CustomResourceDefinition, status api.CustomResourceDefinitionStatus) bool {
	if d.config.Peers == nil || established(c) || !established(&api.CustomResourceDefinition{Status: status}) {
		return false
	}
	if last := d.holding[c.Name]; last != nil && last.crd == c {
		last.status = status
		return true
	}
	at := int64(revision(c.ResourceVersion))
	if ok, err := d.config.Peers.Reached(ctx, at); ok && err == nil {
		return false
	}
	next := &held{crd: c, status: status}
	d.holding[c.Name] = next
	first := crd.Condition(&c.Status, api.Established) == nil
	d.cleanups.Go(func() {
		if first {
			early, cancel := context.WithTimeout(ctx, installingAfter)
			next.err = d.config.Peers.Await(early, at)
			next.installing = early.Err() != nil && next.err != nil && ctx.Err() == nil
			cancel()
		} else {
			next.err = d.config.Peers.Await(ctx, at)
		}
		select {
		case d.released <- next:
		case <-ctx.Done():
		}
	})
	return true
}

// release writes a status that was held, unless the CRD has changed since.
func (d *Definitions) release(ctx context.Context, s *crdStorage, h *held) {
	if d.holding[h.crd.Name] == h {
		delete(d.holding, h.crd.Name)
	}
	known := d.known[h.crd.Name]
	switch {
	case known == nil || known.crd != h.crd:
	case h.installing:
		// The event of this write has the CRD wait again.
		d.writeStatus(ctx, s, h.crd, installing(h.status))
	case h.err != nil:
		d.retryAfter(ctx, h.crd.Name, h.err, "Cannot establish a CRD")
	default:
		d.writeStatus(ctx, s, h.crd, h.status)
	}
}

// installing returns a status that does not establish the CRD yet, as that of kube-apiserver before its
// handlers serve the resource.
func installing(status api.CustomResourceDefinitionStatus) api.CustomResourceDefinitionStatus {
	status.Conditions = slices.Clone(status.Conditions)
	if c := crd.Condition(&status, api.Established); c != nil {
		c.Status, c.Reason, c.Message = api.ConditionFalse, api.ReasonInstalling, "the initial names have been accepted"
	}
	return status
}
