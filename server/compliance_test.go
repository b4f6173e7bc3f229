package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"espalier.dev/schema"
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
