package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// TestUnavailable stops etcd: requests that need it fail in time and say so, the others work,
// and all work again when etcd does.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stop := runEtcd(t, dir)
	client := connect(t, dir)
	put(t, client, prefix+"a/x", "1")
	s := open(t, Config{Client: client})
	stop()

	for name, c := range map[string]struct {
		call  func(context.Context) error
		write bool
	}{
		"Current": {func(ctx context.Context) error { _, err := s.Current(ctx); return err }, false},
		"Read":    {func(ctx context.Context) error { _, _, err := s.Read(ctx, prefix+"a/x"); return err }, false},
		"ListAt":  {func(ctx context.Context) error { _, _, _, err := s.ListAt(ctx, prefix, "", 0, 0); return err }, false},
		"Put": {func(ctx context.Context) error {
			_, _, err := s.Put(ctx, nil, prefix+"a/y", []byte("1"), 0, 0)
			return err
		}, true},
		"Delete": {func(ctx context.Context) error { _, _, err := s.Delete(ctx, nil, prefix+"a/x", 1); return err }, true},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		err := c.call(ctx)
		if ctx.Err() != nil {
			t.Errorf("%s returns after its context has ended", name)
		}
		cancel()
		if e := (*UnavailableError)(nil); !errors.As(err, &e) || e.Unknown != c.write {
			t.Errorf("%s returns %v", name, err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		cancel()
		if err := c.call(ctx); !errors.Is(err, context.Canceled) || errors.As(err, new(*UnavailableError)) {
			t.Errorf("%s with a canceled context returns %v", name, err)
		}
	}
	if e := s.Get(prefix + "a/x"); e == nil || string(e.Value) != "1" {
		t.Errorf("the index has %v", e)
	}

	stop = runEtcd(t, dir)
	t.Cleanup(func() { stop() })
	settle(t, s)
}

func TestFailure(t *testing.T) {
	t.Parallel()
	full := (*FullError)(nil)
	if err := failure(t.Context(), rpctypes.ErrNoSpace, true); !errors.As(err, &full) {
		t.Errorf("no space: %#v", err)
	}
	for _, err := range []error{rpctypes.ErrNoLeader, rpctypes.ErrTimeout, rpctypes.ErrTimeoutDueToLeaderFail, rpctypes.ErrGRPCNoLeader} {
		if got := failure(t.Context(), err, true); !errors.As(got, new(*UnavailableError)) || !errors.Is(got, err) {
			t.Errorf("%v: %#v", err, got)
		}
	}
	for _, err := range []error{nil, rpctypes.ErrCompacted, rpctypes.ErrTooManyRequests, errors.New("other")} {
		if got := failure(t.Context(), err, true); !errors.Is(got, err) || errors.As(got, new(*UnavailableError)) || errors.As(got, new(*FullError)) {
			t.Errorf("%v: %#v", err, got)
		}
	}
}
