package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"espalier.dev/espaliertest"
)

// storedCluster is a server with jobs.
type storedCluster struct {
	*etcdServer
	jobs dynamic.NamespaceableResourceInterface
}

func newStoredCluster(t *testing.T, crds ...any) *storedCluster {
	t.Helper()
	s := newEtcdServer(t, espaliertest.WithCRDs(crds...))
	d, err := dynamic.NewForConfig(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	return &storedCluster{s, d.Resource(runtimeschema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "jobs"})}
}

// create creates a job.
func (c *storedCluster) create(ctx context.Context, name string, spec map[string]any) error {
	_, err := c.jobs.Namespace("default").Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Job", "metadata": map[string]any{"name": name}, "spec": spec}}, metav1.CreateOptions{})
	return err
}

// summary runs migrate with -o json and returns the summary of the jobs.
func (c *storedCluster) summary(t *testing.T, args ...string) migratedCRD {
	t.Helper()
	stdout, stderr, code := runMigrate(t, c.Server, append([]string{"jobs.example.com", "--etcd-servers", c.endpoint, "-o", "json"}, args...)...)
	var report struct{ CRDs []migratedCRD }
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || code != 0 || len(report.CRDs) != 1 {
		t.Fatalf("%v in %s\nstderr: %s\nexit code %d", err, stdout, stderr, code)
	}
	return report.CRDs[0]
}

// killsVariable is the environment variable with the number of kills of TestMigrateKilled.
const killsVariable = "ESPALIER_MIGRATE_KILLS"

// TestMigrateKilled kills migrations at random points and runs them again, while others create,
// change and delete objects. No object is lost and none comes back, all objects are stored as they
// should be in the end, and what was dropped is what was there to drop.
func TestMigrateKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("kills many processes")
	}
	t.Parallel()
	kills := 20
	if text := os.Getenv(killsVariable); text != "" {
		var err error
		if kills, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	killed, rounds := 0, 0
	for ; killed < kills; rounds++ {
		killed += killMigration(t, kills-killed)
	}
	t.Logf("killed %d processes in %d migrations", killed, rounds)
}

// killMigration kills one migration until it is complete, at most a number of times, and
// returns how often it did.
func killMigration(t *testing.T, most int) (killed int) {
	const quiet, busy = 120, 40
	c := newStoredCluster(t, preservingCRD())
	// The quiet objects hold data that is dropped. The busy ones are stored in another version,
	// and others write them.
	for i := range quiet {
		if err := c.create(t.Context(), fmt.Sprintf("quiet-%d", i), map[string]any{"n": int64(i), "x": true, "y": map[string]any{"z": "z"}}); err != nil {
			t.Fatal(err)
		}
	}
	w := &jobWriter{c: c, last: map[string]int64{}}
	for i := range busy {
		name := fmt.Sprintf("busy-%d", i)
		if err := c.create(t.Context(), name, map[string]any{"n": int64(1)}); err != nil {
			t.Fatal(err)
		}
		w.last[name] = 1
	}
	c.InstallCRDs(t, migrationCRD("v2"))
	before := c.summary(t)
	if *before.DroppedFields != 2*quiet || *before.DroppedFrom != quiet || before.Results["rewritten"] != quiet+busy {
		t.Fatalf("the dry run has %+v", before)
	}

	ctx, cancel := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	writing.Go(func() { w.run(ctx, t) })
	backup := filepath.Join(t.TempDir(), "backup.jsonl")
	var last *process
	for ; ; killed++ {
		p := startProcess(t, nil, "migrate", "jobs.example.com", "--kubeconfig", c.Kubeconfig(), "--etcd-servers", c.endpoint,
			"--write", "--backup", backup, "--rate", "400", "-o", "json")
		last = p
		if killed < most && killWhileWriting(t, p, backup) {
			continue
		}
		break
	}
	code := last.exit(t)
	cancel()
	writing.Wait()
	var report struct{ CRDs []migratedCRD }
	if err := json.Unmarshal([]byte(last.stdout.String()), &report); err != nil || code != 0 || len(report.CRDs) != 1 {
		t.Fatalf("after %d kills: %v in %s\nstderr: %s\nexit code %d", killed, err, &last.stdout, &last.stderr, code)
	}
	if s := report.CRDs[0]; *s.DroppedFields != *before.DroppedFields || *s.DroppedFrom != *before.DroppedFrom || !s.Complete {
		t.Errorf("after %d kills, the summary is %+v; the dry run had %d fields of %d objects", killed, s, *before.DroppedFields, *before.DroppedFrom)
	}
	if after := c.summary(t); after.Results["rewritten"] != 0 || after.Results["unchanged"] != after.Objects || *after.DroppedFields != 0 || fmt.Sprint(after.StoredVersions) != "[v2]" {
		t.Errorf("after %d kills, objects are not stored as they should be: %+v", killed, after)
	}
	w.check(t, quiet)
	return killed
}

