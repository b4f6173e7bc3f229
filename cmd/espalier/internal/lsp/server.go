package lsp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sourcegraph/jsonrpc2"
)

// Error is an error of a request with a code of the protocol.
type Error = jsonrpc2.Error

// Errorf returns the error of a request.
func Errorf(code int64, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// ErrNoShutdown is returned by [Serve] if the client has ended the session without the request
// shutdown. The exit code of the server is 1 then.
var ErrNoShutdown = errors.New("the client has ended the session without shutdown")

// Options configure a server. The zero value has useful defaults.
type Options struct {
	// MaxDocument is the maximum size of a document in bytes; the default is 64 MiB.
	MaxDocument int
	// MaxMessage is the maximum size of a message; the default is three times MaxDocument and
	// 1 MiB, since text in JSON is longer than the text.
	MaxMessage int
	// MaxRequests is the number of requests that run at the same time; the default is 8.
	MaxRequests int
	// MaxWaiting is the number of requests that may wait; the default is 1000. More are rejected.
	MaxWaiting int
	// Pause is the time without changes after which documents are diagnosed; the default is 40 ms.
	Pause time.Duration
	// MaxPause is how long changes may delay the diagnosis; the default is 300 ms.
	MaxPause time.Duration
	// MaxCanceled is the time after which changes no longer cancel a diagnosis, so that one comes
	// to an end while the user types; the default is 1 s.
	MaxCanceled time.Duration
	// ClientPoll is the interval in which the process of the client is looked for; the default is
	// 2 s.
	ClientPoll time.Duration
	// Grace is how long the end of the session waits for methods of the session that do not
	// return; the default is 5 s.
	Grace time.Duration
	// Log gets what is not for the client; the default discards it.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		value *int
		zero  int
	}{{&o.MaxDocument, 64 << 20}, {&o.MaxRequests, 8}, {&o.MaxWaiting, 1000}} {
		if *d.value <= 0 {
			*d.value = d.zero
		}
	}
	if o.MaxMessage <= 0 {
		o.MaxMessage = 3*o.MaxDocument + 1<<20
	}
	for _, d := range []struct {
		value *time.Duration
		zero  time.Duration
	}{
		{&o.Pause, 40 * time.Millisecond}, {&o.MaxPause, 300 * time.Millisecond}, {&o.MaxCanceled, time.Second},
		{&o.ClientPoll, 2 * time.Second}, {&o.Grace, 5 * time.Second},
	} {
		if *d.value <= 0 {
			*d.value = d.zero
		}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// state is the state of a session's lifecycle.
type state int

const (
	uninitialized state = iota
	running
	shutDown
)

// server is the state of one session.
type server struct {
	options Options
	client  *Client
	session Session
	conn    *jsonrpc2.Conn
	stream  *stream

	// ctx is that of all calls of the session. It ends with the session.
	ctx context.Context
	// stop ends the session with the result of Serve.
	stop context.CancelCauseFunc
	// calls counts the running calls of the session and other goroutines of the server.
	calls sync.WaitGroup
	// slots limits the number of running requests.
	slots chan struct{}
	diag  *scheduler
	// methods are the requests that the session supports.
	methods map[string]method

	// Only the reader uses these.
	state state
	docs  *Documents
	// rejected are documents that are too large.
	rejected map[URI]bool

	// orderly is set after the shutdown.
	orderly atomic.Bool

	mu sync.Mutex
	// ending is set when nothing else may be started.
	ending bool
	// requests are the requests that have not been answered.
	requests map[jsonrpc2.ID]*request
}

// request is a request that has not been answered.
type request struct {
	cancel context.CancelFunc
	// canceled is set if the client has canceled it. server.mu guards it.
	canceled bool
}

// Serve speaks with a client until the session ends. It returns nil if the client has gone after
// shutdown, an error that wraps ErrNoShutdown if the client has gone without shutdown, the cause of
// ctx if that has ended, and otherwise why the connection has failed. It closes rwc. All goroutines
// have ended when it returns, except for methods of the session that ignore their context for
// longer than [Options].Grace, and for a read of rwc that Close does not interrupt.
func Serve(ctx context.Context, rwc io.ReadWriteCloser, options Options, newSession func(*Client) Session) error {
	options = options.withDefaults()
	s := &server{
		options: options, docs: &Documents{}, rejected: map[URI]bool{}, requests: map[jsonrpc2.ID]*request{},
		slots: make(chan struct{}, options.MaxRequests),
	}
	s.ctx, s.stop = context.WithCancelCause(ctx)
	s.stream = newStream(rwc, options.MaxMessage, options.MaxMessage)
	s.client = &Client{log: options.Log, encoding: UTF16}
	s.stream.tooLarge = func(size int64) {
		s.client.ShowMessage(MessageWarning, fmt.Sprintf("a message of %d MiB was ignored: at most %d MiB are supported", size>>20, options.MaxMessage>>20))
	}
	s.diag = newScheduler(s)
	s.client.rediagnose = func() { s.diag.kick(nil, "") }
	// The context of the connection is another one, so that answers are sent after s.ctx has ended.
	handler := handlerFunc(func(_ context.Context, _ *jsonrpc2.Conn, r *jsonrpc2.Request) { s.handle(r) })
	s.conn = jsonrpc2.NewConn(context.WithoutCancel(ctx), s.stream, handler, jsonrpc2.SetLogger(rpcLog{options.Log}))
	s.client.conn = s.conn
	s.session = newSession(s.client)
	s.methods = s.sessionMethods()
	close(s.stream.start)
	s.spawn(s.diag.loop)

	select {
	case <-s.ctx.Done():
	case <-s.conn.DisconnectNotify():
		s.stop(s.disconnected())
	case <-s.stream.written: // the client does not read anymore, and the reader may not notice
		s.stop(s.disconnected())
	}
	s.mu.Lock()
	s.ending = true
	s.mu.Unlock()
	_ = s.conn.Close()
	if !waitFor(&s.calls, options.Grace) {
		options.Log.Error("calls of the session have not returned after their cancellation", "after", options.Grace)
	}
	s.stream.finished()
	s.recovered("closing the session", s.session.Close)
	if err := context.Cause(s.ctx); !errors.Is(err, errDone) {
		return err
	}
	return nil
}

// errDone is the cause of the end of a session that the client has ended in order.
var errDone = errors.New("the session has ended")

// handlerFunc implements jsonrpc2.Handler.
type handlerFunc func(context.Context, *jsonrpc2.Conn, *jsonrpc2.Request)

func (f handlerFunc) Handle(ctx context.Context, conn *jsonrpc2.Conn, r *jsonrpc2.Request) {
	f(ctx, conn, r)
}

// rpcLog writes what the JSON-RPC library reports.
type rpcLog struct{ log *slog.Logger }

func (l rpcLog) Printf(format string, args ...any) { l.log.Debug(fmt.Sprintf(format, args...)) }

// disconnected returns the result of Serve after the connection has ended.
func (s *server) disconnected() error {
	reason := s.stream.reason()
	// A client that dies resets its connection if something was not read.
	gone := reason == nil || errors.Is(reason, io.EOF) || errors.Is(reason, jsonrpc2.ErrClosed) ||
		errors.Is(reason, syscall.EPIPE) || errors.Is(reason, syscall.ECONNRESET)
	switch {
	case gone && s.orderly.Load():
		return errDone
	case gone:
		return ErrNoShutdown
	case errors.Is(reason, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w, in the middle of a message", ErrNoShutdown)
	default:
		return fmt.Errorf("the connection to the client has failed: %w", reason)
	}
}

// spawn runs f in a goroutine that the end of the session waits for. It does nothing if the session
// is ending.
func (s *server) spawn(f func()) {
	if s.enter() {
		go func() {
			defer s.calls.Done()
			f()
		}()
	}
}

// enter counts a call, unless the session is ending. The caller has to call s.calls.Done.
func (s *server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ending {
		s.calls.Add(1)
	}
	return !s.ending
}

// waitFor waits for a group and reports whether it has finished in time.
func waitFor(group *sync.WaitGroup, limit time.Duration) bool {
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// recovered calls f and logs a panic. It reports whether there was none.
func (s *server) recovered(what string, f func()) (ok bool) {
	defer func() {
		if p := recover(); p != nil {
			s.panicked(what, p)
		}
	}()
	f()
	return true
}

// panicked logs a panic. It must be called by the deferred function that recovers.
func (s *server) panicked(what string, p any) {
	stack := debug.Stack()
	s.options.Log.Error("panic", "in", what, "panic", p, "stack", string(stack))
	s.client.LogMessage(MessageError, fmt.Sprintf("%s: panic: %v\n%s", what, p, stack))
}

// handle handles a message. The reader calls it.
func (s *server) handle(r *jsonrpc2.Request) {
	params := s.stream.params
	s.stream.params = nil
	if !s.enter() {
		return
	}
	defer s.calls.Done()
	s.options.Log.Debug("received", "method", r.Method, "bytes", len(params))
	if r.Notif {
		s.recovered(r.Method, func() { s.notified(r.Method, params) })
		return
	}
	switch {
	case r.Method == "initialize":
		s.initialize(r.ID, params)
		return
	case s.state == uninitialized:
		s.reply(r.ID, nil, Errorf(CodeServerNotInitialized, "%s before initialize", r.Method))
		return
	case s.state == shutDown:
		s.reply(r.ID, nil, Errorf(jsonrpc2.CodeInvalidRequest, "%s after shutdown", r.Method))
		return
	case r.Method == "shutdown":
		s.state = shutDown
		s.orderly.Store(true)
		s.diag.shutdown()
		s.cancelAll()
		s.reply(r.ID, nil, nil)
		return
	}
	method := s.methods[r.Method]
	if method == nil {
		s.reply(r.ID, nil, Errorf(jsonrpc2.CodeMethodNotFound, "method %q is not supported", r.Method))
		return
	}
	s.start(r, method, params)
}

// start runs a request in a goroutine of its own.
func (s *server) start(r *jsonrpc2.Request, method method, params json.RawMessage) {
	ctx, cancel := context.WithCancel(s.ctx)
	req := &request{cancel: cancel}
	s.mu.Lock()
	_, twice := s.requests[r.ID]
	waiting := len(s.requests)
	if !twice && waiting < s.options.MaxWaiting {
		s.requests[r.ID] = req
	}
	s.mu.Unlock()
	switch {
	case twice:
		cancel()
		s.reply(r.ID, nil, Errorf(jsonrpc2.CodeInvalidRequest, "a request with the id %s is running", r.ID))
		return
	case waiting >= s.options.MaxWaiting:
		cancel()
		s.reply(r.ID, nil, Errorf(CodeServerCancelled, "%d requests are waiting", waiting))
		return
	}
	docs := s.docs
	s.spawn(func() {
		defer cancel()
		result, err := s.run(ctx, r.Method, func() (any, error) { return method(ctx, docs, params) })
		s.mu.Lock()
		delete(s.requests, r.ID)
		canceled := req.canceled
		s.mu.Unlock()
		switch {
		case canceled:
			result, err = nil, Errorf(CodeRequestCancelled, "the request was canceled")
		case err != nil && ctx.Err() != nil:
			result, err = nil, Errorf(CodeServerCancelled, "the session has ended")
		}
		s.reply(r.ID, result, err)
	})
}

// run waits for a slot and calls f.
func (s *server) run(ctx context.Context, what string, f func() (any, error)) (result any, err error) {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() {
		if p := recover(); p != nil {
			s.panicked(what, p)
			result, err = nil, Errorf(jsonrpc2.CodeInternalError, "%s: internal error: %v", what, p)
		}
	}()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return f()
}

// reply answers a request.
func (s *server) reply(id jsonrpc2.ID, result any, err error) {
	response := &jsonrpc2.Response{ID: id}
	if err == nil {
		if err = response.SetResult(result); err != nil {
			err = Errorf(jsonrpc2.CodeInternalError, "encoding the result: %v", err)
		}
	}
	if err != nil {
		response.Result = nil
		if !errors.As(err, &response.Error) {
			response.Error = Errorf(CodeRequestFailed, "%v", err)
		}
	}
	// An error means that the client has gone, which the reader notices.
	_ = s.conn.SendResponse(s.ctx, response)
}

// cancelRequest cancels the request with an id.
func (s *server) cancelRequest(id jsonrpc2.ID) {
	s.mu.Lock()
	req := s.requests[id]
	if req != nil {
		req.canceled = true
	}
	s.mu.Unlock()
	if req != nil {
		req.cancel()
	}
}

// cancelAll cancels all requests.
func (s *server) cancelAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, req := range s.requests {
		req.canceled = true
		req.cancel()
	}
}

// initialize answers the first request. The reader waits for it, because clients may send more
// without waiting for the answer.
func (s *server) initialize(id jsonrpc2.ID, params json.RawMessage) {
	if s.state != uninitialized {
		s.reply(id, nil, Errorf(jsonrpc2.CodeInvalidRequest, "initialize was called before"))
		return
	}
	var p InitializeParams
	if err := unmarshal(params, &p); err != nil {
		s.reply(id, nil, err)
		return
	}
	s.client.initialize(&p)
	result, err := s.run(s.ctx, "initialize", func() (any, error) {
		features, err := s.session.Initialize(s.ctx, &p)
		if err != nil {
			return nil, err
		}
		if features == nil {
			features = &Features{}
		}
		s.client.watch, s.client.watchDeleted = slices.Clone(features.Watch), slices.Clone(features.WatchDeleted)
		return &InitializeResult{
			Capabilities: s.capabilities(features),
			ServerInfo:   &ServerInfo{Name: features.Name, Version: features.Version},
		}, nil
	})
	if err == nil {
		s.state = running
		s.watchClient(p.ProcessID)
	}
	s.reply(id, result, err)
}
