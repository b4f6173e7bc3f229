package server_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"espalier.dev/espaliertest"
	"espalier.dev/server/servertest"
)

// allocated returns the bytes that the process allocates during f.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestAliasBombs sends YAML of 370 KB that aliases expand to 9 GB, on all paths that decode YAML.
func TestAliasBombs(t *testing.T) { //nolint:paralleltest // measures the allocations of the process
	if testing.Short() {
		t.Skip("sends large requests")
	}
	s := espaliertest.Start(t, servertest.Store(), espaliertest.WithCRDs([]byte(hostileDefinition)))
	h := newHostile(t, s)
	bomb := "a: &a \"" + strings.Repeat("x", 100_000) + "\"\nb: [" + strings.Repeat("*a,", 90_000) + "]\n"
	const yaml, apply = "application/yaml", "application/apply-patch+yaml"
	for _, r := range []hostileRequest{
		{name: "custom resource", method: http.MethodPost, path: hostileThings, contentType: yaml},
		{name: "CRD", method: http.MethodPost, path: servertest.CRDs, contentType: yaml},
		{name: "built-in kind", method: http.MethodPost, path: "/api/v1/namespaces/default/configmaps", contentType: yaml},
		{name: "update", method: http.MethodPut, path: "/api/v1/namespaces/default/configmaps/kube-root-ca.crt", contentType: yaml},
		{name: "review", method: http.MethodPost, path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", contentType: yaml},
		{name: "token", method: http.MethodPost, path: "/api/v1/namespaces/default/serviceaccounts/default/token", contentType: yaml},
		{name: "options of a delete", method: http.MethodDelete, path: "/api/v1/namespaces/default/configmaps/a", contentType: yaml},
		{name: "options of a delete of many", method: http.MethodDelete, path: hostileThings, contentType: yaml},
		{name: "content type with a parameter", method: http.MethodPost, path: hostileThings, contentType: yaml + "; charset=utf-8"},
		{name: "content type in capitals", method: http.MethodPost, path: "/api/v1/namespaces/default/configmaps", contentType: "Application/YAML"},
		{name: "apply of a custom resource", method: http.MethodPatch, path: hostileThings + "/a?fieldManager=m", contentType: apply},
		{name: "apply of a built-in kind", method: http.MethodPatch, path: "/api/v1/namespaces/default/configmaps/a?fieldManager=m", contentType: apply},
		{name: "apply of a CRD", method: http.MethodPatch, path: servertest.CRDs + "/a?fieldManager=m", contentType: apply},
		{name: "apply to a scale", method: http.MethodPatch, path: "/apis/apps/v1/namespaces/default/deployments/a/scale?fieldManager=m", contentType: apply},
	} {
		r.body, r.code, r.says = bomb, http.StatusBadRequest, "line 2:95: with this alias, the document has more than 3145728 bytes"
		if most := uint64(300 * len(bomb)); allocated(func() { h.send(r) }) > most {
			t.Errorf("%s: more than %d bytes were allocated", r.name, most)
		}
	}
	// What was not sent as YAML is not read as YAML.
	const quotas = "/api/v1/namespaces/default/resourcequotas"
	for _, r := range []hostileRequest{
		{name: "no content type", method: http.MethodPost, path: quotas, contentType: noContentType, code: http.StatusBadRequest},
		{name: "JSON", method: http.MethodPost, path: quotas, contentType: "application/json", code: http.StatusBadRequest},
		{name: "an unknown patch", method: http.MethodPatch, path: quotas + "/a", contentType: "application/merge-patch+jsonX", code: http.StatusBadRequest},
		{name: "a patch with a bad parameter", method: http.MethodPatch, path: quotas + "/a", contentType: "application/merge-patch+json;;", code: http.StatusBadRequest},
		{name: "a get", method: http.MethodGet, path: quotas, contentType: noContentType, code: http.StatusOK},
	} {
		// The digits look like those of a costly quantity.
		r.body = bomb + "c: 1e99999\n"
		if most := uint64(300 * len(bomb)); allocated(func() { h.send(r) }) > most {
			t.Errorf("%s: more than %d bytes were allocated", r.name, most)
		}
	}
	// Aliases and anchors are still YAML.
	h.send(hostileRequest{name: "few aliases", method: http.MethodPost, path: "/api/v1/namespaces/default/configmaps", contentType: yaml, code: http.StatusCreated,
		body: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: aliases}\ndata: {a: &a x, b: *a, c: \"*\"}\n", says: "data:\n  a: x\n  b: x\n", accept: yaml})
	h.send(hostileRequest{name: "too long", method: http.MethodPost, path: "/api/v1/namespaces/default/configmaps", contentType: yaml, code: http.StatusRequestEntityTooLarge,
		body: bomb + strings.Repeat(" ", 3<<20)})
}

// TestWideWrites sends objects with so many items that Kubernetes' algorithms need minutes.
func TestWideWrites(t *testing.T) {
	if testing.Short() {
		t.Skip("sends large requests")
	}
	t.Parallel()
	s := espaliertest.Start(t, servertest.Store(), espaliertest.WithCRDs([]byte(hostileDefinition)))
	h := newHostile(t, s)
	const configMaps = "/api/v1/namespaces/default/configmaps"
	labels := func(n int, format string) string {
		b := &strings.Builder{}
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(b, format, i)
		}
		return b.String()
	}
	configMap := func(rest string) string {
		return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"` + rest + `}`
	}
	tooMany := func(field string, n int) string {
		return fmt.Sprintf("%s has %d entries, too many to track their field managers", field, n)
	}
	for _, r := range []hostileRequest{
		{name: "labels", method: http.MethodPost, path: configMaps, body: configMap(`,"labels":{` + labels(100_000, `"a%d":""`) + `}}`), code: 422, says: tooMany(".metadata.labels", 100_000)},
		{name: "data", method: http.MethodPost, path: configMaps, body: configMap(`},"data":{` + labels(100_000, `"a%d":""`) + `}`), code: 422, says: tooMany(".data", 100_000)},
		{name: "apply", method: http.MethodPatch, path: configMaps + "/a?fieldManager=m", contentType: "application/apply-patch+yaml", body: configMap(`},"data":{` + labels(100_000, `"a%d":""`) + `}`), code: 413, says: tooMany(".data", 100_000)},
		{name: "invalid labels", method: http.MethodPost, path: hostileThings, body: strings.Replace(hostileThing("a", `"spec":{}`), `"name"`, `"labels":{`+labels(60_000, `"-%d":""`)+`},"name"`, 1), code: 422, says: "only the first 200 errors are reported"},
		{name: "as many errors as are reported", method: http.MethodPost, path: configMaps, body: configMap(`},"data":{` + labels(200, `"/%d":""`) + `}`), code: 422},
		{name: "one more", method: http.MethodPost, path: configMaps, body: configMap(`},"data":{` + labels(201, `"/%d":""`) + `}`), code: 422, says: "only the first 200 errors are reported"},
		{name: "a few", method: http.MethodPost, path: configMaps, body: configMap(`},"data":{` + labels(5000, `"a%d":""`) + `}`), code: 201},
	} {
		h.send(r)
	}
	// The check is of the object, not only of what a request adds to it.
	const patch = "application/merge-patch+json"
	h.send(hostileRequest{name: "more", method: http.MethodPatch, path: configMaps + "/a", contentType: patch, body: `{"data":{` + labels(8000, `"b%d":""`) + `}}`, code: 200})
	h.send(hostileRequest{name: "still more", method: http.MethodPatch, path: configMaps + "/a", contentType: patch, body: `{"data":{` + labels(18000, `"c%d":""`) + `}}`, code: 422, says: tooMany(".data", 31_000)})
}

