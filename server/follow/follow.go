// Package follow runs control loops over the store: what changes is put into a queue, and
// handled until it succeeds.
package follow

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"

	"espalier.dev/store"
)

// Config configures a Follower.
type Config struct {
	// Store has all stored objects in memory.
	Store *store.Store
	// Ready is closed when the follower may begin; nil means that it need not wait.
	Ready <-chan struct{}
	// Reset forgets everything, and takes in all entries.
	Reset func(*store.Snapshot)
	// Take takes in a change.
	Take func(*store.Event)
	// Handle handles an item of the queue. What Reset and Take have taken in is then at least
	// as new as etcd was when the item left the queue. If Handle returns an error, it is called
	// again later.
	Handle func(ctx context.Context, item string) error
	// Begin is called instead of Handle, if it is set, for items that may wait for others, as for
	// webhooks. It does the part that reads what Reset and Take have taken in, and returns the
	// rest, or nil if there is none. The follower goes on while the rest takes long, and does not
	// handle the item again until it has ended. If there are too many of them, ctx is canceled.
	Begin func(ctx context.Context, item string) (finish func(ctx context.Context) error, err error)
}

// The limits of the work of a follower.
const (
	batch   = 64
	workers = 8
	// An item that fails is tried again after a pause, which doubles up to a limit.
	firstPause, lastPause = 20 * time.Millisecond, 10 * time.Second
	// handleTime limits the time of one attempt.
	handleTime = 30 * time.Second
	// finishTime limits the time of what Begin returns. After the time patience, the follower
	// goes on without it, unless there are already maxSlow of them.
	finishTime = 5 * time.Minute
	patience   = 250 * time.Millisecond
	maxSlow    = 64
)

// Follower follows the store. One goroutine runs Run: it calls Reset and Take, and starts the
// goroutines that call Handle or Begin. It waits for these before it goes on, so they may read
// what the others have written. What Begin returns has goroutines of its own, and Run ends them
// before it returns. If the process ends, nothing is lost: Reset finds everything again. Add is
// safe for concurrent use.
type Follower struct {
	config Config
	wake   chan struct{} // has an element if the queue may have a new item

	mu     sync.Mutex
	queue  []string
	queued map[string]bool
	// failing are the items that have failed, and are not in the queue.
	failing map[string]*failure
	// busy are the items that are not finished. The value is set if the item must be handled again
	// afterwards.
	busy map[string]bool

	finishing sync.WaitGroup // the goroutines of busy items; belongs to Run
	reached   int64          // belongs to Run
}

// failure is the state of an item that has failed.
type failure struct {
	pause time.Duration
	due   time.Time
}

// New returns a Follower.
func New(c Config) *Follower {
	return &Follower{config: c, wake: make(chan struct{}, 1), queued: map[string]bool{},
		failing: map[string]*failure{}, busy: map[string]bool{}}
}

// Add adds an item to the queue, unless it is there.
func (f *Follower) Add(item string) {
	f.mu.Lock()
	if !f.queued[item] {
		f.queued[item] = true
		f.queue = append(f.queue, item)
	}
	f.mu.Unlock()
	f.notify()
}

// notify makes Run look at the queue.
func (f *Follower) notify() {
	select {
	case f.wake <- struct{}{}:
	default: // it will be looked at
	}
}

