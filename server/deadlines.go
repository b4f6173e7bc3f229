package server

import (
	"fmt"
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/endpoints/responsewriter"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

const (
	// readGrace is how long the body of a request that has timed out is still read: its
	// worker fails because of the timeout, not because of the connection.
	readGrace = time.Second
	// writeGrace is how long the answer may still be written. HTTP/1.1 answers when the body
	// is no longer read.
	writeGrace = readGrace + time.Second
	// stallTime is how long the client of a watch may read nothing while the server has
	// something to send, and listStallTime that of a list, which needs more memory.
	stallTime     = time.Minute
	listStallTime = 10 * time.Second
	// maxQuery is the size limit of the parameters in a URL. Selectors with a hundred thousand
	// requirements take seconds to parse, which happens before it is known who asks.
	maxQuery = 128 << 10
)

// boundTransfers returns a handler that gives up on clients which send their request or
// read its answer too slowly. The timeout of a request does not reach a worker that waits
// for the connection: such a worker would keep its seat, and keep the server from
// stopping, for as long as the client likes. A watch has no timeout, but ends when its client
// stops reading: it keeps events and objects in memory.
func boundTransfers(next http.Handler, c *genericapiserver.Config) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if len(req.URL.RawQuery) > maxQuery {
			http.Error(w, fmt.Sprintf("the parameters in the URL have %d bytes: the limit is %d",
				len(req.URL.RawQuery), maxQuery), http.StatusRequestURITooLong)
			return
		}
		var read, write time.Time
		info, err := c.RequestInfoResolver.NewRequestInfo(req)
		long := err == nil && c.LongRunningFunc(req, info)
		if !long {
			timeout := time.Now().Add(c.RequestTimeout)
			read, write = timeout.Add(readGrace), timeout.Add(writeGrace)
		}
		// Every connection of a client supports deadlines. A watch has none, but removes those of
		// the request before it on the same connection.
		connection := http.NewResponseController(w)
		_ = connection.SetWriteDeadline(write)
		if req.Body != nil && req.Body != http.NoBody {
			_ = connection.SetReadDeadline(read)
		}
		switch {
		case long:
			w = boundStalls(w, stallTime)
		case err == nil && lists(info):
			w = boundStalls(w, listStallTime)
		}
		next.ServeHTTP(w, req)
	})
}

// boundStalls returns a response writer whose writes fail after the client has read nothing
// for some time. The time between writes does not count.
func boundStalls(w http.ResponseWriter, most time.Duration) http.ResponseWriter {
	s := &stallWriter{ResponseWriter: w, most: most, expired: make(chan struct{}, 1)}
	// A deadline before each write would cost HTTP/2 two more messages between goroutines than a
	// timer, which sets a deadline only when it expires.
	s.timer = time.AfterFunc(most, func() {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0))
		s.expired <- struct{}{}
	})
	s.stop()
	return responsewriter.WrapForHTTP1Or2(s)
}

// stallWriter is a response writer of boundStalls. The timer runs only during Write and Flush,
// which wait for its function if it has expired: the function never uses the response after
// its handler has returned.
type stallWriter struct {
	http.ResponseWriter
	most    time.Duration
	timer   *time.Timer
	expired chan struct{}
}

// stallBytes is how many bytes a client must read in time.
const stallBytes = 64 << 10

func (s *stallWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (s *stallWriter) Write(p []byte) (n int, err error) {
	for {
		part := p[:min(len(p), stallBytes)]
		s.timer.Reset(s.most)
		m, err := s.ResponseWriter.Write(part)
		s.stop()
		n, p = n+m, p[len(part):]
		if err != nil || len(p) == 0 {
			return n, err
		}
	}
}

func (s *stallWriter) Flush() {
	s.timer.Reset(s.most)
	defer s.stop()
	s.ResponseWriter.(http.Flusher).Flush()
}

// stop stops the timer after it has been started.
func (s *stallWriter) stop() {
	if !s.timer.Stop() {
		<-s.expired
	}
}
