package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"espalier.dev"
	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/espaliertest"
	"espalier.dev/internal/testcase"
	"espalier.dev/schema"
	"espalier.dev/server/servertest"
)

// corpusDefinition is a CRD of the corpus, with its objects.
type corpusDefinition struct {
	file    string
	name    string
	body    map[string]any
	objects []corpusObject
	// rejected is set while another CRD has its names.
	rejected bool
	// admitter is the engine's Admitter of the CRD, created on first use.
	admitter *espalier.Admitter
}

type corpusObject struct {
	file string
	body map[string]any
}

// TestCorpus creates CRDs of the corpus that Kubernetes accepts on one server (a fifth of
// them, or all with ESPALIER_WHOLE_CORPUS), then their objects. The server must treat the
// objects as the engine does. Then everything is deleted.
func TestCorpus(t *testing.T) {
	if testing.Short() {
		t.Skip("the corpus takes a while")
	}
	definitions := loadCorpus(t)
	// All CRDs need minutes of CPU time: `make corpus` runs them all.
	if !testcase.WholeCorpus() {
		const step = 5
		definitions = slices.DeleteFunc(definitions, func(d *corpusDefinition) bool { return crc32.ChecksumIEEE([]byte(d.name))%step != 0 })
	}
	s := espaliertest.Start(t, servertest.Store(), espaliertest.WithSemantics(schema.Kubernetes), espaliertest.WithFlags("--disable-admission-plugins=NamespaceLifecycle"))
	c := newCorpusClient(t, s)
	convert := conversionWebhook(t)

	// Two CRDs cannot share a name, or a kind of a group. A CRD whose names are in use waits
	// until they are free.
	began := time.Now()
	c.usage("at the start")
	waves := 0
	for todo := definitions; len(todo) > 0; waves++ {
		if waves > 10 {
			t.Fatalf("%d definitions never get their turn, the first is %s", len(todo), todo[0].file)
		}
		var wave, later []*corpusDefinition
		taken := map[string]bool{}
		for _, d := range todo {
			if taken[d.name] {
				later = append(later, d)
			} else {
				taken[d.name] = true
				wave = append(wave, d)
			}
		}
		parallel(wave, func(d *corpusDefinition) { c.define(d, convert) })
		for _, d := range wave {
			if d.rejected {
				later = append(later, d)
			}
		}
		c.usage(fmt.Sprintf("with the %d definitions of wave %d", len(wave), waves+1))
		parallel(wave, func(d *corpusDefinition) {
			if d.rejected {
				return
			}
			if d.admitter = c.engine(d); d.admitter == nil {
				return
			}
			for _, o := range d.objects {
				c.create(d, o)
			}
			d.admitter = nil
		})
		c.usage("and their objects")
		parallel(wave, func(d *corpusDefinition) {
			c.want(http.StatusOK, http.MethodDelete, servertest.CRDs+"/"+d.name, nil)
		})
		c.awaitNone()
		todo = later
	}
	c.usage("when all is deleted")
	t.Logf("%d definitions in %d waves; %d objects accepted, %d rejected as the engine does; %v",
		len(definitions), waves, c.accepted.Load(), c.rejected.Load(), time.Since(began).Round(100*time.Millisecond))
	if c.accepted.Load() < c.rejected.Load() || c.rejected.Load() == 0 {
		t.Error("most of the corpus is valid, and some of it is not")
	}
}

// loadCorpus reads the CRDs that Kubernetes accepts, and their objects.
func loadCorpus(t *testing.T) (definitions []*corpusDefinition) {
	root := testcase.Corpus(t)
	index, err := os.ReadFile(filepath.Join(root, "CR_INDEX.tsv"))
	if err != nil {
		t.Skipf("SKIPPED: there is no corpus in %s (ESPALIER_CORPUS names another place)", root)
	}
	read := func(file string) (obj map[string]any, err error) {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		data, err := yaml.YAMLToJSON(text)
		if err == nil {
			err = utiljson.Unmarshal(data, &obj)
		}
		return obj, err
	}
	objects := map[string][]corpusObject{}
	for i, line := range strings.Split(strings.TrimSpace(string(index)), "\n")[1:] {
		columns := strings.Split(line, "\t")
		obj, err := read(columns[0])
		if err != nil {
			t.Fatalf("%s: %v", columns[0], err)
		}
		if meta, ok := obj["metadata"].(map[string]any); ok {
			// Many projects give all their examples the same name, and no controller runs here to
			// remove finalizers.
			delete(meta, "finalizers")
			if meta["name"] != nil {
				meta["name"] = fmt.Sprintf("%v-%d", meta["name"], i)
			}
		}
		objects[columns[1]] = append(objects[columns[1]], corpusObject{file: columns[0], body: obj})
	}
	files, err := filepath.Glob(filepath.Join(root, "v1", "*", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal("no definitions", err)
	}
	var mu sync.Mutex
	parallel(files, func(file string) {
		file, _ = filepath.Rel(root, file)
		body, err := read(file)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			return
		}
		c, err := typed(body)
		if err != nil {
			return // no API server can decode it
		}
		api.SetDefaults(c)
		crd.PrepareCreate(c)
		if r := crd.ValidateCreate(context.Background(), c, crd.Options{Semantics: schema.Kubernetes, Rules: cel.Checker{}}); len(r.Errors) > 0 {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		definitions = append(definitions, &corpusDefinition{file: file, name: c.Name, body: body, objects: objects[file]})
	})
	slices.SortFunc(definitions, func(a, b *corpusDefinition) int { return strings.Compare(a.file, b.file) })
	if len(definitions) < len(files)*9/10 {
		t.Errorf("of %d definitions, only %d are valid", len(files), len(definitions))
	}
	return definitions
}

func typed(body map[string]any) (*api.CustomResourceDefinition, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	c := &api.CustomResourceDefinition{}
	return c, api.Unmarshal(data, c)
}

// parallel calls f for each element, a few concurrently.
func parallel[T any](list []T, f func(T)) {
	work := make(chan T)
	var wg sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for x := range work {
				f(x)
			}
		})
	}
	for _, x := range list {
		work <- x
	}
	close(work)
	wg.Wait()
}

