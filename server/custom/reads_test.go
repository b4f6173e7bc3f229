package custom_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"espalier.dev/schema"
	"espalier.dev/server"
	"espalier.dev/server/servertest"
)

// readers compares the two ways in which a server answers reads: with the stored bytes, and
// with the handlers of k8s.io/apiserver. The latter answer a user whose responses are audited,
// because an audit event needs the object.
type readers struct {
	*testing.T
	server       *server.Server
	etcd         *clientv3.Client
	fast, stock  *http.Client
	random       *rand.Rand
	revisions    []string // of past states
	continuation []string // tokens of lists
}

func newReaders(t *testing.T, sem schema.Semantics) *readers {
	t.Helper()
	dir := t.TempDir()
	policy := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- {level: RequestResponse, users: [stock]}\n- {level: Metadata}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := servertest.Options(t)
	o.Semantics = sem
	o.AuditPolicyFile, o.AuditLogPath = policy, filepath.Join(dir, "log")
	o.Controllers = nil // what they write changes the revision between two reads
	s := servertest.Start(t, o)
	config, err := s.UserConfig("stock", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	t.Log("seed", seed)
	return &readers{T: t, server: s, etcd: servertest.Etcd(t, o), fast: servertest.Client(t, s, nil), stock: servertest.Client(t, s, config), random: rand.New(rand.NewPCG(seed, 0))}
}

// must sends a write and returns the body of the answer.
func (r *readers) must(code int, method, path, body string) string {
	r.Helper()
	got, text := servertest.Exchange(r, r.fast, method, r.server.URL()+path, body)
	if got != code {
		r.Fatalf("%s %s: %d instead of %d: %s", method, path, got, code, text)
	}
	return text
}

// update replaces an object by what change makes of it. The controllers of the server write the
// status of a CRD at any time, so that it is repeated after a conflict.
func (r *readers) update(path string, change func(stored map[string]any)) {
	r.Helper()
	servertest.Eventually(r, func() error {
		var stored map[string]any
		if err := json.Unmarshal([]byte(r.must(http.StatusOK, http.MethodGet, path, "")), &stored); err != nil {
			r.Fatal(err)
		}
		change(stored)
		body, err := json.Marshal(stored)
		if err != nil {
			r.Fatal(err)
		}
		code, text := servertest.Exchange(r, r.fast, http.MethodPut, r.server.URL()+path, string(body))
		if code == http.StatusConflict {
			return errors.New(text)
		}
		if code != http.StatusOK {
			r.Fatalf("PUT %s: %d: %s", path, code, text)
		}
		return nil
	})
}

// put writes a value to etcd, past the server.
func (r *readers) put(key, value string) {
	r.Helper()
	if _, err := r.etcd.Put(r.Context(), "/registry/"+key, value); err != nil {
		r.Fatal(err)
	}
}

// read sends a request.
func (r *readers) read(c *http.Client, path string, header http.Header) (*http.Response, []byte) {
	req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, r.server.URL()+path, nil)
	if err != nil {
		r.Error(err)
		return nil, nil
	}
	req.Header = header.Clone()
	resp, err := c.Do(req)
	if err != nil {
		r.Error(err)
		return nil, nil
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		r.Error(err)
	}
	return resp, body
}

// compare sends a request both ways.
func (r *readers) compare(path string, header http.Header) {
	r.Helper()
	any := strings.Contains(path, "resourceVersion=0") || strings.Contains(path, "NotOlderThan")
	var fast, stock *http.Response
	var got, want []byte
	// The server may write between the two reads: a condition of the CRD, for example.
	for range 5 {
		fast, got = r.read(r.fast, path, header)
		stock, want = r.read(r.stock, path, header)
		if fast == nil || stock == nil {
			return
		}
		if comparable(got, any) == comparable(want, any) {
			break
		}
	}
	if fast.StatusCode != stock.StatusCode {
		r.Errorf("%s %v: %d instead of %d:\n%s\n%s", path, header, fast.StatusCode, stock.StatusCode, got, want)
		return
	}
	for _, name := range []string{"Content-Type", "Warning", "Retry-After", "Cache-Control"} {
		if a, b := fast.Header.Values(name), stock.Header.Values(name); !slices.Equal(a, b) {
			r.Errorf("%s %v: %s: %q instead of %q", path, header, name, a, b)
		}
	}
	if token := regexp.MustCompile(`"continue":"([^"]+)"`).FindSubmatch(got); token != nil && fast.StatusCode == http.StatusOK {
		r.continuation = append(r.continuation, string(token[1]))
	}
	if a, b := comparable(got, any), comparable(want, any); a != b {
		r.Errorf("%s %v:\n%s\n%s", path, header, a, b)
	}
}

