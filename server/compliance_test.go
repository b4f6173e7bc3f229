package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"espalier.dev/internal/testcase"
	"espalier.dev/schema"
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
	o := testOptions(t)
	o.Semantics, o.CheckStoredObjects = schema.Kubernetes, "true"
	s := startServer(t, o)
	admin := client(t, s, nil)
	if _, err := s.db.client.Put(t.Context(), "/registry/checked.example.com/jobs/one", checkedObject); err != nil {
		t.Fatal(err)
	}
	if code, text := exchange(t, admin, http.MethodPost, s.URL()+crdsPath, checkedCRD); code != http.StatusCreated {
		t.Fatal(code, text)
	}
	eventually(t, func() error {
		if _, text := get(t, s, admin, crdsPath+"/jobs.checked.example.com"); !strings.Contains(text, "1 of 1 stored object does not comply: 1 with unspecified fields") {
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
	if code, text := get(t, s, client(t, s, config), noncompliant); code != http.StatusForbidden {
		t.Error(code, text)
	}
	if code, text := exchange(t, admin, http.MethodPost, s.URL()+"/apis/inspect.espalier.dev/v1/namespaces/default/noncompliantobjects", `{}`); code != http.StatusMethodNotAllowed {
		t.Error(code, text)
	}
	if code, text := get(t, s, admin, noncompliant+"?watch=true"); code != http.StatusMethodNotAllowed {
		t.Error(code, text)
	}
	for _, path := range []string{"/openapi/v2", "/openapi/v3/apis/inspect.espalier.dev/v1"} {
		_, text := get(t, s, admin, path)
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
	if _, text := get(t, s, admin, "/metrics"); !strings.Contains(text, series) || !strings.Contains(text, `espalier_stored_objects{crd="jobs.checked.example.com"} 1`) {
		t.Error("there are no metrics")
	}
	if code, text := exchange(t, admin, http.MethodDelete, s.URL()+crdsPath+"/jobs.checked.example.com", ""); code != http.StatusOK {
		t.Fatal(code, text)
	}
	eventually(t, func() error {
		if _, text := get(t, s, admin, "/metrics"); strings.Contains(text, `crd="jobs.checked.example.com"`) {
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
// they have been checked, and while they are being scanned.
func BenchmarkCreateWhileScanning(b *testing.B) {
	for _, row := range []string{"unchecked", "checked", "scanning"} {
		b.Run(row, func(b *testing.B) {
			const stored = 20_000
			o := testOptions(b)
			if row == "unchecked" {
				o.CheckStoredObjects = "false"
			}
			s := startServer(b, o)
			c := client(b, s, nil)
			medium := testcase.Medium()
			var object map[string]any
			if err := json.Unmarshal(medium.Object, &object); err != nil {
				b.Fatal(err)
			}
			widget := func(name string) []byte {
				object["apiVersion"], object["kind"] = "example.com/v1", "Widget"
				object["metadata"] = map[string]any{"name": name, "namespace": "default", "uid": "b0b0b0b0-0000-4000-8000-000000000001"}
				data, err := json.Marshal(object)
				if err != nil {
					b.Fatal(err)
				}
				return data
			}
			crd := func(change int) []byte {
				text := bytes.Replace(medium.Schema, []byte("{"), fmt.Appendf(nil, `{"title":"%d",`, change), 1)
				return fmt.Appendf(nil, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},
					"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},
					"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":%s}}]}}`, text)
			}
			if code, text := exchange(b, c, http.MethodPost, s.URL()+crdsPath, string(crd(0))); code != http.StatusCreated {
				b.Fatal(code, text)
			}
			var ops []clientv3.Op
			for i := range stored {
				name := fmt.Sprint("stored-", i)
				if ops = append(ops, clientv3.OpPut("/registry/example.com/widgets/default/"+name, string(widget(name)))); len(ops) == 100 {
					if _, err := s.db.client.Txn(b.Context()).Then(ops...).Commit(); err != nil {
						b.Fatal(err)
					}
					ops = nil
				}
			}
			if row != "unchecked" {
				eventually(b, func() error {
					if _, text := get(b, s, c, "/metrics"); !strings.Contains(text, `espalier_stored_objects{crd="widgets.example.com"} 20000`) {
						return errors.New("the scan is not complete")
					}
					return nil
				})
			}
			var changes sync.WaitGroup
			ctx, cancel := context.WithCancel(b.Context())
			defer changes.Wait()
			defer cancel()
			if row == "scanning" {
				changes.Go(func() {
					for i := 1; ctx.Err() == nil; i++ {
						exchange(b, c, http.MethodPatch, s.URL()+crdsPath+"/widgets.example.com", string(crd(i)))
						select {
						case <-time.After(time.Second):
						case <-ctx.Done():
						}
					}
				})
			}
			n := 0
			for b.Loop() {
				n++
				if code, text := exchange(b, c, http.MethodPost, s.URL()+"/apis/example.com/v1/namespaces/default/widgets", string(widget(fmt.Sprint("w-", n)))); code != http.StatusCreated {
					b.Fatal(code, text)
				}
			}
		})
	}
}
