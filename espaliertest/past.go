package espaliertest

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"espalier.dev/server"
)

// At returns a client configuration for what the server stored at a revision, which is what
// Kubernetes calls a resourceVersion. It starts a read-only server, which stops when the test ends:
// requests that write get an error, and no controllers run. It is ready in milliseconds, also if many
// objects are stored. Each call starts a server: keep the configuration if it is needed again.
//
// The server must keep its objects in memory. Their history reaches back five minutes at least, unless
// it has more than 256 MiB, or 4 GiB with WithFlags("--history=all"), however old.
func (s *Server) At(t testing.TB, revision int64) *rest.Config {
	t.Helper()
	past := started(t, "show the state at a revision", func(ctx context.Context, dir string) (*Server, error) {
		past, err := derive(ctx, func(ctx context.Context) (*server.Server, error) {
			return s.server.At(ctx, revision, forkOptions(dir))
		})
		if err == nil {
			past.past = true
		}
		return past, err
	})
	return past.Config()
}

// Before is [Server.At] for the state before a change: the revision before that of a [watch.Event], of
// a [Change] of [Server.History], or of an object as a client or a watch has returned it. The resourceVersion of a deleted object
// in an event is that of its deletion.
func (s *Server) Before(t testing.TB, event any) *rest.Config {
	t.Helper()
	revision, err := revisionOf(event)
	if err != nil {
		t.Fatalf("show the state before a change: %v", err)
	}
	return s.At(t, revision-1)
}

// revisionOf returns the revision of an event or of an object.
func revisionOf(event any) (int64, error) {
	object := event
	switch e := event.(type) {
	case *Change:
		return e.Revision, nil
	case watch.Event:
		if e.Type == watch.Error || e.Type == watch.Bookmark {
			return 0, fmt.Errorf("an event of type %s is no change: use one of type ADDED, MODIFIED or DELETED", e.Type)
		}
		object = e.Object
	}
	m, err := meta.Accessor(object)
	if err != nil {
		return 0, fmt.Errorf("%T is neither a watch.Event, a *Change nor an object: %w", event, err)
	}
	revision, err := strconv.ParseInt(m.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the object %q has the resourceVersion %q: use an object that a server has returned", m.GetName(), m.GetResourceVersion())
	}
	return revision, nil
}
