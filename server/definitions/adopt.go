package definitions

import (
	"context"

	"golang.org/x/sync/errgroup"

	"espalier.dev/api"
	"espalier.dev/server/backend"
)

// adoptWorkers is the number of CRDs that are adopted concurrently.
const adoptWorkers = 16

// adoptAll creates the missing fences of the listed CRDs before they are served, for example
// in an etcd that kube-apiserver has filled. It skips CRDs that are being deleted, which
// cleanUp handles, and those that cannot be read, which are nil.
func (d *Definitions) adoptAll(ctx context.Context, list []*stored) error {
	if d.config.ReadOnly {
		return nil
	}
	fenced, err := d.config.Fences.UIDs(ctx)
	if err != nil {
		return err
	}
	adopted := make([]bool, len(list))
	workers, ctx := errgroup.WithContext(ctx)
	workers.SetLimit(adoptWorkers)
	for i := range list {
		if list[i] == nil {
			continue
		}
		c := list[i].crd
		if c.DeletionTimestamp != nil || fenced[c.UID] {
			continue
		}
		workers.Go(func() (err error) {
			adopted[i], err = d.config.Fences.Adopt(ctx, c.Name, c.UID, revision(c.ResourceVersion), false)
			if backend.IsFull(err) {
				return nil // nothing can be created; reconcile tries again
			}
			return err
		})
	}
	if err := workers.Wait(); err != nil {
		return err
	}
	for i, yes := range adopted {
		if yes {
			fenced[list[i].crd.UID] = true
		}
	}
	d.fenced = fenced
	return nil
}

// adopt creates the fence of a CRD if it is missing. If the CRD has changed since, its event
// leads to another attempt.
func (d *Definitions) adopt(ctx context.Context, c *api.CustomResourceDefinition) {
	ok, err := d.config.Fences.Adopt(ctx, c.Name, c.UID, revision(c.ResourceVersion), false)
	if err != nil && ctx.Err() == nil {
		d.retryAfter(ctx, c.Name, err, "Cannot give a CRD its fence")
	}
	if ok {
		d.fenced[c.UID] = true
	}
}
