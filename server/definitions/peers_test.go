package definitions

import (
	"context"
	"testing"
	"time"

	"espalier.dev/api"
	"espalier.dev/crd"
)

// slowPeers are other servers that never have a CRD.
type slowPeers struct{ peersThat }

func (slowPeers) Await(ctx context.Context, _ int64) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// TestHoldInstalling gives a CRD that waits for long its conditions, once.
func TestHoldInstalling(t *testing.T) {
	t.Parallel()
	status := api.CustomResourceDefinitionStatus{Conditions: []api.CustomResourceDefinitionCondition{
		{Type: api.NamesAccepted, Status: api.ConditionTrue}, {Type: api.Established, Status: api.ConditionTrue}}}
	ctx, cancel := context.WithCancel(t.Context())
	d := &Definitions{config: Config{Peers: slowPeers{}}, holding: map[string]*held{}, released: make(chan *held)}
	defer d.cleanups.Wait()
	defer cancel()
	c := definitionOf()
	if !d.hold(ctx, c, status) {
		t.Fatal("the CRD does not wait")
	}
	select {
	case h := <-d.released:
		if !h.installing {
			t.Fatalf("the CRD is released: %v", h.err)
		}
		c = definitionOf()
		c.Status = installing(h.status)
	case <-time.After(30 * time.Second):
		t.Fatal("the CRD has no conditions")
	}
	if got := crd.Condition(&c.Status, api.Established); got.Status != api.ConditionFalse || got.Reason != api.ReasonInstalling {
		t.Errorf("established: %v", got)
	}
	if crd.Condition(&status, api.Established).Status != api.ConditionTrue {
		t.Error("the status to write later has changed")
	}
	if !d.hold(ctx, c, status) {
		t.Fatal("the CRD does not wait")
	}
	select {
	case <-d.released:
		t.Error("a CRD that has conditions is written again before it is established")
	case <-time.After(4 * installingAfter):
	}
}
