package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	watchers = 50
	// watched is the number of events in a turn of the row watch-events.
	watched = 1000
	// watchPace is the time between two of these events: faster ones end watches of the
	// reference, whose clients then begin again.
	watchPace = 2 * time.Millisecond
	// watchKind is a kind of its own, so that watchers see only the writes of their row.
	watchKind = "Watchload"
	// deliveryTimeout is the time that events have to arrive after the last write.
	deliveryTimeout = 2 * time.Minute
)

// measureWatches measures the rows of watches.
func (b *bench) measureWatches(ctx context.Context, servers []*server) error {
	for _, s := range servers {
		if err := s.createCRD(ctx, watchKind); err != nil {
			return err
		}
	}
	if b.wants("watch") || b.wants("watch-p99") {
		if err := b.measureWatchedWrites(ctx, servers); err != nil {
			return err
		}
	}
	if !b.wants("watch-events") {
		return nil
	}
	return b.measureEvents(ctx, servers)
}

// measureEvents measures what events cost apart from the requests that cause them: the objects
// are written to etcd, as by other servers.
func (b *bench) measureEvents(ctx context.Context, servers []*server) error {
	cost, reopened := map[string][]float64{}, map[string]float64{}
	puts := map[string]operation{}
	var stem string
	var begin time.Time
	for _, s := range servers {
		t, err := s.template(ctx, watchKind, "event-template")
		if err != nil {
			return fmt.Errorf("watch-events: %s: %w", s.name, err)
		}
		puts[s.name] = func(ctx context.Context, _, i int) error {
			name := fmt.Sprintf("%s%d", stem, i)
			time.Sleep(time.Until(begin.Add(time.Duration(i) * watchPace)))
			_, err := s.store.Put(ctx, t.dir+name, t.object(name, i))
			return err
		}
	}
	for turn := -1; turn < b.settings.turns; turn++ { // the first turn warms up
		stem = fmt.Sprintf("event-%d-", turn+1)
		for _, s := range servers {
			begin = time.Now()
			l, _, again, err := b.watchTurn(ctx, s, stem, 0, watched, puts[s.name])
			if err != nil {
				return fmt.Errorf("watch-events: %s: %w", s.name, err)
			}
			if turn >= 0 {
				cost[s.name] = append(cost[s.name], l.perRequest())
				reopened[s.name+" reopened watches"] += float64(again)
			}
		}
	}
	values := figures{}
	for _, s := range servers {
		values[s.name] = median(cost[s.name], func(v float64) float64 { return v })
	}
	b.record("watch-events", values, reopened)
	if b.profiles == "" {
		return nil
	}
	s := servers[len(servers)-1]
	stem, begin = "event-profile-", time.Now()
	return b.profileWatches(ctx, s, "watch-events", puts[s.name])
}

// measureWatchedWrites measures creations while watchers follow: the CPU time of a write with all
// its events, and the time from sending the request until a watcher has the event.
func (b *bench) measureWatchedWrites(ctx context.Context, servers []*server) error {
	cost, late, reopened := map[string][]float64{}, map[string][]float64{}, map[string]float64{}
	for turn := -1; turn < b.settings.turns; turn++ {
		for _, s := range servers {
			d := b.settings.turn
			if turn < 0 {
				d /= 4
			}
			stem, buffers := fmt.Sprintf("watch-%d-", turn+1), newBuffers(s)
			l, latencies, again, err := b.watchTurn(ctx, s, stem, d, 0, func(ctx context.Context, c, i int) error {
				return s.create(ctx, s.clients[c], watchKind, fmt.Sprintf("%s%d", stem, i), &buffers[c])
			})
			if err != nil {
				return fmt.Errorf("watch: %s: %w", s.name, err)
			}
			if turn < 0 {
				continue
			}
			slices.Sort(latencies)
			cost[s.name] = append(cost[s.name], l.perRequest())
			reopened[s.name+" reopened watches"] += float64(again)
			late[s.name] = append(late[s.name], latencies[len(latencies)*99/100].Seconds()*1e3)
		}
	}
	values, p99 := figures{}, figures{}
	self := func(v float64) float64 { return v }
	for _, s := range servers {
		values[s.name], p99[s.name] = median(cost[s.name], self), median(late[s.name], self)
	}
	b.record("watch", values, reopened)
	b.record("watch-p99", p99, reopened)
	if b.profiles == "" {
		return nil
	}
	s := servers[len(servers)-1]
	return b.profileWatches(ctx, s, "watch", func(ctx context.Context, c, i int) error {
		var buffer bytes.Buffer
		return s.create(ctx, s.clients[c], watchKind, fmt.Sprintf("profile-%d", i), &buffer)
	})
}

