package tokens

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2"
)

// TestReloadDirectory checks which changes of a directory of keys count, that broken files change nothing,
// and that a reload creates no key.
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
	broken := filepath.Join(dir, "99990102.key")
	if err := os.WriteFile(broken, []byte("-----BEGIN EC PRIVATE KEY-----\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	failures := func() float64 {
		n, err := testutil.GetCounterMetricValue(reloads().WithLabelValues("failure"))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	failed := failures()
	keys.reload(klog.Background())
	if keys.current.Load() != second || failures() != failed+1 {
		t.Errorf("a broken file has an effect, or %v failures are counted", failures()-failed)
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
