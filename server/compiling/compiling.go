// Package compiling limits how many objects whose CEL expressions take long to compile are written at the same time.
package compiling

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"espalier.dev/kinds"
	"espalier.dev/schema/rules/bounds"
)

// maxWaiting is the number of requests of a user that wait for their turn. More are rejected: each has a seat that others
// need.
const maxWaiting = 8

// Limits has one request of each user compile at a time, and leaves a processor to others. The requests of administrators
// wait only for others of the same user.
type Limits struct {
	slots chan struct{}
	mu    sync.Mutex
	// users has those with requests.
	users map[string]*turns
}

// turns are the requests of a user.
type turns struct {
	current  chan struct{}
	requests int
}

// New returns the limits of a server.
func New() *Limits {
	return &Limits{slots: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1)), users: map[string]*turns{}}
}

// Begin waits until the expressions of an object may be compiled, and returns a function to call afterwards. It does not
// wait if they take little time. It returns an error if too many requests of the user wait, or ctx ends.
func (l *Limits) Begin(ctx context.Context, obj apiruntime.Object) (end func(), err error) {
	var texts []string
	kinds.Expressions(obj, func(_ *field.Path, text string) bool { texts = append(texts, text); return true })
	if !bounds.IsHeavy(texts) {
		return func() {}, nil
	}
	by, ok := apirequest.UserFrom(ctx)
	if !ok {
		by = &user.DefaultInfo{}
	}
	name := turnOf(by)
	own, err := l.join(name)
	if err != nil {
		return nil, err
	}
	leave, err := enter(ctx, own.current)
	if err != nil {
		l.leave(name)
		return nil, err
	}
	done := func() { leave(); l.leave(name) }
	if slices.Contains(by.GetGroups(), user.SystemPrivilegedGroup) {
		return done, nil
	}
	// One request of each user waits here, so users take turns.
	free, err := enter(ctx, l.slots)
	if err != nil {
		done()
		return nil, err
	}
	return func() { free(); done() }, nil
}

// turnOf returns whose turn a request takes. Who may write in a namespace can usually make service accounts there, so
// those of a namespace share one.
func turnOf(u user.Info) string {
	if namespace, _, err := serviceaccount.SplitUsername(u.GetName()); err == nil {
		return serviceaccount.MakeNamespaceGroupName(namespace)
	}
	return u.GetName()
}

// enter waits until a channel has room.
func enter(ctx context.Context, room chan struct{}) (leave func(), err error) {
	select {
	case room <- struct{}{}:
		return func() { <-room }, nil
	case <-ctx.Done():
		return nil, apierrors.NewTimeoutError(fmt.Sprintf("the request ended before its CEL expressions were compiled: %v", ctx.Err()), 1)
	}
}

// join adds a request of a user.
func (l *Limits) join(name string) (*turns, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.users[name]
	if own == nil {
		own = &turns{current: make(chan struct{}, 1)}
		l.users[name] = own
	}
	if own.requests > maxWaiting {
		return nil, apierrors.NewTooManyRequests(fmt.Sprintf(
			"%d requests of user %q wait until the CEL expressions of their objects are compiled: send fewer at the same time", maxWaiting, name), 1)
	}
	own.requests++
	return own, nil
}

// leave removes a request of a user.
func (l *Limits) leave(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if own := l.users[name]; own.requests > 1 {
		own.requests--
	} else {
		delete(l.users, name)
	}
}

// Wrap returns a storage whose writes wait. It is the same storage for resources without expressions.
func (l *Limits) Wrap(gr runtimeschema.GroupResource, s rest.StandardStorage) rest.StandardStorage {
	switch gr.Group {
	case "admissionregistration.k8s.io", "resource.k8s.io", "apiextensions.k8s.io":
		return &storage{s, l}
	}
	return s
}

type storage struct {
	rest.StandardStorage
	limits *Limits
}

// Create implements rest.Creater.
func (s *storage) Create(ctx context.Context, obj apiruntime.Object, validate rest.ValidateObjectFunc,
	o *metav1.CreateOptions) (apiruntime.Object, error) {
	end, err := s.limits.Begin(ctx, obj)
	if err != nil {
		return nil, err
	}
	end = sync.OnceFunc(end)
	defer end()
	return s.StandardStorage.Create(ctx, obj, after(end, validate), o)
}

// Update implements rest.Updater.
func (s *storage) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, force bool, o *metav1.UpdateOptions) (apiruntime.Object, bool, error) {
	var end func()
	waiting := rest.WrapUpdatedObjectInfo(info, func(ctx context.Context, obj, _ apiruntime.Object) (_ apiruntime.Object, err error) {
		if end == nil { // an update that conflicts with another one is repeated
			if end, err = s.limits.Begin(ctx, obj); err == nil {
				end = sync.OnceFunc(end)
			}
		}
		return obj, err
	})
	done := func() {
		if end != nil {
			end()
		}
	}
	defer done()
	return s.StandardStorage.Update(ctx, name, waiting, after(done, create), func(ctx context.Context, obj, old apiruntime.Object) error {
		done()
		if update == nil {
			return nil
		}
		return update(ctx, obj, old)
	}, force, o)
}

// after returns a check of webhooks and policies, which can take long and begins when the object is valid.
func after(end func(), validate rest.ValidateObjectFunc) rest.ValidateObjectFunc {
	return func(ctx context.Context, obj apiruntime.Object) error {
		end()
		if validate == nil {
			return nil
		}
		return validate(ctx, obj)
	}
}

// GetCorruptObjDeleter returns what deletes objects that cannot be decoded, or nil.
func (s *storage) GetCorruptObjDeleter() rest.GracefulDeleter {
	if p, ok := s.StandardStorage.(rest.CorruptObjectDeleterProvider); ok {
		return p.GetCorruptObjDeleter()
	}
	return nil
}
