package espaliertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// profileSteps is the number of writes of each client in TestProfiles.
const profileSteps = 60

// TestProfiles sends requests and watches while the faults of each profile happen, and checks that
// clients get nothing but what an API server may answer: see conversation.
func TestProfiles(t *testing.T) {
	t.Parallel()
	for _, p := range Profiles() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			s := Start(t, WithCRDs("testdata/crds"))
			p.MaxHold, p.MaxEvents = 20*time.Millisecond, 3
			in := s.Inject(t, Chaos(7, p)...)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			var all []*conversation
			for _, gvr := range []runtimeschema.GroupVersionResource{
				{Version: "v1", Resource: "configmaps"},
				{Group: "example.com", Version: "v1", Resource: "crontabs"},
			} {
				client, err := dynamic.NewForConfig(s.Config())
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, &conversation{t: t, client: client.Resource(gvr).Namespace("default"), resource: gvr,
					acknowledged: map[string]int64{}, deleted: map[string]bool{}, seen: map[string]int64{}})
			}
			var wg sync.WaitGroup
			for i, c := range all {
				wg.Go(func() { c.write(ctx, rand.New(rand.NewPCG(7, uint64(i)))) })
				watching, stop := context.WithCancel(ctx)
				c.stop = stop
				wg.Go(func() { c.follow(watching) })
			}
			// Each writer stops its watch when the faults are gone and the watch has everything.
			await(t, "the writers", func() bool {
				return !slices.ContainsFunc(all, func(c *conversation) bool { return !c.written() })
			})
			in.Remove()
			for _, c := range all {
				c.settle(ctx)
				c.stop()
			}
			wg.Wait()
			if in.Hits() == 0 {
				t.Errorf("no faults: %+v", in.Counts())
			}
			for _, c := range in.Counts() {
				if c.Matched == 0 {
					t.Errorf("%v has matched nothing", c.Rule)
				}
				t.Logf("%v: %d matched, %d hits", c.Rule, c.Matched, c.Hits)
			}
		})
	}
}

// conversation is what a client sends and gets for one resource. It checks that
//   - errors are those of an API server, with the reason, the details and the time to wait that belong to
//     their code;
//   - no write that was acknowledged is lost: the object is there, with that version or a newer
//     one;
//   - reads from the cache never go back;
//   - the versions in a watch never go back, no event is as old as a bookmark before it, and all
//     watches together have every change: the state that they add up to is the state at the end.
type conversation struct {
	t        *testing.T
	client   dynamic.ResourceInterface
	resource runtimeschema.GroupVersionResource
	stop     context.CancelFunc

	mu sync.Mutex
	// acknowledged are the versions of the writes that were answered, deleted the objects whose deletion
	// may have been executed.
	acknowledged map[string]int64
	deleted      map[string]bool
	// seen is the state that watches add up to.
	seen map[string]int64
	done bool
}

func (c *conversation) written() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done
}

// version returns the resourceVersion of an object or a list.
func (c *conversation) version(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		c.t.Errorf("resourceVersion %q", text)
	}
	return n
}

// check checks an error.
func (c *conversation) check(verb, name string, err error) {
	if err == nil {
		return
	}
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		// The connection was closed.
		if text := err.Error(); !strings.Contains(text, "INTERNAL_ERROR") && !strings.Contains(text, "EOF") {
			c.t.Errorf("%s %s: %v", verb, name, err)
		}
		return
	}
	s := status.Status()
	bad := func() { c.t.Errorf("%s %s: %+v, details %+v", verb, name, s, s.Details) }
	if s.Status != metav1.StatusFailure || s.Message == "" {
		bad()
	}
	switch reason, d := s.Reason, s.Details; s.Code {
	case 409:
		if reason == metav1.StatusReasonAlreadyExists && verb == "create" {
			return // after a lost answer
		}
		if reason != metav1.StatusReasonConflict || verb != "update" || d == nil || d.Name != name || d.Kind != c.resource.Resource || d.Group != c.resource.Group {
			bad()
		}
	case 404:
		if reason != metav1.StatusReasonNotFound {
			bad()
		}
	case 410:
		if reason != metav1.StatusReasonExpired || verb != "watch" && verb != "list" {
			bad()
		}
	case 429:
		if reason != metav1.StatusReasonTooManyRequests || d == nil || d.RetryAfterSeconds < 1 {
			bad()
		}
	case 500:
		if reason != metav1.StatusReasonInternalError {
			bad()
		}
	case 503:
		if reason != metav1.StatusReasonServiceUnavailable {
			bad()
		}
	case 504:
		if reason != metav1.StatusReasonTimeout || !slices.Contains([]string{"create", "update", "delete"}, verb) {
			bad()
		}
	default:
		bad()
	}
}

func (c *conversation) object(name string) *unstructured.Unstructured {
	apiVersion, kind := "v1", "ConfigMap"
	if c.resource.Group != "" {
		apiVersion, kind = "example.com/v1", "CronTab"
	}
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name}}}
}

