package custom_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"espalier.dev/schema"
	"espalier.dev/server/servertest"
)

// converter is a conversion webhook: v1 has spec.size, v2 spec.dimension.size.
type converter struct {
	*httptest.Server
	// mode selects its fault.
	mode atomic.Pointer[string]
	// hanging counts the requests without a response.
	hanging atomic.Int32
	asked   atomic.Int32 // requests
}

func (c *converter) set(mode string) { c.mode.Store(&mode) }

func newConverter(t *testing.T) *converter {
	rename := func(obj map[string]any, to string) {
		spec, _ := obj["spec"].(map[string]any)
		obj["apiVersion"] = to
		if strings.HasSuffix(to, "/v2") {
			obj["spec"] = map[string]any{"dimension": map[string]any{"size": spec["size"]}}
		} else {
			d, _ := spec["dimension"].(map[string]any)
			obj["spec"] = map[string]any{"size": d["size"]}
		}
	}
	c := &converter{}
	c.set("")
	c.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review struct {
			APIVersion string         `json:"apiVersion"`
			Kind       string         `json:"kind"`
			Request    map[string]any `json:"request,omitempty"`
			Response   map[string]any `json:"response"`
		}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		c.asked.Add(1)
		mode := *c.mode.Load()
		to, _ := review.Request["desiredAPIVersion"].(string)
		objects, _ := review.Request["objects"].([]any)
		for _, o := range objects {
			obj := o.(map[string]any)
			rename(obj, to)
			meta := obj["metadata"].(map[string]any)
			switch mode {
			case "other name":
				meta["name"] = "other"
			case "labels":
				meta["labels"] = map[string]any{"converted": "yes"}
				meta["annotations"] = map[string]any{"converted": "from " + obj["kind"].(string)}
				meta["generation"] = 99
			case "no labels":
				delete(meta, "labels")
				meta["annotations"] = nil
			case "other namespace":
				meta["namespace"] = "other"
			case "other UID":
				meta["uid"] = "other"
			case "other kind":
				obj["kind"] = "Other"
			case "other version":
				obj["apiVersion"] = "conversion.example.com/v3"
			case "bad label":
				meta["labels"] = map[string]any{"a": "not a value"}
			case "bad annotation":
				meta["annotations"] = map[string]any{"not a name": "a"}
			case "label of another type":
				meta["labels"] = map[string]any{"a": 1}
			case "finalizers":
				meta["finalizers"] = []any{"a/b"}
				meta["ownerReferences"] = []any{map[string]any{"apiVersion": "v1", "kind": "A", "name": "a", "uid": "a"}}
				meta["resourceVersion"] = "1"
				meta["deletionTimestamp"] = "2020-01-01T00:00:00Z"
			case "no metadata":
				delete(obj, "metadata")
			case "1.0":
				obj["spec"] = json.RawMessage(`{"size": 5.0, "dimension": {"size": 5.0}}`)
			case "unknown":
				obj["spec"].(map[string]any)["unknown"] = true
			case "garbage":
				obj["spec"] = map[string]any{"size": "large", "unknown": true}
			}
		}
		review.Response = map[string]any{"uid": review.Request["uid"], "convertedObjects": objects, "result": map[string]any{"status": "Success"}}
		switch mode {
		case "rejects":
			review.Response = map[string]any{"uid": review.Request["uid"], "result": map[string]any{"status": "Failure", "message": "I do not feel like it"}}
		case "none":
			review.Response["convertedObjects"] = []any{}
		case "other uid":
			review.Response["uid"] = "x"
		case "v1beta1":
			if review.APIVersion != "apiextensions.k8s.io/v1beta1" {
				http.Error(w, "only v1beta1 is supported", http.StatusBadRequest)
				return
			}
			review.APIVersion, review.Kind = "", ""
			delete(review.Response, "uid")
		case "other review":
			review.Kind = "AdmissionReview"
		case "no response":
			review.Response = nil
		case "no JSON":
			fmt.Fprint(w, "<html>")
			return
		case "redirect":
			http.Redirect(w, r, "https://elsewhere.invalid/", http.StatusTemporaryRedirect)
			return
		case "huge":
			chunk := make([]byte, 1<<20)
			for range 64 {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
			return
		case "hang":
			c.hanging.Add(1)
			<-r.Context().Done()
			return
		case "several":
			review.Response["convertedObjects"] = append(objects, objects...)
		case "status":
			http.Error(w, "out of order", http.StatusServiceUnavailable)
			return
		}
		review.Request = nil
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(c.Close)
	return c
}

// parcels are a CRD whose webhook converts between v1, the storage version, and v2.
type parcels struct {
	*servertest.Script
	hook *converter
}

const (
	parcelsV1 = "/apis/conversion.example.com/v1/namespaces/default/parcels"
	parcelsV2 = "/apis/conversion.example.com/v2/namespaces/default/parcels"
)

func newParcels(t *testing.T, sem schema.Semantics) *parcels {
	hook := newConverter(t)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw})
	b := &parcels{Script: servertest.NewScript(t, servertest.Serve(t, sem)), hook: hook}
	b.must("create", fmt.Sprintf(`{
	"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "parcels.conversion.example.com"},
	"spec": {"group": "conversion.example.com", "scope": "Namespaced", "names": {"plural": "parcels", "kind": "Parcel"},
		"conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": %q, "caBundle": %q}}},
		"versions": [
			{"name": "v1", "served": true, "storage": true, "subresources": {"scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}},
				"schema": {"openAPIV3Schema": {"type": "object", "properties": {
				"spec": {"type": "object", "properties": {"size": {"type": "integer"}, "absent": {"type": "string", "default": "x"}}}}}}},
			{"name": "v2", "served": true, "storage": false, "subresources": {"scale": {"specReplicasPath": ".spec.dimension.size", "statusReplicasPath": ".status.size"}},
				"schema": {"openAPIV3Schema": {"type": "object", "properties": {
				"spec": {"type": "object", "properties": {"dimension": {"type": "object", "properties": {"size": {"type": "integer"}}}}}}}}}]}}`,
		hook.URL, base64.StdEncoding.EncodeToString(ca)), http.StatusCreated)
	return b
}

