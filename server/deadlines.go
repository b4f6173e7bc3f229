package server

import (
	"net/http"
	"time"

	genericapiserver "k8s.io/apiserver/pkg/server"
)

const (
	// readGrace is how long the body of a request that has timed out is still read: its
	// worker fails because of the timeout, not because of the connection.
	readGrace = time.Second
	// writeGrace is how long the answer may still be written. HTTP/1.1 answers when the body
	// is no longer read.
	writeGrace = readGrace + time.Second
)

// boundTransfers returns a handler that gives up on clients which send their request or
// read its answer too slowly. The timeout of a request does not reach a worker that waits
// for the connection: such a worker would keep its seat, and keep the server from
// stopping, for as long as the client likes.
func boundTransfers(next http.Handler, c *genericapiserver.Config) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var read, write time.Time
		info, err := c.RequestInfoResolver.NewRequestInfo(req)
		if err != nil || !c.LongRunningFunc(req, info) {
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
		next.ServeHTTP(w, req)
	})
}
