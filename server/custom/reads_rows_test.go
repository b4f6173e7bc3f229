package custom_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"espalier.dev/schema"
	"espalier.dev/server/servertest"
)

// each returns what GET, LIST and WATCH return for an object.
func (r *readers) each(collection, name string) map[string]map[string]any {
	r.Helper()
	decode := func(text []byte) (obj map[string]any) {
		if err := json.Unmarshal(text, &obj); err != nil {
			r.Fatalf("%v: %s", err, text)
		}
		return obj
	}
	got := map[string]map[string]any{}
	got["GET"] = decode([]byte(r.must(http.StatusOK, http.MethodGet, collection+"/"+name, "")))
	got["GET resourceVersion=0"] = decode([]byte(r.must(http.StatusOK, http.MethodGet, collection+"/"+name+"?resourceVersion=0", "")))
	find := func(obj map[string]any) bool {
		meta, _ := obj["metadata"].(map[string]any)
		return meta["name"] == name
	}
	for _, item := range decode([]byte(r.must(http.StatusOK, http.MethodGet, collection, "")))["items"].([]any) {
		if item := item.(map[string]any); find(item) {
			got["LIST"] = item
		}
	}
	r.watch(r.Context(), r.fast, collection+"?watch=true", nil, func(line string) bool {
		event := decode([]byte(line))
		if obj := event["object"].(map[string]any); event["type"] == "ADDED" && find(obj) {
			got["WATCH"] = obj
		}
		return got["WATCH"] == nil
	})
	return got
}

// specs checks the spec of an object in GET, LIST and WATCH.
func (r *readers) specs(collection, name, want string) {
	r.Helper()
	var spec map[string]any
	if err := json.Unmarshal([]byte(want), &spec); err != nil {
		r.Fatal(err)
	}
	got := r.each(collection, name)
	for _, how := range []string{"GET", "GET resourceVersion=0", "LIST", "WATCH"} {
		if !reflect.DeepEqual(got[how]["spec"], any(spec)) {
			r.Errorf("%s %s/%s: spec %v, want %v", how, collection, name, got[how]["spec"], spec)
		}
	}
}

// define creates or replaces the CRD of the test, with a schema for each version. The last is
// the storage version.
func (r *readers) define(schemas ...string) {
	r.Helper()
	const crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	var versions []string
	for i, s := range schemas {
		versions = append(versions, fmt.Sprintf(`{"name":"v%d","served":true,"storage":%t,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":%s}}}}`, i+1, i == len(schemas)-1, s))
	}
	definition := `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"rows.reads.example.com"},"spec":{"group":"reads.example.com","scope":"Cluster","names":{"plural":"rows","kind":"Row"},"versions":[` + strings.Join(versions, ",") + `]}}`
	if code, _ := servertest.Exchange(r, r.fast, http.MethodGet, r.server.URL()+crds+"/rows.reads.example.com", ""); code != http.StatusOK {
		r.must(http.StatusCreated, http.MethodPost, crds, definition)
		return
	}
	var changed map[string]any
	if err := json.Unmarshal([]byte(definition), &changed); err != nil {
		r.Fatal(err)
	}
	r.update(crds+"/rows.reads.example.com", func(stored map[string]any) { stored["spec"] = changed["spec"] })
}

func rows(version string) string { return "/apis/reads.example.com/" + version + "/rows" }

func (r *readers) patch(code int, path, body string) string {
	r.Helper()
	req, err := http.NewRequestWithContext(r.Context(), http.MethodPatch, r.server.URL()+path, strings.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/merge-patch+json")
	resp, err := r.fast.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	var text bytes.Buffer
	_, _ = text.ReadFrom(resp.Body)
	_ = resp.Body.Close()
	if resp.StatusCode != code {
		r.Errorf("PATCH %s %s: %d instead of %d: %s", path, body, resp.StatusCode, code, &text)
	}
	return text.String()
}

// TestReadRows proves rows of the ledger on the path of reads as bytes.
func TestReadRows(t *testing.T) {
	t.Parallel()
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		t.Run("P-18-reads "+sem.String(), func(t *testing.T) {
			t.Parallel()
			proveOwnPruning(newReaders(t, sem))
		})
		t.Run("V-14 "+sem.String(), func(t *testing.T) {
			t.Parallel()
			proveStricter(newReaders(t, sem))
		})
	}
}