// must writes an object and expects a status.
func (b *parcels) must(verb, body string, code int) {
	b.Helper()
	if err := b.Write(verb, []byte(body), ""); err != nil {
		b.Fatal(err)
	}
	if b.Last.Code != code {
		b.Errorf("%d, not %d: %s", b.Last.Code, code, b.Last.Body)
	}
}

// parcel returns a Parcel of v1 or v2.
func parcel(version, name string, size any) string {
	spec := fmt.Sprintf(`{"size": %v}`, size)
	if version == "v2" {
		spec = fmt.Sprintf(`{"dimension": %s}`, spec)
	}
	return fmt.Sprintf(`{"apiVersion":"conversion.example.com/%s","kind":"Parcel","metadata":{"name":%q},"spec":%s}`, version, name, spec)
}

func (b *parcels) get(path string) servertest.Answer { return b.Do(http.MethodGet, path, nil, "") }

// want checks a field of a response.
func (b *parcels) want(a servertest.Answer, at string, value any) {
	b.Helper()
	if got, _ := servertest.Field(a.Object, at); got != value {
		b.Errorf("%s is %v: %s", at, got, a.Body)
	}
}

// watch starts a watch and returns its events as JSON. The channel is closed with the watch.
func (b *parcels) watch(path string) <-chan map[string]any {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	b.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.URL+path+"?watch=true", nil)
	if err != nil {
		b.Fatal(err)
	}
	resp, err := b.Client.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	events := make(chan map[string]any, 10)
	go func() {
		defer close(events)
		defer func() { _ = resp.Body.Close() }()
		lines := bufio.NewReader(resp.Body)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			var event map[string]any
			if json.Unmarshal(line, &event) != nil {
				return
			}
			events <- event
		}
	}()
	return events
}

