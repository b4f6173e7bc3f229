package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	grpcstatus "google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/klog/v2"

	"espalier.dev/server/etcd/kine"
)

const (
	// ConnectTimeout is the time that Connect waits for members to answer.
	ConnectTimeout = 5 * time.Second
	// keepAliveTime and keepAliveTimeout are those of k8s.io/apiserver's client.
	keepAliveTime    = 30 * time.Second
	keepAliveTimeout = 10 * time.Second
	// stragglers is the time that Connect waits for other members after one has answered.
	stragglers = time.Second
	// streamWindow and connectionWindow limit the bytes of a stream, and of all streams of a connection,
	// that are sent before they are read. Without them, gRPC measures how large they should be, up to
	// the same limit of a connection, with a ping for almost every answer.
	streamWindow, connectionWindow = 4 << 20, 16 << 20
)

// Endpoints configures the connection to a cluster.
type Endpoints struct {
	// URLs are the members' addresses.
	URLs []string
	// CertFile and KeyFile hold a client certificate, CAFile the CA of the members'
	// certificates. All may be empty.
	CertFile, KeyFile, CAFile string
	// Kine translates the requests if the cluster is not one of etcd, but kine. Nil means that
	// it is one of etcd.
	Kine *kine.Conn
	// Interceptor, if not nil, intercepts all requests of the client to an etcd.
	Interceptor grpc.UnaryClientInterceptor
}

// reconnect returns the delays between connection attempts. gRPC's defaults grow to two
// minutes, so a server would not notice for as long that its etcd is back.
func reconnect() backoff.Config {
	c := backoff.DefaultConfig
	c.BaseDelay = 100 * time.Millisecond
	c.MaxDelay = 3 * time.Second
	return c
}

// Connect returns a client of a cluster that has answered. It fails if no member answers
// within [ConnectTimeout], if the members belong to different clusters, or if one of those that
// answer has a version whose watches are unreliable.
func Connect(ctx context.Context, e Endpoints) (*clientv3.Client, error) {
	// Errors are returned to the caller, not logged.
	quiet := new(atomic.Bool)
	quiet.Store(true)
	config := clientv3.Config{
		Endpoints:   e.URLs,
		DialTimeout: ConnectTimeout,
		// Detects a lost member without a request.
		DialKeepAliveTime:    keepAliveTime,
		DialKeepAliveTimeout: keepAliveTimeout,
		DialOptions: []grpc.DialOption{
			grpc.WithChainUnaryInterceptor(keepReason),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect(), MinConnectTimeout: ConnectTimeout}),
			grpc.WithStaticStreamWindowSize(streamWindow), grpc.WithStaticConnWindowSize(connectionWindow),
		},
		Logger: newLogger(klog.FromContext(ctx).WithName("etcd-client"), quiet, new(atomic.Bool), nil),
	}
	if e.Interceptor != nil {
		config.DialOptions = append(config.DialOptions, grpc.WithChainUnaryInterceptor(e.intercept))
	}
	if e.Kine != nil {
		config.DialOptions = append(config.DialOptions, e.Kine.DialOptions()...)
	}
	if e.CertFile != "" || e.KeyFile != "" || e.CAFile != "" {
		info := transport.TLSInfo{CertFile: e.CertFile, KeyFile: e.KeyFile, TrustedCAFile: e.CAFile}
		tls, err := info.ClientConfig()
		if err != nil {
			return nil, fmt.Errorf("read the certificates for etcd: %w", err)
		}
		config.TLS = tls
	}
	client, err := clientv3.New(config)
	if err != nil {
		return nil, fmt.Errorf("create a client for etcd at %s: %w", strings.Join(e.URLs, ", "), err)
	}
	err = e.checkCluster(ctx, client)
	if err == nil && e.Kine != nil {
		err = e.Kine.Detect(ctx, client)
	}
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	return client, nil
}

// intercept calls the interceptor, unless the cluster is kine.
func (e Endpoints) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
	invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if e.Kine.Detected() {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	return e.Interceptor(ctx, method, req, reply, cc, invoke, opts...)
}

// checkCluster asks every endpoint for its cluster ID and its version.
func (e Endpoints) checkCluster(ctx context.Context, client *clientv3.Client) error {
	ctx, cancel := context.WithTimeout(ctx, ConnectTimeout)
	defer cancel()
	type answer struct {
		cluster uint64
		version string
		err     error
	}
	endpoints := client.Endpoints()
	answers := make([]answer, len(endpoints))
	var wg sync.WaitGroup
	for i, endpoint := range endpoints {
		wg.Go(func() {
			var reason error
			status, err := client.Status(context.WithValue(ctx, reasonKey{}, &reason), endpoint)
			if err != nil {
				if reason != nil {
					err = errors.New(grpcstatus.Convert(reason).Message())
				}
				answers[i].err = fmt.Errorf("%s: %w", endpoint, err)
				return
			}
			answers[i].cluster, answers[i].version = status.Header.ClusterId, status.Version
			// The cluster is available: members that are down do not delay the start.
			time.AfterFunc(stragglers, cancel)
		})
	}
	wg.Wait()

	var errs []error
	first := -1
	for i, a := range answers {
		if a.err == nil {
			if err := checkVersion(a.version); err != nil {
				return fmt.Errorf("%s: %w", endpoints[i], err)
			}
		}
		switch {
		case a.err != nil:
			errs = append(errs, a.err)
		case first < 0:
			first = i
		case a.cluster != answers[first].cluster:
			return fmt.Errorf("%s and %s are members of different etcd clusters (%x and %x): set endpoints of one cluster only",
				endpoints[first], endpoints[i], answers[first].cluster, a.cluster)
		}
	}
	if first < 0 {
		return fmt.Errorf("no etcd member can be reached: %w%s", errors.Join(errs...), e.advice(errs))
	}
	return nil
}

// The first versions of 3.4 and 3.5 that report the progress of a watch only after they have
// sent all its events. Later ones do, too.
var (
	reliable34 = version.MustParseSemantic("3.4.31")
	first35    = version.MustParseSemantic("3.5.0")
	reliable35 = version.MustParseSemantic("3.5.13")
)

// checkVersion returns an error if reads could miss writes with a version of etcd, because it
// reports the progress of a watch too early.
func checkVersion(text string) error {
	v, err := version.ParseSemantic(text)
	if err != nil {
		return fmt.Errorf("the version %q of etcd is not known to be supported: use etcd 3.5.13 or later", text)
	}
	if v.LessThan(reliable34) || v.AtLeast(first35) && v.LessThan(reliable35) {
		return fmt.Errorf("etcd %s reports the progress of watches too early, so reads could miss writes: upgrade it to 3.4.31, 3.5.13 or later", v)
	}
	return nil
}

// reasonKey is the context key of the *error for keepReason.
type reasonKey struct{}

// keepReason keeps the gRPC error of a call, which has the reason. The etcd client replaces
// it with "context deadline exceeded".
func keepReason(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
	invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	err := invoke(ctx, method, req, reply, cc, opts...)
	if reason, ok := ctx.Value(reasonKey{}).(*error); ok {
		*reason = err
	}
	return err
}
