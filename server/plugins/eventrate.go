package plugins

import (
	"context"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/lru"
)

// eventRate limits the rate of writes of events.
type eventRate struct {
	*admission.Handler
	limits []*eventLimit
}

var _ admission.ValidationInterface = &eventRate{}

// eventLimit is one limit: a bucket of tokens for each key.
type eventLimit struct {
	kind   string
	key    func(admission.Attributes) string
	bucket func() flowcontrol.RateLimiter

	// mu keeps two requests from making a bucket for the same key.
	mu      sync.Mutex
	buckets *lru.Cache
}

// eventBuckets is the number of buckets that a limit keeps if its configuration has none.
const eventBuckets = 4096

func newEventRate(configuration []byte) (*eventRate, error) {
	var c struct {
		Limits []struct {
			Type      string `json:"type"`
			QPS       int32  `json:"qps"`
			Burst     int32  `json:"burst"`
			CacheSize int32  `json:"cacheSize"`
		} `json:"limits"`
	}
	if err := configure(configuration, "eventratelimit.admission.k8s.io/v1alpha1", &c); err != nil {
		return nil, err
	}
	path := field.NewPath("limits")
	var errs field.ErrorList
	if len(c.Limits) == 0 {
		errs = append(errs, field.Invalid(path, c.Limits, "must not be empty"))
	}
	p := &eventRate{Handler: admission.NewHandler(admission.Create, admission.Update)}
	for i, limit := range c.Limits {
		path := path.Index(i)
		key := eventKeys()[limit.Type]
		if key == nil {
			errs = append(errs, field.NotSupported(path.Child("type"), limit.Type, []string{"Namespace", "Server", "SourceAndObject", "User"}))
		}
		if limit.Burst <= 0 {
			errs = append(errs, field.Invalid(path.Child("burst"), limit.Burst, "must be positive"))
		}
		if limit.QPS <= 0 {
			errs = append(errs, field.Invalid(path.Child("qps"), limit.QPS, "must be positive"))
		}
		size := int(limit.CacheSize)
		switch {
		case limit.Type == "Server":
			size = 1
		case size < 0:
			errs = append(errs, field.Invalid(path.Child("cacheSize"), limit.CacheSize, "must not be negative"))
		case size == 0:
			size = eventBuckets
		}
		p.limits = append(p.limits, &eventLimit{
			kind: limit.Type, key: key, buckets: lru.New(max(size, 1)),
			bucket: func() flowcontrol.RateLimiter {
				return flowcontrol.NewTokenBucketRateLimiter(float32(limit.QPS), int(limit.Burst))
			},
		})
	}
	return p, errs.ToAggregate()
}

// eventKeys returns what distinguishes the buckets of the types of limits.
func eventKeys() map[string]func(admission.Attributes) string {
	return map[string]func(admission.Attributes) string{
		"Server":    func(admission.Attributes) string { return "" },
		"Namespace": admission.Attributes.GetNamespace,
		"User": func(a admission.Attributes) string {
			if user := a.GetUserInfo(); user != nil {
				return user.GetName()
			}
			return ""
		},
		"SourceAndObject": func(a admission.Attributes) string {
			e, ok := a.GetObject().(*corev1.Event)
			if !ok {
				return ""
			}
			o := e.InvolvedObject
			return strings.Join([]string{e.Source.Component, e.Source.Host, o.Kind, o.Namespace, o.Name, string(o.UID), o.APIVersion}, "")
		},
	}
}

// accept takes a token, or returns an error if there is none.
func (l *eventLimit) accept(a admission.Attributes) error {
	key := l.key(a)
	l.mu.Lock()
	bucket, ok := l.buckets.Get(key)
	if !ok {
		bucket = l.bucket()
		l.buckets.Add(key, bucket)
	}
	l.mu.Unlock()
	if bucket.(flowcontrol.RateLimiter).TryAccept() {
		return nil
	}
	return fmt.Errorf("limit reached on type %v for key %v", l.kind, key)
}

// Validate implements admission.ValidationInterface.
func (p *eventRate) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetKind().GroupKind() != (schema.GroupKind{Kind: "Event"}) || a.IsDryRun() {
		return nil
	}
	var errs []error
	for _, limit := range p.limits {
		if err := limit.accept(a); err != nil {
			errs = append(errs, err)
		}
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		return errors.NewTooManyRequestsError(err.Error())
	}
	return nil
}
