package snapshot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	etcdversion "go.etcd.io/etcd/api/v3/version"
	clientv3 "go.etcd.io/etcd/client/v3"

	"espalier.dev/schema"
	"espalier.dev/server/etcd"
	"espalier.dev/server/etcd/memory"
	"espalier.dev/server/keys"
	"espalier.dev/store/keyspace"
)

const prefix = "/registry"

// start starts a member in a directory, and returns a client and a function that stops both.
func start(t *testing.T, dir string) (*clientv3.Client, func()) {
	t.Helper()
	m, err := etcd.Start(t.Context(), etcd.Config{Dir: dir, UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	c, err := etcd.Connect(t.Context(), etcd.Endpoints{URLs: []string{m.Endpoint()}})
	if err != nil {
		m.Close()
		t.Fatal(err)
	}
	stop := sync.OnceFunc(func() {
		_ = c.Close()
		m.Close()
	})
	t.Cleanup(stop)
	return c, stop
}

func put(t *testing.T, c *clientv3.Client, key, value string, opts ...clientv3.OpOption) int64 {
	t.Helper()
	resp, err := c.Put(t.Context(), key, value, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Header.Revision
}

// all returns all keys and values.
func all(t *testing.T, c *clientv3.Client) map[string]string {
	t.Helper()
	resp, err := c.Get(t.Context(), "\x00", clientv3.WithFromKey())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, kv := range resp.Kvs {
		got[string(kv.Key)] = string(kv.Value)
	}
	return got
}

// filled starts a member with data: two CRDs, three objects, one of them encrypted, deleted and
// overwritten keys.
func filled(t *testing.T) *clientv3.Client {
	t.Helper()
	c, _ := start(t, filepath.Join(t.TempDir(), "source"))
	put(t, c, keys.NewRoot(prefix).Semantics(), "kep")
	put(t, c, prefix+"/example.com/crontabs/default/deleted", "{}")
	for _, key := range []string{"apiextensions.k8s.io/customresourcedefinitions/a", "apiextensions.k8s.io/customresourcedefinitions/b", "example.com/crontabs/default/x", "example.com/crontabs/default/y"} {
		put(t, c, prefix+"/"+key, "old")
		put(t, c, prefix+"/"+key, key)
	}
	put(t, c, prefix+"/example.com/secrets/default/z", "k8s:enc:aescbc:v1:key:…")
	put(t, c, "/other/key", "value")
	if _, err := c.Delete(t.Context(), prefix+"/example.com/crontabs/default/deleted"); err != nil {
		t.Fatal(err)
	}
	return c
}

func save(t *testing.T, c *clientv3.Client, path string) Manifest {
	t.Helper()
	m, err := Save(t.Context(), c, SaveOptions{Path: path, Prefix: prefix, Espalier: "v1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func restore(ctx context.Context, path, dir string) (result Restored, err error) {
	s, err := Open(ctx, path)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return s.Restore(ctx, dir, RestoreOptions{Bump: Bump})
}

func TestSaveAndRestore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, target := filepath.Join(dir, "backup.db"), filepath.Join(dir, "etcd")
	source := filled(t)
	want := all(t, source)
	old, err := source.Get(t.Context(), "/other/key")
	if err != nil {
		t.Fatal(err)
	}
	m := save(t, source, path)
	if m.Revision != old.Header.Revision || m.Keys != len(want) || m.CRDs != 2 || m.Objects != 3 || m.Encrypted != 1 || m.Semantics != "kep" || m.Prefix != prefix || m.Espalier != "v1.2.3" || m.Etcd == "" {
		t.Errorf("manifest: %+v", m)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v (%v)", info.Mode(), err)
	}
	after := put(t, source, "/other/later", "not in the backup")

	result, err := restore(t.Context(), path, target)
	if err != nil {
		t.Fatal(err)
	}
	if result.Manifest.Revision != m.Revision || result.Revision != m.Revision+Bump {
		t.Errorf("result: %+v", result)
	}
	names(t, dir, "backup.db", "etcd")
	c, stop := start(t, target)
	got := all(t, c)
	record := fmt.Sprintf("espalier.dev/restored%s/%d", prefix, result.Revision)
	if !strings.Contains(got[record], `"espalier":"v1.2.3"`) {
		t.Errorf("the record of the restore is %q", got[record])
	}
	delete(got, record)
	if !maps.Equal(got, want) {
		t.Errorf("restored %v\nwant %v", got, want)
	}

	// Old objects keep their revision and creation; new writes have later revisions than any
	// that a client has seen; older revisions are compacted.
	kv, err := c.Get(t.Context(), "/other/key")
	if err != nil {
		t.Fatal(err)
	}
	if a, b := kv.Kvs[0], old.Kvs[0]; a.ModRevision != b.ModRevision || a.CreateRevision != b.CreateRevision || a.Version != b.Version {
		t.Errorf("restored %v, was %v", a, b)
	}
	if rev := put(t, c, "/other/new", ""); rev != result.Revision+1 {
		t.Errorf("a write has revision %d, want %d", rev, result.Revision+1)
	}
	for _, rev := range []int64{m.Revision, after} {
		if _, err := c.Get(t.Context(), "/other/key", clientv3.WithRev(rev)); !errors.Is(err, rpctypes.ErrCompacted) {
			t.Errorf("a read at revision %d: %v", rev, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if w := <-c.Watch(ctx, "/other/key", clientv3.WithRev(rev+1)); w.CompactRevision != result.Revision {
			t.Errorf("a watch from revision %d: %v", rev, w)
		}
		cancel()
	}
	stop()

	// A backup of restored data can be restored, too.
	c, _ = start(t, target)
	again := filepath.Join(dir, "again.db")
	m2 := save(t, c, again)
	if m2.Revision != result.Revision+1 || m2.Keys != m.Keys+2 {
		t.Errorf("second manifest: %+v", m2)
	}
	if _, err := restore(t.Context(), again, filepath.Join(dir, "etcd2")); err != nil {
		t.Error(err)
	}
}

// TestSaveUnderLoad checks that a backup has everything that was acknowledged before it began,
// and nothing that was written after a write that it lacks.
func TestSaveUnderLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c, _ := start(t, filepath.Join(dir, "source"))
	put(t, c, keys.NewRoot(prefix).Semantics(), "kep")
	const writers = 4
	var mu sync.Mutex
	acknowledged := map[int]int{}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := 1; ctx.Err() == nil; i++ {
				if _, err := c.Put(ctx, fmt.Sprintf("%s/example.com/objects/%d/%06d", prefix, w, i), strings.Repeat("x", 1000)); err == nil {
					mu.Lock()
					acknowledged[w] = i
					mu.Unlock()
				}
			}
		})
	}
	defer wg.Wait()
	defer cancel()
	for n := range 3 {
		for {
			mu.Lock()
			before, enough := maps.Clone(acknowledged), len(acknowledged) == writers && acknowledged[0] > 50*(n+1)
			mu.Unlock()
			if !enough {
				time.Sleep(time.Millisecond)
				continue
			}
			path := filepath.Join(dir, fmt.Sprintf("%d.db", n))
			save(t, c, path)
			target := filepath.Join(dir, fmt.Sprintf("etcd-%d", n))
			if _, err := restore(t.Context(), path, target); err != nil {
				t.Fatal(err)
			}
			restored, stop := start(t, target)
			count := map[int]int{}
			for key := range all(t, restored) {
				var w, i int
				if _, err := fmt.Sscanf(key, prefix+"/example.com/objects/%d/%d", &w, &i); err == nil {
					count[w] = max(count[w], i)
				}
			}
			for w, want := range before {
				if count[w] < want {
					t.Errorf("writer %d: object %d was acknowledged before the backup, it has only %d", w, want, count[w])
				}
			}
			total := 0
			for _, n := range count {
				total += n
			}
			if got := len(all(t, restored)); got != total+2 {
				t.Errorf("%d keys, but the writers had written %d and more: some are missing", got, total+2)
			}
			stop()
			break
		}
	}
}

// TestReject checks that no file is restored that was cut off or altered.
func TestReject(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "backup.db")
	save(t, filled(t), path)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	content := len(good) - sha256.Size
	cut := func(n int) []byte { return good[:n] }
	flip := func(at int) []byte {
		b := bytes.Clone(good)
		b[at] ^= 1
		return b
	}
	sealed := func(b []byte) []byte {
		sum := sha256.Sum256(b)
		return append(bytes.Clone(b), sum[:]...)
	}
	const sector = 512
	cases := map[string]struct {
		data []byte
		want error
	}{
		"empty":                          {nil, keyspace.ErrNotSnapshot},
		"only a checksum":                {good[content:], keyspace.ErrNotSnapshot},
		"one byte":                       {cut(1), keyspace.ErrNotSnapshot},
		"text":                           {[]byte("apiVersion: v1\nkind: List\n"), keyspace.ErrNotSnapshot},
		"without its checksum":           {cut(content), keyspace.ErrNoChecksum},
		"cut in its checksum":            {cut(len(good) - 1), keyspace.ErrAltered},
		"cut in the middle":              {cut(content/2 + 7), keyspace.ErrAltered},
		"cut where a checksum could end": {cut(content/2/sector*sector + sha256.Size), keyspace.ErrAltered},
		"longer":                         {append(bytes.Clone(good), 0), keyspace.ErrAltered},
		"followed by a sector":           {append(bytes.Clone(good), make([]byte, sector)...), keyspace.ErrAltered},
		"altered at the start":           {flip(0), keyspace.ErrAltered},
		"altered in the middle":          {flip(content / 2), keyspace.ErrAltered},
		"altered at the end":             {flip(content - 1), keyspace.ErrAltered},
		"altered checksum":               {flip(len(good) - 1), keyspace.ErrAltered},
		"zeros":                          {make([]byte, len(good)), keyspace.ErrAltered},
		"another file with a checksum":   {sealed(bytes.Repeat([]byte("x"), 8*sector)), keyspace.ErrNotSnapshot},
		"three pages with a checksum":    {sealed(good[:3*4096]), keyspace.ErrDamaged},
	}
	for i := range 16 { // pages: their headers and their ends
		at := content * i / 16 / 4096 * 4096
		cases[fmt.Sprintf("altered at %d", at)] = struct {
			data []byte
			want error
		}{flip(at), keyspace.ErrAltered}
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			bad := filepath.Join(t.TempDir(), "bad.db")
			if err := os.WriteFile(bad, c.data, 0o600); err != nil {
				t.Fatal(err)
			}
			rejected(t, bad, func(err error) bool { return errors.Is(err, c.want) })
		})
	}
	if _, err := restore(t.Context(), filepath.Join(dir, "missing"), filepath.Join(dir, "etcd")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := restore(t.Context(), dir, filepath.Join(dir, "etcd")); err == nil {
		t.Error("a directory was restored")
	}
}

