package compliance_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"espalier.dev/internal/testcase"
	"espalier.dev/schema"
	"espalier.dev/server"
	"espalier.dev/server/servertest"
)

const (
	checkedCRD = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"jobs.checked.example.com"},
		"spec":{"group":"checked.example.com","scope":"Cluster","names":{"plural":"jobs","kind":"Job"},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"a":{"type":"string"}}}}}]}}`
	checkedObject = `{"apiVersion":"checked.example.com/v1","kind":"Job","metadata":{"name":"one","uid":"b0b0b0b0-0000-4000-8000-000000000001"},"a":"x","b":1}`
	noncompliant  = "/apis/inspect.espalier.dev/v1/noncompliantobjects"
)

// TestCheckStoredObjects checks the flag in kubernetes semantics, what kubectl prints, who may
// read it, what is documented, and the metrics.
func TestCheckStoredObjects(t *testing.T) {
	t.Parallel()
	o := servertest.Options(t)
	o.Semantics, o.CheckStoredObjects = schema.Kubernetes, "true"
	s := servertest.Start(t, o)
	admin := servertest.Client(t, s, nil)
	if _, err := servertest.Etcd(t, o).Put(t.Context(), "/registry/checked.example.com/jobs/one", checkedObject); err != nil {
		t.Fatal(err)
	}
	if code, text := servertest.Exchange(t, admin, http.MethodPost, s.URL()+servertest.CRDs, checkedCRD); code != http.StatusCreated {
		t.Fatal(code, text)
	}
	servertest.Eventually(t, func() error {
		if _, text := servertest.Get(t, s, admin, servertest.CRDs+"/jobs.checked.example.com"); !strings.Contains(text, "1 of 1 stored object does not comply: 1 with unspecified fields") {
			return errors.New(text)
		}
		return nil
	})

	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+noncompliant, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	resp, err := admin.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var table struct {
		ColumnDefinitions []struct {
			Name     string
			Priority int
		}
		Rows []struct{ Cells []any }
	}
	if err := json.NewDecoder(resp.Body).Decode(&table); err != nil || len(table.Rows) != 1 {
		t.Fatal(err, table)
	}
	got := ""
	for i, c := range table.ColumnDefinitions {
		if c.Priority == 0 {
			got += fmt.Sprintf("%s=%v ", c.Name, table.Rows[0].Cells[i])
		}
	}
	if want := "Name=jobs.checked.example.com:one Problems=1 First Path=b Reason=Unspecified "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}

	config, err := s.UserConfig("somebody")
	if err != nil {
		t.Fatal(err)
	}
	if code, text := servertest.Get(t, s, servertest.Client(t, s, config), noncompliant); code != http.StatusForbidden {
		t.Error(code, text)
	}
	if code, text := servertest.Exchange(t, admin, http.MethodPost, s.URL()+"/apis/inspect.espalier.dev/v1/namespaces/default/noncompliantobjects", `{}`); code != http.StatusMethodNotAllowed {
		t.Error(code, text)
	}
	if code, text := servertest.Get(t, s, admin, noncompliant+"?watch=true"); code != http.StatusMethodNotAllowed {
		t.Error(code, text)
	}
	for _, path := range []string{"/openapi/v2", "/openapi/v3/apis/inspect.espalier.dev/v1"} {
		_, text := servertest.Get(t, s, admin, path)
		var doc struct {
			Paths map[string]map[string]json.RawMessage
		}
		if err := json.Unmarshal([]byte(text), &doc); err != nil {
			t.Fatal(err)
		}
		found := doc.Paths["/apis/inspect.espalier.dev/v1/namespaces/{namespace}/noncompliantobjects/{name}"]
		if found["get"] == nil || found["put"] != nil || found["delete"] != nil || doc.Paths["/apis/inspect.espalier.dev/v1/watch/skeletons"] != nil {
			t.Errorf("%s documents %v", path, found)
		}
	}

	const series = `espalier_noncompliant_objects{crd="jobs.checked.example.com",kind="unspecified"} 1`
	if _, text := servertest.Get(t, s, admin, "/metrics"); !strings.Contains(text, series) || !strings.Contains(text, `espalier_stored_objects{crd="jobs.checked.example.com"} 1`) {
		t.Error("there are no metrics")
	}
	if code, text := servertest.Exchange(t, admin, http.MethodDelete, s.URL()+servertest.CRDs+"/jobs.checked.example.com", ""); code != http.StatusOK {
		t.Fatal(code, text)
	}
	servertest.Eventually(t, func() error {
		if _, text := servertest.Get(t, s, admin, "/metrics"); strings.Contains(text, `crd="jobs.checked.example.com"`) {
			return errors.New("the metrics of a deleted CRD stay")
		}
		return nil
	})

	o.CheckStoredObjects = "sometimes"
	if err := o.Validate(); err == nil || !strings.Contains(err.Error(), "--check-stored-objects") {
		t.Error(err)
	}
}

// BenchmarkCreateWhileScanning creates objects while the stored ones are not checked, while
// they have been checked, and while they are being scanned. It reports the median time of a
// request for each. They take turns, because other work on the machine changes the times.
func BenchmarkCreateWhileScanning(b *testing.B) {
	const perTurn = 200
	rows := []string{"unchecked", "checked", "scanning"}
	servers, times := map[string]*scannedServer{}, map[string][]time.Duration{}
	for _, row := range rows {
		servers[row] = newScannedServer(b, row != "unchecked")
	}
	for b.Loop() {
		for _, row := range rows {
			s := servers[row]
			stop := func() {}
			if row == "scanning" {
				stop = s.scan()
			}
			for range perTurn {
				began := time.Now()
				s.create()
				times[row] = append(times[row], time.Since(began))
			}
			stop()
		}
	}
	for _, row := range rows {
		slices.Sort(times[row])
		b.ReportMetric(float64(times[row][len(times[row])/2].Microseconds()), row+"-µs")
	}
}

// scannedServer is a server with many objects.
type scannedServer struct {
	*testing.B
	*server.Server
	client  *http.Client
	object  map[string]any
	created int
	changed int
}

func newScannedServer(b *testing.B, check bool) *scannedServer {
	const stored = 20_000
	o := servertest.Options(b)
	o.CheckStoredObjects = fmt.Sprint(check)
	s := &scannedServer{B: b, Server: servertest.Start(b, o)}
	s.client = servertest.Client(b, s.Server, nil)
	if err := json.Unmarshal(testcase.Medium().Object, &s.object); err != nil {
		b.Fatal(err)
	}
	if code, text := servertest.Exchange(b, s.client, http.MethodPost, s.URL()+servertest.CRDs, s.crd()); code != http.StatusCreated {
		b.Fatal(code, text)
	}
	db := servertest.Etcd(b, o)
	var ops []clientv3.Op
	for i := range stored {
		name := fmt.Sprint("stored-", i)
		if ops = append(ops, clientv3.OpPut("/registry/example.com/widgets/default/"+name, s.widget(name))); len(ops) == 100 {
			if _, err := db.Txn(b.Context()).Then(ops...).Commit(); err != nil {
				b.Fatal(err)
			}
			ops = nil
		}
	}
	if check {
		servertest.Eventually(b, func() error {
			if _, text := servertest.Get(b, s.Server, s.client, "/metrics"); !strings.Contains(text, `espalier_stored_objects{crd="widgets.example.com"} 20000`) {
				return errors.New("the scan is not complete")
			}
			return nil
		})
	}
	return s
}

func (s *scannedServer) widget(name string) string {
	s.object["apiVersion"], s.object["kind"] = "example.com/v1", "Widget"
	s.object["metadata"] = map[string]any{"name": name, "namespace": "default", "uid": "b0b0b0b0-0000-4000-8000-000000000001"}
	data, err := json.Marshal(s.object)
	if err != nil {
		s.Fatal(err)
	}
	return string(data)
}

// crd returns a CRD that differs from the last one.
func (s *scannedServer) crd() string {
	s.changed++
	text := bytes.Replace(testcase.Medium().Schema, []byte("{"), fmt.Appendf(nil, `{"title":"%d",`, s.changed), 1)
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},
		"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":%s}}]}}`, text)
}

func (s *scannedServer) create() {
	s.created++
	if code, text := servertest.Exchange(s.B, s.client, http.MethodPost, s.URL()+"/apis/example.com/v1/namespaces/default/widgets", s.widget(fmt.Sprint("w-", s.created))); code != http.StatusCreated {
		s.Fatal(code, text)
	}
}

// scan has all objects scanned again and again until stop is called.
func (s *scannedServer) scan() (stop func()) {
	done := make(chan struct{})
	var task sync.WaitGroup
	task.Go(func() {
		for {
			if code, text := servertest.Exchange(s.B, s.client, http.MethodPatch, s.URL()+servertest.CRDs+"/widgets.example.com", s.crd()); code != http.StatusOK {
				s.Error(code, text)
			}
			select {
			case <-time.After(time.Second):
			case <-done:
				return
			}
		}
	})
	return func() {
		close(done)
		task.Wait()
	}
}
