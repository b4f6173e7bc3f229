package backend

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
)

// Some tests of the suite give the storage a few seconds, or 150 ms. With the setups in this
// file, they do not depend on the speed of the machine.

// patience is the time after which an event that does not arrive is missing. Only a broken
// storage needs it.
const patience = time.Minute

// unhurried is a setup whose writes take the time that they need, and whose watches do not end
// before a bookmark. The storage still sends it because of the deadline of the test's context.
type unhurried struct{ *setup }

func (s unhurried) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	return s.setup.Create(context.WithoutCancel(ctx), key, obj, out, ttl)
}

// lateContext is a context that has a deadline, but does not end then.
type lateContext struct {
	context.Context
	deadline func() time.Time
}

func (c lateContext) Deadline() (time.Time, bool) { return c.deadline(), true }

func (s unhurried) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	deadline, ok := ctx.Deadline()
	if !ok || !opts.Predicate.AllowWatchBookmarks {
		return s.setup.Watch(ctx, key, opts)
	}
	lasts := time.Until(deadline)
	// There are no bookmarks without news, and the first write of the test may be late.
	pod := &example.Pod{}
	pod.Namespace, pod.Name = "unhurried", fmt.Sprint(deadline.UnixNano())
	if err := s.Create(ctx, "/pods/unhurried/"+pod.Name, pod, &example.Pod{}, 0); err != nil {
		return nil, err
	}
	if err := s.RequestWatchProgress(s.ctx); err != nil {
		return nil, err
	}
	open, end := context.WithTimeout(context.WithoutCancel(ctx), patience)
	w, err := s.setup.Watch(lateContext{open, sync.OnceValue(func() time.Time { return time.Now().Add(lasts) })}, key, opts)
	if err != nil {
		end()
		return nil, err
	}
	return forward(w, end, func(events <-chan watch.Event, send func(watch.Event)) {
		over, bookmarks := time.After(lasts), 0
		for over != nil || bookmarks == 0 {
			select {
			case e, ok := <-events:
				if !ok {
					return
				}
				send(e)
				if e.Type == watch.Bookmark {
					bookmarks++
				}
			case <-over:
				over = nil
			}
		}
	}), nil
}

// forwarded is a watch whose events pass through a function.
type forwarded struct {
	results chan watch.Event
	stop    func()
}

func (w *forwarded) ResultChan() <-chan watch.Event { return w.results }
func (w *forwarded) Stop()                          { w.stop() }

// forward starts a function that forwards the events of a watch. The goroutine ends with the
// function, and the function no later than the watch; then end is called.
func forward(from watch.Interface, end func(), through func(events <-chan watch.Event, send func(watch.Event))) *forwarded {
	stopped := make(chan struct{})
	w := &forwarded{results: make(chan watch.Event, 100), stop: sync.OnceFunc(func() {
		close(stopped)
		from.Stop()
	})}
	go func() {
		defer close(w.results)
		defer end()
		defer from.Stop()
		through(from.ResultChan(), func(e watch.Event) {
			select {
			case w.results <- e:
			case <-stopped:
			}
		})
	}()
	return w
}

// watchOwnWrites is a setup whose writes wait until the watches that select them have their
// events.
type watchOwnWrites struct {
	readOwnWrites
	mu      sync.Mutex
	changed chan struct{} // closed when a watch has received something
	watches []*received
}

// received is what a watch has received.
type received struct {
	prefix   string
	ended    bool
	versions map[string]bool
}

func (s *watchOwnWrites) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	if s.changed != nil {
		close(s.changed)
	}
	s.changed = make(chan struct{})
}

func (s *watchOwnWrites) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	w, err := s.readOwnWrites.Watch(ctx, key, opts)
	if err != nil {
		return nil, err
	}
	r := &received{prefix: strings.TrimSuffix(key, "/") + "/", versions: map[string]bool{}}
	s.change(func() { s.watches = append(s.watches, r) })
	return forward(w, func() { s.change(func() { r.ended = true }) }, func(events <-chan watch.Event, send func(watch.Event)) {
		for e := range events {
			send(e)
			obj := e.Object
			if shared, ok := obj.(runtime.CacheableObject); ok {
				obj = shared.GetObject()
			}
			if m, err := meta.Accessor(obj); err == nil {
				s.change(func() { r.versions[m.GetResourceVersion()] = true })
			}
		}
	}), nil
}

func (s *watchOwnWrites) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	if err := s.readOwnWrites.Create(ctx, key, obj, out, ttl); err != nil {
		return err
	}
	m, err := meta.Accessor(out)
	if err != nil {
		return err
	}
	for late := time.After(patience); ; {
		missing := false
		s.mu.Lock()
		for _, r := range s.watches {
			missing = missing || !r.ended && strings.HasPrefix(key, r.prefix) && !r.versions[m.GetResourceVersion()]
		}
		changed := s.changed
		s.mu.Unlock()
		if !missing {
			return nil
		}
		select {
		case <-changed:
		case <-late:
			return fmt.Errorf("a watch has not received %s", key)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