// proveOwnPruning checks that each version prunes by its own schema.
func proveOwnPruning(r *readers) {
	const both = `"both":{"type":"integer"}`
	version := func(properties string) string { return `{"type":"object","properties":{` + properties + `}}` }
	first, second := version(both+`,"first":{"type":"integer"}`), version(both+`,"second":{"type":"integer"}`)
	all := `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`
	r.define(first, second, all)
	object := func(version, name string) string {
		return `{"apiVersion":"reads.example.com/` + version + `","kind":"Row","metadata":{"generation":1,"name":"` + name + `","uid":"1"},"spec":{"both":1,"first":1,"other":1,"second":1}}`
	}
	for _, version := range []string{"v1", "v2", "v3"} {
		r.put("reads.example.com/rows/"+version, object(version, version))
	}
	// What is stored is read by the schema of the version in which it is stored, and then by
	// that of the request.
	r.specs(rows("v1"), "v1", `{"both":1,"first":1}`)
	r.specs(rows("v1"), "v2", `{"both":1}`)
	r.specs(rows("v1"), "v3", `{"both":1,"first":1}`)
	r.specs(rows("v2"), "v1", `{"both":1}`)
	r.specs(rows("v2"), "v2", `{"both":1,"second":1}`)
	r.specs(rows("v2"), "v3", `{"both":1,"second":1}`)
	r.specs(rows("v3"), "v1", `{"both":1,"first":1}`)
	r.specs(rows("v3"), "v2", `{"both":1,"second":1}`)
	r.specs(rows("v3"), "v3", `{"both":1,"first":1,"other":1,"second":1}`)
	// A new schema applies to what was read with the old one.
	r.define(all, all, first)
	r.specs(rows("v3"), "v3", `{"both":1,"first":1}`)
	r.specs(rows("v3"), "v1", `{"both":1,"first":1}`)
	r.specs(rows("v1"), "v3", `{"both":1,"first":1}`)
	r.specs(rows("v1"), "v1", `{"both":1,"first":1,"other":1,"second":1}`)
	r.define(first, second, all)
	r.specs(rows("v3"), "v3", `{"both":1,"first":1,"other":1,"second":1}`)
}

// listVersion returns the resourceVersion of a list.
func (r *readers) listVersion() string {
	r.Helper()
	var list struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.Unmarshal([]byte(r.must(http.StatusOK, http.MethodGet, rows("v1"), "")), &list); err != nil {
		r.Fatal(err)
	}
	return list.Metadata.ResourceVersion
}

// event waits for an event of an object with a spec after a resourceVersion.
func (r *readers) event(version, after, kind, name, spec string) {
	r.Helper()
	found := false
	r.watch(r.Context(), r.fast, rows(version)+"?watch=true&fieldSelector=metadata.name="+name+"&resourceVersion="+after, nil, func(line string) bool {
		found = found || strings.HasPrefix(line, `{"type":"`+kind+`","object":{"apiVersion":"reads.example.com/`+version+`"`) && strings.Contains(line, `"spec":`+spec)
		return !found
	})
	if !found {
		r.Errorf("no event %s of %s with spec %s in %s", kind, name, spec, version)
	}
}