// TestConversionWebhook converts with a webhook, which then has all kinds of faults.
func TestConversionWebhook(t *testing.T) {
	t.Parallel()
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		t.Run("S-18-webhook "+sem.String(), func(t *testing.T) {
			t.Parallel()
			testConversion(newParcels(t, sem))
		})
		t.Run("S-18-webhook-labels "+sem.String(), func(t *testing.T) {
			t.Parallel()
			testConvertedLabels(newParcels(t, sem))
		})
		t.Run("P-13-conversion "+sem.String(), func(t *testing.T) {
			t.Parallel()
			testConvertedTypes(newParcels(t, sem), sem)
		})
		for _, row := range []string{"P-13", "V-14"} {
			t.Run(row+"-converted-contradiction "+sem.String(), func(t *testing.T) {
				t.Parallel()
				testConvertedContradiction(newParcels(t, sem), sem)
			})
		}
	}
	t.Run("S-18-webhook-v1beta1", func(t *testing.T) {
		t.Parallel()
		b := newParcels(t, schema.KEP)
		b.must("create", parcel("v1", "a", 3), http.StatusCreated)
		const definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/parcels.conversion.example.com"
		for i, versions := range []string{`["v1beta1"]`, `["v9", "v1beta1", "v1"]`, `["v1", "v1beta1"]`} {
			patch := fmt.Sprintf(`{"spec": {"conversion": {"webhook": {"conversionReviewVersions": %s}}}}`, versions)
			if a := b.Do(http.MethodPatch, definition, []byte(patch), "application/merge-patch+json"); a.Code != http.StatusOK {
				t.Fatalf("%s: %d %s", versions, a.Code, a.Body)
			}
			// The first version that the server knows is used. A response of v1beta1 need not have the
			// type and the UID of the request.
			b.hook.set("v1beta1")
			want := http.StatusOK
			if i == 2 {
				want = http.StatusInternalServerError
			}
			b.Await(versions+" are used", func() bool { return b.get(parcelsV2+"/a").Code == want })
		}
	})
	t.Run("S-18-webhook-down", func(t *testing.T) {
		t.Parallel()
		b := newParcels(t, schema.KEP)
		b.must("create", parcel("v1", "a", 3), http.StatusCreated)
		// Nobody has listed v2 yet, so that no converted object is kept.
		b.hook.set("status")
		if a := b.get(parcelsV2); a.Code != http.StatusInternalServerError || !strings.Contains(string(a.Body), "conversion webhook for") {
			t.Errorf("%d %s", a.Code, a.Body)
		}
		// A watch waits.
		if a := b.get(parcelsV2 + "?watch=true&timeoutSeconds=1"); a.Code != http.StatusOK || len(a.Body) > 0 {
			t.Errorf("%d %s", a.Code, a.Body)
		}
		b.hook.set("")
		b.Await("it can be listed", func() bool {
			size, _ := servertest.Field(b.get(parcelsV2).Object, "items.0.spec.dimension.size")
			return size == float64(3)
		})
	})
	t.Run("S-18-webhook-asked-once", func(t *testing.T) {
		t.Parallel()
		b := newParcels(t, schema.KEP)
		b.must("create", parcel("v1", "a", 3), http.StatusCreated)
		b.want(b.get(parcelsV1+"/a"), "spec.size", float64(3)) // it is in memory
		b.hook.set("status")
		before := b.hook.asked.Load()
		a := b.Do(http.MethodPatch, parcelsV2+"/a", []byte(`{"spec": {"dimension": {"size": 4}}}`), "application/merge-patch+json")
		if n := b.hook.asked.Load() - before; a.Code != http.StatusInternalServerError || n != 1 {
			t.Errorf("the webhook is asked %d times: %d %s", n, a.Code, a.Body)
		}
	})
	t.Run("S-18-hanging-webhook", func(t *testing.T) {
		t.Parallel()
		if testing.Short() {
			t.Skip("waits for the timeout of conversion webhooks")
		}
		testHangingConversion(newParcels(t, schema.KEP))
	})
}

