package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"espalier.dev/analysis"
	"espalier.dev/analysis/lookup"
	"espalier.dev/analysis/object"
	"espalier.dev/espaliertest"
	"espalier.dev/internal/gomod"
	"espalier.dev/kinds"
)

// TestBuiltinReplay sends objects of built-in kinds from files to validate and to a server: the
// verdicts are the same. By default it reads the examples and those of k8s.io/api, with
// ESPALIER_REPLAY the files below that directory, for example the module cache, up to
// ESPALIER_REPLAY_OBJECTS distinct objects.
func TestBuiltinReplay(t *testing.T) {
	if testing.Short() {
		t.Skip("sends thousands of objects")
	}
	t.Parallel()
	most, err := strconv.Atoi(getenv("ESPALIER_REPLAY_OBJECTS", "5000"))
	if err != nil {
		t.Fatal(err)
	}
	objects := &replayedObjects{t: t, has: lookup.IsBuiltin, seen: map[[sha256.Size]byte]bool{}, most: most}
	if dir := os.Getenv("ESPALIER_REPLAY"); dir != "" {
		objects.read(dir)
	} else {
		module, err := gomod.Dir("", "k8s.io/api")
		if err != nil {
			t.Fatal(err)
		}
		objects.read(filepath.Join(module, "testdata", "HEAD"))
		objects.read(filepath.Join("..", "..", "examples"))
		objects.read("testdata")
	}
	if len(objects.all) < 50 {
		t.Fatalf("there are only %d objects", len(objects.all))
	}

	paths := map[runtimeschema.GroupVersionKind]string{}
	for _, r := range kinds.Resources() {
		if r.CreateOnly {
			continue // validate only decodes what is not stored
		}
		gvr := r.GroupVersionResource()
		path := "/apis/" + gvr.GroupVersion().String()
		if gvr.Group == "" {
			path = "/api/" + gvr.Version
		}
		if r.Namespaced {
			path += "/namespaces/default"
		}
		paths[r.GroupVersionKind()] = path + "/" + gvr.Resource
	}
	server := espaliertest.Start(t)
	client, err := rest.HTTPClientFor(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	work := make(chan *replayedObject)
	for range 4 {
		wg.Go(func() {
			for o := range work {
				var errors []string
				for _, f := range builtinChecker().Check(t.Context(), o.json, nil, object.Warn) {
					if f.Severity == analysis.Error {
						errors = append(errors, f.Path+": "+f.Message)
					}
				}
				answer, message := createDry(t, client, server.URL()+paths[o.kind], o.json)
				mu.Lock()
				class := fmt.Sprintf("%s, and validate accepts: %t", answer, len(errors) == 0)
				counts[class]++
				if answer == accepted && len(errors) > 0 || answer == rejected && len(errors) == 0 {
					t.Errorf("%s: %s %s: validate: %q, the server: %s %s", o.file, o.kind, o.name, errors, answer, message)
				} else if answer == forbidden || answer == allocation {
					t.Logf("%s: %s %s: validate: %q, the server: %s %s", o.file, o.kind, o.name, errors, answer, message)
				}
				mu.Unlock()
			}
		})
	}
	for _, o := range objects.all {
		if paths[o.kind] != "" {
			work <- o
		}
	}
	close(work)
	wg.Wait()
	for _, class := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%6d %s", counts[class], class)
	}
}

// The answers of the server.
const (
	accepted = "accepted"
	rejected = "rejected"
	// forbidden is the answer of an admission plugin, which depends on stored objects.
	forbidden = "forbidden"
	// allocation is the answer to IPs and ports that the server cannot allocate.
	allocation = "not allocated"
)

// createDry creates an object in a dry run.
func createDry(t *testing.T, client *http.Client, url string, text []byte) (answer, message string) {
	code, body, _, err := request(t.Context(), client, http.MethodPost, url+"?dryRun=All&fieldValidation=Warn", text)
	if err != nil {
		t.Error(err)
		return "", ""
	}
	var status metav1.Status
	if code < 300 {
		return accepted, ""
	}
	if err := json.Unmarshal(body, &status); err != nil {
		t.Errorf("%v: %s", err, body)
	}
	switch status.Code {
	case http.StatusConflict:
		return accepted, "" // an object of this name exists
	case http.StatusForbidden:
		return forbidden, status.Message
	}
	if strings.Contains(status.Message, ": failed to allocate ") {
		return allocation, status.Message
	}
	return rejected, fmt.Sprint(status.Code, " ", status.Message)
}

// replayedObject is an object of a built-in kind.
type replayedObject struct {
	file, name string
	kind       runtimeschema.GroupVersionKind
	json       []byte
}

// replayedObjects collects distinct objects.
type replayedObjects struct {
	t    *testing.T
	has  func(apiVersion, kind string) bool
	all  []*replayedObject
	seen map[[sha256.Size]byte]bool
	most int
}

// read reads the files below a directory. Files that cannot be read have no objects.
func (r *replayedObjects) read(dir string) {
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ext := filepath.Ext(file); d.IsDir() || ext != ".yaml" && ext != ".yml" && ext != ".json" {
			return nil
		}
		if info, err := d.Info(); err != nil || info.Size() > 1<<20 {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if !bytes.Contains(text, []byte("apiVersion")) {
			return nil
		}
		documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
		for {
			document, err := documents.Read()
			if err != nil {
				return nil
			}
			if data, err := yaml.YAMLToJSON(document); err == nil {
				r.add(file, data)
			}
			if len(r.all) >= r.most {
				return errEnough
			}
		}
	})
	if err != nil && !errors.Is(err, errEnough) {
		r.t.Error(err)
	}
}

var errEnough = errors.New("enough")

// add adds an object, or the items of a list. They are created in the namespace default, and
// not as copies of stored objects.
func (r *replayedObjects) add(file string, data []byte) {
	var o map[string]any
	if json.Unmarshal(data, &o) != nil {
		return
	}
	if items, ok := o["items"].([]any); ok {
		for _, item := range items {
			if text, err := json.Marshal(item); err == nil {
				r.add(file, text)
			}
		}
		return
	}
	apiVersion, _ := o["apiVersion"].(string)
	kind, _ := o["kind"].(string)
	if !r.has(apiVersion, kind) {
		return
	}
	name := ""
	if meta, ok := o["metadata"].(map[string]any); ok {
		name, _ = meta["name"].(string)
		delete(meta, "namespace")
		delete(meta, "resourceVersion")
	}
	text, err := json.Marshal(o)
	if err != nil {
		r.t.Error(err)
		return
	}
	if sum := sha256.Sum256(text); !r.seen[sum] {
		r.seen[sum] = true
		r.all = append(r.all, &replayedObject{file, name, runtimeschema.FromAPIVersionAndKind(apiVersion, kind), text})
	}
}

// getenv returns a variable of the environment, or a default.
func getenv(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}
