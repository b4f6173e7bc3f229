package definitions

import (
	"context"

	"espalier.dev/api"
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
}

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
	d.cleanups.Go(func() {
		next.err = d.config.Peers.Await(ctx, at)
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
	case h.err != nil:
		d.retryAfter(ctx, h.crd.Name, h.err, "Cannot establish a CRD")
	default:
		d.writeStatus(ctx, s, h.crd, h.status)
	}
}