// watchTurn writes objects, whose names are the stem and a number, while the watchers follow,
// and waits for all events. It ends after a time or a number of calls; 0 means no limit.
func (b *bench) watchTurn(ctx context.Context, s *server, stem string, d time.Duration, calls int, write operation) (_ load, _ []time.Duration, reopened int64, _ error) {
	var lock sync.Mutex
	sent := map[string]time.Time{}
	var latencies []time.Duration
	received := make([]int, watchers)
	arrived := make(chan struct{}, 1)
	group, err := b.watch(ctx, s, func(watcher int, event []byte) {
		now := time.Now()
		name := stem + text(event, `"name":"`+stem)
		lock.Lock()
		defer lock.Unlock()
		at, ok := sent[name]
		if !ok {
			return
		}
		latencies = append(latencies, now.Sub(at))
		received[watcher]++
		select {
		case arrived <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return load{}, nil, 0, err
	}
	defer group.stop()

	before, err := s.process.cpu()
	if err != nil {
		return load{}, nil, 0, err
	}
	l, err := s.spend(ctx, concurrency, d, calls, func(ctx context.Context, c, i int) error {
		name := fmt.Sprintf("%s%d", stem, i)
		lock.Lock()
		sent[name] = time.Now()
		lock.Unlock()
		return write(ctx, c, i)
	})
	if err != nil {
		return load{}, nil, 0, err
	}
	timeout := time.After(deliveryTimeout)
	for {
		lock.Lock()
		missing := slices.ContainsFunc(received, func(n int) bool { return n < l.requests })
		lock.Unlock()
		if !missing {
			break
		}
		select {
		case <-arrived:
		case err := <-group.failed:
			return load{}, nil, 0, err
		case <-timeout:
			return load{}, nil, 0, fmt.Errorf("events are missing after %v: %d watchers have %v of %d; %d watches were reopened", deliveryTimeout, watchers, received, l.requests, group.reopened.Load())
		case <-ctx.Done():
			return load{}, nil, 0, ctx.Err()
		}
	}
	after, err := s.process.cpu()
	l.cpu = after - before
	return l, latencies, group.reopened.Load(), err
}

// profileWatches writes a CPU profile of writes that are watched.
func (b *bench) profileWatches(ctx context.Context, s *server, row string, write operation) error {
	group, err := b.watch(ctx, s, func(int, []byte) {})
	if err != nil {
		return err
	}
	defer group.stop()
	return s.profile(ctx, filepath.Join(b.profiles, row+".pprof"), concurrency, write)
}

// watching is a group of open watches. stop ends them and their goroutines.
type watching struct {
	failed chan error
	// reopened counts the watches that the server has ended.
	reopened atomic.Int64
	cancel   context.CancelFunc
	ended    sync.WaitGroup
}

func (w *watching) stop() {
	w.cancel()
	w.ended.Wait()
}

// watch opens the watches, each on a connection of its own, from the current revision on. A
// server may end the watch of a client that is too slow; the client then continues after the
// last event that it has seen.
func (b *bench) watch(ctx context.Context, s *server, event func(watcher int, line []byte)) (*watching, error) {
	body, err := s.get(ctx, collection(watchKind)+"?limit=1")
	if err != nil {
		return nil, err
	}
	var list struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &watching{failed: make(chan error, watchers), cancel: cancel}
	for i := range watchers {
		client, err := newClient(b.certs.CA, b.certs.Admin)
		if err != nil {
			w.stop()
			return nil, err
		}
		from := list.Metadata.ResourceVersion
		stream, err := s.openWatch(ctx, client, from)
		if err != nil {
			w.stop()
			return nil, err
		}
		w.ended.Go(func() {
			defer client.CloseIdleConnections()
			for {
				from, err = follow(stream, from, func(line []byte) { event(i, line) })
				if ctx.Err() != nil {
					return
				}
				if err == nil {
					w.reopened.Add(1)
					stream, err = s.openWatch(ctx, client, from)
				}
				if err != nil {
					w.failed <- err
					return
				}
			}
		})
	}
	return w, nil
}

// openWatch opens a watch.
func (s *server) openWatch(ctx context.Context, client *http.Client, from string) (io.ReadCloser, error) {
	path := collection(watchKind) + "?watch=true&timeoutSeconds=600&resourceVersion=" + from
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("watch: %s", resp.Status)
	}
	return resp.Body, nil
}

// follow reads events until the server ends the watch, and returns the last revision.
func follow(stream io.ReadCloser, from string, event func([]byte)) (string, error) {
	defer stream.Close()
	lines := bufio.NewReaderSize(stream, 1<<16)
	for {
		line, err := lines.ReadSlice('\n')
		if err == io.EOF {
			return from, nil
		}
		if err != nil {
			return from, err
		}
		if bytes.HasPrefix(line, []byte(`{"type":"ERROR"`)) {
			return from, fmt.Errorf("watch: %s", line)
		}
		if revision := text(line, `"resourceVersion":"`); revision != "" {
			from = revision
		}
		event(line)
	}
}

// text returns the rest of a JSON string that begins with a prefix.
func text(line []byte, prefix string) string {
	i := bytes.Index(line, []byte(prefix))
	if i < 0 {
		return ""
	}
	rest := line[i+len(prefix):]
	return string(rest[:max(0, bytes.IndexByte(rest, '"'))])
}
