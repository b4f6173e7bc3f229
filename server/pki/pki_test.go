package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

func ensure(t *testing.T, c Config) *Bundle {
	t.Helper()
	b, err := Ensure(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// verify checks a certificate of the bundle against its CA at a time.
func verify(t *testing.T, b *Bundle, p Pair, usage x509.ExtKeyUsage, host string, at time.Time) *x509.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair(p.Cert, p.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(b.CA.Cert) {
		t.Fatal("the CA has no certificate")
	}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
		t.Error(err)
	}
	return pair.Leaf
}

func TestEnsure(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	now := time.Now()
	c := Config{Dir: dir, Hosts: []string{"localhost", "127.0.0.1", "::1"}, Now: func() time.Time { return now }}
	b := ensure(t, c)
	for _, host := range c.Hosts {
		verify(t, b, b.Serving, x509.ExtKeyUsageServerAuth, host, now)
	}
	admin := verify(t, b, b.Admin, x509.ExtKeyUsageClientAuth, "", now)
	if admin.Subject.CommonName != AdminUser || !slices.Equal(admin.Subject.Organization, []string{AdminGroup}) {
		t.Errorf("the administrator is %s", admin.Subject)
	}

	t.Run("modes", func(t *testing.T) {
		if mode := stat(t, dir).Mode().Perm(); mode != 0o700 {
			t.Errorf("the directory has mode %o", mode)
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) != 6 {
			t.Errorf("there are %d files: %v", len(entries), entries)
		}
		for _, e := range entries {
			if mode := stat(t, filepath.Join(dir, e.Name())).Mode().Perm(); mode != 0o600 {
				t.Errorf("%s has mode %o", e.Name(), mode)
			}
		}
	})
	t.Run("used again", func(t *testing.T) {
		same(t, b, ensure(t, c), true, true, true)
		fewer := c
		fewer.Hosts = c.Hosts[:1]
		same(t, b, ensure(t, fewer), true, true, true)
	})
	t.Run("opened to others", func(t *testing.T) {
		if err := os.Chmod(b.CA.KeyFile, 0o644); err != nil {
			t.Fatal(err)
		}
		ensure(t, c)
		if mode := stat(t, b.CA.KeyFile).Mode().Perm(); mode != 0o600 {
			t.Errorf("the key has mode %o", mode)
		}
	})
	t.Run("another host", func(t *testing.T) {
		more := c
		more.Hosts = append([]string{"example.com"}, c.Hosts...)
		got := ensure(t, more)
		same(t, b, got, true, false, true)
		verify(t, got, got.Serving, x509.ExtKeyUsageServerAuth, "example.com", now)
		b = got
	})
	t.Run("a damaged leaf", func(t *testing.T) {
		if err := os.WriteFile(b.Admin.KeyFile, b.Serving.Key, 0o600); err != nil {
			t.Fatal(err)
		}
		got := ensure(t, c)
		same(t, b, got, true, true, false)
		verify(t, got, got.Admin, x509.ExtKeyUsageClientAuth, "", now)
		b = got
	})
	t.Run("late", func(t *testing.T) {
		later := c
		then := now.Add(leafAge - leafAge/4)
		later.Now = func() time.Time { return then }
		got := ensure(t, later)
		same(t, b, got, true, false, false)
		verify(t, got, got.Serving, x509.ExtKeyUsageServerAuth, "localhost", then)
		b = got
	})
	t.Run("very late", func(t *testing.T) {
		later := c
		then := now.Add(authorityAge - authorityAge/4)
		later.Now = func() time.Time { return then }
		got := ensure(t, later)
		same(t, b, got, false, false, false)
		if !bytes.Equal(got.CA.Key, b.CA.Key) {
			t.Error("the CA has another key")
		}
		// Clients that trust the old CA certificate trust what the new one signs, until it
		// expires.
		verify(t, &Bundle{CA: b.CA}, got.Admin, x509.ExtKeyUsageClientAuth, "", then)
	})
}

func stat(t *testing.T, path string) os.FileInfo {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// same checks which certificates are the same in both bundles.
func same(t *testing.T, a, b *Bundle, ca, serving, admin bool) {
	t.Helper()
	for _, x := range []struct {
		name string
		a, b Pair
		want bool
	}{{"ca", a.CA, b.CA, ca}, {"serving", a.Serving, b.Serving, serving}, {"admin", a.Admin, b.Admin, admin}} {
		if got := bytes.Equal(x.a.Cert, x.b.Cert); got != x.want {
			t.Errorf("%s: unchanged is %v, want %v", x.name, got, x.want)
		}
	}
}

func TestEnsureErrors(t *testing.T) {
	for name, damage := range map[string]func(b *Bundle) error{
		"no PEM": func(b *Bundle) error { return os.WriteFile(b.CA.CertFile, []byte("no"), 0o600) },
		"no certificate": func(b *Bundle) error {
			return os.WriteFile(b.CA.CertFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("no")}), 0o600)
		},
		"another key": func(b *Bundle) error { return os.WriteFile(b.CA.KeyFile, b.Admin.Key, 0o600) },
		"not a CA":    func(b *Bundle) error { return copyPair(b.Admin, b.CA) },
		"a key without PEM": func(b *Bundle) error {
			return os.WriteFile(b.CA.KeyFile, nil, 0o600)
		},
		"no key":     func(b *Bundle) error { return os.Remove(b.CA.KeyFile) },
		"a key only": func(b *Bundle) error { return os.Remove(b.CA.CertFile) },
		"a dangling link": func(b *Bundle) error {
			return errors.Join(os.Remove(b.CA.CertFile), os.Symlink("nowhere", b.CA.CertFile))
		},
		"only the CA's certificate": func(b *Bundle) error {
			return errors.Join(os.Remove(b.CA.KeyFile), os.Remove(b.Serving.CertFile), os.Remove(b.Admin.CertFile))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := Config{Dir: t.TempDir()}
			b := ensure(t, c)
			if err := damage(b); err != nil {
				t.Fatal(err)
			}
			before := contents(t, c.Dir)
			_, err := Ensure(c)
			if after := contents(t, c.Dir); !maps.Equal(before, after) {
				t.Errorf("files changed: %v, before %v", after, before)
			}
			if err == nil || !strings.Contains(err.Error(), c.Dir) || !strings.Contains(err.Error(), "remove") {
				t.Errorf("got %v, want the directory and what to do", err)
			}
		})
	}
}

