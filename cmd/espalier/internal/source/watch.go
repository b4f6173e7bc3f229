package source

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"time"
)

// watchEvent is an event of a watch.
type watchEvent struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// watching is a running watch.
type watching struct {
	// events is closed when the watch ends. err returns why.
	events <-chan watchEvent
	ended  chan error
	// stop ends the watch, and waits until nothing of it is left.
	stop func()
}

// err returns nil if the server has ended the watch.
func (w *watching) err() error {
	if err := <-w.ended; !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	return nil
}

// watch watches the objects at a path from a resource version on. fields is a field selector, and
// accept the content type of the objects; both may be empty. The client must have no timeout.
func (s *served) watch(ctx context.Context, path, fields, version, accept string) (*watching, error) {
	// A connection on which nothing arrives anymore is given up.
	ctx, cancel := context.WithTimeout(ctx, watchTime+time.Minute)
	req := s.client.Get().AbsPath(path).Param("watch", "1").Param("resourceVersion", version).
		Param("allowWatchBookmarks", "true").Param("timeoutSeconds", strconv.Itoa(int(watchTime.Seconds())))
	if fields != "" {
		req.Param("fieldSelector", fields)
	}
	if accept != "" {
		req.SetHeader("Accept", accept).Param("includeObject", "Object")
	}
	body, err := req.Stream(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	events := make(chan watchEvent)
	w := &watching{events: events, ended: make(chan error, 1)}
	go func() {
		defer close(events)
		for in := json.NewDecoder(body); ; {
			var e watchEvent
			if err := in.Decode(&e); err != nil {
				w.ended <- err
				return
			}
			select {
			case events <- e:
			case <-ctx.Done():
				w.ended <- ctx.Err()
				return
			}
		}
	}()
	w.stop = func() {
		cancel()
		_ = body.Close() // it is not used anymore
		for range events {
		}
	}
	return w, nil
}
