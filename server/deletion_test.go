package server_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/client-go/rest"

	"espalier.dev/espaliertest"
	"espalier.dev/server/etcd"
)

// cluster is an etcd with several servers.
type cluster struct {
	*testing.T
	config etcd.Config
	member *etcd.Member
	etcd   *clientv3.Client
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "etcd") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c := &cluster{T: t, config: etcd.Config{Dir: dir, UnsafeNoFsync: true}}
	c.startEtcd()
	t.Cleanup(func() { c.member.Close() })
	if c.etcd, err = clientv3.New(clientv3.Config{Endpoints: []string{c.member.Endpoint()}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.etcd.Close() })
	return c
}

func (c *cluster) startEtcd() {
	c.Helper()
	var err error
	if c.member, err = etcd.Start(c.Context(), c.config); err != nil {
		c.Fatal(err)
	}
}

// keys returns the keys below a prefix.
func (c *cluster) keys(prefix string) (keys []string) {
	c.Helper()
	resp, err := c.etcd.Get(c.Context(), prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		c.Fatal(err)
	}
	for _, kv := range resp.Kvs {
		keys = append(keys, string(kv.Key))
	}
	return keys
}

// edit changes the value that is stored under a key.
func (c *cluster) edit(key string, change func(map[string]any)) {
	c.Helper()
	resp, err := c.etcd.Get(c.Context(), key)
	if err != nil || len(resp.Kvs) != 1 {
		c.Fatal(key, resp, err)
	}
	obj := map[string]any{}
	if err := json.Unmarshal(resp.Kvs[0].Value, &obj); err != nil {
		c.Fatal(err)
	}
	change(obj)
	c.put(key, obj)
}

func (c *cluster) put(key string, obj any) {
	c.Helper()
	data, ok := obj.([]byte)
	if !ok {
		var err error
		if data, err = json.Marshal(obj); err != nil {
			c.Fatal(err)
		}
	}
	if _, err := c.etcd.Put(c.Context(), key, string(data)); err != nil {
		c.Fatal(err)
	}
}

// peer is one server of a cluster.
type peer struct {
	*cluster
	*espaliertest.Server
	client *http.Client
}

func (c *cluster) start(flags ...string) *peer {
	c.Helper()
	s := espaliertest.Start(c.T, espaliertest.WithFlags(append([]string{"--etcd-servers", c.member.Endpoint()}, flags...)...))
	client, err := rest.HTTPClientFor(s.Config())
	if err != nil {
		c.Fatal(err)
	}
	return &peer{cluster: c, Server: s, client: client}
}

// apply stands for the method of a server-side apply.
const apply = "APPLY"

// send sends a request. It is safe for concurrent use.
func (p *peer) send(ctx context.Context, method, path string, body any) (answer, error) {
	text, ok := body.(string)
	if !ok && body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return answer{}, err
		}
		text = string(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, p.URL()+path, strings.NewReader(text))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	switch method {
	case http.MethodPatch:
		req.Header.Set("Content-Type", "application/merge-patch+json")
	case apply:
		req.Method = http.MethodPatch
		req.Header.Set("Content-Type", "application/apply-patch+yaml")
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	a := answer{code: resp.StatusCode}
	if a.body, err = io.ReadAll(resp.Body); err == nil {
		_ = json.Unmarshal(a.body, &a.object) // not every answer is an object
	}
	return a, err
}

// want sends a request and checks the status code of the response.
func (p *peer) want(code int, method, path string, body any) answer {
	p.Helper()
	a, err := p.send(p.Context(), method, path, body)
	if err != nil {
		p.Fatal(err)
	}
	if a.code != code {
		p.Fatalf("%s %s: got %d, want %d: %.500s", method, path, a.code, code, a.body)
	}
	return a
}

// gone waits until a path is not found.
func (p *peer) gone(path string) {
	p.Helper()
	var a answer
	for until := time.Now().Add(30 * time.Second); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		var err error
		if a, err = p.send(p.Context(), http.MethodGet, path, nil); err != nil {
			p.Fatal(err)
		}
		if a.code == http.StatusNotFound {
			return
		}
	}
	p.Fatalf("%s is still there: %s", path, a.body)
}

