package definitions_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"espalier.dev/schema"
	"espalier.dev/server/servertest"
)

// TestChangingSchema writes and reads objects while their CRD changes back and forth between
// two schemas. Each schema specifies two fields, with defaults, that the other one does not.
// However a request and a change meet, what is stored and what is returned must be the work
// of one of the schemas.
func TestChangingSchema(t *testing.T) {
	t.Parallel()
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		t.Run("V-14-race "+sem.String(), func(t *testing.T) {
			t.Parallel()
			s := servertest.Serve(t, sem)
			c := &changing{T: t, semantics: sem, client: s.Client, url: s.URL(), etcd: s.Etcd()}
			c.run(30)
		})
	}
}

// changing is a CRD whose schema changes.
type changing struct {
	*testing.T
	semantics schema.Semantics
	client    *http.Client
	url       string
	etcd      *clientv3.Client

	mu sync.Mutex
	// seen counts the responses by schema.
	seen map[string]int
}

const changingObjects = "/apis/change.example.com/v1/things"

// definition returns the CRD with the schema of a letter.
func (*changing) definition(letter, version string) string {
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"things.change.example.com","resourceVersion":%q},
		"spec":{"group":"change.example.com","scope":"Cluster","names":{"plural":"things","kind":"Thing"},"versions":[{"name":"v1","served":true,"storage":true,
		"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","default":{},"properties":{"n":{"type":"integer"},
		"%[2]s1":{"type":"string","default":"x"},"%[2]s2":{"type":"object","default":{},"properties":{"%[2]s3":{"type":"string","default":"y"}}}}}}}}}]}}`, version, letter)
}

// send sends a request and returns the status and the body. It returns zero if the server or
// the test ended it.
func (c *changing) send(ctx context.Context, method, path, contentType, body string) (int, []byte) {
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(body))
	if err != nil {
		c.Error(err)
		return 0, nil
	}
	req.Header.Set("Content-Type", contentType)
	resp, err := c.client.Do(req)
	if err != nil {
		if ctx.Err() == nil {
			c.Error(err)
		}
		return 0, nil
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil
	}
	return resp.StatusCode, text
}

// check checks that an object has exactly the fields of one schema.
func (c *changing) check(what string, text []byte) {
	var obj struct{ Spec map[string]json.RawMessage }
	if err := json.Unmarshal(text, &obj); err != nil {
		c.Errorf("%s: %v: %s", what, err, text)
		return
	}
	for _, letter := range []string{"a", "b"} {
		want := 2
		if _, ok := obj.Spec["n"]; ok {
			want++
		}
		if string(obj.Spec[letter+"1"]) == `"x"` && string(obj.Spec[letter+"2"]) == `{"`+letter+`3":"y"}` && len(obj.Spec) == want {
			c.mu.Lock()
			c.seen[letter]++
			c.mu.Unlock()
			return
		}
	}
	c.Errorf("%s is of no schema, or of both: %s", what, text)
}

func (c *changing) run(changes int) {
	c.seen = map[string]int{}
	const crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	ctx, cancel := context.WithTimeout(c.Context(), 2*time.Minute)
	defer cancel()
	code, text := c.send(ctx, http.MethodPost, crds, "application/json", strings.Replace(c.definition("a", ""), `,"resourceVersion":""`, "", 1))
	if code != http.StatusCreated {
		c.Fatalf("%d %s", code, text)
	}
	done := make(chan struct{})
	var clients sync.WaitGroup
	for worker := range 4 {
		clients.Go(func() { c.write(ctx, worker, done) })
	}
	clients.Go(func() { c.watch(ctx, done) })
	for i := range changes {
		c.change(ctx, crds+"/things.change.example.com", []string{"b", "a"}[i%2])
	}
	close(done)
	clients.Wait()
	if c.seen["a"] == 0 || c.seen["b"] == 0 {
		c.Errorf("responses by schema: %v: one was never in use", c.seen)
	}
	got, err := c.etcd.Get(ctx, "/registry/change.example.com/things/", clientv3.WithPrefix())
	if err != nil {
		c.Fatal(err)
	}
	if len(got.Kvs) == 0 {
		c.Error("nothing is stored")
	}
	for _, kv := range got.Kvs {
		c.check("stored "+string(kv.Key), kv.Value)
	}
}

// change replaces the CRD. Its status is written at the same time, so it may have to try again.
func (c *changing) change(ctx context.Context, path, letter string) {
	for range 50 {
		_, text := c.send(ctx, http.MethodGet, path, "", "")
		var stored struct {
			Metadata struct{ ResourceVersion string }
		}
		if err := json.Unmarshal(text, &stored); err != nil {
			c.Fatal(err)
		}
		switch code, text := c.send(ctx, http.MethodPut, path, "application/json", c.definition(letter, stored.Metadata.ResourceVersion)); code {
		case http.StatusOK:
			return
		case http.StatusConflict:
		default:
			c.Fatalf("%d %s", code, text)
		}
	}
	c.Fatal("the CRD has not changed in 50 attempts")
}

// write creates an object and changes it in all ways until done is closed.
func (c *changing) write(ctx context.Context, worker int, done <-chan struct{}) {
	name := fmt.Sprint("w", worker)
	object := fmt.Sprintf(`{"apiVersion":"change.example.com/v1","kind":"Thing","metadata":{"name":%q},"spec":{"n":1,"a1":"x","b1":"x"}}`, name)
	requests := []struct{ method, path, contentType, body string }{
		{http.MethodPost, changingObjects, "application/json", object},
		{http.MethodPatch, changingObjects + "/" + name, "application/merge-patch+json", `{"spec":{"n":2,"a2":{"a3":"y","b3":"y"},"b2":{"a3":"y","b3":"y"}}}`},
		{http.MethodPatch, changingObjects + "/" + name, "application/json-patch+json", `[{"op":"add","path":"/spec/n","value":3}]`},
		{http.MethodPatch, changingObjects + "/" + name + "?fieldManager=w&force=true", "application/apply-patch+yaml", fmt.Sprintf(`{"apiVersion":"change.example.com/v1","kind":"Thing","metadata":{"name":%q},"spec":{"n":1}}`, name)},
		{http.MethodPut, changingObjects + "/" + name, "application/json", object},
		{http.MethodGet, changingObjects + "/" + name, "", ""},
		{http.MethodGet, changingObjects + "/" + name + "?resourceVersion=0", "", ""},
	}
	var version string
	for i := 0; ; i++ {
		select {
		case <-done:
			return
		default:
		}
		r := requests[i%len(requests)]
		body := strings.Replace(r.body, `"n":1`, fmt.Sprintf(`"n":%d`, i), 1)
		if r.method == http.MethodPut {
			body = strings.Replace(body, `"metadata":{`, `"metadata":{"resourceVersion":"`+version+`",`, 1)
		}
		code, text := c.send(ctx, r.method, r.path, r.contentType, body)
		switch {
		case code == http.StatusOK, code == http.StatusCreated:
			c.check(r.method+" "+r.contentType, text)
			var written struct {
				Metadata struct{ ResourceVersion string }
			}
			_ = json.Unmarshal(text, &written) // check has
			version = written.Metadata.ResourceVersion
		case code == 0, code == http.StatusConflict:
		case code == http.StatusInternalServerError && bytes.Contains(text, []byte("field not declared in schema")) && c.semantics == schema.Kubernetes:
			// The fields that managers own are those of another schema.
		default:
			c.Errorf("%s %s: %d %s", r.method, r.path, code, text)
		}
	}
}

// watch follows the objects until done is closed. A change of the CRD ends a watch.
func (c *changing) watch(ctx context.Context, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		default:
		}
		_, text := c.send(ctx, http.MethodGet, changingObjects+"?watch=true&timeoutSeconds=1", "", "")
		for line := range bytes.Lines(text) {
			var event struct {
				Type   string
				Object json.RawMessage
			}
			if err := json.Unmarshal(line, &event); err != nil {
				c.Errorf("%v: %s", err, line)
			} else if event.Type == "ADDED" || event.Type == "MODIFIED" {
				c.check("WATCH", event.Object)
			}
		}
	}
}
