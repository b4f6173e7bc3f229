package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"espalier.dev/server/servertest"
)

// TestStorm sends many invalid requests concurrently. Every response must be a Status with a
// client error, and nothing may be left behind.
func TestStorm(t *testing.T) {
	s := servertest.Start(t, servertest.Options(t))
	admin := servertest.Client(t, s, nil)
	crd, err := os.ReadFile("../examples/crontab/crd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const (
		crds     = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
		crontabs = "/apis/example.com/v1/namespaces/default/crontabs"
		nightly  = `{"apiVersion":"example.com/v1","kind":"CronTab","metadata":{"name":%q},"spec":{"schedule":"0 3 * * *"}}`
	)
	type request struct {
		method, path, contentType, body string
		code                            int
	}
	send := func(r request) (int, []byte) {
		req, err := http.NewRequestWithContext(t.Context(), r.method, s.URL()+r.path, strings.NewReader(r.body))
		if err != nil {
			t.Error(err)
			return 0, nil
		}
		if r.contentType != "" {
			req.Header.Set("Content-Type", r.contentType)
		}
		resp, err := admin.Do(req)
		if err != nil {
			t.Error(err)
			return 0, nil
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Error(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode, body
	}
	for _, r := range []request{
		{"POST", crds, "application/yaml", string(crd), http.StatusCreated},
		{"POST", crontabs, "application/json", fmt.Sprintf(nightly, "a"), http.StatusCreated},
		{"POST", crontabs, "application/json", fmt.Sprintf(nightly, "b"), http.StatusCreated},
	} {
		if code, body := send(r); code != r.code {
			t.Fatalf("%s %s: %d %s", r.method, r.path, code, body)
		}
	}

	storm := []request{
		{"GET", "/apis/example.com/v1/namespaces/default/unheards", "", "", http.StatusNotFound},
		{"GET", "/apis/unheard.example.com/v1", "", "", http.StatusNotFound},
		{"GET", crontabs + "/missing", "", "", http.StatusNotFound},
		{"GET", crontabs + "/a/unheard", "", "", http.StatusNotFound},
		{"GET", crontabs + "?resourceVersion=yesterday", "", "", http.StatusBadRequest},
		{"GET", crontabs + "?resourceVersion=-1", "", "", http.StatusBadRequest},
		{"GET", crontabs + "?watch=true&resourceVersion=yesterday", "", "", http.StatusBadRequest},
		{"GET", crontabs + "?resourceVersionMatch=Exact", "", "", http.StatusUnprocessableEntity},
		{"GET", crontabs + "?continue=garbage", "", "", http.StatusBadRequest},
		{"GET", crontabs + "?labelSelector=a%3D%3D%3Db", "", "", http.StatusBadRequest},
		{"GET", crontabs + "?fieldSelector=spec.unheard%3Da", "", "", http.StatusBadRequest},
		{"GET", crontabs + "?limit=many", "", "", http.StatusBadRequest},
		{"POST", crontabs, "application/json", "{", http.StatusBadRequest},
		{"POST", crontabs, "application/json", `{"apiVersion":"example.com/v1","kind":"Other","metadata":{"name":"x"}}`, http.StatusUnprocessableEntity},
		{"POST", crontabs, "application/json", fmt.Sprintf(nightly, "../../../etc"), http.StatusUnprocessableEntity},
		{"POST", crontabs, "application/json", fmt.Sprintf(nightly, "a"), http.StatusConflict},
		{"POST", crontabs, "application/vnd.kubernetes.protobuf", "k8s\x00", http.StatusUnsupportedMediaType},
		{"POST", crontabs, "application/yaml", "a: &a [*a, *a]", http.StatusBadRequest},
		{"PUT", crontabs + "/a", "application/json", fmt.Sprintf(nightly, "b"), http.StatusBadRequest},
		{"PATCH", crontabs + "/a", "application/json", "{}", http.StatusUnsupportedMediaType},
		{"PATCH", crontabs + "/a", "application/json-patch+json", `[{"op":"explode","path":"/"}]`, http.StatusUnprocessableEntity},
		{"PATCH", crontabs + "/a", "application/merge-patch+json", "[]", http.StatusBadRequest},
		{"PATCH", crontabs + "/a?fieldManager=m", "application/apply-patch+yaml", "{", http.StatusBadRequest},
		{"DELETE", crontabs + "/a", "application/json", `{"preconditions":{"uid":"other"}}`, http.StatusConflict},
		{"DELETE", crontabs + "/missing", "", "", http.StatusNotFound},
	}
	round := func() {
		var wg sync.WaitGroup
		for _, r := range storm {
			wg.Go(func() {
				code, body := send(r)
				if code == http.StatusNotFound && string(body) == "404 page not found\n" {
					return // no such path, says kube-apiserver too
				}
				var status struct{ Kind, Status string }
				if err := json.Unmarshal(body, &status); err != nil || status.Kind != "Status" || status.Status != "Failure" {
					t.Errorf("%s %s is answered with no Status (%v): %.200s", r.method, r.path, err, body)
				}
				if code != r.code {
					t.Errorf("%s %s: got %d, want %d: %.300s", r.method, r.path, code, r.code, body)
				}
			})
		}
		wg.Wait()
		admin.CloseIdleConnections()
	}
	round()
	if t.Failed() {
		return
	}
	before := runtime.NumGoroutine()
	for range 20 {
		round()
	}
	servertest.Eventually(t, func() error {
		// Goroutines that serve connections come and go. A leak grows with every round.
		if now := runtime.NumGoroutine(); now > before+15 {
			return fmt.Errorf("%d goroutines, %d before", now, before)
		}
		return nil
	})
	if code, body := send(request{method: "GET", path: crontabs}); code != http.StatusOK || strings.Count(string(body), `"uid"`) != 2 {
		t.Errorf("after the storm: %d %s", code, body)
	}
}