// proveStricter checks that objects which a stricter schema makes invalid can be read, listed,
// watched and deleted in every version, and that an update is rejected only for what it newly
// makes invalid.
func proveStricter(r *readers) {
	loose := `{"type":"object","properties":{"a":{"type":"string"},"b":{"x-kubernetes-preserve-unknown-fields":true},"c":{"type":"integer"},"d":{"type":"array","items":{"type":"string"}},"e":{"type":"array","items":{"type":"object","properties":{"k":{"type":"string"},"n":{"type":"integer"}}}}}}`
	r.define(loose, loose)
	for name, spec := range map[string]string{
		"long": `{"a":"much too long","c":1}`, "missing": `{"c":1}`, "many": `{"a":"x","c":100,"d":["x","x"]}`, "text": `{"a":"x","b":"text"}`, "object": `{"a":"x","b":{"y":1}}`, "list": `{"a":"x","b":[1,null]}`,
		"twice": `{"a":"x","c":1,"d":["x"],"e":[{"k":"1"},{"k":"1"}]}`, "items": `{"a":"x","e":[{"k":"1","n":9},{"k":"2","n":1}]}`,
	} {
		r.must(http.StatusCreated, http.MethodPost, rows("v2"), `{"apiVersion":"reads.example.com/v2","kind":"Row","metadata":{"name":"`+name+`"},"spec":`+spec+`}`)
	}
	// Two stored values contradict even the types of the old schema.
	r.put("reads.example.com/rows/types", `{"apiVersion":"reads.example.com/v2","kind":"Row","metadata":{"generation":1,"name":"types","uid":"1"},"spec":{"a":{"x":1},"c":"one"}}`)
	strict := `{"type":"object","required":["a"],"properties":{"a":{"type":"string","maxLength":3},"b":{"type":"integer"},"c":{"type":"integer","maximum":10},"d":{"type":"array","maxItems":1,"items":{"type":"string"}},
		"e":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","required":["k"],"properties":{"k":{"type":"string"},"n":{"type":"integer","maximum":3}}}}}}`
	r.define(strict, strict)
	before := r.listVersion()
	for _, version := range []string{"v1", "v2"} {
		r.specs(rows(version), "long", `{"a":"much too long","c":1}`)
		r.specs(rows(version), "missing", `{"c":1}`)
		r.specs(rows(version), "many", `{"a":"x","c":100,"d":["x","x"]}`)
		r.specs(rows(version), "text", `{"a":"x","b":"text"}`)
		r.specs(rows(version), "list", `{"a":"x","b":[1,null]}`)
		r.specs(rows(version), "object", `{"a":"x","b":{}}`) // a pruned field is no error either
		r.specs(rows(version), "types", `{"a":{},"c":"one"}`)
		// What is invalid may stay. What was valid must remain so.
		r.patch(http.StatusOK, rows(version)+"/long", `{"metadata":{"labels":{"x":"`+version+`"}},"spec":{"c":2}}`)
		r.patch(http.StatusUnprocessableEntity, rows(version)+"/long", `{"spec":{"c":11}}`)
		r.patch(http.StatusUnprocessableEntity, rows(version)+"/many", `{"spec":{"c":101}}`)
		r.patch(http.StatusOK, rows(version)+"/long", `{"spec":{"c":1}}`)
		// A list with too many items, and one whose items are repeated.
		r.specs(rows(version), "twice", `{"a":"x","c":1,"d":["x"],"e":[{"k":"1"},{"k":"1"}]}`)
		r.patch(http.StatusOK, rows(version)+"/many", `{"spec":{"a":"`+version+`"}}`)
		r.patch(http.StatusUnprocessableEntity, rows(version)+"/many", `{"spec":{"d":["x","y"]}}`)
		r.patch(http.StatusOK, rows(version)+"/many", `{"spec":{"a":"x"}}`)
		r.patch(http.StatusOK, rows(version)+"/twice", `{"metadata":{"labels":{"x":"`+version+`"}}}`)
		r.patch(http.StatusUnprocessableEntity, rows(version)+"/twice", `{"spec":{"d":["x","y"]}}`)
		// Items are matched by their keys, wherever they are.
		r.specs(rows(version), "items", `{"a":"x","e":[{"k":"1","n":9},{"k":"2","n":1}]}`)
		r.patch(http.StatusOK, rows(version)+"/items", `{"spec":{"e":[{"k":"2","n":2},{"k":"1","n":9}]}}`)
		r.patch(http.StatusUnprocessableEntity, rows(version)+"/items", `{"spec":{"e":[{"k":"2","n":2},{"k":"1","n":10}]}}`)
		r.patch(http.StatusUnprocessableEntity, rows(version)+"/items", `{"spec":{"e":[{"k":"2","n":2},{"k":"3","n":9}]}}`)
		r.patch(http.StatusOK, rows(version)+"/items", `{"spec":{"e":[{"k":"1","n":9},{"k":"2","n":1}]}}`)
		// A field that is missing is a violation of the object around it. As in Kubernetes, that
		// may stay until the object itself changes.
		r.patch(http.StatusOK, rows(version)+"/missing", `{"metadata":{"labels":{"x":"`+version+`"}}}`)
		if text := r.patch(http.StatusUnprocessableEntity, rows(version)+"/missing", `{"spec":{"c":2}}`); !strings.Contains(text, "spec.a: Required value") {
			r.Errorf("%s", text)
		}
		r.patch(http.StatusOK, rows(version)+"/types", `{"metadata":{"labels":{"x":"`+version+`"}}}`)
	}
	names := []string{"long", "missing", "many", "text", "list", "object", "types", "twice", "items"}
	for _, version := range []string{"v1", "v2"} {
		for name, spec := range map[string]string{
			"long": `{"a":"much too long","c":2}`, "missing": `{"c":1}`, "many": `{"a":"` + version + `","c":100,"d":["x","x"]}`, "types": `{"a":{},"c":"one"}`,
			"twice": `{"a":"x","c":1,"d":["x"],"e":[{"k":"1"},{"k":"1"}]}`, "items": `{"a":"x","e":[{"k":"2","n":2},{"k":"1","n":9}]}`,
		} {
			r.event(version, before, "MODIFIED", name, spec)
		}
	}
	list := r.listVersion()
	for i, name := range names {
		r.must(http.StatusOK, http.MethodDelete, rows([]string{"v1", "v2"}[i%2])+"/"+name, "")
	}
	for _, version := range []string{"v1", "v2"} {
		missing := slices.Clone(names)
		r.watch(r.Context(), r.fast, rows(version)+"?watch=true&resourceVersion="+list, nil, func(line string) bool {
			if strings.HasPrefix(line, `{"type":"DELETED","object":{"apiVersion":"reads.example.com/`+version+`"`) {
				missing = slices.DeleteFunc(missing, func(name string) bool { return strings.Contains(line, `"name":"`+name+`"`) })
			}
			return len(missing) > 0
		})
		if len(missing) > 0 {
			r.Errorf("no events for the deletions of %v in %s", missing, version)
		}
	}
}
