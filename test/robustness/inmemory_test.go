package robustness

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"espalier.dev/espaliertest"
	"espalier.dev/test/robustness/internal/history"
)

// disturbance are faults that leave answers right, if there is one.
var disturbance = espaliertest.Profile{
	TooManyRequests: 0.02, InternalErrors: 0.02, Unavailable: 0.02, LostAnswers: 0.04, ClosedBefore: 0.02, ClosedAfter: 0.02,
	Delays: 0.1, EndedWatches: 0.2, ExpiredWatches: 0.05,
}

// TestInMemory runs clients and watchers on a server that keeps its objects in memory, with lost
// answers, broken connections and ended watches, and while its CRD changes. The history of the server
// is the truth: what the clients have seen must agree with it as with that of etcd.
func TestInMemory(t *testing.T) {
	t.Parallel()
	seed := uint64(1)
	if text := os.Getenv("ROBUSTNESS_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	random := rand.New(rand.NewPCG(seed, 2))
	server := espaliertest.Start(t, espaliertest.WithFlags("--disable-admission-plugins", "NamespaceLifecycle", "--etcd-compaction-interval", "0"))
	connect := func(int) *client {
		// Each client has connections of its own.
		config := server.AddUser(t, "robustness", "system:masters")
		http, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(http.CloseIdleConnections)
		return &client{url: server.URL, http: http}
	}
	admin := connect(0)
	admin.must(t, "POST", crdPath, definition(versions[0], ""))
	admin.must(t, "GET", collection(versions[0], ""), nil)
	r := &recorder{began: time.Now()}
	workers, watchers := r.clients(random, connect)
	// Watches may end with 410 when the CRD changes.
	calm := func() bool { return false }
	found := play(t, workers, watchers, calm, func() {
		for n := range 8 {
			in := server.Inject(t, espaliertest.Chaos(seed+uint64(n), disturbance)...)
			time.Sleep(time.Duration(300+random.IntN(300)) * time.Millisecond)
			in.Remove()
			patch := definition(versions[n%2], strconv.Itoa(n))
			admin.must(t, "PATCH", crdPath+"/"+crdName, patch)
		}
	}, func() string { return "" })

	more, _, _ := r.judge(t, truthOf(t, server, r.began), watchers)
	for _, text := range append(found, more...) {
		t.Error(text)
	}
}

// truthOf returns the history of the things in a server.
func truthOf(t *testing.T, server *espaliertest.Server, began time.Time) *history.Truth {
	t.Helper()
	var changes []history.Change
	for c := range server.History(t, espaliertest.HistoryFilter{Kind: plural + "." + group}) {
		if c.Unreadable != "" {
			t.Errorf("revision %d: %s", c.Revision, c.Unreadable)
		}
		if n := len(changes); n > 0 && changes[n-1].Revision >= c.Revision {
			t.Errorf("revision %d comes after %d", c.Revision, changes[n-1].Revision)
		}
		changes = append(changes, history.Change{
			Revision: c.Revision, Key: c.Namespace + "/" + c.Name, Before: parsed(t, c.Before), After: parsed(t, c.After), At: c.Time.Sub(began),
		})
	}
	return history.NewTruth(changes)
}

// parsed returns what the checks compare of an object, or nil if there is none.
func parsed(t *testing.T, obj *unstructured.Unstructured) *history.Object {
	t.Helper()
	if obj == nil {
		return nil
	}
	text, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	_, o, err := history.ParseObject(text)
	if err != nil {
		t.Fatal(err)
	}
	return &o
}
