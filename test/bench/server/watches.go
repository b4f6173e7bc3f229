package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	watchers = 50
	// watchKind is a kind of its own, so that watchers see only the writes of their row.
	watchKind = "Watchload"
	// deliveryTimeout is the time that events have to arrive after the last write.
	deliveryTimeout = 2 * time.Minute
)

// measureWatches measures creations while watchers follow: the CPU time of a write with all
// its events, and the time from sending the request until a watcher has the event.
func (b *bench) measureWatches(ctx context.Context, servers []*server) error {
	for _, s := range servers {
		if err := s.createCRD(ctx, watchKind, true); err != nil {
			return err
		}
	}
	cost, late, reopened := map[string][]float64{}, map[string][]float64{}, map[string]float64{}
	for turn := -1; turn < b.settings.turns; turn++ {
		for _, s := range servers {
			d := b.settings.turn
			if turn < 0 {
				d /= 4
			}
			l, latencies, again, err := b.watchTurn(ctx, s, fmt.Sprintf("watch-%d-", turn+1), d)
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
	return b.profileWatches(ctx, servers[len(servers)-1])
}

// watchTurn creates objects for a time while the watchers follow, and waits for all events.
func (b *bench) watchTurn(ctx context.Context, s *server, stem string, d time.Duration) (_ load, _ []time.Duration, reopened int64, _ error) {
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
	buffers := newBuffers(s)
	l, err := s.spend(ctx, concurrency, d, 0, func(ctx context.Context, c, i int) error {
		name := fmt.Sprintf("%s%d", stem, i)
		lock.Lock()
		sent[name] = time.Now()
		lock.Unlock()
		return s.create(ctx, s.clients[c], watchKind, name, &buffers[c])
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

// profileWatches writes a CPU profile of creations that are watched.
func (b *bench) profileWatches(ctx context.Context, s *server) error {
	group, err := b.watch(ctx, s, func(int, []byte) {})
	if err != nil {
		return err
	}
	defer group.stop()
	op := func(ctx context.Context, c, i int) error {
		var buffer bytes.Buffer
		return s.create(ctx, s.clients[c], watchKind, fmt.Sprintf("profile-%d", i), &buffer)
	}
	return s.profile(ctx, b.profiles+"/watch.pprof", concurrency, op)
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
		client, err := newClient(b.certs)
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