// rejected checks that a file is rejected with an error that names it, and nothing is written.
func rejected(t *testing.T, path string, expected func(error) bool) {
	t.Helper()
	dir := t.TempDir()
	_, err := restore(t.Context(), path, filepath.Join(dir, "etcd"))
	if err == nil || !expected(err) || !strings.HasPrefix(err.Error(), path+": ") {
		t.Errorf("got %#v (%v)", err, err)
	}
	names(t, dir)
}

// because returns a function that checks the reason of an [Error].
func because(reason Reason) func(error) bool {
	return func(err error) bool {
		var got *Error
		return errors.As(err, &got) && got.Reason == reason
	}
}

// TestRejectManifest checks that the manifest is compared with the data.
func TestRejectManifest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "backup.db")
	m := save(t, filled(t), path)
	change := func(f func(m *Manifest)) Manifest {
		c := m
		f(&c)
		return c
	}
	for name, c := range map[string]struct {
		manifest Manifest
		reason   Reason
	}{
		"newer format":      {change(func(m *Manifest) { m.Format = Format + 1 }), Newer},
		"newer etcd":        {change(func(m *Manifest) { m.Etcd = "3.99.0" }), Newer},
		"newer major etcd":  {change(func(m *Manifest) { m.Etcd = "4.0.0" }), Newer},
		"no etcd version":   {change(func(m *Manifest) { m.Etcd = "" }), Contradictory},
		"other semantics":   {change(func(m *Manifest) { m.Semantics = "kubernetes" }), Contradictory},
		"other prefix":      {change(func(m *Manifest) { m.Prefix = "/other" }), Contradictory},
		"other revision":    {change(func(m *Manifest) { m.Revision++ }), Contradictory},
		"more keys":         {change(func(m *Manifest) { m.Keys++ }), Contradictory},
		"fewer CRDs":        {change(func(m *Manifest) { m.CRDs-- }), Contradictory},
		"different objects": {change(func(m *Manifest) { m.Objects++ }), Contradictory},
	} {
		t.Run(name, func(t *testing.T) {
			bad := rewrite(t, path, func(b *bbolt.Bucket) error {
				text, err := json.Marshal(c.manifest)
				return errors.Join(err, b.Put(manifestKey, text))
			})
			rejected(t, bad, because(c.reason))
		})
	}
	t.Run("none", func(t *testing.T) {
		rejected(t, rewrite(t, path, func(b *bbolt.Bucket) error { return b.Delete(manifestKey) }), because(NoManifest))
	})
	t.Run("not JSON", func(t *testing.T) {
		rejected(t, rewrite(t, path, func(b *bbolt.Bucket) error { return b.Put(manifestKey, []byte("{")) }), because(NoManifest))
	})
	t.Run("unexpected semantics", func(t *testing.T) {
		s, err := Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		kep, kubernetes := schema.KEP, schema.Kubernetes
		if _, err := s.Check(t.Context(), &kep); err != nil {
			t.Error(err)
		}
		if _, err := s.Check(t.Context(), &kubernetes); err == nil {
			t.Error("a backup with other semantics was accepted")
		}
	})
}

