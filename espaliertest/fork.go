package espaliertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"espalier.dev/server"
)

// Fork starts a server with everything that this server stores at this moment: objects, CRDs,
// resourceVersions and the history of watches. It takes milliseconds for any number of objects,
// because both share them until one of them changes. Neither sees what happens in the other one
// afterwards. The fork stops when the test ends.
//
// The fork has the options of this server, and the same users: a configuration of
// [Server.AddUser] and tokens of service accounts also work with the URL of the fork. Rules of
// [Server.Inject] are not inherited. [Server.Reset] of the fork returns to the state of the fork.
//
// A fork can be made in a bubble of testing/synctest, also of a server outside of it: it uses no
// channel, timer or goroutine of that server. Credentials from outside are not valid yet in the time of
// the bubble, and docs/how-to/test-with-copies.md describes what the fork renews there.
//
// The server must keep its objects in memory, as it does without [WithEtcd].
func (s *Server) Fork(t testing.TB) *Server {
	t.Helper()
	return started(t, "fork the server", func(ctx context.Context, dir string) (*Server, error) { return s.fork(ctx, dir) })
}

// RunFork is [Server.Fork] for use outside of a test, like [Run]: the caller must stop the fork.
func (s *Server) RunFork() (*Server, error) {
	dir, err := os.MkdirTemp("", "espaliertest-")
	if err != nil {
		return nil, fmt.Errorf("fork the server: %w", err)
	}
	fork, err := s.fork(context.Background(), dir)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("fork the server: %w", err), os.RemoveAll(dir))
	}
	fork.dir = dir
	return fork, nil
}

func (s *Server) fork(ctx context.Context, dir string) (*Server, error) {
	fork, err := derive(ctx, func(ctx context.Context) (*server.Server, error) {
		return s.server.Fork(ctx, forkOptions(dir))
	})
	if err != nil {
		return nil, err
	}
	fork.forked = fork.ready
	return fork, nil
}

// forkOptions returns the options of a fork in a directory.
func forkOptions(dir string) server.ForkOptions {
	return server.ForkOptions{DataDir: filepath.Join(dir, "data"), Bubble: inBubble()}
}

// derive returns a server that was made of another one.
func derive(ctx context.Context, start func(context.Context) (*server.Server, error)) (*Server, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	running, err := start(ctx)
	if errors.Is(err, server.ErrStoredInEtcd) {
		err = errors.New("the server keeps its objects in etcd, and only objects in memory can be forked or have a past: " +
			"remove WithEtcd and flags that select etcd, or start servers with a state that Save has written")
	}
	if err != nil {
		return nil, err
	}
	return newServer(ctx, running, nil)
}

// started starts a server in a test. The server stops when the test ends.
func started(t testing.TB, what string, start func(ctx context.Context, dir string) (*Server, error)) *Server {
	t.Helper()
	checkBubble(t)
	s, err := start(t.Context(), t.TempDir())
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	t.Cleanup(func() {
		defer func() {
			linger(beforeStop)
			if err := s.Stop(); err != nil {
				t.Errorf("stop the server: %v", err)
			}
			linger(afterStop)
		}()
		if !s.past && (t.Failed() || panics()) {
			s.writeTimeline(t)
		}
	})
	return s
}
