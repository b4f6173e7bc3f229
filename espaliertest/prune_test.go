package espaliertest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"espalier.dev/analysis/explain/sample"
	"espalier.dev/analysis/object"
	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/internal/jsonx"
	"espalier.dev/internal/testcase"
	"espalier.dev/internal/yamlx"
	"espalier.dev/schema"
)

// TestPruneIsWhatTheServerReturns creates objects in all versions of CRDs, and compares what
// the server returns with what package object predicts.
func TestPruneIsWhatTheServerReturns(t *testing.T) {
	files, err := filepath.Glob("testdata/versions/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		t.Run(sem.String(), func(t *testing.T) {
			p := &pruning{T: t, server: Start(t, WithSemantics(sem)), semantics: sem}
			for _, file := range files {
				p.file(file)
			}
			if p.compared < 20 || p.changed < 5 || p.rejected == 0 {
				t.Errorf("%d objects compared, %d of them changed by their storage version, %d rejected: too few", p.compared, p.changed, p.rejected)
			}
		})
	}
}

// TestPruneCorpus is TestPruneIsWhatTheServerReturns for generated objects of real CRDs.
func TestPruneCorpus(t *testing.T) {
	if testing.Short() {
		t.Skip("the corpus takes a while")
	}
	dir := testcase.Corpus(t)
	files, err := filepath.Glob(filepath.Join(dir, "v1", "*", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skipf("SKIPPED: no corpus in %s (set ESPALIER_CORPUS to use another directory)", dir)
	}
	p := &pruning{T: t, server: Start(t, WithSemantics(schema.Kubernetes)), semantics: schema.Kubernetes}
	for _, file := range files {
		if info, err := os.Stat(file); err != nil || info.Size() > 250_000 {
			continue // generating objects takes long
		}
		p.file(file)
	}
	if p.compared < 20 || p.changed < 5 {
		t.Errorf("%d objects compared, %d of them changed by their storage version: too few", p.compared, p.changed)
	}
	t.Logf("%d objects compared, %d of them changed by their storage version, %d rejected", p.compared, p.changed, p.rejected)
}

// pruning compares a server with package object.
type pruning struct {
	*testing.T
	server    *Server
	semantics schema.Semantics

	compared, rejected int
	// changed counts the objects that differ from their decoded form.
	changed int
}

// file compares the objects of the CRDs in a file: those that follow the CRD, written in each
// version, and generated ones.
func (p *pruning) file(path string) {
	p.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		p.Fatal(err)
	}
	if bytes.Count(text, []byte("storage:")) < 2 {
		return // it has one version
	}
	var v *versions
	for r := yamlx.NewBytesReader(text, yamlx.Options{}); ; {
		d, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			p.Fatalf("%s: %v", path, err)
		}
		src, err := d.JSON()
		if err != nil {
			p.Fatalf("%s: %v", path, err)
		}
		if id, err := api.Identify(src); err == nil && api.IsDefinition(id) {
			v = p.install(path, src)
		} else if v != nil {
			v.object(src)
		}
	}
}

// versions are the versions of a CRD.
type versions struct {
	*pruning
	definition *crd.Definition
	checker    *object.Checker
	client     dynamic.Interface
}

// install installs a CRD and compares generated objects of its versions. It returns nil if
// its objects are not converted.
func (p *pruning) install(path string, src []byte) *versions {
	p.Helper()
	decoded, err := codec.DecodeLenient(src)
	if err != nil {
		p.Fatalf("%s: %v", path, err)
	}
	crd.PrepareCreate(decoded)
	if decoded.Spec.Conversion.Strategy != api.NoneConverter || len(decoded.Spec.Versions) < 2 {
		return nil
	}
	definition, err := crd.New(decoded, crd.Options{Semantics: p.semantics, Rules: cel.Checker{}})
	if err != nil {
		p.Fatalf("%s: %v", path, err)
	}
	p.server.InstallCRDs(p, src)
	v := &versions{pruning: p, definition: definition, checker: object.New(definition, object.Options{})}
	if v.client, err = dynamic.NewForConfig(p.server.Config()); err != nil {
		p.Fatal(err)
	}
	for _, version := range definition.Versions() {
		if !version.Served() || reflect.DeepEqual(version.Structural(), definition.Storage().Structural()) {
			continue
		}
		for _, size := range []sample.Size{sample.Minimal, sample.Full} {
			s, err := sample.New(p.Context(), version, size)
			if err != nil {
				p.Fatalf("%s: %v", path, err)
			}
			v.compare(version, s.Object)
		}
	}
	return v
}