// TestNewerFormat saves and restores data in the format of a newer release.
func TestNewerFormat(t *testing.T) {
	t.Parallel()
	c, path := filled(t), filepath.Join(t.TempDir(), "backup.db")
	put(t, c, keys.NewRoot(prefix).Format(), "2 v2.0.0")
	var newer *keys.NewerFormatError
	if _, err := Save(t.Context(), c, SaveOptions{Path: path, Prefix: prefix}); !errors.As(err, &newer) || newer.Release != "v2.0.0" {
		t.Errorf("saved: %v", err)
	}
	// A file whose own format is known.
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	m := Manifest{Format: Format, Espalier: "v2.0.0", Etcd: etcdversion.Version, Prefix: prefix, Semantics: "kep"}
	if err := errors.Join(download(t.Context(), c, f), f.Close(), m.inspect(t.Context(), path), m.add(path)); err != nil {
		t.Fatal(err)
	}
	rejected(t, path, func(err error) bool {
		return because(Newer)(err) && strings.Contains(err.Error(), "format 2") && strings.Contains(err.Error(), "use espalier v2.0.0 or later")
	})
}

// rewrite returns a copy of a file with another manifest and a correct checksum.
func rewrite(t *testing.T, path string, f func(*bbolt.Bucket) error) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := filepath.Join(t.TempDir(), "changed.db")
	if err := os.WriteFile(changed, data[:len(data)-sha256.Size], 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(changed, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(func(tx *bbolt.Tx) error { return f(tx.Bucket(manifestBucket)) }), db.Close()); err != nil {
		t.Fatal(err)
	}
	if data, err = os.ReadFile(changed); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	if err := os.WriteFile(changed, append(data, sum[:]...), 0o600); err != nil {
		t.Fatal(err)
	}
	return changed
}

