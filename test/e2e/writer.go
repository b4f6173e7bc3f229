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
	acknowledged int    // the last value that the server has acknowledged, or returned; 0 if there is none
	tried        int    // the last value that was sent
	version      string // the resource version of the acknowledged value; requests are for this version
	uncertain    bool   // the answer of a request for the version was lost: it may still be executed
	deleting     bool   // its deletion was sent
	deleted      bool   // its deletion was acknowledged
	lost         bool   // a problem was reported, and the worker has given it up
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

// rejected returns an error if the rejection of a request proves that the server has lost or changed
// the object. Only requests whose answer was lost excuse that the stored object is another one.
func (r record) rejected(err error) error {
	switch {
	case apierrors.IsNotFound(err) && (!r.deleting || !r.uncertain):
		return fmt.Errorf("lost: value %d was acknowledged: %w", r.acknowledged, err)
	case apierrors.IsConflict(err) && !r.uncertain:
		return fmt.Errorf("is not in version %s, in which value %d was acknowledged: %w", r.version, r.acknowledged, err)
	case apierrors.IsAlreadyExists(err) && !r.uncertain:
		return fmt.Errorf("exists before it was created: %w", err)
	}
	return nil
}

// writer creates, updates and deletes objects, and remembers what was acknowledged.
type writer struct {
	objects typedcorev1.ConfigMapInterface
	pause   time.Duration // before each request
	cancel  context.CancelFunc
	done    sync.WaitGroup

	mu       sync.Mutex
	records  map[string]record
	writes   int // acknowledged ones
	problems []error
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
	return newWriter(ctx, client.CoreV1().ConfigMaps(writersNamespace), writePause), nil
}

// newWriter starts the workers, which write to a namespace of their own.
func newWriter(ctx context.Context, objects typedcorev1.ConfigMapInterface, pause time.Duration) *writer {
	ctx, cancel := context.WithCancel(ctx)
	w := &writer{objects: objects, pause: pause, cancel: cancel, records: map[string]record{}}
	for i := range writeWorkers {
		w.done.Go(func() { w.work(ctx, i) })
	}
	return w
}

// work writes until ctx is done. Each object is created, updated several times, and, if its number
// is odd, deleted.
func (w *writer) work(ctx context.Context, worker int) {
	for object := 0; ctx.Err() == nil; object++ {
		name := fmt.Sprintf("worker-%d-%06d", worker, object)
		ok := true
		for value := 1; value <= 10 && ok; value++ {
			ok = w.write(ctx, name, func(r *record) { r.tried = value }, w.put)
		}
		if ok && object%2 == 1 {
			w.write(ctx, name, func(r *record) { r.deleting = true }, w.remove)
		}
	}
}

// write sends a request until it is executed, and reports whether the next one may follow. After a
// request whose answer is lost it reads the object, which shows whether the request was executed.
func (w *writer) write(ctx context.Context, name string, begin func(*record), send func(context.Context, string, record) (record, error)) bool {
	for {
		sleep(ctx, w.pause)
		if ctx.Err() != nil {
			return false
		}
		r := w.note(name, begin)
		timeout, cancel := context.WithTimeout(ctx, writeTimeout)
		after, err := send(timeout, name, r)
		cancel()
		if err == nil {
			after.uncertain = false
			w.note(name, func(r *record) { *r = after; w.writes++ })
			return true
		}
		if problem := r.rejected(err); problem != nil {
			return w.lose(name, problem)
		}
		r = w.note(name, func(r *record) { r.uncertain = true })
		value, version, err := w.read(ctx, name)
		if err != nil {
			return false // ctx is done
		}
		if problem := r.allows(value); problem != nil {
			return w.lose(name, problem)
		}
		if value == r.acknowledged && version != r.version {
			return w.lose(name, fmt.Errorf("has version %s: value %d was acknowledged in version %s", version, value, r.version))
		}
		if executed := value == r.tried && !r.deleting || value == 0 && r.deleting; executed {
			w.note(name, func(r *record) { // what was read must stay
				r.uncertain, r.acknowledged, r.version, r.deleted = false, max(value, r.acknowledged), version, r.deleting
			})
			return true
		}
	}
}

// put creates or updates an object once.
func (w *writer) put(ctx context.Context, name string, r record) (record, error) {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: r.version}, Data: map[string]string{valueKey: strconv.Itoa(r.tried)}}
	var err error
	if r.version == "" {
		object, err = w.objects.Create(ctx, object, metav1.CreateOptions{})
	} else {
		object, err = w.objects.Update(ctx, object, metav1.UpdateOptions{})
	}
	if err == nil {
		r.acknowledged, r.version = r.tried, object.ResourceVersion
	}
	return r, err
}

// remove deletes an object once.
func (w *writer) remove(ctx context.Context, name string, r record) (record, error) {
	err := w.objects.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &r.version}})
	r.deleted = err == nil
	return r, err
}

// read returns the value and the version of an object: 0 and "" if there is none. It tries until the server answers, or ctx is done.
func (w *writer) read(ctx context.Context, name string) (int, string, error) {
	for {
		timeout, cancel := context.WithTimeout(ctx, writeTimeout)
		object, err := w.objects.Get(timeout, name, metav1.GetOptions{})
		cancel()
		switch {
		case err == nil:
			value, err := strconv.Atoi(object.Data[valueKey])
			if err != nil {
				value = -1 // never sent
			}
			return value, object.ResourceVersion, nil
		case apierrors.IsNotFound(err):
			return 0, "", nil
		}
		if sleep(ctx, w.pause); ctx.Err() != nil {
			return 0, "", ctx.Err()
		}
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

// lose reports a problem of an object, which is not written any more.
func (w *writer) lose(name string, problem error) bool {
	w.note(name, func(r *record) {
		r.lost = true
		w.problems = append(w.problems, fmt.Errorf("%s %w", name, problem))
	})
	return false
}

// check stops the workers, and compares the stored objects with the records.
func (w *writer) check(ctx context.Context) error {
	w.cancel()
	w.done.Wait()
	list, err := w.objects.List(ctx, metav1.ListOptions{})
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
	if w.writes == 0 {
		return errors.New("the server has acknowledged no write")
	}
	return errors.Join(append(w.problems, compare(w.records, stored))...)
}

// compare returns an error for each object that is not what the records allow.
func compare(records map[string]record, stored map[string]int) error {
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(records)) {
		if err := records[name].allows(stored[name]); err != nil && !records[name].lost {
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