// stopSoon stops a server and checks that this does not take long.
func (p *peer) stopSoon() {
	p.Helper()
	done := make(chan error, 1)
	go func() { done <- p.Stop() }()
	select {
	case err := <-done:
		if err != nil {
			p.Error(err)
		}
	case <-time.After(30 * time.Second):
		p.Fatal("the server does not stop")
	}
}

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
func (h *heldConverter) create(p *peer) <-chan answer {
	p.Helper()
	result := make(chan answer, 1)
	go func() {
		a, err := p.send(context.Background(), http.MethodPost, boxesV2, box("v2", "late"))
		if err != nil {
			a.body = []byte(err.Error())
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
		p := newCluster(t).start()
		p.want(http.StatusCreated, http.MethodPost, crdPath, boxDefinition())
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
		p.want(http.StatusCreated, http.MethodPost, boxesV1, string(body))
		needed := time.Since(began)
		abandoned, timeouts := 0, []time.Duration{needed / 8, needed / 4, needed / 2}
		for _, timeout := range timeouts {
			a, err := p.send(t.Context(), http.MethodPost, boxesV1+"?timeout="+timeout.String(), strings.Replace(string(body), `"large"`, `"late"`, 1))
			if err != nil || a.code == http.StatusGatewayTimeout {
				abandoned++ // the stream may be cut off
			}
		}
		if abandoned == 0 {
			t.Fatal("no request took longer than it was allowed to")
		}
		time.Sleep(time.Duration(len(timeouts)) * 2 * needed) // the work that is left gets to where objects are stored
		p.want(http.StatusOK, http.MethodDelete, crdPath+"/"+boxes, nil)
		p.gone(crdPath + "/" + boxes)
		p.stopSoon()
		if left := p.keys(boxesKey); len(left) > 0 {
			t.Error(left)
		}
	})

	// A create that was admitted before the CRD was marked is not stored afterwards, even if
	// the CRD has changed since the create began.
	t.Run("changed CRD", func(t *testing.T) {
		t.Parallel()
		h := newHeldConverter(t)
		p := newCluster(t).start()
		p.want(http.StatusCreated, http.MethodPost, crdPath, h.of(boxDefinition()))
		result := h.create(p)
		p.want(http.StatusOK, http.MethodPatch, crdPath+"/"+boxes, `{"spec": {"names": {"shortNames": ["bx"]}}}`)
		p.want(http.StatusOK, http.MethodDelete, crdPath+"/"+boxes, nil)
		p.gone(crdPath + "/" + boxes)
		h.answer <- struct{}{}
		if a := <-result; a.code != http.StatusNotFound || a.object["kind"] != "Status" {
			t.Errorf("%d %s", a.code, a.body)
		}
		if left := p.keys(boxesKey); len(left) > 0 {
			t.Error(left)
		}
		// It is not stored under a new CRD of the same name either.
		p.want(http.StatusCreated, http.MethodPost, crdPath, boxDefinition())
		p.want(http.StatusNotFound, http.MethodGet, boxesV1+"/late", nil)
	})

	t.Run("recreated CRD", func(t *testing.T) {
		t.Parallel()
		h := newHeldConverter(t)
		p := newCluster(t).start()
		p.want(http.StatusCreated, http.MethodPost, crdPath, h.of(boxDefinition()))
		result := h.create(p)
		p.want(http.StatusOK, http.MethodDelete, crdPath+"/"+boxes, nil)
		p.gone(crdPath + "/" + boxes)
		p.want(http.StatusCreated, http.MethodPost, crdPath, boxDefinition())
		h.answer <- struct{}{}
		if a := <-result; a.code != http.StatusNotFound {
			t.Errorf("%d %s", a.code, a.body)
		}
		if left := p.keys(boxesKey); len(left) > 0 {
			t.Error(left)
		}
	})

	// The same with two servers, one of which does not see the other's requests.
	t.Run("two servers", func(t *testing.T) {
		t.Parallel()
		h := newHeldConverter(t)
		c := newCluster(t)
		a, b := c.start(), c.start()
		a.want(http.StatusCreated, http.MethodPost, crdPath, h.of(boxDefinition()))
		first, second := h.create(b), h.create(b)
		// An object with a finalizer keeps the CRD until the finalizer is removed.
		a.want(http.StatusCreated, http.MethodPost, boxesV1, box("v1", "kept", "example.com/keep"))
		a.want(http.StatusOK, http.MethodDelete, crdPath+"/"+boxes, nil)
		h.answer <- struct{}{}
		var got answer
		select {
		case got = <-first:
			first = second
		case got = <-second:
		}
		if got.code != http.StatusForbidden || !strings.Contains(string(got.body), "terminating") {
			t.Errorf("%d %s", got.code, got.body)
		}
		b.want(http.StatusOK, http.MethodPatch, boxesV1+"/kept", `{"metadata": {"finalizers": null}}`)
		b.gone(crdPath + "/" + boxes)
		h.answer <- struct{}{}
		if got := <-first; got.code != http.StatusNotFound {
			t.Errorf("%d %s", got.code, got.body)
		}
		if left := c.keys(boxesKey); len(left) > 0 {
			t.Error(left)
		}
		if left := c.keys("espalier.dev/fences/registry/"); len(left) > 0 {
			t.Error(left)
		}
	})

	// The last finalizer and the CRD are removed in one transaction.
	t.Run("one transaction", func(t *testing.T) {
		t.Parallel()
		p := newCluster(t).start()
		p.want(http.StatusCreated, http.MethodPost, crdPath, boxDefinition())
		p.want(http.StatusCreated, http.MethodPost, boxesV1, box("v1", "a"))
		p.want(http.StatusOK, http.MethodDelete, crdPath+"/"+boxes, nil)
		p.gone(crdPath + "/" + boxes)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		for events := range p.etcd.Watch(ctx, "/registry/apiextensions.k8s.io/customresourcedefinitions/"+boxes, clientv3.WithRev(1)) {
			for _, e := range events.Events {
				if e.Type == clientv3.EventTypeDelete {
					return
				}
				obj := map[string]any{}
				if err := json.Unmarshal(e.Kv.Value, &obj); err != nil {
					t.Fatal(err)
				}
				if finalizers, _ := field(obj, "metadata.finalizers"); terminating(obj) && finalizers == nil {
					t.Errorf("a crash here would have stranded it: %s", e.Kv.Value)
				}
			}
		}
		t.Error("no deletion was seen")
	})

	// The next server finishes a deletion that a crash interrupted between the two steps.
	t.Run("stranded", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		p := c.start()
		p.want(http.StatusCreated, http.MethodPost, crdPath, boxDefinition())
		p.stopSoon()
		c.edit("/registry/apiextensions.k8s.io/customresourcedefinitions/"+boxes, func(obj map[string]any) {
			m := obj["metadata"].(map[string]any)
			m["deletionTimestamp"] = "2020-01-01T00:00:00Z"
			delete(m, "finalizers")
		})
		p = c.start()
		p.gone(crdPath + "/" + boxes)
		p.want(http.StatusCreated, http.MethodPost, crdPath, boxDefinition())
	})

	// Deletion needs no schema, no storage version, and no readable object.
	t.Run("without a program", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		p := c.start()
		p.want(http.StatusCreated, http.MethodPost, crdPath, boxDefinition())
		p.want(http.StatusCreated, http.MethodPost, boxesV1, box("v1", "a"))
		p.want(http.StatusCreated, http.MethodPost, boxesV1, box("v1", "kept", "example.com/keep"))
		p.stopSoon()
		c.put(boxesKey+"default/garbage", []byte("\x00{"))
		c.put(boxesKey+"default/odd", []byte(`{"metadata": {"finalizers": 7}}`))
		c.edit("/registry/apiextensions.k8s.io/customresourcedefinitions/"+boxes, func(obj map[string]any) {
			// This default is valid, but too large to compile.
			large := map[string]any{"type": "array", "items": map[string]any{"type": "integer"}, "default": make([]int, 1<<16+1)}
			schema := map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{"large": large}}}
			spec := obj["spec"].(map[string]any)
			delete(spec, "validation")
			for _, v := range spec["versions"].([]any) {
				v.(map[string]any)["schema"] = schema
			}
		})
		p = c.start()
		if a, err := p.send(t.Context(), http.MethodGet, boxesV1+"/a", nil); err != nil || a.code != http.StatusInternalServerError {
			t.Fatalf("it should not be served: %d %s %v", a.code, a.body, err)
		}
		p.want(http.StatusOK, http.MethodDelete, crdPath+"/"+boxes, nil)
		p.pending("kept")
		if left := c.keys(boxesKey); len(left) != 1 {
			t.Error(left)
		}
		// Its controller cannot reach the server, so the test removes the finalizer.
		c.edit(boxesKey+"default/kept", func(obj map[string]any) {
			m := obj["metadata"].(map[string]any)
			if m["deletionTimestamp"] == nil || m["deletionGracePeriodSeconds"] != float64(0) || m["generation"] != float64(2) {
				t.Errorf("not marked as deleted: %v", obj)
			}
			delete(m, "finalizers")
		})
		p.gone(crdPath + "/" + boxes)
		if left := c.keys(boxesKey); len(left) > 0 {
			t.Error(left)
		}
	})

	// Versions may be added and removed while a CRD waits for its objects.
	t.Run("another storage version", func(t *testing.T) {
		t.Parallel()
		p := newCluster(t).start()
		p.want(http.StatusCreated, http.MethodPost, crdPath, boxDefinition())
		p.want(http.StatusCreated, http.MethodPost, boxesV1, box("v1", "kept", "example.com/keep"))
		p.want(http.StatusOK, http.MethodDelete, crdPath+"/"+boxes, nil)
		p.pending("kept")
		d := boxDefinition()
		versions := d["spec"].(map[string]any)["versions"].([]any)
		versions[0].(map[string]any)["storage"], versions[1].(map[string]any)["storage"] = false, true
		p.want(http.StatusOK, http.MethodPatch, crdPath+"/"+boxes, map[string]any{"spec": map[string]any{"versions": versions}})
		p.want(http.StatusOK, http.MethodPatch, crdPath+"/"+boxes+"/status", `{"status": {"storedVersions": ["v2"]}}`)
		p.want(http.StatusOK, http.MethodPatch, crdPath+"/"+boxes, map[string]any{"spec": map[string]any{"versions": versions[1:]}})
		p.want(http.StatusOK, http.MethodPatch, boxesV2+"/kept", `{"metadata": {"finalizers": null}}`)
		p.gone(crdPath + "/" + boxes)
	})

	// A CRD that waits for its objects does not keep the server from following the others after
	// it has to relist.
	t.Run("lost track", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		p := c.start()
		p.want(http.StatusCreated, http.MethodPost, crdPath, boxDefinition())
		p.want(http.StatusCreated, http.MethodPost, boxesV1, box("v1", "kept", "example.com/keep"))
		p.want(http.StatusOK, http.MethodDelete, crdPath+"/"+boxes, nil)
		p.pending("kept")
		// The watch of the CRDs cannot resume after etcd interrupts it, because etcd has compacted
		// the revisions in between.
		for range 2 {
			now, err := c.etcd.Put(t.Context(), "other", "")
			if err == nil {
				_, err = c.etcd.Compact(t.Context(), now.Header.Revision)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		c.member.Close()
		c.startEtcd()
		crates := boxDefinition()
		crates["metadata"].(map[string]any)["name"] = "crates.deletion.example.com"
		crates["spec"].(map[string]any)["names"] = map[string]any{"plural": "crates", "kind": "Crate"}
		p.eventually(func() bool {
			a, err := p.send(t.Context(), http.MethodPost, crdPath, crates)
			return err == nil && (a.code == http.StatusCreated || a.code == http.StatusConflict)
		})
		p.eventually(func() bool {
			a, err := p.send(t.Context(), http.MethodGet, "/apis/deletion.example.com/v1/crates", nil)
			return err == nil && a.code == http.StatusOK
		})
		p.want(http.StatusOK, http.MethodPatch, boxesV1+"/kept", `{"metadata": {"finalizers": null}}`)
		p.gone(crdPath + "/" + boxes)
	})

	// Objects can be updated but not created, not even in a dry run or by an apply.
	t.Run("while it is deleted", func(t *testing.T) {
		t.Parallel()
		p := newCluster(t).start()
		p.want(http.StatusCreated, http.MethodPost, crdPath, boxDefinition())
		p.want(http.StatusCreated, http.MethodPost, boxesV1, box("v1", "kept", "example.com/keep"))
		p.want(http.StatusOK, http.MethodDelete, crdPath+"/"+boxes, nil)
		p.want(http.StatusForbidden, http.MethodPost, boxesV1, box("v1", "new"))
		p.want(http.StatusForbidden, http.MethodPost, boxesV1+"?dryRun=All", box("v1", "new"))
		p.want(http.StatusForbidden, apply, boxesV1+"/new?fieldManager=test", box("v1", "new"))
		p.want(http.StatusOK, http.MethodPatch, boxesV1+"/kept", `{"spec": {"a": 1}}`)
		p.want(http.StatusOK, http.MethodPatch, boxesV1+"/kept", `{"metadata": {"finalizers": null}}`)
		p.gone(crdPath + "/" + boxes)
	})

	// A foreign finalizer keeps the CRD after its objects are gone.
	t.Run("other finalizers", func(t *testing.T) {
		t.Parallel()
		p := newCluster(t).start()
		d := boxDefinition()
		d["metadata"].(map[string]any)["finalizers"] = []any{"example.com/other"}
		p.want(http.StatusCreated, http.MethodPost, crdPath, d)
		p.want(http.StatusCreated, http.MethodPost, boxesV1, box("v1", "a"))
		p.want(http.StatusOK, http.MethodDelete, crdPath+"/"+boxes, nil)
		p.eventually(func() bool {
			a := p.want(http.StatusOK, http.MethodGet, crdPath+"/"+boxes, nil)
			finalizers, _ := field(a.object, "metadata.finalizers")
			return fmt.Sprint(finalizers) == "[example.com/other]" && strings.Contains(string(a.body), "InstanceDeletionCompleted")
		})
		p.want(http.StatusForbidden, http.MethodPost, boxesV1, box("v1", "b"))
		p.want(http.StatusOK, http.MethodPatch, crdPath+"/"+boxes, `{"metadata": {"finalizers": null}}`)
		p.gone(crdPath + "/" + boxes)
		if left := p.keys("espalier.dev/fences/registry/"); len(left) > 0 {
			t.Error(left)
		}
	})

	// An etcd that kube-apiserver has filled has no fences.
	t.Run("adopted", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		p := c.start()
		other := boxDefinition()
		other["metadata"].(map[string]any)["name"] = "crates.deletion.example.com"
		other["spec"].(map[string]any)["names"] = map[string]any{"plural": "crates", "kind": "Crate"}
		p.want(http.StatusCreated, http.MethodPost, crdPath, boxDefinition())
		p.want(http.StatusCreated, http.MethodPost, crdPath, other)
		p.want(http.StatusCreated, http.MethodPost, boxesV1, box("v1", "a"))
		p.stopSoon()
		if n := len(c.keys("espalier.dev/fences/registry/")); n != 2 {
			t.Errorf("%d fences", n)
		}
		if _, err := c.etcd.Delete(t.Context(), "espalier.dev/fences", clientv3.WithPrefix()); err != nil {
			t.Fatal(err)
		}
		c.edit("/registry/apiextensions.k8s.io/customresourcedefinitions/crates.deletion.example.com", func(obj map[string]any) {
			m := obj["metadata"].(map[string]any)
			m["deletionTimestamp"], m["finalizers"] = "2020-01-01T00:00:00Z", []any{"customresourcecleanup.apiextensions.k8s.io"}
		})
		c.put("/registry/deletion.example.com/crates/default/a", box("v1", "a"))
		p = c.start()
		p.want(http.StatusCreated, http.MethodPost, boxesV1, box("v1", "b"))
		p.want(http.StatusOK, http.MethodPatch, boxesV1+"/a", `{"spec": {"a": 1}}`)
		p.gone(crdPath + "/crates.deletion.example.com")
		if left := c.keys("/registry/deletion.example.com/crates/"); len(left) > 0 {
			t.Error(left)
		}
		// A CRD that another program writes while the server runs has no fence either.
		uid, _ := field(p.want(http.StatusOK, http.MethodGet, crdPath+"/"+boxes, nil).object, "metadata.uid")
		c.edit("/registry/apiextensions.k8s.io/customresourcedefinitions/"+boxes, func(obj map[string]any) {
			m := obj["metadata"].(map[string]any)
			m["uid"] = "11111111" + uid.(string)[8:]
		})
		p.eventually(func() bool { return strings.Contains(fmt.Sprint(c.keys("espalier.dev/fences/registry/")), "11111111") })
		p.want(http.StatusCreated, http.MethodPost, boxesV1, box("v1", "c"))
		p.want(http.StatusOK, http.MethodDelete, crdPath+"/"+boxes, nil)
		p.gone(crdPath + "/" + boxes)
		if left := c.keys(boxesKey); len(left) > 0 {
			t.Error(left)
		}
	})
}

// eventually waits until a condition holds.
func (p *peer) eventually(so func() bool) {
	p.Helper()
	for until := time.Now().Add(30 * time.Second); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			p.Fatal("it does not happen")
		}
	}
}

// pending waits until the deletion of the CRD waits for an object.
func (p *peer) pending(name string) {
	p.Helper()
	p.eventually(func() bool {
		a := p.want(http.StatusOK, http.MethodGet, crdPath+"/"+boxes, nil)
		return strings.Contains(string(a.body), "InstanceDeletionCheck") && strings.Contains(string(a.body), name)
	})
}
