package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"espalier.dev/server/pki"
)

// concurrency is the number of concurrent clients.
const concurrency = 32

// newClient returns a client with a connection of its own and the certificate of a user. It does not
// ask for compressed responses.
func newClient(ca, user pki.Pair) (*http.Client, error) {
	pair, err := tls.X509KeyPair(user.Cert, user.Key)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.Cert)
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig:    &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:  true,
		DisableCompression: true,
	}}, nil
}

// request is one HTTP request.
type request struct {
	method, path, contentType string
	body                      []byte
	gzip                      bool
}

// send sends a request and appends the body of the response to dst. A status other than 2xx
// is an error.
func (s *server) send(ctx context.Context, client *http.Client, r request, dst *bytes.Buffer) error {
	req, err := http.NewRequestWithContext(ctx, r.method, s.url+r.path, bytes.NewReader(r.body))
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	if r.contentType != "" {
		req.Header.Set("Content-Type", r.contentType)
	}
	if r.gzip {
		req.Header.Set("Accept-Encoding", "gzip")
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	dst.Reset()
	_, err = dst.ReadFrom(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		return fmt.Errorf("%s %s: %w", r.method, r.path, err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("%s: %s %s: %s: %s", s.name, r.method, r.path, resp.Status, dst.Bytes()[:min(500, dst.Len())])
	}
	return nil
}

// get returns the body of a response.
func (s *server) get(ctx context.Context, path string) ([]byte, error) {
	var b bytes.Buffer
	err := s.send(ctx, s.clients[0], request{method: http.MethodGet, path: path}, &b)
	return b.Bytes(), err
}

// operation sends the requests of one client, one for each call. The number counts the calls
// of all clients.
type operation func(ctx context.Context, client, number int) error

// load is what a number of requests cost a server.
type load struct {
	requests int
	cpu      time.Duration
	elapsed  time.Duration
}

// perRequest returns the CPU time of one request in milliseconds.
func (l load) perRequest() float64 {
	return float64(l.cpu.Nanoseconds()) / float64(max(1, l.requests)) / 1e6
}

// spend runs an operation on all clients until the time is over or the number of calls is
// reached; 0 means no limit. The cost is that of the whole server process.
func (s *server) spend(ctx context.Context, clients int, d time.Duration, calls int, op operation) (load, error) {
	return spend(ctx, s.process.cpu, clients, d, calls, op)
}

// spend is the same for any processes.
func spend(ctx context.Context, cpu func() (time.Duration, error), clients int, d time.Duration, calls int, op operation) (load, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	before, err := cpu()
	if err != nil {
		return load{}, err
	}
	begin := time.Now()
	for c := range clients {
		wg.Go(func() {
			for ctx.Err() == nil && (d == 0 || time.Since(begin) < d) {
				i := int(next.Add(1)) - 1
				if calls > 0 && i >= calls {
					next.Add(-1)
					return
				}
				if err := op(ctx, c, i); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(begin)
	if err := context.Cause(ctx); err != nil {
		return load{}, err
	}
	after, err := cpu()
	return load{requests: int(next.Load()), cpu: after - before, elapsed: elapsed}, err
}

// profile writes a CPU profile of the server while an operation runs.
func (s *server) profile(ctx context.Context, file string, clients int, op operation) error {
	const seconds = 3
	done := make(chan error, 1)
	go func() {
		f, err := os.Create(file)
		if err != nil {
			done <- err
			return
		}
		defer f.Close()
		resp, err := s.admin.Get(fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", s.url, seconds))
		if err != nil {
			done <- err
			return
		}
		defer resp.Body.Close()
		_, err = io.Copy(f, resp.Body)
		done <- err
	}()
	_, err := s.spend(ctx, clients, seconds*time.Second, 0, op)
	if perr := <-done; err == nil {
		err = perr
	}
	return err
}