// testHangingConversion sends all kinds of requests while the webhook hangs.
func testHangingConversion(b *parcels) {
	b.must("create", parcel("v1", "a", 3), http.StatusCreated)
	b.hook.set("hang")
	events := b.watch(parcelsV2)
	requests := []struct{ method, path, body, contentType string }{
		{http.MethodGet, parcelsV2 + "/a", "", ""},
		{http.MethodGet, parcelsV2, "", ""},
		{http.MethodDelete, parcelsV2 + "/a", "", ""},
		{http.MethodDelete, parcelsV2, "", ""},
		{http.MethodPost, parcelsV2, parcel("v2", "b", 4), "application/json"},
		{http.MethodPatch, parcelsV2 + "/a", `{"spec": {"dimension": {"size": 4}}}`, "application/merge-patch+json"},
	}
	answers := make([]chan servertest.Answer, len(requests))
	for i, r := range requests {
		answers[i] = make(chan servertest.Answer, 1)
		go func() { answers[i] <- b.Do(r.method, r.path, []byte(r.body), r.contentType) }()
	}
	b.Await("the webhook hangs", func() bool { return b.hook.hanging.Load() > 0 })
	// The storage version does without it.
	b.want(b.get(parcelsV1+"/a"), "spec.size", float64(3))
	b.want(b.get(parcelsV1), "items.0.spec.size", float64(3))
	b.must("create", parcel("v1", "c", 5), http.StatusCreated)
	for i, r := range requests {
		// Either of two timers ends the request to the webhook, and both say so.
		a := <-answers[i]
		if a.Code != http.StatusInternalServerError || !strings.Contains(string(a.Body), "deadline exceeded") && !strings.Contains(string(a.Body), "Client.Timeout exceeded") {
			b.Errorf("%s %s: %d %s", r.method, r.path, a.Code, a.Body)
		}
	}
	// Nothing has changed.
	b.want(b.get(parcelsV1), "items.0.metadata.name", "a")
	b.want(b.get(parcelsV1), "items.0.spec.size", float64(3))
	b.want(b.get(parcelsV1), "items.1.metadata.name", "c")
	b.want(b.get(parcelsV1), "items.2", nil)
	// The watch has waited, and has lost nothing.
	b.hook.set("")
	for _, name := range []string{"a", "c"} {
		event := <-events
		b.want(servertest.Answer{Object: event}, "type", "ADDED")
		b.want(servertest.Answer{Object: event}, "object.metadata.name", name)
	}
}

