package authorization_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"espalier.dev/server/servertest"
)

// TestLargeAnswersOfIssuers asks for the keys of issuers that answer with far too much. Each request with a token of
// theirs makes the server ask, so neither its memory nor its log may have all of it.
func TestLargeAnswersOfIssuers(t *testing.T) {
	t.Parallel()
	const most = 64 << 20
	for name, c := range map[string]struct {
		code         int
		before, part string
		want         string
	}{
		"keys without an end":  {http.StatusOK, `{"keys": [`, strings.Repeat(" ", 1<<20), "the answer of the issuer is larger than 1 MiB"},
		"no JSON":              {http.StatusOK, "", strings.Repeat("a page ", 100_000), "fetching keys"},
		"a page with an error": {http.StatusInternalServerError, "", strings.Repeat("a page ", 1<<17), "500 Internal Server Error a page a page"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			provider := newIssuer(t)
			others := provider.Config.Handler
			var sent atomic.Int64
			provider.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/keys" {
					others.ServeHTTP(w, r)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(c.code)
				_, err := w.Write([]byte(c.before))
				for n := 0; err == nil && sent.Load() < most; sent.Add(int64(n)) {
					n, err = w.Write([]byte(c.part))
				}
			})
			o := servertest.Options(t)
			o.Authentication.ConfigFile = filepath.Join(t.TempDir(), "authentication.yaml")
			if err := os.WriteFile(o.Authentication.ConfigFile, []byte(provider.configuration("claims.sub")), 0o600); err != nil {
				t.Fatal(err)
			}
			s := servertest.Start(t, o)
			token := provider.token(t, "espalier", time.Hour, map[string]any{"groups": []string{}})
			servertest.Eventually(t, func() error {
				_, err := self(t, s, token)
				if err == nil {
					t.Fatal("the token is accepted")
				}
				if !strings.Contains(err.Error(), c.want) && len(err.Error()) < most/100 {
					return err // the issuer is not known yet
				}
				if sent.Load() >= most || len(err.Error()) > 10_000 {
					t.Errorf("%d bytes are sent, and the reason has %d: %.300s", sent.Load(), len(err.Error()), err)
				}
				return nil
			})
		})
	}
}

// TestRemovedKey removes the key of an issuer, as after a theft. Its tokens are valid until the server asks for the keys
// again: when a token names another key, or the file changes.
func TestRemovedKey(t *testing.T) {
	t.Parallel()
	provider, next := newIssuer(t), newIssuer(t)
	removed := atomic.Bool{}
	others := provider.Config.Handler
	provider.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/keys" && removed.Load() {
			next.Config.Handler.ServeHTTP(w, r)
			return
		}
		others.ServeHTTP(w, r)
	})
	o := servertest.Options(t)
	o.Authentication.ConfigFile = filepath.Join(t.TempDir(), "authentication.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(o.Authentication.ConfigFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(provider.configuration("claims.sub"))
	s := servertest.Start(t, o)
	token := provider.token(t, "espalier", time.Hour, map[string]any{"groups": []string{}})
	servertest.Eventually(t, func() error {
		_, err := self(t, s, token)
		return err
	})
	removed.Store(true)
	if _, err := self(t, s, token); err != nil {
		t.Logf("the key is forgotten at once: %v", err)
	}
	write(provider.configuration("claims.sub") + "# the keys have changed\n")
	servertest.Eventually(t, func() error {
		if _, err := self(t, s, token); err == nil {
			return errors.New("the token is accepted")
		}
		return nil
	})
}