// ages are the ages of objects in the rows of a table. The two answers can be from different
// seconds.
var ages = regexp.MustCompile(`("cells":\s*\[\s*"[^"]*",\s*)"(\d+[dhms])+"`)

// comparable returns a body without what may differ: how a token spells its key, the age of an
// object in a table, and the revision of a list that may be of any age.
func comparable(body []byte, any bool) string {
	text := regexp.MustCompile(`"continue":"([^"]+)"`).ReplaceAllStringFunc(string(body), func(m string) string {
		token := strings.TrimSuffix(strings.TrimPrefix(m, `"continue":"`), `"`)
		data, err := base64.RawURLEncoding.DecodeString(token)
		if err != nil {
			return m
		}
		return `"continue":` + strings.Replace(string(data), `"start":"/`, `"start":"`, 1)
	})
	if any {
		text = regexp.MustCompile(`"resourceVersion":"\d+"\}\}\n$`).ReplaceAllString(text, "")
	}
	text = ages.ReplaceAllString(text, `$1"AGE"`)
	// The error says at which revision the server is.
	return regexp.MustCompile(`current: \d+`).ReplaceAllString(text, "current: N")
}

// definition returns a CRD with two versions, which have the same fields or not.
func (r *readers) definition(first, second string) string {
	return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"things.reads.example.com"},"spec":{"group":"reads.example.com","scope":"Namespaced",
"names":{"plural":"things","kind":"Thing"},"versions":[
{"name":"v1","served":true,"storage":true,"selectableFields":[{"jsonPath":".spec.color"},{"jsonPath":".spec.size"}],"schema":{"openAPIV3Schema":` + first + `}},
{"name":"v2","served":true,"storage":false,"deprecated":true,"schema":{"openAPIV3Schema":` + second + `}}]}}`
}

const (
	looseSchema  = `{"type":"object","properties":{"spec":{"type":"object","properties":{"color":{"type":"string"},"size":{"type":"integer","default":3},"first":{"type":"integer"},"list":{"type":"array","items":{"type":"object","x-kubernetes-preserve-unknown-fields":true}},"free":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}`
	strictSchema = `{"type":"object","properties":{"spec":{"type":"object","required":["color"],"properties":{"color":{"type":"string","maxLength":2},"size":{"type":"string","default":"big"},"new":{"type":"boolean","default":true},"list":{"type":"object"}}}}}`
	otherSchema  = `{"type":"object","properties":{"spec":{"type":"object","properties":{"color":{"type":"string"},"size":{"type":"integer"},"second":{"type":"integer"}}}}}`
)

// objects creates objects through the server, and others directly in etcd, in all forms that
// another server or an older schema could have left.
func (r *readers) objects() {
	const things = "/apis/reads.example.com/v1/namespaces/"
	text := `{"apiVersion":"reads.example.com/v1","kind":"Thing","metadata":{"name":"%s","labels":{"even":"%t","n":"%d"},"annotations":{"html":"<a href=\"x\">&</a>","unicode":"é \u2028 😀","long":"%s"}},"spec":{"color":"%s","size":%d,"list":[{"x":1.5},{"y":null}],"free":{"z":[1e21,-0,1.0]}}}`
	for i := range 14 {
		namespace := []string{"a", "b"}[i%2]
		r.must(http.StatusCreated, http.MethodPost, things+namespace+"/things",
			fmt.Sprintf(text, fmt.Sprintf("t%02d", i), i%2 == 0, i, strings.Repeat("long ", 100), []string{"red", "green", "blue"}[i%3], i))
	}
	var stored struct{ Metadata json.RawMessage }
	if err := json.Unmarshal([]byte(r.must(http.StatusOK, http.MethodGet, things+"a/things/t00", "")), &stored); err != nil {
		r.Fatal(err)
	}
	for name, value := range map[string]string{
		"unsorted":  `{"kind":"Thing","apiVersion":"reads.example.com/v1","spec":{"size":1,"color":"red"},"metadata":{"uid":"1","name":"unsorted","namespace":"b","generation":2}}`,
		"spaced":    "{\n\"apiVersion\": \"reads.example.com/v1\", \"kind\":\"Thing\",\"metadata\":{\"generation\":1,\"name\":\"spaced\",\"namespace\":\"b\",\"uid\":\"1\"},\"spec\":{\"size\":4}}\n",
		"unknown":   `{"apiVersion":"reads.example.com/v1","kind":"Thing","metadata":{"generation":1,"name":"unknown","namespace":"b","uid":"1"},"spec":{"size":1,"unknown":{"a":1}},"top":1}`,
		"defaults":  `{"apiVersion":"reads.example.com/v1","kind":"Thing","metadata":{"generation":1,"name":"defaults","namespace":"b","uid":"1"},"spec":{}}`,
		"oldtypes":  `{"apiVersion":"reads.example.com/v1","kind":"Thing","metadata":{"generation":1,"name":"oldtypes","namespace":"b","uid":"1"},"spec":{"color":{"red":1},"first":"x","list":"none","size":"large"}}`,
		"nogen":     `{"apiVersion":"reads.example.com/v1","kind":"Thing","metadata":{"name":"nogen","namespace":"b","uid":"1"},"spec":{"size":1}}`,
		"nouid":     `{"apiVersion":"reads.example.com/v1","kind":"Thing","metadata":{"generation":1,"name":"nouid","namespace":"b"},"spec":{"size":1}}`,
		"versioned": `{"apiVersion":"reads.example.com/v1","kind":"Thing","metadata":{"generation":1,"name":"versioned","namespace":"b","resourceVersion":"7","selfLink":"/x","uid":"1"},"spec":{"size":1}}`,
		"oddmeta":   `{"apiVersion":"reads.example.com/v1","kind":"Thing","metadata":{"creationTimestamp":null,"finalizers":[],"generation":1,"labels":{},"name":"oddmeta","namespace":"b","other":1,"uid":"1"},"spec":{"size":1}}`,
		"numbers":   `{"apiVersion":"reads.example.com/v1","kind":"Thing","metadata":{"generation":1,"name":"numbers","namespace":"b","uid":"1"},"spec":{"free":{"a":1.0,"b":-0,"c":1E2,"d":12345678901234567890},"size":1}}`,
		"nulls":     `{"apiVersion":"reads.example.com/v1","kind":"Thing","metadata":{"generation":1,"name":"nulls","namespace":"b","uid":"1"},"spec":{"color":null,"list":null,"size":null}}`,
		"strings":   `{"apiVersion":"reads.example.com/v1","kind":"Thing","metadata":{"generation":1,"name":"strings","namespace":"b","uid":"1"},"spec":{"color":"<\u00e9\/>","size":1}}`,
		"twice":     `{"apiVersion":"reads.example.com/v1","kind":"Thing","metadata":{"generation":1,"name":"twice","namespace":"b","uid":"1"},"spec":{"size":1,"size":2}}`,
		"second":    `{"apiVersion":"reads.example.com/v2","kind":"Thing","metadata":{"generation":1,"name":"second","namespace":"b","uid":"1"},"spec":{"color":"red","first":1,"second":2,"size":1}}`,
		"both":      `{"apiVersion":"reads.example.com/v1","kind":"Thing","metadata":{"generation":1,"name":"both","namespace":"b","uid":"1"},"spec":{"color":"red","first":1,"second":2,"size":1}}`,
		"dropped":   `{"apiVersion":"reads.example.com/v0","kind":"Thing","metadata":{"generation":1,"name":"dropped","namespace":"b","uid":"1"},"spec":{"size":1}}`,
	} {
		r.put("reads.example.com/things/b/"+name, value)
	}
}

// compareAll sends generated requests both ways.
func (r *readers) compareAll(requests int) {
	names := []string{"t00", "t01", "unsorted", "spaced", "unknown", "defaults", "oldtypes", "nogen", "nouid", "versioned", "oddmeta", "numbers", "nulls", "strings", "twice", "second", "both", "dropped", "missing"}
	for _, version := range []string{"v1", "v2"} {
		for _, name := range names {
			for _, namespace := range []string{"a", "b"} {
				r.compare("/apis/reads.example.com/"+version+"/namespaces/"+namespace+"/things/"+name+r.pick("", "", "?resourceVersion=0"), http.Header{})
			}
		}
	}
	for range requests {
		version := r.pick("v1", "v1", "v2")
		path := "/apis/reads.example.com/" + version + r.pick("/things", "/namespaces/a/things", "/namespaces/b/things", "/namespaces/none/things", "/namespaces/a/things/"+names[r.random.IntN(len(names))])
		q := url.Values{}
		set := func(key string, values ...string) {
			if v := r.pick(values...); v != "" {
				q.Set(key, v)
			}
		}
		set("resourceVersion", append([]string{"", "", "", "0", "x", "1", "-1"}, r.revisions...)...)
		set("resourceVersionMatch", "", "", "", "Exact", "NotOlderThan", "Other")
		set("limit", "", "", "1", "2", "5", "100", "-1", "x")
		set("labelSelector", "", "", "even=true", "even!=true,n", "n in (1,2,3)", "!even", "=")
		set("fieldSelector", "", "", "", "metadata.name=t00", "metadata.name=t01,metadata.namespace=b", "metadata.namespace=a", "metadata.name!=t02", "spec.color=red", "spec.size=3", "spec.size!=3,spec.color=blue", "spec.other=1")
		if len(r.continuation) > 0 {
			set("continue", "", "", "", "", "bad", r.continuation[r.random.IntN(len(r.continuation))])
		}
		if q.Get("fieldSelector") == "metadata.namespace=a" && strings.HasSuffix(path, version+"/things") {
			// Here the pages of k8s.io/apiserver lose objects.
			q.Del("limit")
			q.Del("continue")
		}
		set("pretty", "", "", "", "", "true", "false", "0")
		header := http.Header{}
		if accept := r.pick("", "", "application/json", "*/*", "application/json;q=0.5, */*;q=0.1", "application/yaml", "application/vnd.kubernetes.protobuf, application/json", "text/plain",
			"application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "application/json;pretty=1"); accept != "" {
			header.Set("Accept", accept)
		}
		if agent := r.pick("", "", "", "curl/8", "kubectl/v1.37"); agent != "" {
			header.Set("User-Agent", agent)
		}
		if len(q) > 0 {
			path += "?" + q.Encode()
		}
		r.compare(path, header)
	}
}

func (r *readers) pick(values ...string) string { return values[r.random.IntN(len(values))] }

// now returns the current revision.
func (r *readers) now() string {
	var list struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.Unmarshal([]byte(r.must(http.StatusOK, http.MethodGet, "/apis/reads.example.com/v1/things?limit=1", "")), &list); err != nil {
		r.Fatal(err)
	}
	return list.Metadata.ResourceVersion
}

// TestReads compares reads as bytes with those of k8s.io/apiserver.
func TestReads(t *testing.T) {
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		t.Run(sem.String(), func(t *testing.T) {
			t.Parallel()
			r := newReaders(t, sem)
			const crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
			r.must(http.StatusCreated, http.MethodPost, crds, r.definition(looseSchema, otherSchema))
			r.revisions = append(r.revisions, r.now())
			r.objects()
			r.revisions = append(r.revisions, r.now())
			requests := 400
			if testing.Short() {
				requests = 120
			}
			r.compareAll(requests)
			r.watches()
			// The schema becomes stricter than what is stored.
			var changed map[string]any
			if err := json.Unmarshal([]byte(strings.Replace(r.definition(strictSchema, looseSchema), `"selectableFields":[{"jsonPath":".spec.color"},{"jsonPath":".spec.size"}],`, "", 1)), &changed); err != nil {
				t.Fatal(err)
			}
			r.update(crds+"/things.reads.example.com", func(stored map[string]any) {
				maps.Copy(stored["spec"].(map[string]any), changed["spec"].(map[string]any))
			})
			r.compareAll(requests)
		})
	}
}