// TestExisting checks what happens to existing files and directories.
func TestExisting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	source := filled(t)
	path, target := filepath.Join(dir, "backup.db"), filepath.Join(dir, "etcd")
	if err := os.WriteFile(path, []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	o := SaveOptions{Path: path, Prefix: prefix}
	if _, err := Save(t.Context(), source, o); err == nil {
		t.Error("a file was replaced")
	}
	if text, err := os.ReadFile(path); string(text) != "precious" {
		t.Errorf("the file has %q (%v)", text, err)
	}
	o.Force = true
	if _, err := Save(t.Context(), source, o); err != nil {
		t.Fatal(err)
	}
	names(t, dir, "backup.db")

	if err := os.MkdirAll(filepath.Join(target, "member"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := restore(t.Context(), path, target); err == nil {
		t.Error("a directory with data was replaced")
	}
	names(t, dir, "backup.db", "etcd")
	s, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	result, err := s.Restore(t.Context(), target, RestoreOptions{Bump: Bump, Force: true})
	if err != nil {
		t.Fatal(err)
	}
	names(t, dir, "backup.db", "etcd", filepath.Base(result.Replaced))
	names(t, result.Replaced, "etcd")
	names(t, filepath.Join(result.Replaced, "etcd"), "member")
	names(t, filepath.Join(result.Replaced, "etcd", "member"))
	names(t, target, "member")

	for _, bump := range []int64{0, -1, 1 << 62} {
		if _, err := s.Restore(t.Context(), filepath.Join(dir, "other"), RestoreOptions{Bump: bump}); err == nil {
			t.Errorf("the revision was changed by %d", bump)
		}
	}
	if _, err := s.Restore(t.Context(), filepath.Join(dir, "other"), RestoreOptions{Bump: 1, DryRun: true}); err != nil {
		t.Error(err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Restore(canceled, filepath.Join(dir, "other"), RestoreOptions{Bump: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled restore: %v", err)
	}
	if _, err := Save(canceled, source, SaveOptions{Path: filepath.Join(dir, "other"), Prefix: prefix}); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled backup: %v", err)
	}
	if _, err := Save(t.Context(), source, SaveOptions{Path: filepath.Join(dir, "other"), Prefix: "/none"}); err == nil {
		t.Error("a backup without data")
	}
	names(t, dir, "backup.db", "etcd", filepath.Base(result.Replaced))
}

// TestLeases checks that keys with a lease are restored and expire.
func TestLeases(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	source := filled(t)
	lease, err := source.Grant(t.Context(), 3600)
	if err != nil {
		t.Fatal(err)
	}
	put(t, source, "/other/leased", "", clientv3.WithLease(lease.ID))
	path := filepath.Join(dir, "backup.db")
	save(t, source, path)
	if _, err := restore(t.Context(), path, filepath.Join(dir, "etcd")); err != nil {
		t.Fatal(err)
	}
	c, _ := start(t, filepath.Join(dir, "etcd"))
	if _, ok := all(t, c)["/other/leased"]; !ok {
		t.Error("the key with a lease is missing")
	}
	if _, err := c.Revoke(t.Context(), lease.ID); err != nil {
		t.Fatal(err)
	}
	if _, ok := all(t, c)["/other/leased"]; ok {
		t.Error("the key has outlived its lease")
	}
}

// TestLoadServers checks that the registrations of servers are not loaded: without their leases, they
// would be permanent.
func TestLoadServers(t *testing.T) {
	t.Parallel()
	root := keys.NewRoot(prefix)
	items := []*mvccpb.KeyValue{}
	for i, key := range []string{root.Semantics(), root.Servers() + "a", root.OnlyServer(), prefix + "/example.com/crontabs/default/x"} {
		items = append(items, &mvccpb.KeyValue{Key: []byte(key), Value: []byte("kep"), CreateRevision: int64(i + 2), ModRevision: int64(i + 2), Version: 1})
	}
	path := filepath.Join(t.TempDir(), "state")
	saved := memory.NewState(9, slices.Values(items), noLeases)
	if _, err := SaveState(t.Context(), saved, SaveOptions{Path: path, Prefix: prefix}); err != nil {
		t.Fatal(err)
	}
	state, err := Load(t.Context(), path, prefix, schema.KEP)
	if err != nil || state.Revision() != 9 {
		t.Fatalf("loaded %v, %v", state, err)
	}
	var got []string
	for kv := range state.Items() {
		got = append(got, string(kv.Key))
	}
	want := []string{prefix + "/example.com/crontabs/default/x", root.Semantics()}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// names checks the names in a directory.
func names(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s has %q, want %q", dir, got, want)
	}
}
