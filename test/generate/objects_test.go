package generate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"espalier.dev/analysis/generate"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// passed is an object on its way through Go types.
type passed struct {
	Project, APIVersion, Kind string
	Object                    json.RawMessage
	version                   *crd.Version
}

// TestCorpusObjects passes the objects of the corpus, as the API server would store them,
// through the generated Go types: nothing is lost. Each change of a value has a class.
func TestCorpusObjects(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	all := projects(t)
	objects := stored(t, all)
	if len(objects) == 0 {
		t.Fatal("there are no objects")
	}
	pass(t, all, objects)
}

// pass passes objects through the generated Go types of projects, and compares the results.
func pass(t *testing.T, all []*project, objects []passed) {
	t.Helper()
	dir := newModule(t)
	imports, schemes := "", ""
	for i, p := range all {
		generateGo(t, dir+"/"+p.name, p.packages)
		for j, pkg := range p.packages {
			imports += fmt.Sprintf("p%d_%d \"espalier.dev/generated/%s/%s\"\n", i, j, p.name, pkg.Dir())
			schemes += fmt.Sprintf("add(%q, p%d_%d.AddToScheme)\n", p.name, i, j)
		}
	}
	program := fmt.Sprintf(passProgram, imports, schemes)
	writeFiles(t, dir, generate.Files{"main.go": []byte(program)})
	goTool(t, dir, "build", "-ldflags=-w", "-o", "pass", ".")
	var stdin bytes.Buffer
	encoder := json.NewEncoder(&stdin)
	for _, o := range objects {
		if err := encoder.Encode(o); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command(filepath.Join(dir, "pass"))
	c.Stdin, c.Stderr = &stdin, os.Stderr
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(bytes.NewReader(out))
	counts := map[string]int{}
	for _, o := range objects {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		var want, got any
		if err := json.Unmarshal(o.Object, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatalf("%s %s: %v", o.Project, o.Kind, err)
		}
		compareValues(t, o.Project+" "+o.Kind, want, got, counts)
	}
	t.Logf("%d objects, changes: %v", len(objects), counts)
}

// stored returns the objects of projects, as the API server would store them.
func stored(t *testing.T, all []*project) (objects []passed) {
	t.Helper()
	versions := map[[3]string]*crd.Version{}
	for _, p := range all {
		for _, pkg := range p.packages {
			for _, k := range pkg.Kinds {
				versions[[3]string{p.name, pkg.Group + "/" + pkg.Version, k.Name}] = k.Version
			}
		}
	}
	index, err := os.ReadFile(filepath.Join(corpusDir(t), "CR_INDEX.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(index)) {
		columns := strings.Split(strings.TrimSpace(line), "\t")
		path := strings.Split(columns[1], "/")
		if len(path) != 3 || path[0] != "v1" || !strings.HasPrefix(columns[0], "cr/") {
			continue
		}
		v := versions[[3]string{path[1], columns[2], columns[3]}]
		if v == nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(corpusDir(t), columns[0]))
		if err != nil {
			t.Fatal(err)
		}
		object, err := yaml.YAMLToJSON(text)
		if err != nil {
			continue
		}
		program, err := v.Program()
		if err != nil {
			t.Fatal(err)
		}
		decoded, _, err := program.Decode(object, schema.DecodeOptions{})
		if err != nil {
			continue
		}
		if violations, err := v.Validate(t.Context(), decoded, nil); err != nil || len(violations) > 0 {
			continue
		}
		encoded, err := json.Marshal(decoded)
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, passed{path[1], columns[2], columns[3], encoded, v})
	}
	return objects
}

// compareValues compares JSON values and counts the changes that the mapping documents.
func compareValues(t *testing.T, path string, want, got any, counts map[string]int) {
	w, ok1 := want.(map[string]any)
	g, ok2 := got.(map[string]any)
	if ok1 && ok2 {
		for _, name := range slices.Sorted(maps.Keys(union(w, g))) {
			value, there := g[name]
			switch {
			case !there && w[name] == nil:
				counts["null became absent"]++
			case !there && isEmptyValue(w[name]):
				counts["an empty value of a type of another package became absent"]++
			default:
				compareValues(t, path+"."+name, w[name], value, counts)
			}
		}
		return
	}
	wl, ok1 := want.([]any)
	gl, ok2 := got.([]any)
	if ok1 && ok2 && len(wl) == len(gl) {
		for i := range wl {
			compareValues(t, fmt.Sprintf("%s[%d]", path, i), wl[i], gl[i], counts)
		}
		return
	}
	if fmt.Sprint(want) == fmt.Sprint(got) && marshal(want) == marshal(got) {
		return
	}
	if a, err := resource.ParseQuantity(fmt.Sprint(want)); err == nil {
		if b, err := resource.ParseQuantity(fmt.Sprint(got)); err == nil && a.Cmp(b) == 0 {
			counts["a quantity in canonical form"]++
			return
		}
	}
	if a, err := time.Parse(time.RFC3339, fmt.Sprint(want)); err == nil {
		if b, err := time.Parse(time.RFC3339, fmt.Sprint(got)); err == nil && a.Truncate(time.Second).Equal(b) {
			counts["a time in canonical form"]++
			return
		}
	}
	t.Errorf("%s: %.200s became %.200s", path, marshal(want), marshal(got))
}

func isEmptyValue(v any) bool {
	switch marshal(v) {
	case `""`, "0", "false", "[]", "{}":
		return true
	}
	return false
}

// passProgram decodes and encodes objects. Its arguments are imports and schemes.
const passProgram = `package main

import (
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	%s
)

func main() {
	schemes := map[string]*runtime.Scheme{}
	add := func(project string, addToScheme func(*runtime.Scheme) error) {
		if schemes[project] == nil {
			schemes[project] = runtime.NewScheme()
		}
		if err := addToScheme(schemes[project]); err != nil {
			panic(err)
		}
	}
	%s
	d, e := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for d.More() {
		var in struct {
			Project, APIVersion, Kind string
			Object                    json.RawMessage
		}
		if err := d.Decode(&in); err != nil {
			panic(err)
		}
		object, err := schemes[in.Project].New(schema.FromAPIVersionAndKind(in.APIVersion, in.Kind))
		if err != nil {
			panic(err)
		}
		if err := utiljson.Unmarshal(in.Object, object); err != nil {
			fmt.Fprintln(os.Stderr, in.Project, in.Kind, err)
			_ = e.Encode(err.Error())
			continue
		}
		if err := e.Encode(object.DeepCopyObject()); err != nil {
			panic(err)
		}
	}
}
`
