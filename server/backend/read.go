package backend

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"espalier.dev/store"
)

const (
	// freshTime is how long a read waits until the index has a revision.
	freshTime = 3 * time.Second
	// retrySeconds is when a client is asked to repeat a read after that.
	retrySeconds = 1
)

// await waits until the index has a revision; zero means that it has been filled. The error is
// a [store.BehindError] if that takes too long.
func (s *Storage) await(ctx context.Context, revision int64) error {
	if s.store.Revision() >= max(revision, 1) {
		return nil
	}
	defer tracked(ctx, time.Now())
	limited, cancel := context.WithTimeout(ctx, freshTime)
	defer cancel()
	err := s.store.Await(limited, revision)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// notOlderThan waits until the index has a revision, or returns an error for the client.
func (s *Storage) notOlderThan(ctx context.Context, revision uint64) error {
	if revision > math.MaxInt64 {
		return s.tooLarge(revision)
	}
	err := s.await(ctx, int64(revision))
	behind := (*store.BehindError)(nil)
	if !errors.As(err, &behind) {
		return Failure(err)
	}
	if behind.Have == 0 {
		return apierrors.NewTooManyRequests(storage.ErrStorageNotReady.Error(), retrySeconds)
	}
	return storage.NewTooLargeResourceVersionError(revision, uint64(behind.Have), retrySeconds)
}

// tooLarge returns the error for a revision that no etcd reaches.
func (s *Storage) tooLarge(revision uint64) error {
	return storage.NewTooLargeResourceVersionError(revision, uint64(s.store.Revision()), retrySeconds)
}

// current waits until the index is as new as etcd, and returns its revision. It reports false
// if the index is behind, so that etcd has to be read.
func (s *Storage) current(ctx context.Context) (revision int64, indexed bool, err error) {
	start := time.Now()
	revision, err = s.store.Current(ctx)
	asked(ctx, "getCurrentResourceVersion", start, &err)
	if err != nil {
		return 0, false, Failure(err)
	}
	err = s.await(ctx, revision)
	if behind := (*store.BehindError)(nil); errors.As(err, &behind) {
		return revision, false, nil
	}
	return revision, err == nil, Failure(err)
}

// read returns the newest entry of a key, or nil.
func (s *Storage) read(ctx context.Context, key string) (*store.Entry, error) {
	_, indexed, err := s.current(ctx)
	if err != nil {
		return nil, err
	}
	if indexed {
		return s.store.Get(key), nil
	}
	e, _, err := s.store.Read(ctx, key)
	return e, Failure(err)
}

// Get reads an object.
func (s *Storage) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	key, err := s.key(key, false)
	if err != nil {
		return err
	}
	var e *store.Entry
	if opts.ResourceVersion == "" {
		if e, err = s.read(ctx, key); err != nil {
			return err
		}
	} else {
		revision, err := s.versioner.ParseResourceVersion(opts.ResourceVersion)
		if err != nil {
			return apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %v", err))
		}
		if err := s.notOlderThan(ctx, revision); err != nil {
			return err
		}
		if at := s.asOf(ctx, opts.ResourceVersion); at == 0 {
			e = s.store.Get(key)
		} else if e, err = s.readAt(ctx, key, at); err != nil {
			return err
		}
	}
	if e == nil {
		if opts.IgnoreNotFound {
			return runtime.SetZeroValue(out)
		}
		return storage.NewKeyNotFoundError(key, 0)
	}
	_, err = s.decode(e, e.Revision, out)
	return err
}

// entries are those that a list selects from, at one revision.
type entries struct {
	revision int64
	all      iter.Seq2[*store.Entry, error]
	// after returns the number of entries after a key.
	after func(key string) int64
	// snapshot is their source, or nil if that is etcd.
	snapshot *store.Snapshot
}

// GetList reads the objects below a key, or one object.
func (s *Storage) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	key, err := s.key(key, opts.Recursive)
	if err != nil {
		return err
	}
	itemsPtr, err := meta.GetItemsPtr(list)
	if err != nil {
		return err
	}
	items := reflect.ValueOf(itemsPtr).Elem()
	if items.Kind() != reflect.Slice {
		return fmt.Errorf("the items of a %T are not a slice", list)
	}
	exact, start, err := storage.ValidateListOptions(key, s.versioner, opts)
	if err != nil {
		return err
	}
	if exact == 0 && opts.Predicate.Continue == "" {
		exact = s.asOf(ctx, opts.ResourceVersion)
	}
	from, err := s.entries(ctx, key, start, exact, opts)
	if err != nil {
		return err
	}

	items.Set(reflect.MakeSlice(items.Type(), 0, 0))
	limit, last, more := s.limit(opts), "", false
	listed, _ := ctx.Value(listsKey{}).(*lists)
	var failed corruption
	for e, err := range from.all {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return storage.NewTimeoutError(e.Key, "request did not complete within requested timeout")
		}
		if limit > 0 && int64(items.Len()) >= limit {
			more = true
			break
		}
		last = e.Key
		o, err := listed.open(s, e)
		if err != nil {
			if !failed.add(err) {
				break
			}
			continue
		}
		if matched, err := opts.Predicate.Matches(o.object); err != nil || !matched {
			listed.dropLast()
			continue
		}
		if err := listed.pay(o); err != nil {
			return err
		}
		items.Set(reflect.Append(items, reflect.ValueOf(o.object).Elem()))
	}
	if err := failed.err(s.config.Resource); err != nil {
		return err
	}

	count := limit
	if more {
		if opts.Predicate.Empty() {
			count += from.after(last)
		}
		if from.snapshot != nil {
			s.store.Keep(from.snapshot)
		}
	}
	token, remaining, err := storage.PrepareContinueToken(last, key, from.revision, count, more, opts)
	if err != nil {
		return err
	}
	if utilfeature.DefaultFeatureGate.Enabled(features.ShardedListAndWatch) {
		opts.Predicate.SetShardInfoOnList(list)
	}
	return s.versioner.UpdateList(list, uint64(from.revision), token, remaining)
}

