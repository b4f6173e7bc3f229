package robustness

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"espalier.dev/test/robustness/internal/rig"
)

// TestPausedServer pauses a server for longer than its lease, changes a CRD through another one, and sends
// the paused server objects that the CRD does not allow any more. When it goes on, it must not write them.
func TestPausedServer(t *testing.T) {
	const lease, writes = "--server-lease-duration=2s", 100
	s := newSite(t, 1, lease)
	dir := shortDir(t)
	other := newClient(rig.StartServer(t, binary, filepath.Join(dir, "other"), rig.URLs(s.etcd.Links(t)), nil, lease))
	s.must(t, http.MethodPost, collection("v1", "a/"), object("v1", "a/before", "red", "allowed"))

	s.server.Pause()
	t.Cleanup(s.server.Resume)
	for registered := int64(2); registered > 1; time.Sleep(10 * time.Millisecond) {
		resp, err := s.etcd.Client.Get(t.Context(), "espalier.dev/servers/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			t.Fatal(err)
		}
		registered = resp.Count
	}
	changed := definition("v1", "changed")
	for _, v := range changed["spec"].(map[string]any)["versions"].([]any) {
		value := v.(map[string]any)["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)["properties"].(map[string]any)["spec"].(map[string]any)["properties"].(map[string]any)["value"].(map[string]any)
		value["enum"] = []any{"allowed", "1"}
	}
	other.must(t, http.MethodPatch, crdPath+"/"+crdName, map[string]any{"spec": changed["spec"]})

	answers := make(chan answer)
	for i := range writes {
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			a, err := s.do(ctx, http.MethodPost, collection("v1", "a/"), "application/json", object("v1", fmt.Sprint("a/after", i), "red", "forbidden"))
			if err != nil {
				a.body = []byte(err.Error()) // the connection has ended
			}
			answers <- a
		}()
	}
	time.Sleep(100 * time.Millisecond) // more requests are sent before the server goes on
	s.server.Resume()
	counts := map[int]int{}
	for range writes {
		a := <-answers
		if counts[a.code]++; a.code == http.StatusCreated {
			t.Errorf("an object that the CRD does not allow is created: %v", a)
		}
	}
	t.Logf("the answers have the codes %v", counts)
	s.must(t, http.MethodPost, collection("v1", "a/"), object("v1", "a/again", "red", "allowed"))
	if code, st, _ := s.send(http.MethodPost, collection("v1", "a/"), object("v1", "a/invalid", "red", "forbidden")); code != http.StatusUnprocessableEntity {
		t.Errorf("after the server was registered again: %d %v", code, st)
	}
}
