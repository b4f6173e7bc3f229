package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/source"
	"espalier.dev/crd"
	"espalier.dev/schema"
	"espalier.dev/server/definitions/protobuf"
	"espalier.dev/server/keys"
)

// collectObjects returns the objects of a sequence by CRD and name, and the other places that are not
// errors as text.
func collectObjects(t testing.TB, all iter.Seq2[source.Object, error]) (objects map[string]string, failures []*source.Failure) {
	t.Helper()
	objects = map[string]string{}
	for o, err := range all {
		var failure *source.Failure
		switch {
		case errors.As(err, &failure):
			failures = append(failures, failure)
			continue
		case err != nil:
			t.Fatal(err)
		}
		key := o.Definition + " " + o.FullName()
		if _, twice := objects[key]; twice {
			t.Errorf("%s is returned twice", key)
		}
		if o.Where() == "" && o.Name != o.Definition {
			t.Errorf("%s is nowhere", key)
		}
		objects[key] = string(o.JSON)
	}
	return objects, failures
}

func objectNames(objects map[string]string) []string { return slices.Sorted(maps.Keys(objects)) }

// loadedServer is a server with objects, and its etcd.
type loadedServer struct {
	*etcdServer
	crds []string
	// stored are the values of the objects by CRD and name.
	stored map[string]string
}

func loadServer(t *testing.T) *loadedServer {
	t.Helper()
	l := &loadedServer{etcdServer: newAuditedServer(t), stored: map[string]string{},
		crds: []string{exampleCRD("jobs", "Job", "Namespaced"), exampleCRD("sites", "Site", "Cluster"), exampleCRD("jobsets", "JobSet", "Namespaced")}}
	sources := []any{}
	for _, c := range l.crds {
		sources = append(sources, []byte(c))
	}
	l.InstallCRDs(t, sources...)
	objects := dynamic.NewForConfigOrDie(l.Config())
	create := func(resource, kind, namespace, name string) {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": kind, "metadata": map[string]any{"name": name}, "spec": map[string]any{"n": int64(1)}}}
		var r dynamic.ResourceInterface = objects.Resource(runtimeschema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: resource})
		key := "/registry/example.com/" + resource + "/" + name
		if namespace != "" {
			r = r.(dynamic.NamespaceableResourceInterface).Namespace(namespace)
			key = "/registry/example.com/" + resource + "/" + namespace + "/" + name
		}
		if _, err := r.Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		// What the server stored, with a field that no version of the schema has.
		resp, err := l.etcd.Get(t.Context(), key)
		if err != nil || len(resp.Kvs) != 1 {
			t.Fatal(key, resp, err)
		}
		value := strings.Replace(string(resp.Kvs[0].Value), `"spec":{`, `"spec":{"hidden":true,`, 1)
		if _, err := l.etcd.Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
		l.stored[strings.TrimSpace(resource+".example.com "+strings.TrimPrefix(namespace+"/"+name, "/"))] = value
	}
	for i := range 60 {
		create("jobs", "Job", fmt.Sprintf("ns%d", i%3), fmt.Sprintf("job-%d", i))
	}
	create("jobsets", "JobSet", "ns1", "job-1")
	create("sites", "Site", "", "site")
	create("sites", "Site", "", "ns1")
	return l
}

