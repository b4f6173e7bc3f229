package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"espalier.dev/analysis/audit"
	"espalier.dev/api/codec"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/crd/compliance"
	"espalier.dev/espaliertest"
	"espalier.dev/internal/testcase"
	"espalier.dev/schema"
)

// newAuditedServer starts a server that stores objects in namespaces that do not exist.
func newAuditedServer(t *testing.T, options ...espaliertest.Option) *etcdServer {
	t.Helper()
	return newEtcdServer(t, append(options, espaliertest.WithFlags("--disable-admission-plugins=NamespaceLifecycle"))...)
}

// auditReport is the report of audit as JSON.
type auditReport struct {
	Findings []struct {
		Rule, Path, Message string
		Affected            *report.Affected
	}
	Summary struct {
		Objects, Failures, NonCompliant, Unspecified int
		Semantics                                    string
	}
}

// runAudit runs audit. It returns its exit code, its report as text, and as values.
func runAudit(t *testing.T, args ...string) (code int, text string, r auditReport) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	a := newApp(strings.NewReader(""), &stdout, &stderr)
	code = a.run(t.Context(), append([]string{"audit", "-o", "json", "--no-config"}, args...))
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		t.Fatalf("audit %s: %v: %s %s", args, err, stdout.String(), stderr.String())
	}
	return code, stdout.String() + stderr.String(), r
}

// TestAuditCorpus creates CRDs and objects of the corpus on a server, and writes others beside
// them to etcd that do not comply. The audits of the etcd and of a snapshot of it must be equal,
// and find what the engine finds in each object.
func TestAuditCorpus(t *testing.T) {
	if testing.Short() {
		t.Skip("the corpus takes a while")
	}
	t.Parallel()
	e := newAuditedServer(t)
	definitions, objects := loadAuditCorpus(t)
	var sources []any
	for _, d := range definitions {
		text, err := json.Marshal(d.CRD())
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, text)
	}
	e.InstallCRDs(t, sources...)
	client := dynamic.NewForConfigOrDie(e.Config())
	accepted := 0
	for _, o := range objects {
		gvk := o.GroupVersionKind()
		var r dynamic.ResourceInterface = client.Resource(runtimeschema.GroupVersionResource{Group: gvk.Group, Version: gvk.Version, Resource: o.definition.CRD().Spec.Names.Plural})
		if o.definition.Namespaced() {
			r = r.(dynamic.NamespaceableResourceInterface).Namespace(o.GetNamespace())
		}
		if _, err := r.Create(t.Context(), o.DeepCopy(), metav1.CreateOptions{}); err == nil {
			accepted++
		}
	}
	if accepted < 20 {
		t.Fatalf("only %d objects are accepted", accepted)
	}
	// The server has stored nothing that is unspecified. What was accepted in another version need
	// not be valid in the storage version. The API says the same.
	_, text, served := runAudit(t, "--kubeconfig", e.Kubeconfig(), "--semantics", "kubernetes")
	_, _, normal := runAudit(t, "--etcd-servers", e.endpoint)
	if normal.Summary.Objects != accepted || normal.Summary.Unspecified != 0 || served.Summary != normal.Summary || !strings.Contains(text, ruleServed) {
		t.Errorf("with %d objects, the cluster has %+v, its etcd %+v: %s", accepted, served.Summary, normal.Summary, text)
	}

	values := map[string][]byte{}
	for i, o := range objects {
		values[o.key("raw")] = o.text(t, "raw", func(map[string]any) {})
		values[o.key("bad")] = o.text(t, "bad", func(obj map[string]any) { spoil(obj, i) })
	}
	values[objects[0].key("cut")] = []byte(`{"apiVersion":"v1","kind":`)
	values[objects[1].key("list")] = []byte(`[]`)
	for key, value := range values {
		if _, err := e.etcd.Put(t.Context(), key, string(value)); err != nil {
			t.Fatal(err)
		}
	}
	const all = "1000000"
	codeEtcd, fromEtcd, got := runAudit(t, "--etcd-servers", e.endpoint, "--examples", all)
	codeFile, fromFile, _ := runAudit(t, "--snapshot", e.snapshot(t), "--examples", all)
	if codeEtcd != 1 || codeFile != 1 || fromEtcd != fromFile {
		t.Errorf("exit codes %d and %d; the reports are equal: %t", codeEtcd, codeFile, fromEtcd == fromFile)
	}
	if got.Summary.Objects != accepted+len(values) || got.Summary.Failures != 0 || got.Summary.Semantics != "kubernetes" || got.Summary.Unspecified < 10 {
		t.Errorf("got %+v, want %d objects", got.Summary, accepted+len(values))
	}

	// What the engine finds in each object.
	want := map[string]map[string]bool{}
	failing := 0
	for key, value := range stored(t, e.etcd, definitions) {
		r, err := compliance.New(key.definition).Inspect(t.Context(), value)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Problems) > 0 {
			failing++
		}
		for _, p := range r.Problems {
			group := key.definition.Name() + " " + audit.RuleID(p.Kind) + " " + audit.Pattern(&p)
			if want[group] == nil {
				want[group] = map[string]bool{}
			}
			want[group][key.name] = true
		}
	}
	found := map[string]map[string]bool{}
	for _, f := range got.Findings {
		group := f.Affected.Definition + " " + f.Rule + " " + f.Path
		if found[group] == nil {
			found[group] = map[string]bool{}
		}
		for _, example := range f.Affected.Examples {
			found[group][example.FullName()] = true
		}
		if int64(len(f.Affected.Examples)) != f.Affected.Objects || f.Affected.Values < f.Affected.Objects {
			t.Errorf("%s: %d objects, but %d are named", group, f.Affected.Objects, len(f.Affected.Examples))
		}
	}
	if failing != got.Summary.NonCompliant || len(want) < 20 {
		t.Errorf("%d objects in %d groups do not comply, audit says %d", failing, len(want), got.Summary.NonCompliant)
	}
	for _, group := range slices.Sorted(maps.Keys(want)) {
		if !maps.Equal(want[group], found[group]) {
			t.Errorf("%s: the engine finds %v, audit %v", group, slices.Sorted(maps.Keys(want[group])), slices.Sorted(maps.Keys(found[group])))
		}
		delete(found, group)
	}
	if len(found) > 0 {
		t.Errorf("the engine does not find %v", found)
	}
	t.Logf("%d CRDs, %d objects, %d of them do not comply in %d groups", len(definitions), got.Summary.Objects, failing, len(want))
}