// object compares an object in each version.
func (v *versions) object(src []byte) {
	for _, version := range v.definition.Versions() {
		value, err := jsonx.Parse(src)
		if err != nil {
			v.Fatal(err)
		}
		gvk := version.GroupVersionKind()
		obj := value.(map[string]any)
		obj["apiVersion"], obj["kind"] = gvk.GroupVersion().String(), gvk.Kind
		v.compare(version, obj)
	}
}

// compare creates an object and compares what the server returns with what is predicted.
func (v *versions) compare(version *crd.Version, obj schema.Object) {
	v.Helper()
	ctx := v.Context()
	meta, ok := obj["metadata"].(map[string]any)
	if !ok {
		meta = map[string]any{}
		obj["metadata"] = meta
	}
	meta["name"] = fmt.Sprint("object-", v.compared+v.rejected)
	if v.definition.Namespaced() {
		meta["namespace"] = "default"
	}
	src, err := json.Marshal(obj)
	if err != nil {
		v.Fatal(err)
	}
	in := func(version *crd.Version) dynamic.ResourceInterface {
		resource := v.client.Resource(version.GroupVersionKind().GroupVersion().WithResource(v.definition.Names().Plural))
		if v.definition.Namespaced() {
			return resource.Namespace("default")
		}
		return resource
	}
	read, stored := v.checker.Prune(src), v.checker.PruneStored(src)
	_, err = in(version).Create(ctx, &unstructured.Unstructured{Object: obj}, metav1.CreateOptions{})
	switch {
	case apierrors.IsInvalid(err): // prune does not validate
		v.rejected++
		return
	case apierrors.IsBadRequest(err):
		if v.rejected++; read.Failures == nil || stored.Failures == nil {
			v.Errorf("%s: the server rejects it: %v", src, err)
		}
		return
	case err != nil || read.Failures != nil || stored.Failures != nil:
		v.Errorf("%s: %v; %v; %v", src, err, read.Failures, stored.Failures)
		return
	}
	v.compared++
	got, err := in(version).Get(ctx, meta["name"].(string), metav1.GetOptions{})
	if err != nil {
		v.Fatal(err)
	}
	if got, want := given(got.Object), given(read.Object); !reflect.DeepEqual(got, want) {
		v.Errorf("%s: the server returns\n%v, want\n%v", src, got, want)
	}
	program, err := version.Program()
	if err != nil {
		v.Fatal(err)
	}
	if decoded, _, err := program.Decode(src, schema.DecodeOptions{}); err != nil || !reflect.DeepEqual(given(decoded), given(read.Object)) {
		v.changed++
	}
	// The stored form gets the defaults of the storage version when it is read.
	if got, err = in(v.definition.Storage()).Get(ctx, meta["name"].(string), metav1.GetOptions{}); err != nil {
		v.Fatal(err)
	}
	if program, err = v.definition.Storage().Program(); err == nil {
		_, err = program.Normalize(stored.Object, schema.DecodeOptions{})
	}
	if got, want := given(got.Object), given(stored.Object); err != nil || !reflect.DeepEqual(got, want) {
		v.Errorf("%s: the server returns in the storage version\n%v, want\n%v (%v)", src, got, want, err)
	}
}

// given returns an object without its status, which clients cannot create, and without the
// metadata that the server sets.
func given(obj schema.Object) schema.Object {
	obj = jsonx.CopyObject(obj)
	delete(obj, "status")
	meta := obj["metadata"].(map[string]any)
	for _, field := range []string{"uid", "creationTimestamp", "generation", "resourceVersion", "managedFields"} {
		delete(meta, field)
	}
	return obj
}