func writeTemp(t testing.TB, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// writeDump writes the objects of a source as Velero does.
func writeDump(t *testing.T, objects map[string]string, definitions []string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	put := func(path, text string) {
		path = filepath.Join(dir, filepath.FromSlash(path))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	put("metadata/version", "1.1.0\n")
	for _, c := range definitions {
		put("resources/customresourcedefinitions.apiextensions.k8s.io/v1-preferredversion/cluster/"+exampleDefinition(t, c).Name()+".json", c)
		put("resources/customresourcedefinitions.apiextensions.k8s.io/cluster/"+exampleDefinition(t, c).Name()+".json", c)
	}
	put("resources/pods/namespaces/ns1/pod.json", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"pod","namespace":"ns1"}}`)
	for key, text := range objects {
		resource, name, _ := strings.Cut(key, " ")
		at := "cluster/" + name
		if namespace, name, ok := strings.Cut(name, "/"); ok {
			at = "namespaces/" + namespace + "/" + name
		}
		put("resources/"+resource+"/v2/"+at+".json", strings.ReplaceAll(text, "example.com/v1", "example.com/v2"))
		put("resources/"+resource+"/v1-preferredversion/"+at+".json", text)
		if !strings.HasPrefix(key, "sites") {
			put("resources/"+resource+"/"+at+".json", text)
		}
	}
	return dir
}

func packDump(t *testing.T, dir string) []byte {
	t.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	archive := tar.NewWriter(zip)
	err := errors.Join(archive.AddFS(os.DirFS(dir)), archive.Close(), zip.Close())
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestSources reads the same objects from sources of all kinds.
func TestSources(t *testing.T) {
	t.Parallel()
	l := loadServer(t)
	var all []*crd.Definition
	for _, c := range l.crds {
		all = append(all, exampleDefinition(t, c))
	}
	// A CRD in the storage of kube-apiserver is protobuf.
	hub, err := codec.DecodeLenient([]byte(exampleCRD("others", "Other", "Cluster")))
	if err != nil {
		t.Fatal(err)
	}
	message, _, err := protobuf.Encode(hub)
	if err != nil {
		t.Fatal(err)
	}
	envelope, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: api.APIVersion, Kind: api.Kind}, Raw: message}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	snapshot := l.snapshot(t)
	if _, err := l.etcd.Put(t.Context(), "/other/apiextensions.k8s.io/customresourcedefinitions/others.example.com", "k8s\x00"+string(envelope)); err != nil {
		t.Fatal(err)
	}

	var manifests strings.Builder
	for _, text := range append(slices.Collect(maps.Values(l.stored)), l.crds...) {
		manifests.WriteString(text + "\n---\n")
	}
	dir := writeDump(t, l.stored, l.crds)
	open := map[string]func() (source.Source, error){
		"etcd": func() (source.Source, error) {
			return source.OpenEtcd(t.Context(), source.Etcd{Endpoints: source.Endpoints{URLs: []string{l.endpoint}}, Prefix: "/registry"})
		},
		"snapshot": func() (source.Source, error) {
			return source.OpenEtcd(t.Context(), source.Etcd{Snapshot: snapshot, Prefix: "registry/"})
		},
		"cluster": func() (source.Source, error) {
			return source.OpenCluster(source.Cluster{Kubeconfig: l.Kubeconfig()})
		},
		"directory": func() (source.Source, error) { return source.OpenDump("", dir) },
		"archive": func() (source.Source, error) {
			return source.OpenDump("", writeTemp(t, "backup.tar.gz", packDump(t, dir)))
		},
		"files": func() (source.Source, error) {
			return source.OpenFiles(nil, input.Flags{Paths: []string{writeTemp(t, "all.yaml", []byte(manifests.String()))}}), nil
		},
		"stdin": func() (source.Source, error) {
			return source.OpenFiles(strings.NewReader(manifests.String()), input.Flags{Paths: []string{"-"}}), nil
		},
	}
	for name, open := range open {
		t.Run(name, func(t *testing.T) {
			s, err := open()
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}()
			definitions, failures := collectObjects(t, s.Definitions(t.Context()))
			if len(failures) > 0 || len(definitions) != len(all) {
				t.Fatalf("CRDs: %v %v", objectNames(definitions), failures)
			}
			for _, d := range all {
				if got := exampleDefinition(t, definitions[d.Name()+" "+d.Name()]); got.Name() != d.Name() {
					t.Errorf("got the CRD %s, want %s", got.Name(), d.Name())
				}
			}
			got, failures := collectObjects(t, s.Objects(t.Context(), source.Selection{Definitions: all}))
			if !slices.Equal(objectNames(got), objectNames(l.stored)) || len(failures) > 0 {
				t.Errorf("got %v %v, want %v", objectNames(got), failures, objectNames(l.stored))
			}
			for key, text := range got {
				if stored := strings.Contains(text, "hidden"); stored != (name != "cluster") {
					t.Errorf("%s: got %s", key, text)
					break
				}
			}
			if s.Stored() && name != "files" && name != "stdin" && !maps.Equal(got, l.stored) {
				t.Error("values differ from those in etcd")
			}
			semantics, err := s.Semantics(t.Context())
			if want := map[bool]string{true: "kubernetes"}[name == "etcd" || name == "snapshot"]; semantics != want || err != nil {
				t.Errorf("semantics: got %q %v, want %q", semantics, err, want)
			}
			got, _ = collectObjects(t, s.Objects(t.Context(), source.Selection{Definitions: all[:2], Namespaces: []string{"ns1", "none"}, Name: "job-1"}))
			if want := []string{"jobs.example.com ns1/job-1"}; !slices.Equal(objectNames(got), want) {
				t.Errorf("selected: got %v, want %v", objectNames(got), want)
			}
			got, _ = collectObjects(t, s.Objects(t.Context(), source.Selection{Definitions: all[1:2]}))
			if len(got) != 2 {
				t.Errorf("sites: got %v", objectNames(got))
			}
			// A caller can stop at any object.
			for range s.Objects(t.Context(), source.Selection{Definitions: all}) {
				break
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			var failed error
			for _, err := range s.Objects(ctx, source.Selection{Definitions: all}) {
				failed = err
			}
			if name != "snapshot" && !errors.Is(failed, context.Canceled) { // it is small
				t.Errorf("cancelled: got %v", failed)
			}
		})
	}
	s, err := source.OpenEtcd(t.Context(), source.Etcd{Endpoints: source.Endpoints{URLs: []string{l.endpoint}}, Prefix: "/other"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	definitions, _ := collectObjects(t, s.Definitions(t.Context()))
	if d := exampleDefinition(t, definitions["others.example.com others.example.com"]); d.Version("v1") == nil {
		t.Error("a CRD in protobuf is not read")
	}
	// Data in the format of a newer release.
	if _, err := l.etcd.Put(t.Context(), keys.NewRoot("/other").Format(), "2 v2.0.0"); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]source.Etcd{
		"etcd":     {Endpoints: source.Endpoints{URLs: []string{l.endpoint}}, Prefix: "/other"},
		"snapshot": {Snapshot: l.snapshot(t), Prefix: "/other"},
	} {
		var newer *keys.NewerFormatError
		if s, err := source.OpenEtcd(t.Context(), c); !errors.As(err, &newer) {
			t.Errorf("%s in a newer format: got %v, %v", name, s, err)
		}
	}
}

func TestDumpErrors(t *testing.T) {
	t.Parallel()
	good := packDump(t, writeDump(t, map[string]string{"jobs.example.com ns1/a": `{"kind":"Job"}`}, []string{exampleCRD("jobs", "Job", "Namespaced")}))
	altered := bytes.Clone(good)
	altered[len(altered)-3] ^= 1
	selected := source.Selection{Definitions: []*crd.Definition{exampleDefinition(t, exampleCRD("jobs", "Job", "Namespaced"))}}
	for name, data := range map[string][]byte{"cut off": good[:len(good)/2], "altered": altered, "empty": nil, "text": []byte(strings.Repeat("text", 1000))} {
		s, err := source.OpenDump("", writeTemp(t, "backup.tar.gz", data))
		if err != nil {
			t.Fatal(err)
		}
		var failed error
		for _, failed = range s.Objects(t.Context(), selected) {
		}
		if failed == nil || (name == "empty" || name == "text") != errors.Is(failed, source.ErrNotDump) {
			t.Errorf("%s: got %v", name, failed)
		}
	}
	if _, err := source.OpenDump("", filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func exampleCRD(plural, kind, scope string) string {
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%[1]s.example.com"},"spec":{"group":"example.com",
		"names":{"plural":%[1]q,"singular":%[3]q,"kind":%[2]q,"listKind":"%[2]sList"},"scope":%[4]q,"versions":[
		{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"n":{"type":"integer"}}}}}}},
		{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`,
		plural, kind, strings.ToLower(kind), scope)
}

func exampleDefinition(t testing.TB, src string) *crd.Definition {
	t.Helper()
	hub, err := codec.DecodeLenient([]byte(src))
	if err != nil {
		t.Fatal(err)
	}
	d, err := crd.New(hub, crd.Options{Semantics: schema.KEP})
	if err != nil {
		t.Fatal(err)
	}
	return d
}
