package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"espalier.dev/api"
)

const (
	// watchTime is how long one watch lasts.
	watchTime = 5 * time.Minute
	// settleTime is the time after a change in which more changes are awaited: an operator is
	// installed with many CRDs, each of which the server changes several times.
	settleTime = 200 * time.Millisecond
	// pollTime is the time between two lists if the user may not watch CRDs.
	pollTime = time.Minute
	// steadyTime is how long a watch lasts if nothing is wrong. After a shorter one there is a pause,
	// which starts with settleTime and doubles up to pollTime.
	steadyTime = 30 * time.Second
	// maxFollowed limits the size of all CRDs, and definitionSize is what each needs beside its text: a server
	// could list CRDs without an end.
	maxFollowed    = 1 << 30
	definitionSize = 1 << 10
)

// Update is what has changed in the CRDs of an API server.
type Update struct {
	// Complete is set if CRDs has all of them: there are no others.
	Complete bool
	// CRDs are new or changed, sorted by name, and Deleted are names.
	CRDs    []Object
	Deleted []string
}

// Follow reads the CRDs of an API server and calls changed with all of them, and then with those that
// change. It keeps none of them. It returns when a request fails, or when ctx ends. If only watches fail,
// it lists the CRDs every minute.
func Follow(ctx context.Context, config *rest.Config, changed func(Update)) error {
	return follow(ctx, config, changed, sleep, maxFollowed)
}

// follow is Follow with a function that waits, and the maximum size of all CRDs.
func follow(ctx context.Context, config *rest.Config, changed func(Update), wait func(context.Context, time.Duration) error, most int) error {
	listing, err := NewCluster(config)
	if err != nil {
		return err
	}
	config = rest.CopyConfig(config)
	config.Timeout = 0 // it would end watches
	watching, err := NewCluster(config)
	if err != nil {
		return err
	}
	defer func() {
		for _, c := range []Finder{listing, watching} {
			utilnet.CloseIdleConnectionsFor(c.(*served).client.Client.Transport)
		}
	}()
	f := &follower{list: listing.(*served), watching: watching.(*served), changed: changed, wait: wait, most: most}
	for {
		if err := f.read(ctx); err != nil {
			return err
		}
		if err := f.follow(ctx); err != nil {
			return err
		}
	}
}

// follower follows the CRDs of an API server.
type follower struct {
	list, watching *served
	changed        func(Update)
	wait           func(context.Context, time.Duration) error
	most           int
	// pause is the last pause after a watch that has not lasted, or 0.
	pause time.Duration
	// pending are the CRDs by name that have changed and that changed was not called with. Those
	// without JSON are deleted. version is the resource version up to which all are known.
	pending map[string]Object
	version string
}

// definitionOf returns a CRD in a list or an event.
func definitionOf(o Object) Object {
	o.JSON = withType(o.JSON, api.APIVersion, api.Kind)
	o.Definition, o.where = o.Name, path.Join(definitionsPath, o.Name)
	return o
}

// read lists the CRDs.
func (f *follower) read(ctx context.Context) error {
	f.pending = map[string]Object{}
	size := 0
	l := &listing{client: f.list.client, path: definitionsPath, complete: definitionOf, yield: func(o Object, _ error) bool {
		f.pending[o.Name] = o
		size += definitionSize + len(o.JSON)
		return size <= f.most
	}}
	err := l.all(ctx, "")
	if err == nil && l.stopped {
		err = fmt.Errorf("all of them are larger than %d MiB", f.most>>20)
	}
	if err != nil {
		return fmt.Errorf("list the CRDs: %w", err)
	}
	f.version = l.version
	f.tell(true)
	return nil
}

// tell calls changed with what is pending.
func (f *follower) tell(complete bool) {
	u := Update{Complete: complete}
	for _, name := range slices.Sorted(maps.Keys(f.pending)) {
		if o := f.pending[name]; o.JSON != nil {
			u.CRDs = append(u.CRDs, o)
		} else {
			u.Deleted = append(u.Deleted, name)
		}
	}
	f.pending = map[string]Object{}
	f.changed(u)
}

// follow watches the CRDs until they have to be listed again, which is no error.
func (f *follower) follow(ctx context.Context) error {
	for {
		if f.version == "" {
			return f.wait(ctx, pollTime)
		}
		start := time.Now()
		err := f.watch(ctx)
		var status *apierrors.StatusError
		refused := errors.As(err, &status)
		expired := errors.Is(err, errExpired) || refused && status.ErrStatus.Code == http.StatusGone
		switch {
		case err == nil, expired, errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			if err := f.rest(ctx, time.Since(start)); err != nil || expired {
				return err
			}
		case refused && !apierrors.IsUnauthorized(err):
			// The server lists CRDs. It may not allow the user to watch them.
			return f.wait(ctx, pollTime)
		default:
			return fmt.Errorf("watch the CRDs: %w", err)
		}
	}
}

// rest waits after a watch, unless it has lasted: a server that ends each watch at once, or that has
// always forgotten the version of its last list, must not be kept busy.
func (f *follower) rest(ctx context.Context, lasted time.Duration) error {
	if lasted >= steadyTime {
		f.pause = 0
		return ctx.Err()
	}
	f.pause = min(max(2*f.pause, settleTime), pollTime)
	return f.wait(ctx, f.pause)
}

// errExpired is returned if the server cannot continue a watch: the CRDs have to be listed again.
var errExpired = errors.New("the server has ended the watch")

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// watch follows the CRDs until the server ends the watch.
func (f *follower) watch(ctx context.Context) error {
	w, err := f.watching.watch(ctx, definitionsPath, "", f.version, "")
	if err != nil {
		return err
	}
	defer w.stop()
	settled := time.NewTimer(settleTime)
	settled.Stop()
	defer settled.Stop()
	for {
		select {
		case e, ok := <-w.events:
			if !ok {
				if len(f.pending) > 0 {
					f.tell(false)
				}
				return w.err()
			}
			before := len(f.pending)
			if err := f.apply(e); err != nil {
				return err
			}
			if before == 0 && len(f.pending) > 0 {
				settled.Reset(settleTime)
			}
		case <-settled.C:
			f.tell(false)
		}
	}
}

// apply applies an event.
func (f *follower) apply(e watchEvent) error {
	var head struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	if err := json.Unmarshal(e.Object, &head); err != nil {
		return fmt.Errorf("the answer is not a watch: %w", err)
	}
	switch e.Type {
	case "ERROR":
		return errExpired
	case "ADDED", "MODIFIED":
		o := definitionOf(identified(Object{JSON: e.Object}))
		f.pending[o.Name] = o
	case "DELETED":
		f.pending[head.Metadata.Name] = Object{Name: head.Metadata.Name}
	}
	f.version = head.Metadata.ResourceVersion
	return nil
}