// contents returns the contents of the files in a directory by their names.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		found[e.Name()] = string(text)
	}
	return found
}

// The first start writes the key of the CA before anything else.
func TestInterruptedFirstStart(t *testing.T) {
	c := Config{Dir: t.TempDir()}
	b := ensure(t, c)
	for _, file := range []string{b.CA.CertFile, b.Serving.CertFile, b.Admin.CertFile, b.Serving.KeyFile, b.Admin.KeyFile} {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	got := ensure(t, c)
	verify(t, got, got.Admin, x509.ExtKeyUsageClientAuth, "", time.Now())
}

func copyPair(from, to Pair) error {
	if err := os.WriteFile(to.CertFile, from.Cert, 0o600); err != nil {
		return err
	}
	return os.WriteFile(to.KeyFile, from.Key, 0o600)
}

func TestKubeconfig(t *testing.T) {
	b := ensure(t, Config{Dir: t.TempDir()})
	path := filepath.Join(t.TempDir(), "sub", "kubeconfig")
	k := Kubeconfig{Server: "https://127.0.0.1:6443", CA: b.CA.Cert, ServerName: "name", Client: b.Admin}
	if err := k.Write(path); err != nil {
		t.Fatal(err)
	}
	if mode := stat(t, path).Mode().Perm(); mode != 0o600 {
		t.Errorf("it has mode %o", mode)
	}
	c, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	if c.Host != k.Server || c.ServerName != "name" || !bytes.Equal(c.CAData, k.CA) || !bytes.Equal(c.CertData, b.Admin.Cert) || !bytes.Equal(c.KeyData, b.Admin.Key) {
		t.Errorf("got %v", c)
	}

	t.Run("written atomically", func(t *testing.T) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 200 {
				if err := k.Write(path); err != nil {
					t.Error(err)
					return
				}
			}
		}()
		want, err := k.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		for {
			select {
			case <-done:
				return
			default:
			}
			got, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("read a partial file: %q", got)
			}
		}
	})
	t.Run("staged", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "new", "kubeconfig")
		var left []*Staged // of processes that ended early, and of servers that are starting
		for range 2 {
			staged, err := k.Stage(path)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
				t.Fatalf("the file exists before it is committed: %v", err)
			}
			if info, err := os.Stat(staged.temporary); err != nil || info.Mode().Perm() != 0o600 {
				t.Fatalf("the staged file: %v, %v", info, err)
			}
			left = append(left, staged)
		}
		long := time.Now().Add(-2 * stagedTime)
		if err := os.Chtimes(left[0].temporary, long, long); err != nil {
			t.Fatal(err)
		}
		discarded, err := k.Stage(path)
		if err != nil {
			t.Fatal(err)
		}
		discarded.Discard()
		if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 || entries[0].Name() != filepath.Base(left[1].temporary) {
			t.Fatalf("there are %v, %v: want the staged file that is not old", entries, err)
		}
		staged, err := k.Stage(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := staged.Commit(); err != nil {
			t.Fatal(err)
		}
		want, err := k.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("got %q, %v", got, err)
		}
	})
	t.Run("removed", func(t *testing.T) {
		if err := RemoveKubeconfig(path); err != nil {
			t.Error(err)
		}
		if err := RemoveKubeconfig(path); err != nil {
			t.Error(err) // no file to remove
		}
	})
	t.Run("a foreign file is not removed", func(t *testing.T) {
		text, err := k.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		for _, foreign := range []string{
			"",
			"not a kubeconfig",
			strings.ReplaceAll(string(text), "name: espalier\n", "name: prod\n"),
			strings.Replace(string(text), "clusters:\n", "clusters:\n- name: prod\n  cluster: {server: https://prod}\n", 1),
		} {
			if err := os.WriteFile(path, []byte(foreign), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := RemoveKubeconfig(path); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("%q: got %v", foreign, err)
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != foreign {
				t.Errorf("%q became %q, %v", foreign, got, err)
			}
		}
	})
}