// auditObject is an object of the corpus.
type auditObject struct {
	*unstructured.Unstructured
	definition *crd.Definition
}

// key returns the key in etcd of a variant of the object.
func (o *auditObject) key(variant string) string {
	key := "/registry/" + o.definition.Group() + "/" + o.definition.CRD().Spec.Names.Plural + "/"
	if o.definition.Namespaced() {
		key += o.GetNamespace() + "/"
	}
	return key + o.GetName() + "-" + variant
}

// text returns a variant of the object as JSON.
func (o *auditObject) text(t *testing.T, variant string, change func(map[string]any)) []byte {
	t.Helper()
	c := o.DeepCopy()
	c.SetName(o.GetName() + "-" + variant)
	change(c.Object)
	text, err := json.Marshal(c.Object)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// spoil changes an object so that it does not comply.
func spoil(obj map[string]any, i int) {
	spec, ok := obj["spec"].(map[string]any)
	if !ok {
		spec = map[string]any{}
		obj["spec"] = spec
	}
	switch i % 5 {
	case 0:
		spec["privilegedByAttack"] = true
	case 1:
		obj["spec"] = "text"
	case 2:
		group, _, _ := strings.Cut(obj["apiVersion"].(string), "/")
		obj["apiVersion"] = group + "/v0old"
	case 3:
		obj["metadata"].(map[string]any)["labels"] = 5
	default:
		// Unspecified fields in lists and maps.
		unspecified(spec)
	}
}

func unspecified(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, x := range v {
			unspecified(x)
		}
		v["unspecifiedByAttack"] = map[string]any{"a": int64(1)}
	case []any:
		for _, x := range v {
			unspecified(x)
		}
	}
}

// storedKey is an object in etcd.
type storedKey struct {
	definition *crd.Definition
	name       string
}

// stored returns the stored objects of CRDs.
func stored(t *testing.T, client *clientv3.Client, definitions []*crd.Definition) map[storedKey][]byte {
	t.Helper()
	all := map[storedKey][]byte{}
	for _, d := range definitions {
		prefix := "/registry/" + d.Group() + "/" + d.CRD().Spec.Names.Plural + "/"
		resp, err := client.Get(t.Context(), prefix, clientv3.WithPrefix())
		if err != nil {
			t.Fatal(err)
		}
		for _, kv := range resp.Kvs {
			all[storedKey{d, strings.TrimPrefix(string(kv.Key), prefix)}] = kv.Value
		}
	}
	return all
}

// loadAuditCorpus returns CRDs of the corpus that Kubernetes accepts, and their objects. Each CRD
// has a name and a kind of its own, and no webhook.
func loadAuditCorpus(t *testing.T) (definitions []*crd.Definition, objects []*auditObject) {
	t.Helper()
	root := testcase.Corpus(t)
	index, err := os.ReadFile(filepath.Join(root, "CR_INDEX.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	read := func(file string) []byte {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err == nil {
			text, err = yaml.YAMLToJSON(text)
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		return text
	}
	most, step := 12, 29 // CRDs, and the distance between them
	if testcase.WholeCorpus() {
		most, step = 1<<30, 1
	}
	byFile, byKind, names := map[string]*crd.Definition{}, map[runtimeschema.GroupKind]string{}, map[string]bool{}
	options := crd.Options{Semantics: schema.Kubernetes, Rules: cel.Checker{}}
	for i, line := range strings.Split(strings.TrimSpace(string(index)), "\n")[1:] {
		columns := strings.Split(line, "\t")
		d, known := byFile[columns[1]]
		if !known && strings.HasPrefix(columns[1], "v1/") && len(definitions) < most && i%step == 0 {
			hub, err := codec.DecodeLenient(read(columns[1]))
			if err != nil {
				continue
			}
			hub.Spec.Conversion = nil
			crd.PrepareCreate(hub)
			kind := runtimeschema.GroupKind{Group: hub.Spec.Group, Kind: hub.Spec.Names.Kind}
			if names[hub.Name] || byKind[kind] != "" || len(crd.ValidateCreate(context.Background(), hub, options).Errors) > 0 {
				continue
			}
			if d, err = crd.New(hub, options); err != nil {
				t.Fatal(err)
			}
			names[hub.Name], byKind[kind] = true, hub.Name
			definitions = append(definitions, d)
			byFile[columns[1]] = d
		}
		if d == nil || len(objects) > 100 && !testcase.WholeCorpus() {
			continue
		}
		o := &auditObject{&unstructured.Unstructured{}, d}
		if err := json.Unmarshal(read(columns[0]), &o.Object); err != nil || d.Version(o.GroupVersionKind().Version) == nil {
			continue
		}
		o.SetName(fmt.Sprintf("o-%d", i))
		o.SetGenerateName("")
		o.SetFinalizers(nil)
		if o.SetNamespace(""); d.Namespaced() {
			o.SetNamespace(fmt.Sprintf("ns%d", i%3))
		}
		objects = append(objects, o)
	}
	return definitions, objects
}