type corpusClient struct {
	*testing.T
	client *http.Client
	url    string

	accepted, rejected atomic.Int64
}

func newCorpusClient(t *testing.T, s *espaliertest.Server) *corpusClient {
	client, err := rest.HTTPClientFor(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	return &corpusClient{T: t, client: client, url: s.URL()}
}

func (c *corpusClient) do(method, path string, obj map[string]any, contentType string) (int, []byte) {
	var body io.Reader
	if obj != nil {
		data, err := json.Marshal(obj)
		if err != nil {
			c.Error(err)
			return 0, nil
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(c.Context(), method, c.url+path, body)
	if err != nil {
		c.Error(err)
		return 0, nil
	}
	req.Header.Set("Content-Type", contentType)
	resp, err := c.client.Do(req)
	if err != nil {
		c.Error(err)
		return 0, nil
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		c.Error(err)
	}
	return resp.StatusCode, data
}

func (c *corpusClient) want(code int, method, path string, obj map[string]any) []byte {
	got, data := c.do(method, path, obj, "application/json")
	if got != code {
		c.Errorf("%s %s: %d %.500s", method, path, got, data)
	}
	return data
}

// define creates a CRD and waits until its names are accepted or rejected. It replaces the
// CRD's webhook, if any, with the test's own.
func (c *corpusClient) define(d *corpusDefinition, webhook map[string]any) {
	if hook, ok := servertest.Field(d.body, "spec.conversion.webhook"); ok {
		hook.(map[string]any)["clientConfig"] = webhook
	}
	c.want(http.StatusCreated, http.MethodPost, servertest.CRDs, d.body)
	var body []byte
	for range 150 {
		body = c.want(http.StatusOK, http.MethodGet, servertest.CRDs+"/"+d.name, nil)
		var got api.CustomResourceDefinition
		if err := json.Unmarshal(body, &got); err != nil {
			c.Error(err)
			return
		}
		for _, condition := range got.Status.Conditions {
			if condition.Type == api.Established && condition.Status == api.ConditionTrue {
				d.rejected = false
				return
			}
			if condition.Type == api.NamesAccepted && condition.Status == api.ConditionFalse {
				d.rejected = true
				return
			}
		}
		time.Sleep(200 * time.Millisecond) // rarely: it is usually there at once
	}
	conditions := map[string]any{}
	_ = json.Unmarshal(body, &conditions)
	status, _ := servertest.Field(conditions, "status.conditions")
	c.Errorf("%s is not established: %v", d.file, status)
}

// awaitNone waits until no CRD is left.
func (c *corpusClient) awaitNone() {
	var left []string
	for range 3000 {
		var list struct {
			Items []struct{ Metadata struct{ Name string } }
		}
		if err := json.Unmarshal(c.want(http.StatusOK, http.MethodGet, servertest.CRDs+"?limit=5", nil), &list); err != nil {
			c.Fatal(err)
		}
		left = nil
		for _, i := range list.Items {
			left = append(left, i.Metadata.Name)
		}
		if len(left) == 0 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	c.Fatalf("definitions are left: %v", left)
}

// engine returns the Admitter of a CRD, which needs no server.
func (c *corpusClient) engine(d *corpusDefinition) *espalier.Admitter {
	definition, err := typed(d.body)
	if err != nil {
		c.Error(err)
		return nil
	}
	a, err := espalier.New(c.Context(), definition, espalier.WithSemantics(schema.Kubernetes), espalier.WithRules(cel.Checker{}))
	if err != nil {
		c.Errorf("%s: %v", d.file, err)
		return nil
	}
	return a
}

// create sends an object to the server, which must treat it as the engine does.
func (c *corpusClient) create(d *corpusDefinition, o corpusObject) {
	definition := d.admitter.Definition()
	gvk := runtimeschema.FromAPIVersionAndKind(fmt.Sprint(o.body["apiVersion"]), fmt.Sprint(o.body["kind"]))
	version := definition.Version(gvk.Version)
	if version == nil || !version.Served() {
		return // the CRD does not serve its version
	}
	namespace := "default"
	if ns, ok := servertest.Field(o.body, "metadata.namespace"); ok && ns != "" {
		namespace = fmt.Sprint(ns)
	}
	path := "/apis/" + gvk.GroupVersion().String()
	if definition.Namespaced() {
		path += "/namespaces/" + url.PathEscape(namespace)
	}
	path += "/" + definition.Names().Plural
	data, err := json.Marshal(o.body)
	if err != nil {
		c.Error(err)
		return
	}
	code, body := c.do(http.MethodPost, path, o.body, "application/json")
	want, err := d.admitter.CreateJSON(c.Context(), data)
	if err == nil {
		err = want.Err()
	}
	if invalid := (*espalier.InvalidError)(nil); errors.As(err, &invalid) {
		c.rejected.Add(1)
		var got apierrors.StatusError
		if err := json.Unmarshal(body, &got.ErrStatus); err != nil || code != http.StatusUnprocessableEntity {
			c.Errorf("%s: the engine rejects it, and the server answers %d %.500s", o.file, code, body)
			return
		}
		if invalid.Name == "" && got.ErrStatus.Details != nil {
			got.ErrStatus.Details.Name = "" // the server has made it up
		}
		kind := runtimeschema.GroupKind{Group: gvk.Group, Kind: gvk.Kind}
		if status := apierrors.NewInvalid(kind, invalid.Name, invalid.Errors).ErrStatus; !reflect.DeepEqual(got.ErrStatus.Details, status.Details) {
			c.Errorf("%s: the server says %v, the engine %v", o.file, got.ErrStatus.Details, status.Details)
		}
		return
	}
	if err != nil {
		c.rejected.Add(1)
		if code != http.StatusBadRequest {
			c.Errorf("%s: the engine cannot read it (%v), and the server answers %d %.500s", o.file, err, code, body)
		}
		return
	}
	c.accepted.Add(1)
	if code != http.StatusCreated {
		c.Errorf("%s: the engine accepts it, and the server answers %d %.500s", o.file, code, body)
		return
	}
	var got map[string]any
	if err := utiljson.Unmarshal(body, &got); err != nil {
		c.Errorf("%s: %v", o.file, err)
		return
	}
	name, _ := servertest.Field(got, "metadata.name")
	if _, named := servertest.Field(want.Object, "metadata.name"); !named {
		delete(got["metadata"].(map[string]any), "name") // the server has made it up
	}
	// A status that clients cannot set on creation is defaulted when the object is read.
	stored := maps.Clone(want.Object)
	program, err := version.Program()
	if err == nil {
		_, err = program.Normalize(stored, schema.DecodeOptions{FromStorage: true})
	}
	if err != nil {
		c.Errorf("%s: %v", o.file, err)
		return
	}
	if got := servertest.Plain(got); version.Name() == definition.Storage().Name() && !reflect.DeepEqual(got, servertest.Plain(stored)) {
		c.Errorf("%s: the server has made\n%v of it, the engine\n%v", o.file, got, servertest.Plain(stored))
	}
	// The object can be applied, unless it has unknown fields.
	applied := servertest.Plain(want.Object)
	applied["metadata"] = map[string]any{"name": name}
	if code, body := c.do(http.MethodPatch, path+"/"+fmt.Sprint(name)+"?fieldManager=corpus&force=true", applied, "application/apply-patch+yaml"); code != http.StatusOK {
		c.Errorf("%s: apply: %d %.500s", o.file, code, body)
	}
}

// usage logs the resource usage of the server and the test, which share a process.
func (c *corpusClient) usage(when string) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	c.Logf("%s: %d MB of heap, %d goroutines", when, m.HeapAlloc>>20, runtime.NumGoroutine())
}

// conversionWebhook starts a webhook that changes only the apiVersion, and returns its client
// configuration.
func conversionWebhook(t *testing.T) map[string]any {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review map[string]any
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		request, _ := review["request"].(map[string]any)
		objects, _ := request["objects"].([]any)
		for _, o := range objects {
			o.(map[string]any)["apiVersion"] = request["desiredAPIVersion"]
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"apiVersion": review["apiVersion"], "kind": review["kind"],
			"response": map[string]any{"uid": request["uid"], "result": map[string]any{"status": "Success"}, "convertedObjects": objects},
		})
	}))
	t.Cleanup(s.Close)
	return map[string]any{"url": s.URL, "caBundle": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})}
}