// testConvertedLabels lets a webhook change labels and annotations.
func testConvertedLabels(b *parcels) {
	b.must("create", strings.Replace(parcel("v1", "a", 3), `"metadata":{`, `"metadata":{"labels":{"own":"label"},"annotations":{"own":"annotation"},`, 1), http.StatusCreated)
	meta := func(a servertest.Answer, labels, annotations map[string]any) {
		b.Helper()
		for name, want := range map[string]map[string]any{"labels": labels, "annotations": annotations} {
			if got, _ := servertest.Field(a.Object, "metadata."+name); fmt.Sprint(got) != fmt.Sprint(want) && (got != nil || want != nil) {
				b.Errorf("%s are %v, want %v: %s", name, got, want, a.Body)
			}
		}
	}
	own, annotation := map[string]any{"own": "label"}, map[string]any{"own": "annotation"}
	converted, from := map[string]any{"converted": "yes"}, map[string]any{"converted": "from Parcel"}
	meta(b.get(parcelsV2+"/a"), own, annotation)
	b.hook.set("no labels")
	meta(b.get(parcelsV2+"/a"), nil, nil)
	b.hook.set("labels")
	meta(b.get(parcelsV2+"/a"), converted, from)
	b.want(b.get(parcelsV2+"/a"), "metadata.generation", float64(1))
	// What is stored stays as it is,
	meta(b.get(parcelsV1+"/a"), own, annotation)
	// selectors of a version select by what it shows,
	b.want(b.get(parcelsV2+"?labelSelector=converted"), "items.0.metadata.name", "a")
	b.want(b.get(parcelsV2+"?labelSelector=own"), "items.0", nil)
	b.want(b.get(parcelsV1+"?labelSelector=own"), "items.0.metadata.name", "a")
	// and what is written is stored with the webhook's labels.
	b.must("create", parcel("v2", "b", 4), http.StatusCreated)
	meta(b.get(parcelsV1+"/b"), converted, from)
	b.want(b.get(parcelsV1+"/b"), "metadata.generation", float64(1))
	// Stored labels may be invalid: only changes are validated.
	b.hook.set("")
	if err := b.Write("put", []byte(strings.Replace(parcel("v1", "c", 5), `"metadata":{`, `"metadata":{"labels":{"a":"not a value"},"annotations":{"not a name":"a"},`, 1)), ""); err != nil {
		b.Fatal(err)
	}
	b.Await("the object is read", func() bool { return b.get(parcelsV2+"/c").Code == http.StatusOK })
	meta(b.get(parcelsV2+"/c"), map[string]any{"a": "not a value"}, map[string]any{"not a name": "a"})
}

