package robustness

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"espalier.dev/internal/program"
	"espalier.dev/test/robustness/internal/history"
	"espalier.dev/test/robustness/internal/rig"
)

const (
	// requestTimeout is shorter than some faults, so that writes without an answer happen.
	requestTimeout = 4 * time.Second
	// faultTimeout bounds a fault and the recovery from it.
	faultTimeout = 2 * time.Minute

	prefix = "/registry/" + group + "/" + plural + "/"
)

// binary is the path of the server's binary.
var binary string

func TestMain(m *testing.M) {
	rig.Main()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if binary, err = program.Find(program.Complete); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// long returns the time that the long versions of tests take, or zero.
func long(t testing.TB) time.Duration {
	text := os.Getenv("ROBUSTNESS_TIME")
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// shortDir returns a temporary directory whose path is short enough for sockets.
func shortDir(t testing.TB) string {
	dir, err := os.MkdirTemp("", "rb")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// world is everything that a round needs.
type world struct {
	*recorder
	t         testing.TB
	rand      *rand.Rand
	etcd      *rig.Etcd
	servers   []*rig.Server
	links     [][]*rig.Proxy // by server: to each member
	collector *history.Collector
	disturbed disturbances
	// changes counts those of the CRD, storage is the index of its storage version.
	changes, storage int
}

// TestRobustness runs clients and watchers while faults happen, and checks what they have
// seen. In a round each fault happens at least once.
func TestRobustness(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("ROBUSTNESS_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	end := time.Now().Add(long(t))
	for n := 0; n == 0 || time.Now().Before(end) && !t.Failed(); n++ {
		t.Run(fmt.Sprintf("ROBUSTNESS_SEED=%d", seed), func(t *testing.T) { testRound(t, seed) })
		seed++
	}
}

func testRound(t *testing.T, seed uint64) {
	w := &world{t: t, rand: rand.New(rand.NewPCG(seed, 1))}
	w.start()
	workers, watchers := w.clients(w.rand, func(id int) *client { return newClient(w.servers[id%len(w.servers)]) })
	found := play(t, workers, watchers, w.disturbed.none, func() { w.inject(t.Context()) }, w.servers[0].Log)
	w.check(found, watchers)
}

// play runs the clients while disturb runs, and then until each watcher has received a last object. It
// returns what is wrong with the watches. log returns the log of the server.
func play(t *testing.T, workers []*worker, watchers []*watcher, calm func() bool, disturb func(), log func() string) (found []string) {
	working, stopWork := context.WithCancel(t.Context())
	watching, stopWatches := context.WithCancel(t.Context())
	defer stopWork()
	defer stopWatches()
	var work, watch sync.WaitGroup
	for _, c := range workers {
		work.Go(func() { c.run(working, 15*time.Millisecond) })
	}
	problems := make([][]string, len(watchers))
	for i, c := range watchers {
		watch.Go(func() { problems[i] = c.run(watching, calm) })
	}
	disturb()
	stopWork()
	work.Wait()

	finish(t, workers[0], log)
	timer := time.AfterFunc(time.Minute, stopWatches)
	watch.Wait()
	timer.Stop()
	for i, c := range watchers {
		found = append(found, problems[i]...)
		if !c.finished {
			last := c.streams[len(c.streams)-1]
			found = append(found, fmt.Sprintf("watcher %d does not receive the last object; its last watch, from %d, ended with %q", c.id, last.From, last.End))
		}
	}
	return found
}

// start starts etcd and the servers, and creates the CRD.
func (w *world) start() {
	t, dir := w.t, shortDir(w.t)
	w.etcd = rig.StartEtcd(t, dir, 3, 0)
	for n := range 2 {
		links := w.etcd.Links(t)
		w.links = append(w.links, links)
		s := rig.StartServer(t, binary, filepath.Join(dir, fmt.Sprint("server", n)), rig.URLs(links), nil, "--request-timeout", "10s")
		w.servers = append(w.servers, s)
	}
	newClient(w.servers[0]).must(t, "POST", crdPath, definition(versions[0], ""))
	w.recorder = &recorder{began: time.Now()}
	var err error
	if w.collector, err = history.Collect(context.WithoutCancel(t.Context()), w.etcd.Client, prefix, w.now); err != nil {
		t.Fatal(err)
	}
	for _, s := range w.servers {
		newClient(s).must(t, "GET", collection(versions[0], ""), nil)
	}
}

// clients returns the workers and the watchers. Each has random numbers and a client
// of its own.
func (r *recorder) clients(random *rand.Rand, newClient func(id int) *client) (workers []*worker, watchers []*watcher) {
	source := func(id int) *rand.Rand { return rand.New(rand.NewPCG(random.Uint64(), uint64(id))) }
	for id := range 6 {
		workers = append(workers, &worker{
			client: newClient(id), recorder: r, id: id, rand: source(id),
			last: map[string]history.Object{},
		})
	}
	for id, scope := range []string{"", "a/", "b/", "", "a/", ""} {
		c := &watcher{
			client: newClient(id), recorder: r, id: id, rand: source(id),
			scope: scope, version: versions[id%len(versions)],
		}
		if id >= 3 {
			c.color = colors[id%len(colors)]
		}
		watchers = append(watchers, c)
	}
	return workers, watchers
}

// inject runs the faults in a random order, those after which watches must resume first.
func (w *world) inject(ctx context.Context) {
	list := faults()
	w.rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	w.hold(ctx, time.Second)
	for _, forgets := range []bool{false, true} {
		for _, f := range list {
			if f.forgets != forgets {
				continue
			}
			if forgets {
				w.disturbed.add()
			}
			began := w.now()
			limited, cancel := context.WithTimeout(ctx, faultTimeout)
			if err := f.run(limited, w); err != nil {
				w.t.Errorf("%s: %v", f.name, err)
			}
			cancel()
			w.t.Logf("%v to %v: %s", began.Round(time.Millisecond), w.now().Round(time.Millisecond), f.name)
			w.hold(ctx, 500*time.Millisecond)
		}
	}
}

// finish writes the last objects: one for each namespace and color, so that every watcher
// receives one.
func finish(t testing.TB, c *worker, log func() string) {
	for _, namespace := range namespaces {
		for _, color := range colors {
			key := namespace + "/" + endPrefix + color
			for deadline := time.Now().Add(time.Minute); ; {
				op := &history.Operation{Kind: history.Apply, Key: key, Value: c.value()}
				ctx, cancel := context.WithTimeout(t.Context(), requestTimeout)
				c.send(ctx, op, "PATCH", objectPath("v1", key)+"?fieldManager=end&force=true", contentType("PATCH", true), object("v1", key, color, op.Value))
				cancel()
				if op.Outcome == history.OK {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("the server does not recover: %s\n%s", op.Problem, log())
				}
				time.Sleep(50 * time.Millisecond)
			}
		}
	}
}

// check checks everything that was recorded, and writes it to files if something is wrong.
func (w *world) check(problems []string, watchers []*watcher) {
	t := w.t
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	revision, err := w.etcd.Revision(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.collector.Sync(ctx, revision); err != nil {
		t.Fatal(err)
	}
	truth, err := w.collector.Finish()
	if err != nil {
		problems = append(problems, err.Error())
	}
	more, streams, visual := w.judge(t, truth, watchers)
	problems = append(problems, more...)
	if len(problems) == 0 {
		return
	}
	for _, text := range problems[:min(20, len(problems))] {
		t.Error(text)
	}
	t.Logf("%d problems; see %s", len(problems), w.save(problems, truth, streams, visual))
}

// judge checks the requests and the watches against the truth.
func (r *recorder) judge(t testing.TB, truth *history.Truth, watchers []*watcher) (problems []string, streams []*history.Stream,
	visual *porcupine.LinearizationInfo) {
	events, gone := 0, 0
	for _, c := range watchers {
		for _, s := range c.streams {
			streams = append(streams, s)
			events += len(s.Events)
			if failure(s) == 410 {
				gone++
			}
			if err := s.Check(truth); err != nil {
				problems = append(problems, err.Error())
			}
		}
	}
	problems = append(problems, history.CheckReads(truth, r.ops)...)
	more, visual := history.CheckLinearizable(truth, r.ops)
	problems = append(problems, more...)

	outcomes := map[history.Outcome]int{}
	for _, op := range r.ops {
		outcomes[op.Outcome]++
	}
	t.Logf("%d changes; %d requests %v; %d watches with %d events, %d ended with 410", len(truth.Changes), len(r.ops), outcomes, len(streams), events, gone)
	if outcomes[history.OK] < 200 || events < 200 {
		problems = append(problems, "too few requests or events to prove anything")
	}
	return problems, streams, visual
}

// save writes the history, its visualization and the logs to a directory.
func (w *world) save(problems []string, truth *history.Truth, streams []*history.Stream, visual *porcupine.LinearizationInfo) string {
	t := w.t
	dir, err := os.MkdirTemp(os.Getenv("ROBUSTNESS_OUT"), "robustness-failure-")
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.MarshalIndent(map[string]any{
		"problems": problems, "changes": truth.Changes, "requests": w.ops, "watches": streams,
	}, "", " ")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "history.json"), data, 0o600)
	}
	if err != nil {
		t.Error(err)
	}
	if visual != nil {
		if err := porcupine.VisualizePath(history.Model(truth), *visual, filepath.Join(dir, "history.html")); err != nil {
			t.Error(err)
		}
	}
	for n, s := range w.servers {
		log, err := os.ReadFile(s.LogFile())
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, fmt.Sprintf("server%d.log", n)), log, 0o600)
		}
		if err != nil {
			t.Error(err)
		}
	}
	return dir
}
