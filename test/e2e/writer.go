package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

const (
	// writersNamespace has the objects of the writer.
	writersNamespace = "writer"
	// writeWorkers write at the same time, each its own objects, one every writePause.
	writeWorkers = 4
	writePause   = 20 * time.Millisecond
	// writeTimeout limits a request.
	writeTimeout = 10 * time.Second
	// valueKey is the key of the value in an object.
	valueKey = "value"
)

// record is what a worker knows about one of its objects. Values only grow.
type record struct {
	acknowledged int  // the last value that the server has acknowledged; 0 if the creation was not
	tried        int  // the last value that was sent
	deleting     bool // its deletion was sent
	deleted      bool // its deletion was acknowledged
}

// allows returns an error if an object cannot be what is stored: value is 0 if there is none.
func (r record) allows(value int) error {
	switch {
	case value == 0 && r.acknowledged > 0 && !r.deleting:
		return fmt.Errorf("lost: value %d was acknowledged, and it was not deleted", r.acknowledged)
	case value != 0 && r.deleted:
		return fmt.Errorf("has value %d: its deletion was acknowledged", value)
	case value != 0 && value < r.acknowledged:
		return fmt.Errorf("has value %d: %d was acknowledged", value, r.acknowledged)
	case value > r.tried:
		return fmt.Errorf("has value %d: at most %d was sent", value, r.tried)
	}
	return nil
}

// writer creates, updates and deletes objects, and remembers what was acknowledged.
type writer struct {
	client  kubernetes.Interface
	cancel  context.CancelFunc
	done    sync.WaitGroup
	mu      sync.Mutex
	records map[string]record
	writes  int // acknowledged ones
}

// startWriter starts the workers.
func startWriter(ctx context.Context, kubeconfig string) (*writer, error) {
	client, err := newClient(kubeconfig)
	if err != nil {
		return nil, err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: writersNamespace}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &writer{client: client, cancel: cancel, records: map[string]record{}}
	for i := range writeWorkers {
		w.done.Go(func() { w.work(ctx, i) })
	}
	return w, nil
}

// work writes until ctx is done. Each object is created, updated several times, and, if its number
// is odd, deleted.
func (w *writer) work(ctx context.Context, worker int) {
	for object := 0; ctx.Err() == nil; object++ {
		name := fmt.Sprintf("worker-%d-%06d", worker, object)
		for value := 1; value <= 10 && ctx.Err() == nil; value++ {
			w.put(ctx, name, value)
		}
		if object%2 == 1 {
			w.remove(ctx, name)
		}
	}
}

// put creates or updates an object once. A request whose answer is lost may have been executed or
// not, and the next one follows.
func (w *writer) put(ctx context.Context, name string, value int) {
	sleep(ctx, writePause)
	r := w.note(name, func(r *record) { r.tried = value })
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{valueKey: strconv.Itoa(value)}}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	var err error
	if r.acknowledged == 0 {
		if _, err = w.objects().Create(ctx, object, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
			_, err = w.objects().Update(ctx, object, metav1.UpdateOptions{})
		}
	} else {
		_, err = w.objects().Update(ctx, object, metav1.UpdateOptions{})
	}
	if err == nil {
		w.note(name, func(r *record) { r.acknowledged = value; w.writes++ })
	}
}

// remove deletes an object once.
func (w *writer) remove(ctx context.Context, name string) {
	sleep(ctx, writePause)
	if ctx.Err() != nil {
		return
	}
	w.note(name, func(r *record) { r.deleting = true })
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if err := w.objects().Delete(ctx, name, metav1.DeleteOptions{}); err == nil {
		w.note(name, func(r *record) { r.deleted = true; w.writes++ })
	}
}

// note changes the record of an object, and returns it.
func (w *writer) note(name string, change func(*record)) record {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.records[name]
	change(&r)
	w.records[name] = r
	return r
}

func (w *writer) objects() typedcorev1.ConfigMapInterface {
	return w.client.CoreV1().ConfigMaps(writersNamespace)
}

// check stops the workers, and compares the stored objects with the records.
func (w *writer) check(ctx context.Context) error {
	w.cancel()
	w.done.Wait()
	list, err := w.objects().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the objects of the writer: %w", err)
	}
	stored := map[string]int{}
	for _, object := range list.Items {
		if text, ok := object.Data[valueKey]; ok { // others are of controllers
			if stored[object.Name], err = strconv.Atoi(text); err != nil {
				return fmt.Errorf("%s: %w", object.Name, err)
			}
		}
	}
	fmt.Printf("the writer had %d acknowledged writes of %d objects\n", w.writes, len(w.records))
	return compare(w.records, stored)
}

// compare returns an error for each object that is not what the records allow.
func compare(records map[string]record, stored map[string]int) error {
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(records)) {
		if err := records[name].allows(stored[name]); err != nil {
			problems = append(problems, fmt.Errorf("%s %w", name, err))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(stored)) {
		if _, ok := records[name]; !ok {
			problems = append(problems, fmt.Errorf("%s was never created", name))
		}
	}
	return errors.Join(problems...)
}

// sleep returns after a time, or when ctx is done.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