func testConversion(b *parcels) {
	b.must("create", parcel("v1", "a", 3), http.StatusCreated)
	b.want(b.get(parcelsV2+"/a"), "spec.dimension.size", float64(3))
	b.want(b.get(parcelsV2), "items.0.spec.dimension.size", float64(3))
	b.must("create", parcel("v2", "b", 4), http.StatusCreated)
	b.want(b.get(parcelsV1+"/b"), "spec.size", float64(4))
	b.want(b.get(parcelsV1+"/b"), "spec.absent", "x")
	events := b.watch(parcelsV2)
	for _, name := range []string{"a", "b"} {
		event := <-events
		b.want(servertest.Answer{Object: event}, "object.apiVersion", "conversion.example.com/v2")
		b.want(servertest.Answer{Object: event}, "object.metadata.name", name)
	}

	// A webhook may change labels and annotations, but not the rest of metadata.
	b.hook.set("labels")
	a := b.get(parcelsV2 + "/a")
	b.want(a, "metadata.labels.converted", "yes")
	b.want(a, "metadata.generation", float64(1))
	b.hook.set("finalizers")
	a = b.get(parcelsV2 + "/a")
	b.want(a, "metadata.finalizers", nil)
	b.want(a, "metadata.ownerReferences", nil)
	b.want(a, "metadata.deletionTimestamp", nil)
	b.want(a, "metadata.resourceVersion", b.get(parcelsV1 + "/a").Object["metadata"].(map[string]any)["resourceVersion"])
	// Unknown fields are pruned after conversion too.
	b.hook.set("unknown")
	b.want(b.get(parcelsV2+"/a"), "spec.unknown", nil)

	// The client gets an error for every fault of the webhook, and no data is lost.
	for wrong, text := range map[string]string{
		"other name": "must have the same name", "no metadata": "must have the same name", "rejects": "I do not feel like it",
		"other namespace": "must have the same namespace", "other UID": "must have the same UID", "other kind": "must have the same kind",
		"other version": "invalid groupVersion", "bad annotation": "metadata.annotations", "label of another type": "metadata.labels: [a] must be a string",
		"other review": "expected webhook response of", "no response": "no response provided", "bad label": "metadata.labels", "several": "returned 2 objects",
		"none": "returned 0 objects", "other uid": "response.uid", "no JSON": "invalid character", "status": "unable to handle the request",
		"redirect": "webhooks must not redirect", "huge": "larger than 8 MiB",
	} {
		b.hook.set(wrong)
		a := b.get(parcelsV2 + "/a")
		message, _ := a.Object["message"].(string)
		if a.Code != http.StatusInternalServerError || !strings.Contains(message, text) || !strings.Contains(message, "conversion webhook for conversion.example.com/v1, Kind=Parcel") {
			b.Errorf("%s: %d %s", wrong, a.Code, a.Body)
		}
		if strings.Contains(message, "StorageError") || strings.Contains(message, "corrupt") {
			b.Errorf("%s: the object is not corrupt: %s", wrong, message)
		}
	}

	// A write that needs the webhook fails, and stores nothing.
	b.hook.set("status")
	b.must("create", parcel("v2", "c", 5), http.StatusInternalServerError)
	b.must("update", parcel("v2", "a", 5), http.StatusInternalServerError)
	if a := b.Do(http.MethodDelete, parcelsV2+"/a", nil, ""); a.Code != http.StatusInternalServerError {
		b.Errorf("delete: %d %s", a.Code, a.Body)
	}
	// A list that is up to date needs no conversion.
	b.want(b.get(parcelsV2), "items.1.spec.dimension.size", float64(4))
	// The storage version does without.
	b.want(b.get(parcelsV1), "items.0.spec.size", float64(3))
	b.want(b.get(parcelsV1), "items.1.spec.size", float64(4))
	b.want(b.get(parcelsV1), "items.2", nil)
	if a := b.Do(http.MethodDelete, parcelsV1+"/b", nil, ""); a.Code != http.StatusOK {
		b.Errorf("delete: %d %s", a.Code, a.Body)
	}
	b.must("create", parcel("v1", "d", 6), http.StatusCreated)
	// A list with a change that cannot be converted fails. It does not leave anything out.
	if a := b.get(parcelsV2); a.Code != http.StatusInternalServerError || !strings.Contains(string(a.Body), "conversion webhook for") {
		b.Errorf("list: %d %s", a.Code, a.Body)
	}
	// A watch waits until the webhook works again, and then has all changes.
	b.hook.set("")
	for _, want := range []struct{ typ, name string }{{"DELETED", "b"}, {"ADDED", "d"}} {
		event := <-events
		b.want(servertest.Answer{Object: event}, "type", want.typ)
		b.want(servertest.Answer{Object: event}, "object.apiVersion", "conversion.example.com/v2")
		b.want(servertest.Answer{Object: event}, "object.metadata.name", want.name)
	}
	b.want(b.get(parcelsV2), "items.1.spec.dimension.size", float64(6))
	// The CRD can be deleted without it.
	b.hook.Close()
	if a := b.get(parcelsV2 + "/a"); a.Code != http.StatusInternalServerError || !strings.Contains(string(a.Body), "conversion webhook for") {
		b.Errorf("gone: %d %s", a.Code, a.Body)
	}
	const definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/parcels.conversion.example.com"
	if a := b.Do(http.MethodDelete, definition, nil, ""); a.Code != http.StatusOK {
		b.Errorf("delete the CRD: %d %s", a.Code, a.Body)
	}
	b.AwaitGone(definition)
}

