package main

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"
)

// BenchmarkAudit audits a snapshot with many objects, of which one in a hundred does not comply.
// ESPALIER_AUDIT_OBJECTS sets their number. It reports the largest heap that it has seen.
func BenchmarkAudit(b *testing.B) {
	n := 20_000
	if text := os.Getenv("ESPALIER_AUDIT_OBJECTS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	path := filepath.Join(b.TempDir(), "snapshot.db")
	writeLargeSnapshot(b, path, n)
	var largest atomic.Uint64
	done := make(chan struct{})
	var sampler sync.WaitGroup
	sampler.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(50 * time.Millisecond):
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				largest.Store(max(largest.Load(), m.HeapAlloc))
			}
		}
	})
	runtime.GC()
	b.ResetTimer()
	for range b.N {
		a := newApp(nil, io.Discard, io.Discard)
		if code := a.run(b.Context(), []string{"audit", "--no-config", "--snapshot", path}); code != 0 {
			b.Fatalf("exit code %d", code)
		}
	}
	b.StopTimer()
	close(done)
	sampler.Wait()
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "objects/s")
	b.ReportMetric(float64(largest.Load())/(1<<20), "heap-MiB")
}

// writeLargeSnapshot writes a snapshot with a CRD and n objects. One in ten was changed once.
func writeLargeSnapshot(b *testing.B, path string, n int) {
	b.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{NoSync: true, NoFreelistSync: true})
	if err != nil {
		b.Fatal(err)
	}
	revision := uint64(1)
	put := func(keys *bolt.Bucket, key string, version int64, value []byte) error {
		revision++
		at := append(binary.BigEndian.AppendUint64(nil, revision), '_')
		message, err := proto.Marshal(&mvccpb.KeyValue{Key: []byte(key), Value: value, Version: version, ModRevision: int64(revision)})
		if err != nil {
			return err
		}
		keys.FillPercent = 1
		return keys.Put(binary.BigEndian.AppendUint64(at, 0), message)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		keys, err := tx.CreateBucket([]byte("key"))
		if err != nil {
			return err
		}
		if _, err := tx.CreateBucket([]byte("meta")); err != nil {
			return err
		}
		for key, value := range storedManifests(b, "testdata/examples", map[string]string{"apiextensions.k8s.io/customresourcedefinitions/crontabs.stable.example.com": "crontab-crd.yaml"}) {
			err = errors.Join(err, put(keys, key, 1, value))
		}
		return err
	})
	for from := 0; from < n && err == nil; from += 10_000 {
		err = db.Update(func(tx *bolt.Tx) error {
			keys := tx.Bucket([]byte("key"))
			for i := from; i < min(from+10_000, n); i++ {
				extra := ""
				if i%100 == 0 {
					extra = `,"privileged":true`
				}
				key := fmt.Sprintf("/registry/stable.example.com/crontabs/ns%d/crontab-%d", i%50, i)
				value := fmt.Appendf(nil, `{"apiVersion":"stable.example.com/v1","kind":"CronTab","metadata":{"creationTimestamp":"2026-01-01T00:00:00Z","generation":1,"labels":{"app":"crontab","team":"a"},"name":"crontab-%d","namespace":"ns%d","uid":"0b5d3f0a-6a3c-4c0e-9c5f-%012d"},"spec":{"cronSpec":"0 3 * * *","image":"registry.example.com/jobs/image-%d:v1","replicas":3%s}}`, i, i%50, i, i, extra)
				if err := put(keys, key, 1, value); err != nil {
					return err
				}
				if i%10 != 0 {
					continue
				}
				if err := put(keys, key, 2, value); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := errors.Join(err, db.Close()); err != nil {
		b.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	hash := sha256.New()
	_, err = io.Copy(hash, file)
	if err == nil {
		_, err = file.Write(hash.Sum(nil))
	}
	if err := errors.Join(err, file.Close()); err != nil {
		b.Fatal(err)
	}
}
