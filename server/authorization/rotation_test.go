package authorization_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	jose "gopkg.in/go-jose/go-jose.v2"
	authenticationv1 "k8s.io/api/authentication/v1"

	"espalier.dev/server"
	"espalier.dev/server/servertest"
	"espalier.dev/server/tokens"
)

// newKey creates a key, and returns its file.
func newKey(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if _, err := tokens.LoadKeys(tokens.KeyFiles{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	made, err := filepath.Glob(filepath.Join(dir, "*.key"))
	if err != nil || len(made) != 1 {
		t.Fatal(made, err)
	}
	return made[0]
}

// publishedKeys returns the number of keys that a server publishes.
func publishedKeys(t *testing.T, s *server.Server) int {
	t.Helper()
	var keys jose.JSONWebKeySet
	_, body := servertest.Get(t, s, servertest.Client(t, s, nil), tokens.KeysPath)
	if err := json.Unmarshal([]byte(body), &keys); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return len(keys.Keys)
}

// TestKeyRotation replaces the keys of running servers: in the files that flags name, and in the data
// directory.
func TestKeyRotation(t *testing.T) {
	t.Parallel()
	copyTo := func(t *testing.T, from, to string) {
		t.Helper()
		data, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to+".new", data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(to+".new", to); err != nil {
			t.Fatal(err)
		}
	}
	awaitKeys := func(t *testing.T, s *server.Server, want int) {
		t.Helper()
		servertest.Eventually(t, func() error {
			if n := publishedKeys(t, s); n != want {
				return fmt.Errorf("%d keys are published, not %d", n, want)
			}
			return nil
		})
	}
	request := func(t *testing.T, s *server.Server) string {
		t.Helper()
		return requestToken(t, servertest.Clientset(t, s, nil, ""), "robot", authenticationv1.TokenRequestSpec{}).Status.Token
	}
	t.Run("flags", func(t *testing.T) {
		t.Parallel()
		dir, old, next := t.TempDir(), newKey(t), newKey(t)
		sign, verify := filepath.Join(dir, "sign"), filepath.Join(dir, "verify")
		copyTo(t, old, sign)
		copyTo(t, old, verify)
		o := servertest.Options(t)
		o.Authentication.ServiceAccountSigningKeyFile, o.Authentication.ServiceAccountKeyFiles = sign, []string{verify}
		s := servertest.Start(t, o)
		account(t, servertest.Clientset(t, s, nil, ""), "robot")
		first := request(t, s)
		accept(t, s, first, "robot")
		copyTo(t, next, sign)
		awaitKeys(t, s, 2)
		second := request(t, s)
		accept(t, s, first, "robot")
		accept(t, s, second, "robot")
		copyTo(t, next, verify)
		awaitKeys(t, s, 1)
		accept(t, s, second, "robot")
		reject(t, s, "a token of a key that is gone", first)
	})
	t.Run("directory", func(t *testing.T) {
		t.Parallel()
		o := servertest.Options(t)
		o.Ephemeral = false
		s := servertest.Start(t, o)
		account(t, servertest.Clientset(t, s, nil, ""), "robot")
		first := request(t, s)
		copyTo(t, newKey(t), filepath.Join(keyDir(o), "99990101.key"))
		awaitKeys(t, s, 2)
		second := request(t, s)
		accept(t, s, first, "robot")
		accept(t, s, second, "robot")
	})
}