// limit returns the maximum number of objects of a list, or zero.
func (s *Storage) limit(opts storage.ListOptions) int64 {
	if s.config.UnlimitedAtZero && opts.ResourceVersion == "0" {
		return 0
	}
	return opts.Predicate.Limit
}

// entries returns the entries of a list: at the revision exact if it is not zero, otherwise at
// one that is as new as opts require.
func (s *Storage) entries(ctx context.Context, key, start string, exact int64, opts storage.ListOptions) (*entries, error) {
	switch {
	case exact < 0:
		return nil, s.tooLarge(uint64(exact))
	case exact != 0:
		if exact < s.compacted() {
			return nil, s.expired(key, start)
		}
		if snap := s.store.SnapshotAt(exact); snap != nil {
			return indexed(snap, key, start, opts.Recursive), nil
		}
		return s.stored(ctx, key, start, exact, opts), nil
	case opts.ResourceVersion == "" || opts.Predicate.Continue != "":
		revision, inIndex, err := s.current(ctx)
		if err != nil {
			return nil, err
		}
		if !inIndex {
			return s.stored(ctx, key, start, revision, opts), nil
		}
	default:
		revision, err := s.versioner.ParseResourceVersion(opts.ResourceVersion)
		if err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %v", err))
		}
		if err := s.notOlderThan(ctx, revision); err != nil {
			return nil, err
		}
	}
	return indexed(s.store.Snapshot(), key, start, opts.Recursive), nil
}

// indexed returns entries of a snapshot.
func indexed(snap *store.Snapshot, key, start string, recursive bool) *entries {
	return &entries{
		revision: snap.Revision, snapshot: snap,
		all: func(yield func(*store.Entry, error) bool) {
			if !recursive {
				if e := snap.Get(key); e != nil {
					yield(e, nil)
				}
				return
			}
			for e := range snap.Range(key, start) {
				if !yield(e, nil) {
					return
				}
			}
		},
		after: func(last string) int64 { return snap.Count(key, last+"\x00") },
	}
}

// The number of entries in a read of etcd.
const minPage, maxPage = 500, 10_000

// stored returns entries of etcd, which it reads in parts.
func (s *Storage) stored(ctx context.Context, key, start string, revision int64, opts storage.ListOptions) *entries {
	var left int64 // after the last part
	var part []*store.Entry
	return &entries{
		revision: revision,
		all: func(yield func(*store.Entry, error) bool) {
			page := int64(minPage)
			if opts.Predicate.Limit > 0 {
				page = min(opts.Predicate.Limit+1, maxPage)
			}
			for from, more := start, true; more; page = min(2*page, maxPage) {
				if !opts.Recursive {
					// The first entry whose key begins with the key is that of the key.
					page = 1
				}
				var err error
				if part, _, left, err = s.store.ListAt(ctx, key, from, revision, page); err != nil {
					yield(nil, s.readError(err, key, start))
					return
				}
				more = left > 0 && opts.Recursive
				for _, e := range part {
					from = e.Key + "\x00"
					if !opts.Recursive && e.Key != key {
						return
					}
					if !yield(e, nil) {
						return
					}
				}
			}
		},
		after: func(last string) int64 {
			n := left
			for _, e := range part {
				if e.Key > last {
					n++
				}
			}
			return n
		},
	}
}

// readError returns the error for the client if a revision cannot be read.
func (s *Storage) readError(err error, key, start string) error {
	if expired := (*store.ExpiredError)(nil); errors.As(err, &expired) {
		return s.expired(key, start)
	}
	if behind := (*store.BehindError)(nil); errors.As(err, &behind) {
		return storage.NewTooLargeResourceVersionError(uint64(behind.Want), uint64(behind.Have), retrySeconds)
	}
	return Failure(err)
}

// expired returns the error of a list at a revision that is no longer available. If a list was
// to be continued at start, the error has a token to continue it at the newest revision.
func (s *Storage) expired(key, start string) error {
	if start == "" {
		return apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
	}
	err := apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result. " +
		"Start a new list without it, or use the continue token of this response to get the rest: " +
		"objects that have changed since the first part may then be missing, or be listed twice.")
	token, tokenErr := storage.EncodeContinue(start, key, -1)
	if tokenErr != nil {
		return tokenErr
	}
	err.ErrStatus.ListMeta.Continue = token
	return err
}
