package protocol

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"espalier.dev/crd"
	"espalier.dev/internal/lru"
	"espalier.dev/schema"
)

// MaxText is the maximum size of a text in a request, in bytes.
const MaxText = 4 << 20

// maxCached is the total size of the texts whose CRDs are kept, and maxSets the maximum number of texts:
// compiled CRDs can be much larger than their text.
const (
	maxCached = 16 << 20
	maxSets   = 8
)

// Options configure an Engine.
type Options struct {
	// Rules checks and evaluates CEL rules. If it is nil, rules are not evaluated.
	Rules crd.RuleChecker
	// CEL compiles the expressions in objects of Kubernetes' own kinds, such as admission policies.
	// If it is nil, they are not compiled.
	CEL KindCEL
}

// Engine answers requests. It is safe for concurrent use.
type Engine struct {
	options Options
	// kinds checks objects of Kubernetes' own kinds.
	kinds    func() *kindChecker
	builtin  *builtinVersions
	crds     *lru.Cache[setKey, *crdSet]
	handlers map[string]handler
}

// handler answers one kind of request.
type handler func(ctx context.Context, request []byte) (any, error)

// Code says why there is no answer.
type Code string

// The codes of errors.
const (
	// UnknownRequest is the code if there is no request of that name.
	UnknownRequest Code = "unknown-request"
	// BadRequest is the code if a request has missing or wrong parameters.
	BadRequest Code = "bad-request"
	// TooLarge is the code if a text is larger than MaxText, or the answer would be too large.
	TooLarge Code = "too-large"
	// Canceled is the code if the context of the request was canceled.
	Canceled Code = "canceled"
	// Timeout is the code if the deadline of the request has passed.
	Timeout Code = "timeout"
	// Incomplete is the code if only the complete engine can answer.
	Incomplete Code = "incomplete"
	// Failed is the code if the input has no answer, for example because a CRD cannot be used.
	Failed Code = "failed"
)

// Error is the answer to a request that has no other.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

func failf(code Code, format string, args ...any) error {
	return &Error{code, fmt.Sprintf(format, args...)}
}

// Response is what a transport sends back: the answer or an error.
type Response struct {
	Answer any    `json:"answer,omitempty"`
	Error  *Error `json:"error,omitempty"`
}

// New returns an Engine.
func New(o Options) *Engine {
	e := &Engine{
		options: o,
		kinds:   sync.OnceValue(func() *kindChecker { return newKindChecker(o.CEL) }),
		builtin: newBuiltinVersions(),
		crds:    lru.New(maxCached, func(_ setKey, s *crdSet) int64 { return max(int64(len(s.text.source)), maxCached/maxSets) }),
	}
	e.handlers = map[string]handler{"check": handle(e.check)}
	maps.Copy(e.handlers, e.moreHandlers())
	return e
}

// Requests returns the names of the requests, sorted.
func (e *Engine) Requests() []string { return slices.Sorted(maps.Keys(e.handlers)) }

// Answer answers a request in JSON. A panic is a bug in the analysis of the input: it becomes an
// error, because the page must keep working on the next input.
func (e *Engine) Answer(ctx context.Context, name string, request []byte) (response Response) {
	defer func() {
		if p := recover(); p != nil {
			response = Response{Error: &Error{Failed, fmt.Sprintf("the request failed because of a bug in Espalier: %v", p)}}
		}
	}()
	h := e.handlers[name]
	if h == nil {
		return Response{Error: &Error{UnknownRequest, fmt.Sprintf("unknown request %q", name)}}
	}
	answer, err := h(ctx, request)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return Response{Error: &Error{Timeout, "the request took too long: use fewer or smaller CRDs and objects"}}
	case ctx.Err() != nil:
		return Response{Error: &Error{Canceled, "the request was canceled"}}
	}
	if err != nil {
		var known *Error
		if !errors.As(err, &known) {
			known = &Error{Failed, err.Error()}
		}
		return Response{Error: known}
	}
	return Response{Answer: answer}
}

// handle returns the handler for a function with its own types.
func handle[Request, Answer any](answer func(context.Context, Request) (Answer, error)) handler {
	return func(ctx context.Context, request []byte) (any, error) {
		var r Request
		d := json.NewDecoder(bytes.NewReader(request))
		d.DisallowUnknownFields()
		if err := d.Decode(&r); err != nil {
			return nil, failf(BadRequest, "cannot read the request: %v", err)
		}
		return answer(ctx, r)
	}
}

// Semantics is a schema semantics in JSON: kep, which is the default, or kubernetes.
type Semantics struct{ schema.Semantics }

// UnmarshalJSON reads the name of a semantics.
func (s *Semantics) UnmarshalJSON(data []byte) error {
	var name string
	if err := json.Unmarshal(data, &name); err != nil {
		return err
	}
	if name == "" {
		return nil
	}
	parsed, err := schema.ParseSemantics(name)
	if err != nil {
		return fmt.Errorf("unknown semantics %q: choose kep or kubernetes", name)
	}
	s.Semantics = parsed
	return nil
}

// MarshalJSON writes the name of the semantics.
func (s Semantics) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// other returns the other semantics.
func (s Semantics) other() Semantics { return Semantics{s.Other()} }