// TestWidePatches sends patches for which the libraries of Kubernetes need minutes.
func TestWidePatches(t *testing.T) {
	if testing.Short() {
		t.Skip("sends large requests")
	}
	t.Parallel()
	s := espaliertest.Start(t, servertest.Store(), espaliertest.WithCRDs([]byte(hostileDefinition)))
	h := newHostile(t, s)
	const configMaps, strategic, operations = "/api/v1/namespaces/default/configmaps", "application/strategic-merge-patch+json", "application/json-patch+json"
	finalizers := func(n int) string {
		names := make([]string, n)
		for i := range names {
			names[i] = fmt.Sprintf(`"a/%d"`, i)
		}
		return `{"metadata":{"finalizers":[` + strings.Join(names, ",") + `]}}`
	}
	const crd = servertest.CRDs + "/things.hostile.example.com"
	many := func(path string) string {
		one := `{"op":"add","path":"` + path + `","value":"1"}`
		return `[` + strings.Repeat(one+",", 5000) + one + `]`
	}
	values := `{"op":"add","path":"/metadata/x","value":[1` + strings.Repeat(",1", 100_000) + `]}`
	deep := `[{"op":"test","path":"` + strings.Repeat("/a", 200_000) + `","value":"` + strings.Repeat("a", 10_000) + `"}]`
	h.send(hostileRequest{method: http.MethodPost, path: configMaps, body: `{"metadata":{"name":"a","finalizers":["a/b"]}}`, code: http.StatusCreated})
	for _, r := range []hostileRequest{
		{name: "many finalizers", path: configMaps + "/a", contentType: strategic, body: finalizers(100_000), code: 413, says: "finalizers has 100000 items in the patch, and up to 1 in the object"},
		{name: "finalizers", path: configMaps + "/a", contentType: strategic, body: finalizers(1000), code: 200},
		{name: "a merge patch of finalizers", path: configMaps + "/a", contentType: "application/merge-patch+json", body: finalizers(5000), code: 200},
		{name: "stored finalizers", path: configMaps + "/a", contentType: strategic, body: finalizers(1), code: 413, says: "finalizers has 1 items in the patch, and up to 5000 in the object"},
		{name: "a patch without lists", path: configMaps + "/a", contentType: strategic, body: `{"data":{"a":"b"}}`, code: 200},
		{name: "operations", path: configMaps + "/a", contentType: operations, body: strings.Replace(many("/data/b"), "[", "["+values+",", 1), code: 413, says: "operations, got 5002"},
		{name: "operations on a CRD", path: crd, contentType: operations, body: strings.Replace(many("/metadata/b"), "[", "["+values+",", 1), code: 413, says: "operations, got 5002"},
		{name: "levels", path: configMaps + "/a", contentType: operations, body: deep, code: 413, says: "levels, got 200000"},
		{name: "levels of a CRD", path: crd, contentType: operations, body: deep, code: 413, says: "levels, got 200000"},
		{name: "a few operations", path: configMaps + "/a", contentType: operations, body: many("/data/b"), code: 200},
	} {
		r.method = http.MethodPatch
		h.send(r)
	}
}
