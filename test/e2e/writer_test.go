package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// errCut is the error of a request whose answer is lost.
var errCut = errors.New("connection reset by peer")

// memory stores config maps, and fails as a server does that is killed, or as one that loses writes.
type memory struct {
	typedcorev1.ConfigMapInterface // other methods

	// lose is a kind of write: create, update or delete. The server acknowledges and forgets some of them.
	lose string
	// reads makes the request after a lost write fail, so that the client reads the object.
	reads bool

	mu       sync.Mutex
	objects  map[string]corev1.ConfigMap
	revision int
	requests int
	lost     int
	cut      bool // the next request fails
}

var configMaps = schema.GroupResource{Resource: "configmaps"}

// write executes a write, or not: a change returns the object after it, or nil. Some answers are lost, with writes that were executed
// and with others.
func (m *memory) write(kind, name string, version string, change func(corev1.ConfigMap) *corev1.ConfigMap) (*corev1.ConfigMap, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests++
	if m.cut || m.requests%7 == 0 {
		m.cut = false
		return nil, errCut
	}
	old, exists := m.objects[name]
	switch {
	case kind == "create" && exists:
		return nil, apierrors.NewAlreadyExists(configMaps, name)
	case kind != "create" && !exists:
		return nil, apierrors.NewNotFound(configMaps, name)
	case kind != "create" && old.ResourceVersion != version:
		return nil, apierrors.NewConflict(configMaps, name, errors.New("another version"))
	}
	m.revision++
	object := change(old)
	if object != nil {
		object.ResourceVersion = strconv.Itoa(m.revision)
	}
	if kind == m.lose && m.requests%5 == 0 {
		m.lost++
		m.cut = m.reads
		return object, nil
	}
	if object == nil {
		delete(m.objects, name)
	} else {
		m.objects[name] = *object
	}
	if m.requests%11 == 0 {
		return nil, errCut
	}
	return object, nil
}

func (m *memory) Create(_ context.Context, object *corev1.ConfigMap, _ metav1.CreateOptions) (*corev1.ConfigMap, error) {
	return m.write("create", object.Name, "", func(corev1.ConfigMap) *corev1.ConfigMap { return object.DeepCopy() })
}

func (m *memory) Update(_ context.Context, object *corev1.ConfigMap, _ metav1.UpdateOptions) (*corev1.ConfigMap, error) {
	return m.write("update", object.Name, object.ResourceVersion, func(corev1.ConfigMap) *corev1.ConfigMap { return object.DeepCopy() })
}

func (m *memory) Delete(_ context.Context, name string, o metav1.DeleteOptions) error {
	_, err := m.write("delete", name, *o.Preconditions.ResourceVersion, func(corev1.ConfigMap) *corev1.ConfigMap { return nil })
	return err
}

func (m *memory) Get(_ context.Context, name string, _ metav1.GetOptions) (*corev1.ConfigMap, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.requests++; m.requests%3 == 0 {
		return nil, errCut
	}
	object, ok := m.objects[name]
	if !ok {
		return nil, apierrors.NewNotFound(configMaps, name)
	}
	return &object, nil
}

func (m *memory) List(context.Context, metav1.ListOptions) (*corev1.ConfigMapList, error) {
	return &corev1.ConfigMapList{Items: slices.Collect(maps.Values(m.objects))}, nil
}

// TestWriter checks that the writer finds each kind of lost write, and reports none of a server that loses only answers.
func TestWriter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lose  string
		reads bool
		want  string
	}{
		{},
		{lose: "create", want: " lost: value 1 was acknowledged: configmaps "},
		{lose: "create", reads: true, want: " lost: value 1 was acknowledged, and it was not deleted"},
		{lose: "update", want: " is not in version "},
		{lose: "update", reads: true, want: " was acknowledged"},
		{lose: "delete", want: ": its deletion was acknowledged"},
	} {
		t.Run(fmt.Sprintf("%s %t", c.lose, c.reads), func(t *testing.T) {
			t.Parallel()
			m := &memory{lose: c.lose, reads: c.reads, objects: map[string]corev1.ConfigMap{}}
			w := newWriter(t.Context(), m, 0)
			for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
				m.mu.Lock()
				enough := m.requests > 20000 && (c.lose == "" || m.lost > 100)
				m.mu.Unlock()
				if enough {
					break
				}
			}
			err := w.check(t.Context())
			if c.want == "" {
				if err != nil || w.writes < 1000 {
					t.Errorf("%d writes: %v", w.writes, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got error %v, want %q", err, c.want)
			}
			// The loss of the last write of an object whose answer is on its way is the only one that may be missed.
			if found := strings.Count(err.Error(), "\n") + 1; found < m.lost-writeWorkers || found > m.lost {
				t.Errorf("%d of %d lost writes are found", found, m.lost)
			}
		})
	}
	w := newWriter(t.Context(), &memory{lose: "create"}, time.Hour)
	if err := w.check(t.Context()); err == nil || !strings.Contains(err.Error(), "no write") {
		t.Errorf("nothing was written: got error %v", err)
	}
}
