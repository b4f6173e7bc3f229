package aggregator

import (
	"context"
	"strings"
	"testing"
	"time"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// TestSeats checks that API services of one service share its seats, and all services a part of them.
func TestSeats(t *testing.T) {
	t.Parallel()
	a := New(Config{MaxReads: 8, Mutates: func(info *apirequest.RequestInfo) bool { return info.Verb != "get" }})
	of := func(service, version string) *backend {
		b := &backend{service: serviceOf(runtimeschema.GroupVersion{Group: "example.com", Version: version}, 443)}
		b.service.Name, b.service.Spec.Service.Name = version+".example.com", service
		return b
	}
	ctx, cancel := context.WithTimeout(apirequest.WithRequestInfo(t.Context(), &apirequest.RequestInfo{Verb: "get"}), time.Hour)
	defer cancel()
	var given []func()
	take := func(ctx context.Context, b *backend, want string) {
		t.Helper()
		giveBack, err := a.take(ctx, b)
		switch {
		case err == nil && want == "":
			given = append(given, giveBack)
		case err == nil || want == "" || !strings.Contains(err.Error(), want):
			t.Errorf("%v, want %q", err, want)
		}
	}
	take(ctx, of("first", "v1"), "")
	take(ctx, of("first", "v2"), "")
	take(ctx, of("first", "v1"), "2 requests are waiting for the service default/first of the API service v1.example.com, which is its share of --max-requests-inflight (8)")
	take(ctx, of("second", "v3"), "")
	take(ctx, of("third", "v4"), "")
	take(ctx, of("third", "v4"), "4 requests are waiting for the servers of API services, v4.example.com among them, which is their share of --max-requests-inflight (8)")
	take(apirequest.WithRequestInfo(ctx, &apirequest.RequestInfo{Verb: "create"}), of("first", "v1"), "") // no limit
	take(context.WithoutCancel(ctx), of("first", "v1"), "")                                               // a watch
	for _, giveBack := range given {
		giveBack()
	}
	if len(a.seats.taken) != 0 {
		t.Errorf("seats are left: %v", a.seats.taken)
	}
	take(ctx, of("first", "v1"), "")
}