// Run follows the store until ctx or the store ends.
func (f *Follower) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer f.finishing.Wait()
	defer cancel()
	for _, ready := range []<-chan struct{}{f.config.Store.Loaded(), f.config.Ready} {
		if ready == nil {
			continue
		}
		select {
		case <-ready:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for resume := int64(0); ; {
		err := f.follow(ctx, resume)
		expired := (*store.ExpiredError)(nil)
		switch {
		case errors.Is(err, store.ErrSlow) && resume != f.reached:
			resume = f.reached // the events may still be in the window
		case errors.Is(err, store.ErrSlow), errors.As(err, &expired):
			resume = 0
		default:
			return err
		}
	}
}

// follow follows the store after a revision. If it is zero, it begins anew.
func (f *Follower) follow(ctx context.Context, after int64) error {
	s := f.config.Store
	var snapshot *store.Snapshot
	if after == 0 {
		snapshot = s.Snapshot()
		after = snapshot.Revision
	}
	w, err := s.Watch(s.Prefix(), after)
	if err != nil {
		return err
	}
	defer w.Stop()
	if snapshot != nil {
		f.config.Reset(snapshot)
		f.reached = after
		snapshot = nil // it keeps old entries in memory
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if err := f.drain(ctx, w); err != nil {
			return err
		}
		items, due := f.next()
		if len(items) > 0 {
			if err := f.work(ctx, w, items); err != nil {
				return err
			}
			continue
		}
		var next <-chan time.Time
		if !due.IsZero() {
			timer.Reset(time.Until(due))
			next = timer.C
		}
		select {
		case <-w.Ready():
		case <-f.wake:
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// drain takes in the changes that a watcher has received.
func (f *Follower) drain(ctx context.Context, w *store.Watcher) error {
	for {
		events, revision, err := w.Poll()
		if err != nil {
			return err
		}
		for _, e := range events {
			f.config.Take(e)
		}
		f.reached = revision
		if len(events) == 0 {
			return ctx.Err()
		}
	}
}

// next takes items from the queue. If it is empty, it returns when the next failed item is due,
// if there is one.
func (f *Follower) next() (items []string, due time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	for item, state := range f.failing {
		if _, busy := f.busy[item]; busy || f.queued[item] {
			continue
		}
		if !state.due.After(now) {
			f.queued[item] = true
			f.queue = append(f.queue, item)
		} else if due.IsZero() || state.due.Before(due) {
			due = state.due
		}
	}
	for len(f.queue) > 0 && len(items) < batch {
		item := f.queue[0]
		f.queue = f.queue[1:]
		delete(f.queued, item)
		if _, busy := f.busy[item]; busy {
			f.busy[item] = true
			continue
		}
		items = append(items, item)
	}
	if len(f.queue) == 0 {
		f.queue = nil // release the array
	}
	return items, due
}

// work handles items, after the follower has reached the newest revision.
func (f *Follower) work(ctx context.Context, w *store.Watcher, items []string) error {
	if err := f.sync(ctx, w); err != nil {
		for _, item := range items {
			f.fail(item)
		}
		if gone := ctx.Err(); gone != nil {
			return gone
		}
		if errors.Is(err, errWatch) {
			return err
		}
		klog.FromContext(ctx).V(2).Info("A controller waits for etcd", "reason", err.Error())
		return nil
	}
	group := errgroup.Group{}
	group.SetLimit(workers)
	for _, item := range items {
		group.Go(func() error {
			f.handle(ctx, item)
			return nil
		})
	}
	_ = group.Wait() // no function returns an error
	return ctx.Err()
}

// handle handles an item. It returns when the item is done, or when it takes long.
func (f *Follower) handle(ctx context.Context, item string) {
	begin, cancel := context.WithTimeout(ctx, handleTime)
	defer cancel()
	if f.config.Begin == nil {
		f.end(ctx, item, protect(func() error { return f.config.Handle(begin, item) }))
		return
	}
	var finish func(context.Context) error
	err := protect(func() (err error) {
		finish, err = f.config.Begin(begin, item)
		return err
	})
	if err != nil || finish == nil {
		f.end(ctx, item, err)
		return
	}
	f.mu.Lock()
	f.busy[item] = false
	f.mu.Unlock()
	rest, stop := context.WithTimeout(ctx, finishTime)
	done := make(chan struct{})
	f.finishing.Go(func() {
		defer close(done)
		defer stop()
		f.end(ctx, item, protect(func() error { return finish(rest) }))
	})
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
		return
	case <-timer.C:
	}
	f.mu.Lock()
	full := len(f.busy) > maxSlow+workers
	f.mu.Unlock()
	if full {
		stop()
		<-done
	}
}

// protect returns a panic of f as an error, and logs it: one item must not end the process.
func protect(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
			klog.ErrorS(err, "A controller failed to handle an object", "stack", string(debug.Stack()))
		}
	}()
	return f()
}

// end records the result of an item.
func (f *Follower) end(ctx context.Context, item string, err error) {
	if err != nil {
		klog.FromContext(ctx).V(4).Info("A controller tries again later", "item", item, "reason", err.Error())
		f.fail(item)
	} else {
		f.succeed(item)
	}
	f.mu.Lock()
	again, busy := f.busy[item]
	delete(f.busy, item)
	f.mu.Unlock()
	if again {
		f.Add(item)
	} else if busy {
		f.notify() // the time of the next attempt has changed
	}
}

// errWatch marks the end of the watcher.
var errWatch = errors.New("the watch has ended")

// sync takes in everything up to the newest revision of etcd.
func (f *Follower) sync(ctx context.Context, w *store.Watcher) error {
	wait, cancel := context.WithTimeout(ctx, handleTime)
	defer cancel()
	revision, err := f.config.Store.Current(wait)
	if err == nil {
		err = f.config.Store.Await(wait, revision)
	}
	if err != nil {
		return err
	}
	if err := f.drain(ctx, w); err != nil {
		return errors.Join(errWatch, err)
	}
	return nil
}

func (f *Follower) fail(item string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	state := f.failing[item]
	if state == nil {
		state = &failure{pause: firstPause / 2}
		f.failing[item] = state
	}
	state.pause = min(2*state.pause, lastPause)
	state.due = time.Now().Add(state.pause)
}

func (f *Follower) succeed(item string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.failing, item)
}
