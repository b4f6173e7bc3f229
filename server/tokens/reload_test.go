package tokens

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	jose "gopkg.in/go-jose/go-jose.v2"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2"
)

// TestReload replaces the files of keys while they are in use.
func TestReload(t *testing.T) {
	dir := t.TempDir()
	sign, verify := filepath.Join(dir, "sign.key"), filepath.Join(dir, "verify.pub")
	createPrivate := func(path string) {
		t.Helper()
		const sync = false
		if err := createKey(path, sync); err != nil {
			t.Fatal(err)
		}
	}
	createPrivate(sign)
	old := publicOf(t, sign)
	writePublic(t, verify, old)
	keys, err := LoadKeys(KeyFiles{Sign: sign, Verify: []string{verify}})
	if err != nil {
		t.Fatal(err)
	}
	audience := authenticator.Audiences{issuerURL}
	accepts := NewAuthenticator(keys, audience, audience, objects(), nil)
	config := Config{Issuer: &Issuer{Keys: keys, URL: issuerURL}, Objects: objects(), Audiences: audience}
	issue := func() string {
		t.Helper()
		r, _, _, err := request(config, authenticationv1.TokenRequestSpec{})
		if err != nil {
			t.Fatal(err)
		}
		return r.Status.Token
	}
	documents, err := NewMetadata(keys, issuerURL, issuerURL+KeysPath)
	if err != nil {
		t.Fatal(err)
	}
	published := func() (ids []string) {
		t.Helper()
		w := httptest.NewRecorder()
		documents.ServeKeys(w, httptest.NewRequest("GET", KeysPath, nil))
		var set jose.JSONWebKeySet
		if err := json.Unmarshal(w.Body.Bytes(), &set); err != nil {
			t.Fatal(err)
		}
		for _, k := range set.Keys {
			ids = append(ids, k.KeyID)
		}
		return ids
	}
	accepted := func(token string) bool {
		_, ok, err := accepts.AuthenticateToken(context.Background(), token)
		return ok && err == nil
	}
	first := issue()
	before := published()
	if !accepted(first) || len(before) != 1 {
		t.Fatal("the first key has no effect:", before)
	}

	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- keys.Run(ctx) }()
	eventually := func(what string, ok func() bool) {
		t.Helper()
		for range 500 {
			if ok() {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Fatal("never:", what)
	}

	// Another key signs, and that of the second file still verifies.
	createPrivate(filepath.Join(dir, "new"))
	if err := os.Rename(filepath.Join(dir, "new"), sign); err != nil {
		t.Fatal(err)
	}
	eventually("two keys are published", func() bool { return len(published()) == 2 })
	second := issue()
	if !accepted(first) || !accepted(second) || published()[0] == before[0] {
		t.Error("the new key does not sign, or the old one does not verify")
	}

	// Broken files change nothing.
	failures := func() float64 {
		n, err := testutil.GetCounterMetricValue(reloads().WithLabelValues("failure"))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	failed := failures()
	if err := os.WriteFile(verify, []byte("-----BEGIN PUBLIC KEY-----\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually("a failure is counted", func() bool { return failures() > failed })
	if !accepted(first) || !accepted(second) || len(published()) != 2 {
		t.Error("a broken file has an effect")
	}

	// A key that is gone rejects its tokens, although they were accepted before.
	writePublic(t, verify, publicOf(t, sign))
	eventually("the old key is gone", func() bool { return !accepted(first) })
	if !accepted(second) || len(published()) != 1 {
		t.Error("the new key does not verify")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestReloadDirectory checks which changes of a directory of keys count, and that a reload creates no key.
func TestReloadDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	keys, err := LoadKeys(KeyFiles{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	first := keys.current.Load()
	keys.reload(klog.Background())
	if keys.current.Load() != first {
		t.Error("the same keys were replaced")
	}
	const sync = false
	if err := createKey(filepath.Join(dir, "99990101.key"), sync); err != nil {
		t.Fatal(err)
	}
	keys.reload(klog.Background())
	second := keys.current.Load()
	if len(second.public) != 2 || second.public[1].KeyID != first.public[0].KeyID {
		t.Errorf("keys: %+v", second.public)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	keys.reload(klog.Background())
	if keys.current.Load() != second || !strings.Contains(keys.failure, "no private key") {
		t.Errorf("an empty directory: %q", keys.failure)
	}
	if names, err = filepath.Glob(filepath.Join(dir, "*")); err != nil || len(names) != 0 {
		t.Error("a key was created:", names, err)
	}
}

// TestReloadKeepsPermissions checks that a reload changes no file, as each change is followed by a reload.
func TestReloadKeepsPermissions(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := restrict(filepath.Join(dir, "absent"), 0o600); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := restrict(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
	runs, err := LoadKeys(KeyFiles{Dir: filepath.Join(dir, "keys")})
	if err != nil {
		t.Fatal(err)
	}
	if err := createKey(filepath.Join(dir, "keys", "bad.key"), false); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "keys", "bad.key"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	count := func() float64 {
		n, err := testutil.GetCounterMetricValue(reloads().WithLabelValues("failure"))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	began := count()
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if err := runs.Run(ctx); err != nil {
		t.Error(err)
	}
	if n := count() - began; n != 1 {
		t.Errorf("%v reloads of files that do not change", n)
	}
}

func publicOf(t *testing.T, file string) any {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(data)
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return key.Public()
}

func writePublic(t *testing.T, file string, key any) {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