// write sends writes and reads.
func (c *conversation) write(ctx context.Context, random *rand.Rand) {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.done = true
	}()
	cached := map[string]int64{} // the newest version of each object in a read from the cache
	listed := int64(0)
	for i := range profileSteps {
		name := fmt.Sprint("x", random.IntN(6))
		verb := []string{"create", "update", "update", "delete", "get", "list"}[random.IntN(6)]
		switch verb {
		case "create":
			c.answer(verb, name, func() (*unstructured.Unstructured, error) {
				return c.client.Create(ctx, c.object(name), metav1.CreateOptions{})
			})
		case "update":
			object, err := c.client.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				c.check("get", name, err)
				continue
			}
			object.SetLabels(map[string]string{"step": fmt.Sprint(i)})
			c.answer(verb, name, func() (*unstructured.Unstructured, error) {
				return c.client.Update(ctx, object, metav1.UpdateOptions{})
			})
		case "delete":
			c.mu.Lock()
			c.deleted[name] = true
			c.mu.Unlock()
			c.check(verb, name, c.client.Delete(ctx, name, metav1.DeleteOptions{}))
		case "get":
			object, err := c.client.Get(ctx, name, metav1.GetOptions{ResourceVersion: "0"})
			if err != nil {
				c.check(verb, name, err)
				continue
			}
			version := c.version(object.GetResourceVersion())
			if version < cached[name] {
				c.t.Errorf("%s: a read from the cache returned %d after %d", name, version, cached[name])
			}
			cached[name] = version
		case "list":
			list, err := c.client.List(ctx, metav1.ListOptions{ResourceVersion: "0"})
			if err != nil {
				c.check(verb, "", err)
				continue
			}
			at := c.version(list.GetResourceVersion())
			if at < listed {
				c.t.Errorf("a list from the cache is at %d after %d", at, listed)
			}
			listed = at
			for _, o := range list.Items {
				version := c.version(o.GetResourceVersion())
				if version > at || version < cached[o.GetName()] {
					c.t.Errorf("a list at %d has %s at %d, after %d", at, o.GetName(), version, cached[o.GetName()])
				}
				cached[o.GetName()] = version
			}
		}
	}
}

// answer sends a write and notes the version that was acknowledged.
func (c *conversation) answer(verb, name string, send func() (*unstructured.Unstructured, error)) {
	object, err := send()
	if err != nil {
		c.check(verb, name, err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acknowledged[name] = c.version(object.GetResourceVersion())
	c.deleted[name] = false
}

// follow lists and watches, as an informer does, until ctx ends.
func (c *conversation) follow(ctx context.Context) {
	for ctx.Err() == nil {
		list, err := c.client.List(ctx, metav1.ListOptions{})
		if err != nil {
			if ctx.Err() == nil {
				c.check("list", "", err)
			}
			continue
		}
		c.mu.Lock()
		clear(c.seen)
		for _, o := range list.Items {
			c.seen[o.GetName()] = c.version(o.GetResourceVersion())
		}
		c.mu.Unlock()
		for at := c.version(list.GetResourceVersion()); at != 0 && ctx.Err() == nil; {
			at = c.watch(ctx, at)
		}
	}
}

// watch watches from a version on, and returns the version to resume at, or zero if it has expired.
func (c *conversation) watch(ctx context.Context, at int64) int64 {
	w, err := c.client.Watch(ctx, metav1.ListOptions{ResourceVersion: fmt.Sprint(at), AllowWatchBookmarks: true})
	if err != nil {
		if ctx.Err() == nil {
			c.check("watch", "", err)
		}
		return at
	}
	defer w.Stop()
	events := 0
	for e := range w.ResultChan() {
		if e.Type == watch.Error {
			if ctx.Err() != nil {
				return at
			}
			err := apierrors.FromObject(e.Object)
			c.check("watch", "", err)
			if apierrors.IsResourceExpired(err) {
				return 0
			}
			return at
		}
		object, err := metaOf(e)
		if err != nil {
			c.t.Error(err)
			return at
		}
		version := c.version(object.GetResourceVersion())
		if version < at || version == at && e.Type != watch.Bookmark {
			c.t.Errorf("%s %s at %d after %d", e.Type, object.GetName(), version, at)
		}
		at = version
		c.mu.Lock()
		switch e.Type {
		case watch.Added, watch.Modified:
			c.seen[object.GetName()] = version
		case watch.Deleted:
			delete(c.seen, object.GetName())
		}
		c.mu.Unlock()
		// More watches get more faults.
		if events++; events == 4 {
			return at
		}
	}
	return at
}

// settle waits until the watches have the stored state, and checks that it has all acknowledged
// writes.
func (c *conversation) settle(ctx context.Context) {
	c.t.Helper()
	list, err := c.client.List(ctx, metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	stored := map[string]int64{}
	for _, o := range list.Items {
		stored[o.GetName()] = c.version(o.GetResourceVersion())
	}
	await(c.t, "watches of "+c.resource.Resource, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return maps.Equal(c.seen, stored)
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, version := range c.acknowledged {
		if stored[name] < version && !c.deleted[name] {
			c.t.Errorf("%s %s: %d was acknowledged, and %d is stored", c.resource.Resource, name, version, stored[name])
		}
	}
}
