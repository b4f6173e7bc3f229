package espaliertest_test

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"espalier.dev/espaliertest"
)

var orderRuns = flag.Int("order-runs", 1, "how often TestOrder repeats a seed")

// order lets one request of many clients begin at a time, and the next one when nothing happens
// anymore. A seed chooses among those that wait. It works in a bubble of testing/synctest only.
type order struct {
	mu      sync.Mutex
	changed *sync.Cond
	waiting []ticket
	random  *rand.Rand
	stopped bool
}

// ticket is a request, or a piece of a watch, that waits for its turn.
type ticket struct {
	label string
	turn  chan struct{}
}

func newOrder(seed uint64) *order {
	o := &order{random: rand.New(rand.NewPCG(seed, 0))}
	o.changed = sync.NewCond(&o.mu)
	return o
}

// run gives turns until stop is called. Then nobody has to wait.
func (o *order) run() {
	for {
		o.mu.Lock()
		for len(o.waiting) == 0 && !o.stopped {
			o.changed.Wait()
		}
		stopped := o.stopped
		o.mu.Unlock()
		if !stopped {
			time.Sleep(time.Nanosecond) // returns when everything in the bubble waits
		}
		o.mu.Lock()
		slices.SortStableFunc(o.waiting, func(a, b ticket) int { return cmp.Compare(a.label, b.label) })
		for o.stopped && len(o.waiting) > 0 {
			close(o.waiting[0].turn)
			o.waiting = o.waiting[1:]
		}
		if o.stopped {
			o.mu.Unlock()
			return
		}
		i := o.random.IntN(len(o.waiting))
		close(o.waiting[i].turn)
		o.waiting = slices.Delete(o.waiting, i, i+1)
		o.mu.Unlock()
	}
}

func (o *order) stop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stopped = true
	o.changed.Signal()
}

// await waits for a turn.
func (o *order) await(label string) {
	t := ticket{label, make(chan struct{})}
	o.mu.Lock()
	if o.stopped {
		o.mu.Unlock()
		return
	}
	o.waiting = append(o.waiting, t)
	o.changed.Signal()
	o.mu.Unlock()
	<-t.turn
}

// wrap makes the requests of a client wait for their turn.
func (o *order) wrap(client string) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			label := client + " " + req.Method + " " + req.URL.Path
			o.await(label)
			resp, err := next.RoundTrip(req)
			if err == nil && req.URL.Query().Has("watch") {
				resp.Body = &pieces{resp.Body, o, label}
			}
			return resp, err
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// pieces is the body of a watch.
type pieces struct {
	io.ReadCloser
	order *order
	label string
}

func (p *pieces) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b)
	if n > 0 {
		p.order.await(p.label)
	}
	return n, err
}

// race lets clients increment a number at the same time, while others watch it, and returns what happened in
// which order.
func race(t *testing.T, seed uint64, ordered bool) string {
	t.Helper()
	var mu sync.Mutex
	var log []string
	note := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		log = append(log, fmt.Sprintf(format, args...))
	}
	synctest.Test(t, func(t *testing.T) {
		s := espaliertest.Start(t, espaliertest.WithSeed(seed))
		time.Sleep(time.Second)
		o := newOrder(seed)
		var running, working sync.WaitGroup
		var stops []func()
		if ordered {
			running.Go(o.run)
		}
		client := func(name string) kubernetes.Interface {
			config := s.Config()
			if ordered {
				config.WrapTransport = o.wrap(name)
			}
			return clientset(t, rest.AddUserAgent(config, name))
		}
		first := client("test")
		if _, err := first.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "number"}}, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
		for i := range 3 {
			name := fmt.Sprint("watcher", i)
			maps := client(name).CoreV1().ConfigMaps("default")
			w, err := maps.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=number"})
			if err != nil {
				t.Error(err)
				continue
			}
			running.Go(func() {
				for e := range w.ResultChan() {
					if c, ok := e.Object.(*corev1.ConfigMap); ok { // and not the error of a watch that is stopped
						note("%s sees %q", name, c.Data["by"])
					}
				}
			})
			stops = append(stops, w.Stop)
		}
		for i := range 4 {
			name := fmt.Sprint("client", i)
			maps := client(name).CoreV1().ConfigMaps("default")
			working.Go(func() {
				for done := 0; done < 3; {
					c, err := maps.Get(t.Context(), "number", metav1.GetOptions{})
					if err == nil {
						c.Data = map[string]string{"by": c.Data["by"] + name[len(name)-1:]}
						_, err = maps.Update(t.Context(), c, metav1.UpdateOptions{})
					}
					switch {
					case err == nil:
						done++
						note("%s writes", name)
					case apierrors.IsConflict(err):
						note("%s has a conflict", name)
					default:
						t.Error(err)
						return
					}
				}
			})
		}
		working.Wait()
		time.Sleep(time.Second)
		o.stop()
		for _, stop := range stops {
			stop()
		}
		running.Wait()
	})
	return strings.Join(log, "\n")
}

// TestOrder runs the same race several times: with a seed that chooses the next request, everything happens in
// the same order.
func TestOrder(t *testing.T) {
	t.Parallel()
	orders := map[string]bool{}
	for seed := range uint64(3) {
		first := race(t, seed, true)
		orders[first] = true
		for range *orderRuns {
			if again := race(t, seed, true); again != first {
				t.Errorf("seed %d:\n%s\n\nand again:\n%s", seed, first, again)
			}
		}
	}
	if len(orders) == 1 {
		t.Error("all seeds have the same order")
	}
	if *orderRuns > 1 {
		others := map[string]bool{}
		for range *orderRuns {
			others[race(t, 0, false)] = true
		}
		t.Logf("without turns, %d runs have %d different orders", *orderRuns, len(others))
	}
}
