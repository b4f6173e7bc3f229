package definitions_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"espalier.dev/server/servertest"
)

const (
	boxes    = "boxes.deletion.example.com"
	boxesKey = "/registry/deletion.example.com/boxes/"
	boxesV1  = "/apis/deletion.example.com/v1/namespaces/default/boxes"
	boxesV2  = "/apis/deletion.example.com/v2/namespaces/default/boxes"
)

// boxDefinition returns a CRD with two versions, the first of which is the storage version.
func boxDefinition() map[string]any {
	version := func(name string, storage bool) map[string]any {
		return map[string]any{"name": name, "served": true, "storage": storage, "schema": map[string]any{"openAPIV3Schema": map[string]any{
			"type": "object", "properties": map[string]any{"spec": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
		}}}
	}
	return map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": boxes},
		"spec": map[string]any{
			"group": "deletion.example.com", "scope": "Namespaced", "names": map[string]any{"plural": "boxes", "kind": "Box"},
			"versions": []any{version("v1", true), version("v2", false)},
		},
	}
}

// box returns an object of that CRD.
func box(version, name string, finalizers ...string) map[string]any {
	m := map[string]any{"name": name}
	if len(finalizers) > 0 {
		m["finalizers"] = finalizers
	}
	return map[string]any{"apiVersion": "deletion.example.com/" + version, "kind": "Box", "metadata": m, "spec": map[string]any{}}
}

// heldConverter is a conversion webhook that signals each request and waits for permission
// to respond.
type heldConverter struct {
	*httptest.Server
	asked, answer chan struct{}
}

func newHeldConverter(t *testing.T) *heldConverter {
	h := &heldConverter{asked: make(chan struct{}, 100), answer: make(chan struct{})}
	h.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review map[string]any
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		h.asked <- struct{}{}
		<-h.answer
		request := review["request"].(map[string]any)
		for _, o := range request["objects"].([]any) {
			o.(map[string]any)["apiVersion"] = request["desiredAPIVersion"]
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": review["apiVersion"], "kind": review["kind"], "response": map[string]any{
			"uid": request["uid"], "convertedObjects": request["objects"], "result": map[string]any{"status": "Success"},
		}})
	}))
	release := sync.OnceFunc(func() { close(h.answer) })
	t.Cleanup(func() { release(); h.Close() })
	return h
}

// of returns a CRD that uses the webhook for conversion.
func (h *heldConverter) of(crd map[string]any) map[string]any {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw})
	crd["spec"].(map[string]any)["conversion"] = map[string]any{"strategy": "Webhook", "webhook": map[string]any{
		"conversionReviewVersions": []any{"v1"},
		"clientConfig":             map[string]any{"url": h.URL, "caBundle": base64.StdEncoding.EncodeToString(ca)},
	}}
	return crd
}

// create starts to create an object, and returns when only storing it remains. The channel
// receives the response.
func (h *heldConverter) create(p *servertest.Peer) <-chan servertest.Answer {
	p.Helper()
	result := make(chan servertest.Answer, 1)
	go func() {
		a, err := p.Send(context.Background(), http.MethodPost, boxesV2, box("v2", "late"))
		if err != nil {
			a.Body = []byte(err.Error())
		}
		result <- a
	}()
	select {
	case <-h.asked:
	case <-time.After(30 * time.Second):
		p.Fatal("the webhook is not asked")
	}
	return result
}

