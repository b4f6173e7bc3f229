package aggregator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
	apiserverproxy "k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/client-go/transport"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream"
)

// component is the name of the aggregator in metrics, as in kube-apiserver.
const component = "aggregator"

// aggregatorUser is who asks other servers for their OpenAPI documents.
const aggregatorUser = "system:aggregator"

// fail answers a request with an error in the form of kube-aggregator, which is plain text.
func fail(w http.ResponseWriter, req *http.Request, message string, code int) {
	http.Error(w, message, code)
	if info, ok := apirequest.RequestInfoFrom(req.Context()); ok {
		metrics.RecordRequestTermination(req, info, component, code)
	}
}

// proxy sends a request to another server, and its response to the client.
//
// Nothing outlives the request: the context of the request to the other server ends with it, and that ends
// the goroutines of the transport. An upgraded connection is closed when one of its sides is, or when this
// server stops.
func (a *Aggregator) proxy(b *backend, w http.ResponseWriter, req *http.Request) {
	if !b.available {
		fail(w, req, "service unavailable", http.StatusServiceUnavailable)
		return
	}
	if b.err != nil {
		fail(w, req, b.err.Error(), http.StatusInternalServerError)
		return
	}
	who, ok := apirequest.UserFrom(req.Context())
	if !ok {
		fail(w, req, "missing user", http.StatusInternalServerError)
		return
	}
	a.forward(b, who, w, req)
}

func (a *Aggregator) forward(b *backend, who user.Info, w http.ResponseWriter, req *http.Request) {
	giveBack, err := a.take(req.Context(), b)
	if err != nil {
		a.reject(err, b, w, req)
		return
	}
	defer giveBack()
	service := b.service.Spec.Service
	address, err := a.config.Services.ResolveEndpoint(service.Namespace, service.Name, b.port())
	if err != nil {
		klog.FromContext(req.Context()).Error(err, "Cannot find another server", "apiService", b.service.Name)
		fail(w, req, "service unavailable", http.StatusServiceUnavailable)
		return
	}
	location := &url.URL{Scheme: "https", Host: address.Host, Path: req.URL.Path, RawQuery: req.URL.Query().Encode()}
	sent, cancel := apiserverproxy.NewRequestForProxy(location, req)
	defer cancel()
	ctx, begun, end := a.limit(sent.Context())
	defer end()
	sent = sent.WithContext(ctx)

	upgrades := httpstream.IsUpgradeRequest(req)
	uid := ""
	if utilfeature.DefaultFeatureGate.Enabled(features.RemoteRequestHeaderUID) {
		uid = who.GetUID()
	}
	var rt http.RoundTripper = &firstByte{next: b.transport, begun: begun}
	rt = transport.NewAuthProxyRoundTripper(who.GetName(), uid, who.GetGroups(), who.GetExtra(), rt)
	if upgrades {
		// The handler dials by itself, without the round tripper, and then only waits for the connection.
		transport.SetAuthProxyHeaders(sent, who.GetName(), uid, who.GetGroups(), who.GetExtra())
		u := &upgrade{stopTimer: begun}
		sent = sent.WithContext(context.WithValue(ctx, upgradeKey{}, u))
		w = &hijacker{ResponseWriter: w, upgrade: u}
	}
	h := proxy.NewUpgradeAwareHandler(location, rt, true, upgrades, responder{})
	h.RejectForwardingRedirects = true
	utilflowcontrol.RequestDelegated(req.Context())
	h.ServeHTTP(w, sent)
}

// errSlow is the reason of requests that end because another server does not answer.
var errSlow = errors.New("the server did not begin to answer in time")

// errStopping is the reason of requests that end because this server stops.
var errStopping = errors.New("the server is shutting down")

// limit returns the context of a request to another server. A request that is not long-running has a deadline, and
// a stopping server waits for it. The context of a long-running one ends if the other server does not begin to
// answer in time, and when this server stops: a watch ends as a local one does, and all others when the requests
// that a stopping server waits for are answered. begun is called when the other server begins to answer, and end
// when the request is done.
func (a *Aggregator) limit(parent context.Context) (ctx context.Context, begun, end func()) {
	if !longRunning(parent) {
		return parent, func() {}, func() {}
	}
	ctx, cancel := context.WithCancelCause(parent)
	timer := time.AfterFunc(a.config.Timeout, func() {
		cancel(fmt.Errorf("%w: %v", errSlow, a.config.Timeout))
	})
	stopping := a.config.Drained
	if signals := apirequest.ServerShutdownSignalFrom(parent); signals != nil {
		stopping = signals.ShuttingDown() // only watches have it
	}
	go func() { // it ends with the request
		select {
		case <-stopping:
			cancel(errStopping)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { timer.Stop() }, func() { timer.Stop(); cancel(nil) }
}

// longRunning reports whether a request is long-running: all others have a deadline.
func longRunning(ctx context.Context) bool {
	_, bounded := ctx.Deadline()
	return !bounded
}

// firstByte is a round tripper that notices the beginning of a response.
type firstByte struct {
	next  http.RoundTripper
	begun func()
}

// RoundTrip sends a request.
func (f *firstByte) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := f.next.RoundTrip(req)
	if err != nil {
		if cause := context.Cause(req.Context()); errors.Is(cause, errSlow) {
			err = cause
		}
		return nil, err
	}
	f.begun()
	return resp, nil
}

// WrappedRoundTripper returns the round tripper below, which has the dialer and the TLS configuration
// that upgrades need.
func (f *firstByte) WrappedRoundTripper() http.RoundTripper { return f.next }

var _ utilnet.RoundTripperWrapper = &firstByte{}

// responder answers requests that cannot be sent to another server.
type responder struct{}

// deadlineGrace is the time that the filter of timeouts has to answer a request whose deadline is over. It
// closes the connection of a request that begins to answer at that time.
const deadlineGrace = 100 * time.Millisecond

// Error answers with an error.
func (responder) Error(w http.ResponseWriter, req *http.Request, err error) {
	if errors.Is(req.Context().Err(), context.DeadlineExceeded) {
		time.Sleep(deadlineGrace)
	}
	http.Error(w, err.Error(), http.StatusServiceUnavailable)
}