// killWhileWriting kills a migration after a random time, and reports whether it was running.
func killWhileWriting(t *testing.T, p *process, backup string) bool {
	t.Helper()
	size := func() int64 {
		info, err := os.Stat(backup)
		if err != nil {
			return 0
		}
		return info.Size()
	}
	start := size()
	for size() == start {
		select {
		case <-p.exited:
			return false
		case <-time.After(time.Millisecond):
		}
	}
	select {
	case <-p.exited:
		return false
	case <-time.After(rand.N(100 * time.Millisecond)):
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	<-p.exited
	return !p.cmd.ProcessState.Exited() // by itself
}

// jobWriter writes jobs, and knows what they must be.
type jobWriter struct {
	c *storedCluster
	// last is the value of each object. Zero means that it was deleted.
	last map[string]int64
}

// run creates, changes and deletes objects until the context ends.
func (w *jobWriter) run(ctx context.Context, t *testing.T) {
	jobs := w.c.jobs.Namespace("default")
	var names []string
	for name := range w.last {
		names = append(names, name)
	}
	for i := int64(2); ctx.Err() == nil; i++ {
		name := names[rand.IntN(len(names))]
		if i%10 == 0 {
			name = fmt.Sprintf("new-%d", i)
			names = append(names, name)
		}
		// A write that has begun also ends, so that its result is known.
		write := context.WithoutCancel(ctx)
		var err error
		switch _, exists := w.last[name]; {
		case !exists:
			err = w.c.create(write, name, map[string]any{"n": i})
		case w.last[name] == 0:
			if _, err := jobs.Get(write, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("the deleted object %s is back: %v", name, err)
			}
			continue
		case i%7 == 0:
			err = jobs.Delete(write, name, metav1.DeleteOptions{})
			w.last[name] = 0
		default:
			_, err = jobs.Patch(write, name, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"n":%d}}`, i), metav1.PatchOptions{})
		}
		if err != nil {
			t.Errorf("write %s: %v", name, err)
			return
		}
		if _, exists := w.last[name]; !exists || w.last[name] != 0 {
			w.last[name] = i
		}
		time.Sleep(time.Millisecond) // leave the server some time for others
	}
}

// check compares all objects with what they must be.
func (w *jobWriter) check(t *testing.T, quiet int) {
	t.Helper()
	for i := range quiet {
		w.last[fmt.Sprintf("quiet-%d", i)] = int64(i)
	}
	list, err := w.c.jobs.Namespace("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range list.Items {
		n, _, err := unstructured.NestedInt64(o.Object, "spec", "n")
		if want, exists := w.last[o.GetName()]; err != nil || !exists || n != want {
			t.Errorf("%s is %d, want %d (written: %t), %v", o.GetName(), n, want, exists, err)
		}
		delete(w.last, o.GetName())
	}
	for name, n := range w.last {
		if n != 0 {
			t.Errorf("%s is lost", name)
		}
	}
}
