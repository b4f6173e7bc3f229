package publish

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestBuilding asks for documents that take long: requests are told to try again before their time is over,
// a limited number of documents is written at a time, and those whose requests have gone are not begun.
func TestBuilding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		builds := make(chan struct{}, 1)
		var begun atomic.Int32
		slow := newForm(builds, func() (text, error) {
			begun.Add(1)
			time.Sleep(time.Minute)
			return text{rawPiece([]byte("{}"))}, nil
		})
		other := newForm(builds, func() (text, error) {
			begun.Add(1)
			return text{rawPiece([]byte("[]"))}, nil
		})
		d := &document{version: "v3", hash: "x", json: slow}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		w := httptest.NewRecorder()
		d.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx))
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || ctx.Err() != nil {
			t.Errorf("got %d, %v, %v", w.Code, w.Header(), ctx.Err())
		}
		short, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		if _, err := other.get(short); !errors.Is(err, errBuilding) || begun.Load() != 1 {
			t.Errorf("got %v, %d documents are written", err, begun.Load())
		}
		// The next request gets what the first one began, and then the other document is written.
		w = httptest.NewRecorder()
		d.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if w.Code != http.StatusOK || w.Body.String() != "{}" {
			t.Errorf("got %d, %s", w.Code, w.Body)
		}
		if _, err := other.get(t.Context()); err != nil || begun.Load() != 2 {
			t.Errorf("got %v, %d documents were written", err, begun.Load())
		}
	})
}

// TestMatches compares tags as RFC 9110 says.
func TestMatches(t *testing.T) {
	for header, want := range map[string]bool{"": false, `"a"`: true, `W/"a"`: true, `"b", "a"`: true, `"b"`: false, "*": true} {
		if matches(header, `"a"`) != want {
			t.Errorf("%s: want %v", header, want)
		}
	}
}