// TestSharedCA issues the certificates of two servers with one CA in files that nobody may change.
func TestSharedCA(t *testing.T) {
	now := time.Now()
	ca := ensure(t, Config{Dir: t.TempDir()}).CA
	shared := func() Config {
		return Config{Dir: t.TempDir(), Hosts: []string{"a.example.com"}, CACertFile: ca.CertFile, CAKeyFile: ca.KeyFile}
	}
	block, _ := pem.Decode(ca.Key)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	// Other programs write other forms of keys.
	if err := os.WriteFile(ca.KeyFile, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o400); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(ca.KeyFile, 0o440); err != nil {
		t.Fatal(err)
	}
	first, second := shared(), shared()
	a, b := ensure(t, first), ensure(t, second)
	verify(t, a, b.Serving, x509.ExtKeyUsageServerAuth, "a.example.com", now)
	verify(t, b, a.Admin, x509.ExtKeyUsageClientAuth, "", now)
	client, err := NewClient(first, "ann", "dev")
	if err != nil {
		t.Fatal(err)
	}
	if cert := verify(t, b, client, x509.ExtKeyUsageClientAuth, "", now); cert.Subject.CommonName != "ann" {
		t.Errorf("the user is %s", cert.Subject)
	}
	if again := ensure(t, first); !bytes.Equal(again.Serving.Cert, a.Serving.Cert) {
		t.Error("the serving certificate was issued again")
	}
	if mode := stat(t, ca.KeyFile).Mode().Perm(); mode != 0o440 {
		t.Errorf("the mode of the key has changed to %o", mode)
	}
	if _, err := os.Stat(filepath.Join(first.Dir, "ca.key")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory has a CA of its own: %v", err)
	}

	first.CACertFile, first.CAKeyFile = a.Serving.CertFile, a.Serving.KeyFile
	if _, err := Ensure(first); err == nil || !strings.Contains(err.Error(), "is not a CA certificate") {
		t.Errorf("got %v", err)
	}
	first.CACertFile = a.Serving.KeyFile
	if _, err := Ensure(first); err == nil || !strings.Contains(err.Error(), "has no certificate: it begins with PRIVATE KEY") {
		t.Errorf("got %v", err)
	}
	if _, err := ReadCA(Config{Dir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "has no CA") {
		t.Errorf("got %v", err)
	}
}

// TestLongLived makes certificates that are valid as long as their CA.
func TestLongLived(t *testing.T) {
	t.Parallel()
	c := Config{Dir: t.TempDir(), Hosts: []string{"localhost"}, LongLived: true}
	b, err := Ensure(c)
	if err != nil {
		t.Fatal(err)
	}
	client, err := NewClient(c, "somebody")
	if err != nil {
		t.Fatal(err)
	}
	ends := func(p Pair) time.Time {
		block, _ := pem.Decode(p.Cert)
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		return cert.NotAfter
	}
	for _, p := range []Pair{b.Serving, b.Admin, client} {
		if !ends(p).Equal(ends(b.CA)) {
			t.Errorf("it ends at %v, and its CA at %v", ends(p), ends(b.CA))
		}
	}
}