// testConvertedTypes lets a webhook return values that contradict the types of the schema.
func testConvertedTypes(b *parcels, sem schema.Semantics) {
	// 1.0 is an integer,
	b.hook.set("1.0")
	b.must("create", parcel("v2", "a", 4), http.StatusCreated)
	b.want(b.get(parcelsV1+"/a"), "spec.size", float64(5))
	b.must("update", parcel("v2", "a", 6), http.StatusOK)
	b.want(b.get(parcelsV2+"/a"), "spec.dimension.size", float64(5))
	// and text is not: the write fails,
	b.hook.set("garbage")
	code := http.StatusCreated
	if sem.RefusesContradictions() {
		code = http.StatusBadRequest
	}
	b.must("create", parcel("v2", "b", 4), code)
	if sem.RefusesContradictions() && !strings.Contains(string(b.Last.Body), "spec.size") {
		b.Errorf("no path: %s", b.Last.Body)
	}
	code = http.StatusOK
	if sem.RefusesContradictions() {
		code = http.StatusBadRequest
	}
	// an update and a scale, too,
	const merge = "application/merge-patch+json"
	for path, body := range map[string]string{
		parcelsV2 + "/a": `{"metadata": {"labels": {"x": "y"}}}`, parcelsV2 + "/a/scale": `{"spec": {"replicas": 7}}`,
	} {
		if a := b.Do(http.MethodPatch, path, []byte(body), merge); a.Code != code {
			b.Errorf("%s: %d %s", path, a.Code, a.Body)
		}
	}
	// but no read.
	if a := b.get(parcelsV2 + "/a"); a.Code != http.StatusOK {
		b.Errorf("get: %d %s", a.Code, a.Body)
	}
	if a := b.get(parcelsV2); a.Code != http.StatusOK {
		b.Errorf("list: %d %s", a.Code, a.Body)
	}
}

// testConvertedContradiction changes objects whose stored values contradict the types of all
// versions, through the version that is not stored.
func testConvertedContradiction(b *parcels, sem schema.Semantics) {
	const crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/parcels.conversion.example.com"
	const merge = "application/merge-patch+json"
	b.must("create", parcel("v1", "a", 3), http.StatusCreated)
	if a := b.Do(http.MethodPatch, parcelsV1+"/a", []byte(`{"metadata": {"finalizers": ["example.com/wait"]}}`), merge); a.Code != http.StatusOK {
		b.Fatalf("%d %s", a.Code, a.Body)
	}
	if a := b.Do(http.MethodPatch, crds, []byte(`{"spec": {"versions": [
		{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {
			"spec": {"type": "object", "properties": {"size": {"type": "string"}}}}}}},
		{"name": "v2", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "object", "properties": {
			"spec": {"type": "object", "properties": {"dimension": {"type": "object", "properties": {"size": {"type": "string"}}}}}}}}}]}}`), merge); a.Code != http.StatusOK {
		b.Fatalf("%d %s", a.Code, a.Body)
	}
	wrong := http.StatusUnprocessableEntity
	if sem.RefusesContradictions() {
		wrong = http.StatusBadRequest
	}
	for i, path := range []string{parcelsV1 + "/a", parcelsV2 + "/a"} {
		// What is stored stays, and does not keep anything else from being changed.
		label := fmt.Sprintf(`{"metadata": {"labels": {"n": "%d"}}}`, i)
		if a := b.Do(http.MethodPatch, path, []byte(label), merge); a.Code != http.StatusOK {
			b.Errorf("%s: %d %s", path, a.Code, a.Body)
		}
		b.want(b.get(parcelsV1+"/a"), "metadata.labels.n", fmt.Sprint(i))
		b.want(b.get(parcelsV1+"/a"), "spec.size", float64(3))
		b.want(b.get(parcelsV2+"/a"), "spec.dimension.size", float64(3))
		// A new contradiction is rejected.
		if a := b.Do(http.MethodPatch, path, []byte(`{"spec": {"size": 4, "dimension": {"size": 4}}}`), merge); a.Code != wrong {
			b.Errorf("%s: %d %s", path, a.Code, a.Body)
		}
	}
	if a := b.Do(http.MethodDelete, parcelsV2+"/a", nil, ""); a.Code != http.StatusOK {
		b.Errorf("delete: %d %s", a.Code, a.Body)
	}
	if a := b.Do(http.MethodPatch, parcelsV2+"/a", []byte(`{"metadata": {"finalizers": null}}`), merge); a.Code != http.StatusOK {
		b.Errorf("remove the finalizer: %d %s", a.Code, a.Body)
	}
	if a := b.get(parcelsV2 + "/a"); a.Code != http.StatusNotFound {
		b.Errorf("it is still there: %d %s", a.Code, a.Body)
	}
}
