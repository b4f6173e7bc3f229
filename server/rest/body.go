package rest

import (
	"bytes"
	"io"
	"net/http"
	"strings"
)

// MediaType returns the media type of the body of a request, without its parameters, as in handlers
// of patches.
func MediaType(req *http.Request) string {
	before, _, _ := strings.Cut(req.Header.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(before))
}

// PeekBody returns the body of a request, or nil if it has more bytes than limit or cannot be read.
// The handler of the request then gets the same text, and the same error.
func PeekBody(req *http.Request, limit int64) []byte {
	if req.Body == nil || req.Body == http.NoBody {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(req.Body, limit+1))
	rest := io.Reader(req.Body)
	if err != nil {
		rest = failedReader{err}
	}
	req.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), rest), req.Body}
	if err != nil || int64(len(body)) > limit {
		return nil
	}
	return body
}

// failedReader returns an error that has occurred before.
type failedReader struct{ err error }

func (r failedReader) Read([]byte) (int, error) { return 0, r.err }
