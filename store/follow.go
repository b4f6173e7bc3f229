package store

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// pageBytes is the approximate size of one read, and minPage and maxPage limit the number
	// of its entries.
	pageBytes        = 8 << 20
	minPage, maxPage = 16, 10_000
	// firstPause and lastPause are the pauses after errors of etcd.
	firstPause = 50 * time.Millisecond
	lastPause  = 2 * time.Second
)

// errReload asks to read everything anew.
var errReload = errors.New("reload")

// follow keeps the index equal to etcd until the store is closed.
func (s *Store) follow() {
	pause, load := firstPause, !s.isLoaded() // a copy is loaded
	for s.lifetime.Err() == nil {
		var err error
		if load {
			if err = s.load(); err == nil {
				load, pause = false, firstPause
				s.config.Failed(nil)
			}
		}
		if err == nil {
			if err = s.watch(func() { pause = firstPause }); err == nil {
				continue // the connection was lost: go on where the index is
			}
		}
		if s.lifetime.Err() != nil {
			return
		}
		if errors.Is(err, errReload) || errors.Is(err, rpctypes.ErrCompacted) {
			load = true
			continue
		}
		s.config.Failed(err)
		select {
		case <-time.After(pause):
		case <-s.lifetime.Done():
		}
		pause = min(2*pause, lastPause)
	}
}

// load reads all entries at one revision, and ends the watchers, which have missed events.
func (s *Store) load() error {
	index := newTree()
	revision := int64(0)
	generation := s.generation.Load()
	end := clientv3.GetPrefixRangeEnd(s.prefix)
	page := 16 * minPage
	for from := s.prefix; from != ""; {
		resp, err := s.client.Get(s.lifetime, from, clientv3.WithRange(end), clientv3.WithRev(revision), clientv3.WithLimit(int64(page)))
		if err != nil {
			return err
		}
		if revision == 0 {
			revision = resp.Header.Revision
			if revision < s.revision.Load() {
				// The data of etcd was replaced by older data: its revisions mean other entries.
				generation = s.generation.Add(1)
			}
		}
		from, page = "", nextPage(resp.Kvs)
		for _, kv := range resp.Kvs {
			index.set(s.loadedEntry(kv, generation))
			if resp.More {
				from = string(kv.Key) + "\x00"
			}
		}
	}
	s.replace(index, revision, generation)
	return nil
}

// nextPage returns the number of entries to read, given those that were read last.
func nextPage(kvs []*mvccpb.KeyValue) int {
	size := 1
	for _, kv := range kvs {
		size += len(kv.Value)
	}
	return min(max(pageBytes*len(kvs)/size, minPage), maxPage)
}

// loadedEntry returns the entry of a key. It is that of the index if that has the generation,
// and the revision is the same.
func (s *Store) loadedEntry(kv *mvccpb.KeyValue, generation int64) *Entry {
	if s.indexed == generation { // only the goroutine that loads changes it
		if e := s.Get(string(kv.Key)); e != nil && e.Revision == kv.ModRevision && e.Err == nil {
			return e
		}
	}
	return s.entry(s.lifetime, kv)
}

func (s *Store) replace(index *tree, revision, generation int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tree = index
	if s.indexed != generation {
		s.indexed = generation
		s.kept.restart(generation)
		close(s.renewed)
		s.renewed = make(chan struct{})
	}
	oldest := revision
	if index.len() == 0 && revision <= 2 {
		// One write is too few to have deleted an entry: there has never been one, and watches may
		// start at the first revision.
		oldest = 1
	}
	s.window.restart(oldest)
	s.endWatchers(&ExpiredError{Revision: s.revision.Load(), Oldest: revision})
	s.advance(revision)
	if !s.isLoaded() {
		close(s.loaded)
	}
}

// watchContext returns the context of the watch, and of requests for its progress: the client
// uses one stream for equal contexts. A member without a leader ends the watch, because it
// could be cut off from the others.
func (s *Store) watchContext(ctx context.Context) context.Context {
	return clientv3.WithRequireLeader(ctx)
}

// watch takes in events until the watch ends. It returns nil if the watch can be continued.
// working is called when there is an answer.
func (s *Store) watch(working func()) error {
	ctx, cancel := context.WithCancel(s.lifetime)
	defer cancel()
	events := s.watcher.Watch(s.watchContext(ctx), s.prefix, clientv3.WithPrefix(), clientv3.WithRev(s.revision.Load()+1),
		clientv3.WithProgressNotify(), clientv3.WithFragment(), clientv3.WithCreatedNotify())
	for {
		select {
		case <-s.reload:
			return errReload
		case resp, ok := <-events:
			if !ok {
				return nil
			}
			if err := resp.Err(); err != nil {
				return err
			}
			working()
			s.config.Failed(nil)
			switch {
			case len(resp.Events) > 0:
				s.apply(resp.Events)
			case resp.IsProgressNotify():
				s.progress(resp.Header.Revision)
			}
		}
	}
}

// apply takes in the events of whole revisions.
func (s *Store) apply(changes []*clientv3.Event) {
	// Transforming may take time, so it happens before the lock.
	entries := make([]*Entry, len(changes))
	for i, c := range changes {
		if c.Type == clientv3.EventTypePut {
			entries[i] = s.entry(s.lifetime, c.Kv)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.revision.Load()
	for i, c := range changes {
		if c.Kv.ModRevision <= at {
			continue // a reconnected watch may repeat what the index has
		}
		e := &Event{Revision: c.Kv.ModRevision, Entry: entries[i]}
		if e.Entry != nil {
			e.Old = s.tree.set(e.Entry)
		} else {
			e.Old = s.tree.delete(string(c.Kv.Key))
		}
		if e.Entry == nil && e.Old == nil {
			continue // created and deleted in one transaction
		}
		s.window.add(e)
		s.dispatch(e)
	}
	s.window.trim()
	if s.window.released > s.window.maxBytes/8 {
		s.window.released = 0
		s.endSlow()
	}
	s.advance(max(at, changes[len(changes)-1].Kv.ModRevision))
}

// progress takes in that there are no events up to a revision.
func (s *Store) progress(revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if revision > s.revision.Load() {
		s.advance(revision)
	}
}
