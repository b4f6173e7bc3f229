package etcd

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// damaged is a stopped member with data of all sizes, and a history that is partly compacted.
type damaged struct {
	dir     string
	db, log string // relative to dir
	data    map[string]string
}

func newDamaged(t *testing.T) *damaged {
	t.Helper()
	d := &damaged{dir: t.TempDir(), db: filepath.Join("member", "snap", "db")}
	m := startMember(t, Config{Dir: d.dir, UnsafeNoFsync: true})
	c := connect(t, m.Endpoint())
	for i := range 1500 {
		key := fmt.Sprintf("key%04d", i%1200)
		value := strings.Repeat(key, 1+i%60)
		if i%100 == 0 {
			value = strings.Repeat(key, 20_000)
		}
		if _, err := c.Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Delete(t.Context(), "key01", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Compact(t.Context(), 700, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	d.data = contents(t, m)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	m.Close()
	logs, err := filepath.Glob(filepath.Join(d.dir, "member", "wal", "*.wal"))
	if err != nil || len(logs) != 1 {
		t.Fatal(logs, err)
	}
	d.log = filepath.Join("member", "wal", filepath.Base(logs[0]))
	return d
}

// contents returns the keys and values of a member.
func contents(t *testing.T, m *Member) map[string]string {
	t.Helper()
	c := connect(t, m.Endpoint())
	defer func() { _ = c.Close() }()
	resp, err := c.Get(t.Context(), "key", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	data := map[string]string{}
	for _, kv := range resp.Kvs {
		data[string(kv.Key)] = string(kv.Value)
	}
	return data
}

// copyTo copies the files of the member.
func (d *damaged) copyTo(t *testing.T) (dir string) {
	t.Helper()
	// A failed etcd may still create a file, so the removal of the directory may fail.
	dir, err := os.MkdirTemp("", "etcd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for _, name := range []string{d.db, d.log} {
		path := filepath.Join(dir, name)
		content := used(t, filepath.Join(d.dir, name))
		info, err := os.Stat(filepath.Join(d.dir, name))
		if err == nil {
			err = os.MkdirAll(filepath.Dir(path), 0o700)
		}
		if err == nil {
			err = os.WriteFile(path, content, 0o600)
		}
		if err == nil {
			err = os.Truncate(path, info.Size())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// used returns the content of a file without the zeros at its end.
func used(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.TrimRight(content, "\x00")
}

// flip flips a bit of a file.
func flip(t *testing.T, path string, offset int64, bit int) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	_, err = f.ReadAt(b, offset)
	b[0] ^= 1 << bit
	if err == nil {
		_, err = f.WriteAt(b, offset)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// start starts a damaged member. It fails the test if the member starts with other data, or if the
// error does not name the file and what to do. With values, values may be different, because bbolt
// has no checksum for them. They contain the names of the keys: one bit in a name may hide a key, or
// show a deleted one.
func (d *damaged) start(t *testing.T, dir, file string, values bool) (started bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	m, err := Start(ctx, Config{Dir: dir, UnsafeNoFsync: true})
	if err != nil {
		wantError(t, err, dir, "espalier restore")
		if file != "" {
			wantError(t, err, file)
		}
		return false
	}
	data := contents(t, m)
	m.Close()
	lost, more, tolerated := 0, 0, 0
	for key, value := range d.data {
		got, ok := data[key]
		if !ok || !values && got != value {
			lost++
		}
	}
	for key := range data {
		if _, ok := d.data[key]; !ok {
			more++
		}
	}
	if values {
		tolerated = 1
	}
	if lost > tolerated || more > tolerated {
		t.Errorf("the member started with %d keys of %d, %d are lost or different, %d are not of this member", len(data), len(d.data), lost, more)
	}
	return true
}

// TestDamagedFiles cuts, removes and alters the files of a member. It must not start with a part of
// the data, and must not panic.
func TestDamagedFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("starts etcd on many damaged files")
	}
	t.Parallel()
	d := newDamaged(t)
	check := func(name, file string, mustFail, values bool, damage func(t *testing.T, path string)) {
		t.Run(name, func(t *testing.T) {
			dir := d.copyTo(t)
			damage(t, filepath.Join(dir, file))
			named := ""
			if mustFail {
				named = file
			}
			if d.start(t, dir, named, values) && mustFail {
				t.Error("it started")
			}
		})
	}
	check("nothing", d.db, false, false, func(*testing.T, string) {})
	check("no database", d.db, true, false, func(t *testing.T, path string) {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	})
	check("no log", filepath.Join("member", "wal"), true, false, func(t *testing.T, path string) {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	})
	cut := func(size int64) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			if err := os.Truncate(path, size); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, file := range []string{d.db, d.log} {
		end := int64(len(used(t, filepath.Join(d.dir, file))))
		for _, size := range []int64{0, 1, 4096, end / 4, end / 2, end/2 + 4096 - end/2%4096, end * 3 / 4, end - 1} {
			// The last page of the database may be unused.
			check(fmt.Sprintf("cut %s to %d of %d", filepath.Base(file), size, end), file, size != end-1, false, cut(size))
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	const flips = 25
	end := int64(len(used(t, filepath.Join(d.dir, d.log))))
	for range flips {
		offset, bit := random.Int64N(end), random.IntN(8)
		check(fmt.Sprintf("bit %d at %d of the log", bit, offset), d.log, false, false, func(t *testing.T, path string) { flip(t, path, offset, bit) })
	}
	end = int64(len(used(t, filepath.Join(d.dir, d.db))))
	for range flips {
		// In the header, in the first elements, or anywhere in a page.
		offset, bit := random.Int64N(end), random.IntN(8)
		if where := random.IntN(3); where > 0 {
			offset = offset/4096*4096 + random.Int64N(16*int64(where*where))
		}
		check(fmt.Sprintf("bit %d at %d of page %d", bit, offset%4096, offset/4096), d.db, false, true, func(t *testing.T, path string) { flip(t, path, offset, bit) })
	}
}

// TestCheckPages flips every bit of the headers and the first elements of all pages of a database,
// and random bits. The check must return, whatever the file has.
func TestCheckPages(t *testing.T) {
	t.Parallel()
	d := newDamaged(t)
	path := filepath.Join(d.copyTo(t), d.db)
	index, err := checkPages(path)
	if err != nil || index == 0 {
		t.Fatal(index, err)
	}
	end := int64(len(used(t, path)))
	found, tried := 0, 0
	try := func(offset int64, bit int) (noticed bool) {
		flip(t, path, offset, bit)
		tried++
		if _, err := checkPages(path); err != nil {
			found++
			noticed = true
		}
		flip(t, path, offset, bit)
		return noticed
	}
	random := rand.New(rand.NewPCG(3, 4))
	// The check notices a wrong id and wrong flags of any page in use.
	ids := usedPages(t, path)
	if len(ids) < 50 {
		t.Errorf("only %d pages are in use", len(ids))
	}
	for _, id := range ids {
		for _, offset := range []int64{random.Int64N(8), 8 + random.Int64N(2)} {
			if bit := random.IntN(8); !try(id*4096+offset, bit) {
				t.Errorf("bit %d of byte %d of page %d was not noticed", bit, offset, id)
			}
		}
	}
	for range 300 {
		try(random.Int64N(end), random.IntN(8))
		try(random.Int64N(end/4096)*4096+random.Int64N(64), random.IntN(8))
	}
	t.Logf("%d of %d bits were noticed", found, tried)
	if _, err := checkPages(path); err != nil {
		t.Error(err)
	}
}

// usedPages returns the ids of the pages of a database that are in use, without those that continue
// others.
func usedPages(t *testing.T, path string) (ids []int64) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	p := &pages{file: file}
	if err := p.open(); err != nil || p.size != 4096 {
		t.Fatal(p.size, err)
	}
	if err := errors.Join(p.tree(p.root, nil, nil, nil, 0), p.freelist()); err != nil {
		t.Fatal(err)
	}
	for id := uint64(2); id < p.count; id++ {
		header, err := p.read(id*p.size, pageHeader)
		if err != nil {
			t.Fatal(err)
		}
		if p.seen[id/64]&(1<<(id%64)) != 0 && binary.NativeEndian.Uint64(header) == id {
			ids = append(ids, int64(id))
		}
	}
	return ids
}

// TestUnreadableFiles checks that an error of the system does not call a file damaged.
func TestUnreadableFiles(t *testing.T) {
	t.Parallel()
	for _, err := range []error{&fs.PathError{Op: "open", Path: "x.wal", Err: syscall.EACCES}, fmt.Errorf("read: %w", syscall.EIO)} {
		if got := unreadable("x.wal", err); errors.As(got, new(*DamagedError)) || !errors.Is(got, err) {
			t.Errorf("got %v", got)
		}
	}
	if got := unreadable("x.wal", errors.New("wal: crc mismatch")); !errors.As(got, new(*DamagedError)) {
		t.Errorf("got %v", got)
	}
}
