package definitions_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"espalier.dev/schema"
	"espalier.dev/server/servertest"
)

// requests sends requests about CRDs of one group to one server.
type requests struct {
	*servertest.Script
}

const requestsProtobuf = "application/vnd.kubernetes.protobuf"

// define returns a CRD.
func (r *requests) define(plural, kind, metadata string) string {
	return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"` + plural + `.requests.example.com"` + metadata + `},
"spec":{"group":"requests.example.com","scope":"Cluster","names":{"plural":"` + plural + `","kind":"` + kind + `"},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`
}

func (r *requests) path(plural string) string {
	return servertest.CRDs + "/" + plural + ".requests.example.com"
}

// want sends a request and checks the code of the answer.
func (r *requests) want(t *testing.T, code int, method, path, contentType, body string) servertest.Answer {
	t.Helper()
	a := r.Do(method, path, []byte(body), contentType)
	if a.Code != code {
		t.Errorf("%s %s %s: %d instead of %d: %s", method, path, body, a.Code, code, a.Body)
	}
	return a
}

// field returns a field of an answer as a text.
func field(a servertest.Answer, path string) string {
	v, ok := servertest.Field(a.Object, path)
	if !ok {
		return "none"
	}
	return fmt.Sprint(v)
}

// TestDefinitionRequests sends requests about CRDs that typed clients and kubectl send, other than
// plain writes.
func TestDefinitionRequests(t *testing.T) {
	t.Parallel()
	r := &requests{servertest.NewScript(t, servertest.Serve(t, schema.Kubernetes))}
	const json, merge = "application/json", "application/merge-patch+json"
	create := func(t *testing.T, plural, kind, metadata string) servertest.Answer {
		t.Helper()
		return r.want(t, http.StatusCreated, http.MethodPost, servertest.CRDs, json, r.define(plural, kind, metadata))
	}
	object := func(kind, metadata string) string {
		return `{"apiVersion":"requests.example.com/v1","kind":"` + kind + `","metadata":{"name":"x"` + metadata + `}}`
	}
	const objects = "/apis/requests.example.com/v1/"

	t.Run("served at once", func(t *testing.T) {
		for i := range 10 {
			body := strings.ReplaceAll(r.define("things", "Thing", ""), "requests.example.com", fmt.Sprintf("requests%d.example.com", i))
			group := fmt.Sprintf("/apis/requests%d.example.com", i)
			crd := fmt.Sprintf("%s/things.requests%d.example.com", servertest.CRDs, i)
			r.want(t, http.StatusCreated, http.MethodPost, servertest.CRDs, json, body)
			r.want(t, http.StatusOK, http.MethodGet, group, "", "")
			r.want(t, http.StatusOK, http.MethodPatch, crd, "application/json-patch+json", `[{"op":"replace","path":"/spec/versions/0/served","value":false}]`)
			r.want(t, http.StatusNotFound, http.MethodGet, group+"/v1/things", "", "")
		}
	})
	t.Run("without a kind", func(t *testing.T) {
		body := strings.Replace(r.define("plains", "Plain", ""), `"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",`, "", 1)
		if a := r.want(t, http.StatusCreated, http.MethodPost, servertest.CRDs+"?dryRun=All", json, body); field(a, "kind") != "CustomResourceDefinition" {
			t.Errorf("%s", a.Body)
		}
		r.want(t, http.StatusNotFound, http.MethodGet, r.path("plains"), "", "")
		r.want(t, http.StatusCreated, http.MethodPost, servertest.CRDs, json, body)
		r.want(t, http.StatusConflict, http.MethodPost, servertest.CRDs, json, body)
	})
	t.Run("preconditions", func(t *testing.T) {
		a := create(t, "guards", "Guard", "")
		for _, condition := range []string{`"uid":"other"`, `"resourceVersion":"1"`, `"uid":"` + field(a, "metadata.uid") + `","resourceVersion":"1"`} {
			r.want(t, http.StatusConflict, http.MethodDelete, r.path("guards"), json, `{"preconditions":{`+condition+`}}`)
		}
		if a := r.want(t, http.StatusOK, http.MethodDelete, r.path("guards")+"?dryRun=All", "", ""); field(a, "metadata.deletionTimestamp") == "none" {
			t.Errorf("%s", a.Body)
		}
		if a := r.want(t, http.StatusOK, http.MethodGet, r.path("guards"), "", ""); field(a, "metadata.deletionTimestamp") != "none" || field(a, "metadata.finalizers") != "none" {
			t.Errorf("deleted in spite of its preconditions: %s", a.Body)
		}
		// It is accepted, not done: the objects come first.
		a = r.want(t, http.StatusAccepted, http.MethodDelete, r.path("guards"), json, `{"orphanDependents":false,"preconditions":{"uid":"`+field(a, "metadata.uid")+`"}}`)
		if field(a, "metadata.finalizers") != "[customresourcecleanup.apiextensions.k8s.io]" || field(a, "metadata.deletionTimestamp") == "none" || !strings.Contains(string(a.Body), "CustomResourceDefinition marked for deletion") {
			t.Errorf("%s", a.Body)
		}
		r.AwaitGone(r.path("guards"))
		r.want(t, http.StatusNotFound, http.MethodDelete, r.path("guards"), "", "")
	})
	t.Run("collection", func(t *testing.T) {
		create(t, "ones", "One", `,"labels":{"app":"a"}`)
		create(t, "twos", "Two", `,"labels":{"app":"b"}`)
		r.want(t, http.StatusConflict, http.MethodDelete, servertest.CRDs+"?labelSelector=app%3Da", json, `{"preconditions":{"uid":"other"}}`)
		if a := r.want(t, http.StatusOK, http.MethodDelete, servertest.CRDs+"?labelSelector=app%3Da", "", ""); len(a.Object["items"].([]any)) != 1 {
			t.Errorf("%s", a.Body)
		}
		r.AwaitGone(r.path("ones"))
		if a := r.want(t, http.StatusOK, http.MethodGet, r.path("twos"), "", ""); field(a, "metadata.deletionTimestamp") != "none" {
			t.Errorf("%s", a.Body)
		}
	})
	t.Run("deletion that waits", func(t *testing.T) {
		create(t, "waits", "Wait", `,"finalizers":["example.com/other"]`)
		r.want(t, http.StatusCreated, http.MethodPost, objects+"waits", json, object("Wait", `,"finalizers":["example.com/wait"]`))
		first := r.want(t, http.StatusOK, http.MethodDelete, r.path("waits"), "", "")
		r.Await("it waits", func() bool {
			return r.HasCondition("waits.requests.example.com", "Terminating", "True", "could not confirm zero CustomResources remaining: 1 left, the first is x")
		})
		again := r.want(t, http.StatusOK, http.MethodDelete, r.path("waits"), "", "")
		if field(again, "metadata.deletionTimestamp") != field(first, "metadata.deletionTimestamp") {
			t.Errorf("%s", again.Body)
		}
		for _, query := range []string{"", "?dryRun=All"} {
			a := r.want(t, http.StatusForbidden, http.MethodPost, objects+"waits"+query, json, strings.Replace(object("Wait", ""), `"x"`, `"y"`, 1))
			if !strings.Contains(string(a.Body), "create not allowed while custom resource definition is terminating") {
				t.Errorf("%s", a.Body)
			}
		}
		r.want(t, http.StatusOK, http.MethodPatch, objects+"waits/x", merge, `{"metadata":{"finalizers":null}}`)
		r.Await("its objects are gone", func() bool {
			return r.HasCondition("waits.requests.example.com", "Terminating", "False", "removed all instances")
		})
		r.want(t, http.StatusNotFound, http.MethodGet, objects+"waits/x", "", "")
		r.want(t, http.StatusOK, http.MethodPatch, r.path("waits"), merge, `{"metadata":{"finalizers":null}}`)
		r.AwaitGone(r.path("waits"))
	})
	t.Run("deletion of a CRD that was never established", func(t *testing.T) {
		create(t, "firsts", "Claimed", "")
		r.Await("it is established", func() bool { return r.HasCondition("firsts.requests.example.com", "Established", "True", "") })
		create(t, "seconds", "Claimed", `,"finalizers":["example.com/other"]`)
		r.Await("its names are taken", func() bool { return r.HasCondition("seconds.requests.example.com", "NamesAccepted", "False", "") })
		r.want(t, http.StatusOK, http.MethodDelete, r.path("seconds"), "", "")
		r.Await("its deletion ends", func() bool {
			return r.HasCondition("seconds.requests.example.com", "Terminating", "False", "resource was never established")
		})
		r.want(t, http.StatusOK, http.MethodPatch, r.path("seconds"), merge, `{"metadata":{"finalizers":null}}`)
		r.AwaitGone(r.path("seconds"))
	})
	t.Run("patches", func(t *testing.T) {
		create(t, "patches", "Patch", "")
		a := r.want(t, http.StatusOK, http.MethodPatch, r.path("patches"), "application/strategic-merge-patch+json", `{"metadata":{"labels":{"a":"b"}}}`)
		if field(a, "metadata.labels") != "map[a:b]" {
			t.Errorf("%s", a.Body)
		}
		a = r.want(t, http.StatusOK, http.MethodPatch, r.path("patches")+"/status", merge, `{"metadata":{"labels":{"a":"c"}},"spec":{"scope":"Namespaced"},"status":{"storedVersions":["v1","v1"]}}`)
		if field(a, "metadata.labels") != "map[a:b]" || field(a, "spec.scope") != "Cluster" || field(a, "status.storedVersions") != "[v1 v1]" {
			t.Errorf("%s", a.Body)
		}
		a = r.want(t, http.StatusOK, http.MethodPatch, r.path("patches")+"?dryRun=All", merge, `{"spec":{"names":{"shortNames":["p"]}}}`)
		if field(a, "spec.names.shortNames") != "[p]" {
			t.Errorf("%s", a.Body)
		}
		if a := r.want(t, http.StatusOK, http.MethodGet, r.path("patches"), "", ""); field(a, "spec.names.shortNames") != "none" {
			t.Errorf("%s", a.Body)
		}
		r.want(t, http.StatusNotFound, http.MethodPatch, r.path("missing"), merge, `{}`)
		r.want(t, http.StatusMethodNotAllowed, http.MethodPost, r.path("patches"), json, r.define("patches", "Patch", ""))
		r.want(t, http.StatusNotFound, http.MethodGet, r.path("patches")+"/status/more", "", "")
		r.want(t, http.StatusNotFound, http.MethodGet, r.path("patches")+"/scale", "", "")
		r.want(t, http.StatusUnsupportedMediaType, http.MethodPost, servertest.CRDs, "application/cbor", "x")
	})
	t.Run("protobuf", func(t *testing.T) {
		create(t, "binaries", "Binary", "")
		for _, path := range []string{r.path("binaries"), servertest.CRDs} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Accept", requestsProtobuf)
			resp, err := r.Client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != requestsProtobuf || !bytes.HasPrefix(body, []byte("k8s\x00")) || !bytes.Contains(body, []byte("binaries.requests.example.com")) {
				t.Errorf("%s: %d %s %q %v", path, resp.StatusCode, resp.Header, body, err)
			}
			if path == servertest.CRDs {
				continue
			}
			if a := r.want(t, http.StatusOK, http.MethodPut, path, requestsProtobuf, string(body)); field(a, "spec.names.kind") != "Binary" {
				t.Errorf("%s", a.Body)
			}
			r.want(t, http.StatusBadRequest, http.MethodPut, path, requestsProtobuf, string(body[:len(body)/2]))
		}
	})
	t.Run("custom resources", func(t *testing.T) {
		create(t, "things", "Thing", "")
		r.want(t, http.StatusUnsupportedMediaType, http.MethodPost, objects+"things", requestsProtobuf, "k8s\x00")
		r.want(t, http.StatusCreated, http.MethodPost, objects+"things", json, object("Thing", ""))
		r.want(t, http.StatusMethodNotAllowed, http.MethodPost, objects+"things/x", json, object("Thing", ""))
		r.want(t, http.StatusNotFound, http.MethodGet, objects+"things/x/status", "", "")
		r.want(t, http.StatusNotFound, http.MethodGet, objects+"things/x/status/more", "", "")
		r.want(t, http.StatusNotFound, http.MethodGet, objects+"namespaces/default/things", "", "")
		r.want(t, http.StatusNotFound, http.MethodGet, objects+"namespaces/default/things/x", "", "")
		r.want(t, http.StatusNotFound, http.MethodGet, "/apis/requests.example.com/v2/things/x", "", "")
		r.want(t, http.StatusBadRequest, http.MethodPut, objects+"things", json, object("Thing", ""))
	})
}