// TestCRDDeletion checks that the deletion of a CRD always completes and leaves nothing
// behind.
func TestCRDDeletion(t *testing.T) {
	t.Parallel()

	// A request that times out gets a response, but its work continues. It must not delay the
	// deletion of its CRD or the shutdown of the server.
	t.Run("abandoned creations", func(t *testing.T) {
		t.Parallel()
		p := servertest.NewCluster(t).Start()
		p.Want(http.StatusCreated, http.MethodPost, servertest.CRDs, boxDefinition())
		large := box("v1", "large")
		spec := large["spec"].(map[string]any)
		for i := range 8_000 {
			spec[fmt.Sprint("field", i)] = i
		}
		body, err := json.Marshal(large)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		p.Want(http.StatusCreated, http.MethodPost, boxesV1, string(body))
		needed := time.Since(began)
		abandoned, timeouts := 0, []time.Duration{needed / 8, needed / 4, needed / 2}
		for _, timeout := range timeouts {
			a, err := p.Send(t.Context(), http.MethodPost, boxesV1+"?timeout="+timeout.String(), strings.Replace(string(body), `"large"`, `"late"`, 1))
			if err != nil || a.Code == http.StatusGatewayTimeout {
				abandoned++ // the stream may be cut off
			}
		}
		if abandoned == 0 {
			t.Fatal("no request took longer than it was allowed to")
		}
		time.Sleep(time.Duration(len(timeouts)) * 2 * needed) // the work that is left gets to where objects are stored
		p.Want(http.StatusOK, http.MethodDelete, servertest.CRDs+"/"+boxes, nil)
		p.Gone(servertest.CRDs + "/" + boxes)
		p.StopSoon()
		if left := p.Keys(boxesKey); len(left) > 0 {
			t.Error(left)
		}
	})

	// A create that was admitted before the CRD was marked is not stored afterwards, even if
	// the CRD has changed since the create began.
	t.Run("changed CRD", func(t *testing.T) {
		t.Parallel()
		h := newHeldConverter(t)
		p := servertest.NewCluster(t).Start()
		p.Want(http.StatusCreated, http.MethodPost, servertest.CRDs, h.of(boxDefinition()))
		result := h.create(p)
		p.Want(http.StatusOK, http.MethodPatch, servertest.CRDs+"/"+boxes, `{"spec": {"names": {"shortNames": ["bx"]}}}`)
		p.Want(http.StatusOK, http.MethodDelete, servertest.CRDs+"/"+boxes, nil)
		p.Gone(servertest.CRDs + "/" + boxes)
		h.answer <- struct{}{}
		if a := <-result; a.Code != http.StatusNotFound || a.Object["kind"] != "Status" {
			t.Errorf("%d %s", a.Code, a.Body)
		}
		if left := p.Keys(boxesKey); len(left) > 0 {
			t.Error(left)
		}
		// It is not stored under a new CRD of the same name either.
		p.Want(http.StatusCreated, http.MethodPost, servertest.CRDs, boxDefinition())
		p.Want(http.StatusNotFound, http.MethodGet, boxesV1+"/late", nil)
	})

	t.Run("recreated CRD", func(t *testing.T) {
		t.Parallel()
		h := newHeldConverter(t)
		p := servertest.NewCluster(t).Start()
		p.Want(http.StatusCreated, http.MethodPost, servertest.CRDs, h.of(boxDefinition()))
		result := h.create(p)
		p.Want(http.StatusOK, http.MethodDelete, servertest.CRDs+"/"+boxes, nil)
		p.Gone(servertest.CRDs + "/" + boxes)
		p.Want(http.StatusCreated, http.MethodPost, servertest.CRDs, boxDefinition())
		h.answer <- struct{}{}
		if a := <-result; a.Code != http.StatusNotFound {
			t.Errorf("%d %s", a.Code, a.Body)
		}
		if left := p.Keys(boxesKey); len(left) > 0 {
			t.Error(left)
		}
	})

	// The same with two servers, one of which does not see the other's requests.
	t.Run("two servers", func(t *testing.T) {
		t.Parallel()
		h := newHeldConverter(t)
		c := servertest.NewCluster(t)
		a, b := c.Start(), c.Start()
		a.Want(http.StatusCreated, http.MethodPost, servertest.CRDs, h.of(boxDefinition()))
		first, second := h.create(b), h.create(b)
		// An object with a finalizer keeps the CRD until the finalizer is removed.
		a.Want(http.StatusCreated, http.MethodPost, boxesV1, box("v1", "kept", "example.com/keep"))
		a.Want(http.StatusOK, http.MethodDelete, servertest.CRDs+"/"+boxes, nil)
		h.answer <- struct{}{}
		var got servertest.Answer
		select {
		case got = <-first:
			first = second
		case got = <-second:
		}
		if got.Code != http.StatusForbidden || !strings.Contains(string(got.Body), "terminating") {
			t.Errorf("%d %s", got.Code, got.Body)
		}
		b.Want(http.StatusOK, http.MethodPatch, boxesV1+"/kept", `{"metadata": {"finalizers": null}}`)
		b.Gone(servertest.CRDs + "/" + boxes)
		h.answer <- struct{}{}
		if got := <-first; got.Code != http.StatusNotFound {
			t.Errorf("%d %s", got.Code, got.Body)
		}
		if left := c.Keys(boxesKey); len(left) > 0 {
			t.Error(left)
		}
		if left := c.Keys("espalier.dev/fences/registry/"); len(left) > 0 {
			t.Error(left)
		}
	})

	// The last finalizer and the CRD are removed in one transaction.
	t.Run("one transaction", func(t *testing.T) {
		t.Parallel()
		p := servertest.NewCluster(t).Start()
		p.Want(http.StatusCreated, http.MethodPost, servertest.CRDs, boxDefinition())
		p.Want(http.StatusCreated, http.MethodPost, boxesV1, box("v1", "a"))
		p.Want(http.StatusOK, http.MethodDelete, servertest.CRDs+"/"+boxes, nil)
		p.Gone(servertest.CRDs + "/" + boxes)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		for events := range p.Etcd.Watch(ctx, "/registry/apiextensions.k8s.io/customresourcedefinitions/"+boxes, clientv3.WithRev(1)) {
			for _, e := range events.Events {
				if e.Type == clientv3.EventTypeDelete {
					return
				}
				obj := map[string]any{}
				if err := json.Unmarshal(e.Kv.Value, &obj); err != nil {
					t.Fatal(err)
				}
				_, terminating := servertest.Field(obj, "metadata.deletionTimestamp")
				if finalizers, _ := servertest.Field(obj, "metadata.finalizers"); terminating && finalizers == nil {
					t.Errorf("a crash here would have stranded it: %s", e.Kv.Value)
				}
			}
		}
		t.Error("no deletion was seen")
	})

	// The next server finishes a deletion that a crash interrupted between the two steps.
	t.Run("stranded", func(t *testing.T) {
		t.Parallel()
		c := servertest.NewCluster(t)
		p := c.Start()
		p.Want(http.StatusCreated, http.MethodPost, servertest.CRDs, boxDefinition())
		p.StopSoon()
		c.Edit("/registry/apiextensions.k8s.io/customresourcedefinitions/"+boxes, func(obj map[string]any) {
			m := obj["metadata"].(map[string]any)
			m["deletionTimestamp"] = "2020-01-01T00:00:00Z"
			delete(m, "finalizers")
		})
		p = c.Start()
		p.Gone(servertest.CRDs + "/" + boxes)
		p.Want(http.StatusCreated, http.MethodPost, servertest.CRDs, boxDefinition())
	})

	// Deletion needs no schema, no storage version, and no readable object.
	t.Run("without a program", func(t *testing.T) {
		t.Parallel()
		c := servertest.NewCluster(t)
		p := c.Start()
		p.Want(http.StatusCreated, http.MethodPost, servertest.CRDs, boxDefinition())
		p.Want(http.StatusCreated, http.MethodPost, boxesV1, box("v1", "a"))
		p.Want(http.StatusCreated, http.MethodPost, boxesV1, box("v1", "kept", "example.com/keep"))
		p.StopSoon()
		c.Put(boxesKey+"default/garbage", []byte("\x00{"))
		c.Put(boxesKey+"default/odd", []byte(`{"metadata": {"finalizers": 7}}`))
		c.Edit("/registry/apiextensions.k8s.io/customresourcedefinitions/"+boxes, func(obj map[string]any) {
			// This default is valid, but too large to compile.
			large := map[string]any{"type": "array", "items": map[string]any{"type": "integer"}, "default": make([]int, 1<<16+1)}
			schema := map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{"large": large}}}
			spec := obj["spec"].(map[string]any)
			delete(spec, "validation")
			for _, v := range spec["versions"].([]any) {
				v.(map[string]any)["schema"] = schema
			}
		})
		p = c.Start()
		if a, err := p.Send(t.Context(), http.MethodGet, boxesV1+"/a", nil); err != nil || a.Code != http.StatusInternalServerError {
			t.Fatalf("it should not be served: %d %s %v", a.Code, a.Body, err)
		}
		p.Want(http.StatusOK, http.MethodDelete, servertest.CRDs+"/"+boxes, nil)
		pending(p, "kept")
		if left := c.Keys(boxesKey); len(left) != 1 {
			t.Error(left)
		}
		// Its controller cannot reach the server, so the test removes the finalizer.
		c.Edit(boxesKey+"default/kept", func(obj map[string]any) {
			m := obj["metadata"].(map[string]any)
			if m["deletionTimestamp"] == nil || m["deletionGracePeriodSeconds"] != float64(0) || m["generation"] != float64(2) {
				t.Errorf("not marked as deleted: %v", obj)
			}
			delete(m, "finalizers")
		})
		p.Gone(servertest.CRDs + "/" + boxes)
		if left := c.Keys(boxesKey); len(left) > 0 {
			t.Error(left)
		}
	})

	// Versions may be added and removed while a CRD waits for its objects.
	t.Run("another storage version", func(t *testing.T) {
		t.Parallel()
		p := servertest.NewCluster(t).Start()
		p.Want(http.StatusCreated, http.MethodPost, servertest.CRDs, boxDefinition())
		p.Want(http.StatusCreated, http.MethodPost, boxesV1, box("v1", "kept", "example.com/keep"))
		p.Want(http.StatusOK, http.MethodDelete, servertest.CRDs+"/"+boxes, nil)
		pending(p, "kept")
		d := boxDefinition()
		versions := d["spec"].(map[string]any)["versions"].([]any)
		versions[0].(map[string]any)["storage"], versions[1].(map[string]any)["storage"] = false, true
		p.Want(http.StatusOK, http.MethodPatch, servertest.CRDs+"/"+boxes, map[string]any{"spec": map[string]any{"versions": versions}})
		p.Want(http.StatusOK, http.MethodPatch, servertest.CRDs+"/"+boxes+"/status", `{"status": {"storedVersions": ["v2"]}}`)
		p.Want(http.StatusOK, http.MethodPatch, servertest.CRDs+"/"+boxes, map[string]any{"spec": map[string]any{"versions": versions[1:]}})
		p.Want(http.StatusOK, http.MethodPatch, boxesV2+"/kept", `{"metadata": {"finalizers": null}}`)
		p.Gone(servertest.CRDs + "/" + boxes)
	})

	// A CRD that waits for its objects does not keep the server from following the others after
	// it has to relist.
	t.Run("lost track", func(t *testing.T) {
		t.Parallel()
		c := servertest.NewCluster(t)
		p := c.Start()
		p.Want(http.StatusCreated, http.MethodPost, servertest.CRDs, boxDefinition())
		p.Want(http.StatusCreated, http.MethodPost, boxesV1, box("v1", "kept", "example.com/keep"))
		p.Want(http.StatusOK, http.MethodDelete, servertest.CRDs+"/"+boxes, nil)
		pending(p, "kept")
		// The watch of the CRDs cannot resume after etcd interrupts it, because etcd has compacted
		// the revisions in between.
		for range 2 {
			now, err := c.Etcd.Put(t.Context(), "other", "")
			if err == nil {
				_, err = c.Etcd.Compact(t.Context(), now.Header.Revision)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		c.Member.Close()
		c.StartEtcd()
		crates := boxDefinition()
		crates["metadata"].(map[string]any)["name"] = "crates.deletion.example.com"
		crates["spec"].(map[string]any)["names"] = map[string]any{"plural": "crates", "kind": "Crate"}
		p.Await(func() bool {
			a, err := p.Send(t.Context(), http.MethodPost, servertest.CRDs, crates)
			return err == nil && (a.Code == http.StatusCreated || a.Code == http.StatusConflict)
		})
		p.Await(func() bool {
			a, err := p.Send(t.Context(), http.MethodGet, "/apis/deletion.example.com/v1/crates", nil)
			return err == nil && a.Code == http.StatusOK
		})
		p.Want(http.StatusOK, http.MethodPatch, boxesV1+"/kept", `{"metadata": {"finalizers": null}}`)
		p.Gone(servertest.CRDs + "/" + boxes)
	})

	// Objects can be updated but not created, not even in a dry run or by an apply.
	t.Run("while it is deleted", func(t *testing.T) {
		t.Parallel()
		p := servertest.NewCluster(t).Start()
		p.Want(http.StatusCreated, http.MethodPost, servertest.CRDs, boxDefinition())
		p.Want(http.StatusCreated, http.MethodPost, boxesV1, box("v1", "kept", "example.com/keep"))
		p.Want(http.StatusOK, http.MethodDelete, servertest.CRDs+"/"+boxes, nil)
		p.Want(http.StatusForbidden, http.MethodPost, boxesV1, box("v1", "new"))
		p.Want(http.StatusForbidden, http.MethodPost, boxesV1+"?dryRun=All", box("v1", "new"))
		p.Want(http.StatusForbidden, servertest.Apply, boxesV1+"/new?fieldManager=test", box("v1", "new"))
		p.Want(http.StatusOK, http.MethodPatch, boxesV1+"/kept", `{"spec": {"a": 1}}`)
		p.Want(http.StatusOK, http.MethodPatch, boxesV1+"/kept", `{"metadata": {"finalizers": null}}`)
		p.Gone(servertest.CRDs + "/" + boxes)
	})

	// A foreign finalizer keeps the CRD after its objects are gone.
	t.Run("other finalizers", func(t *testing.T) {
		t.Parallel()
		p := servertest.NewCluster(t).Start()
		d := boxDefinition()
		d["metadata"].(map[string]any)["finalizers"] = []any{"example.com/other"}
		p.Want(http.StatusCreated, http.MethodPost, servertest.CRDs, d)
		p.Want(http.StatusCreated, http.MethodPost, boxesV1, box("v1", "a"))
		p.Want(http.StatusOK, http.MethodDelete, servertest.CRDs+"/"+boxes, nil)
		p.Await(func() bool {
			a := p.Want(http.StatusOK, http.MethodGet, servertest.CRDs+"/"+boxes, nil)
			finalizers, _ := servertest.Field(a.Object, "metadata.finalizers")
			return fmt.Sprint(finalizers) == "[example.com/other]" && strings.Contains(string(a.Body), "InstanceDeletionCompleted")
		})
		p.Want(http.StatusForbidden, http.MethodPost, boxesV1, box("v1", "b"))
		p.Want(http.StatusOK, http.MethodPatch, servertest.CRDs+"/"+boxes, `{"metadata": {"finalizers": null}}`)
		p.Gone(servertest.CRDs + "/" + boxes)
		if left := p.Keys("espalier.dev/fences/registry/"); len(left) > 0 {
			t.Error(left)
		}
	})

	// An etcd that kube-apiserver has filled has no fences.
	t.Run("adopted", func(t *testing.T) {
		t.Parallel()
		c := servertest.NewCluster(t)
		p := c.Start()
		other := boxDefinition()
		other["metadata"].(map[string]any)["name"] = "crates.deletion.example.com"
		other["spec"].(map[string]any)["names"] = map[string]any{"plural": "crates", "kind": "Crate"}
		p.Want(http.StatusCreated, http.MethodPost, servertest.CRDs, boxDefinition())
		p.Want(http.StatusCreated, http.MethodPost, servertest.CRDs, other)
		p.Want(http.StatusCreated, http.MethodPost, boxesV1, box("v1", "a"))
		p.StopSoon()
		if n := len(c.Keys("espalier.dev/fences/registry/")); n != 2 {
			t.Errorf("%d fences", n)
		}
		if _, err := c.Etcd.Delete(t.Context(), "espalier.dev/fences", clientv3.WithPrefix()); err != nil {
			t.Fatal(err)
		}
		c.Edit("/registry/apiextensions.k8s.io/customresourcedefinitions/crates.deletion.example.com", func(obj map[string]any) {
			m := obj["metadata"].(map[string]any)
			m["deletionTimestamp"], m["finalizers"] = "2020-01-01T00:00:00Z", []any{"customresourcecleanup.apiextensions.k8s.io"}
		})
		c.Put("/registry/deletion.example.com/crates/default/a", box("v1", "a"))
		p = c.Start()
		p.Want(http.StatusCreated, http.MethodPost, boxesV1, box("v1", "b"))
		p.Want(http.StatusOK, http.MethodPatch, boxesV1+"/a", `{"spec": {"a": 1}}`)
		p.Gone(servertest.CRDs + "/crates.deletion.example.com")
		if left := c.Keys("/registry/deletion.example.com/crates/"); len(left) > 0 {
			t.Error(left)
		}
		// A CRD that another program writes while the server runs has no fence either.
		uid, _ := servertest.Field(p.Want(http.StatusOK, http.MethodGet, servertest.CRDs+"/"+boxes, nil).Object, "metadata.uid")
		c.Edit("/registry/apiextensions.k8s.io/customresourcedefinitions/"+boxes, func(obj map[string]any) {
			m := obj["metadata"].(map[string]any)
			m["uid"] = "11111111" + uid.(string)[8:]
		})
		p.Await(func() bool { return strings.Contains(fmt.Sprint(c.Keys("espalier.dev/fences/registry/")), "11111111") })
		p.Want(http.StatusCreated, http.MethodPost, boxesV1, box("v1", "c"))
		p.Want(http.StatusOK, http.MethodDelete, servertest.CRDs+"/"+boxes, nil)
		p.Gone(servertest.CRDs + "/" + boxes)
		if left := c.Keys(boxesKey); len(left) > 0 {
			t.Error(left)
		}
	})
}

// pending waits until the deletion of the CRD waits for an object.
func pending(p *servertest.Peer, name string) {
	p.Helper()
	p.Await(func() bool {
		a := p.Want(http.StatusOK, http.MethodGet, servertest.CRDs+"/"+boxes, nil)
		return strings.Contains(string(a.Body), "InstanceDeletionCheck") && strings.Contains(string(a.Body), name)
	})
}
