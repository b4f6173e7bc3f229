package aggregator

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
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
// the goroutines of the transport. An upgraded connection is closed when one of its sides is, or when the
// network of the server closes.
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

	upgrade := httpstream.IsUpgradeRequest(req)
	uid := ""
	if utilfeature.DefaultFeatureGate.Enabled(features.RemoteRequestHeaderUID) {
		uid = who.GetUID()
	}
	var rt http.RoundTripper = &firstByte{next: b.transport, begun: begun}
	rt = transport.NewAuthProxyRoundTripper(who.GetName(), uid, who.GetGroups(), who.GetExtra(), rt)
	if upgrade {
		// The handler dials by itself, without the round tripper, and then only waits for the connection.
		transport.SetAuthProxyHeaders(sent, who.GetName(), uid, who.GetGroups(), who.GetExtra())
		sent = sent.WithContext(context.WithValue(ctx, closesKey{}, true))
		w = &hijackNotifier{ResponseWriter: w, begun: begun}
	}
	h := proxy.NewUpgradeAwareHandler(location, rt, true, upgrade, responder{})
	h.RejectForwardingRedirects = true
	utilflowcontrol.RequestDelegated(req.Context())
	h.ServeHTTP(w, sent)
}

// errSlow is the reason of requests that end because another server does not answer.
var errSlow = errors.New("the server did not begin to answer in time")

// errStopping is the reason of watches that end because this server stops.
var errStopping = errors.New("the server is shutting down")

// limit returns a context that ends if another server does not begin to answer in time, and when this
// server stops, as the context of a local watch does. begun is called when the other server begins to answer,
// and end when the request is done. Requests that are not long-running have a deadline anyway.
func (a *Aggregator) limit(parent context.Context) (ctx context.Context, begun, end func()) {
	if _, ok := parent.Deadline(); ok {
		return parent, func() {}, func() {}
	}
	ctx, cancel := context.WithCancelCause(parent)
	timer := time.AfterFunc(a.config.Timeout, func() {
		cancel(fmt.Errorf("%w: %v", errSlow, a.config.Timeout))
	})
	if signals := apirequest.ServerShutdownSignalFrom(parent); signals != nil {
		go func() { // it ends with the request
			select {
			case <-signals.ShuttingDown():
				cancel(errStopping)
			case <-ctx.Done():
			}
		}()
	}
	return ctx, func() { timer.Stop() }, func() { timer.Stop(); cancel(nil) }
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

// closesKey marks the context of requests whose connections must be closed when it ends.
type closesKey struct{}

// Closing returns a dialer whose connections for upgrades are closed when the context of the request
// ends: nothing else interrupts who waits for them.
func Closing(dial func(ctx context.Context, network, address string) (net.Conn, error)) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil || ctx.Value(closesKey{}) == nil {
			return c, err
		}
		stop := context.AfterFunc(ctx, func() { _ = c.Close() })
		return &closing{Conn: c, stop: stop}, nil
	}
}

// closing is a connection that is closed when a context ends.
type closing struct {
	net.Conn
	stop func() bool
}

// Close closes the connection.
func (c *closing) Close() error {
	c.stop()
	return c.Conn.Close()
}

// hijackNotifier notices when the connection of a client is taken over, which is when the other server
// has answered.
type hijackNotifier struct {
	http.ResponseWriter
	begun func()
}

// Hijack takes over the connection.
func (h *hijackNotifier) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	h.begun()
	return http.NewResponseController(h.ResponseWriter).Hijack()
}

// Flush sends what is buffered.
func (h *hijackNotifier) Flush() { _ = http.NewResponseController(h.ResponseWriter).Flush() }

// Unwrap returns the response writer below.
func (h *hijackNotifier) Unwrap() http.ResponseWriter { return h.ResponseWriter }

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
