package robustness

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"espalier.dev/test/robustness/internal/rig"
)

// site is one server on an etcd cluster, with the CRD and the object a/x.
type site struct {
	*client
	t      testing.TB
	etcd   *rig.Etcd
	server *rig.Server
}

func newSite(t testing.TB, members int, args ...string) *site {
	t.Helper()
	dir := shortDir(t)
	etcd := rig.StartEtcd(t, dir, members, 0)
	server := rig.StartServer(t, binary, filepath.Join(dir, "server"), rig.URLs(etcd.Links(t)), nil, args...)
	s := &site{newClient(server), t, etcd, server}
	s.must(t, http.MethodPost, crdPath, definition("v1", ""))
	s.must(t, http.MethodPost, collection("v1", "a/"), object("v1", "a/x", "red", "1"))
	return s
}

// expectation is what a request must return.
type expectation struct {
	code   int
	reason string
	// texts are in the message.
	texts []string
	// retry is set if the client is asked to try again.
	retry bool
}

// send sends a request. If it is a watch that begins with an ERROR event, the result is that
// of its Status.
func (s *site) send(method, path string, body any) (code int, st status, header http.Header) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	resp, err := s.open(ctx, method, path, contentType(method, false), body)
	if err != nil {
		s.t.Errorf("%s %s: %v", method, path, err)
		return 0, status{}, http.Header{}
	}
	defer func() { _ = resp.Body.Close() }()
	code = resp.StatusCode
	line, err := bufio.NewReader(resp.Body).ReadBytes('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		s.t.Errorf("%s %s: %v", method, path, err)
	}
	st = answer{code, line}.status()
	var event struct {
		Type   string
		Object status
	}
	if json.Unmarshal(line, &event) == nil && event.Type == "ERROR" {
		code, st = event.Object.Code, event.Object
	}
	return code, st, resp.Header
}

func (s *site) expect(want expectation, method, path string, body any) {
	s.t.Helper()
	code, st, header := s.send(method, path, body)
	if code != want.code || want.code >= 300 && (st.Kind != "Status" || st.Reason != want.reason || st.Code != want.code) {
		s.t.Errorf("%s %s: %d %+v instead of %d %s", method, path, code, st, want.code, want.reason)
		return
	}
	for _, text := range want.texts {
		if !strings.Contains(st.Message, text) {
			s.t.Errorf("%s %s: the message lacks %q: %s", method, path, text, st.Message)
		}
	}
	if retry := header.Get("Retry-After") != ""; retry != want.retry {
		s.t.Errorf("%s %s: Retry-After is %q", method, path, header.Get("Retry-After"))
	}
}

// metric checks that there is a metric with this prefix and a value other than zero.
func (s *site) metric(prefix string) {
	s.t.Helper()
	a := s.must(s.t, http.MethodGet, "/metrics", nil)
	for line := range strings.SplitSeq(string(a.body), "\n") {
		if strings.HasPrefix(line, prefix) && !strings.HasSuffix(line, " 0") {
			return
		}
	}
	s.t.Errorf("there is no metric %s", prefix)
}

// The ways to read.
var (
	consistent = []string{
		objectPath("v1", "a/x"), collection("v1", "a/"), collection("v1", ""),
		collection("v1", "a/") + "?limit=1",
		collection("v1", "a/") + "?watch=true&timeoutSeconds=5",
		collection("v1", "a/") + "?watch=true&timeoutSeconds=5&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
	}
	fromMemory = []string{
		objectPath("v1", "a/x") + "?resourceVersion=0", collection("v1", "a/") + "?resourceVersion=0",
		collection("v1", "a/") + "?watch=true&timeoutSeconds=5&resourceVersion=0",
	}
)

// TestDeadEtcd kills etcd, or so many members that the rest has no leader.
func TestDeadEtcd(t *testing.T) {
	for name, members := range map[string]int{"dead": 1, "without a quorum": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, members, "--request-timeout", "4s")
			for _, m := range s.etcd.Members[:members/2+1] {
				m.Kill()
			}
			read := expectation{503, "ServiceUnavailable", []string{"etcd does not answer", "majority of the etcd members", "resourceVersion=0"}, true}
			for _, path := range consistent {
				s.expect(read, http.MethodGet, path, nil)
			}
			for _, path := range fromMemory {
				s.expect(expectation{code: 200}, http.MethodGet, path, nil)
			}
			write := expectation{504, "Timeout", []string{"etcd does not answer", "may still take effect", "majority of the etcd members"}, false}
			s.expect(write, http.MethodPost, collection("v1", "a/"), object("v1", "a/y", "red", "1"))
			s.expect(write, http.MethodPatch, objectPath("v1", "a/x"), object("v1", "a/x", "red", "2"))
			// It may fail before the write, when it reads the object.
			if code, st, _ := s.send(http.MethodDelete, objectPath("v1", "a/x"), nil); code != 503 && code != 504 || !strings.Contains(st.Message, "etcd does not answer") {
				t.Errorf("DELETE: %d %+v", code, st)
			}
			s.metric(`espalier_etcd_failures_total{reason="unavailable"}`)
			if code, _, _ := s.send(http.MethodGet, "/readyz", nil); code < 500 {
				t.Errorf("/readyz: %d", code)
			}

			for _, m := range s.etcd.Members[:members/2+1] {
				m.Start()
			}
			for _, path := range consistent[:3] {
				s.must(t, http.MethodGet, path, nil)
			}
		})
	}
}
