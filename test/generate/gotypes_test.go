package generate

import (
	"encoding/json"
	"fmt"
	"go/types"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	gopackages "golang.org/x/tools/go/packages"
	"sigs.k8s.io/controller-tools/pkg/crd"

	"espalier.dev/analysis/generate"
	"espalier.dev/analysis/generate/golang"
	"espalier.dev/api"
)

// document returns a CRD of a kind with a schema, in JSON.
func document(t *testing.T, group, version, kind string, root *api.JSONSchemaProps) []byte {
	t.Helper()
	plural := strings.ToLower(kind) + "s"
	text, err := json.Marshal(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": plural + "." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced", "names": map[string]any{"plural": plural, "kind": kind},
			"versions": []any{map[string]any{"name": version, "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": root}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestPodSpec generates the types of a CRD that embeds a PodSpec.
func TestPodSpec(t *testing.T) {
	g := newControllerGen(t, ".", "k8s.io/api/core/v1")
	root := &api.JSONSchemaProps{Type: api.StringOrArray{"object"}, Properties: map[string]api.JSONSchemaProps{}}
	for name, typ := range map[string]string{"podSpec": "PodSpec", "resources": "ResourceRequirements", "reference": "LocalObjectReference"} {
		for id := range maps.Clone(g.parser.Types) {
			if id.Package.PkgPath == "k8s.io/api/core/v1" && id.Name == typ {
				root.Properties[name] = *flattened(t, g, id)
			}
		}
	}
	for _, row := range []string{"S-16 the same schema", "S-16 another schema"} {
		t.Run(row, func(t *testing.T) {
			same := row == "S-16 the same schema"
			if !same {
				delete(root.Properties["podSpec"].Properties, "hostNetwork")
			}
			packages, problems := generate.Build([]generate.Input{input(t, row, document(t, "example.com", "v1", "Job", root))})
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			files, _, err := golang.Generate(packages)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.Join(strings.Fields(string(files["example.com/v1/zz_generated.types.go"])), " ")
			for field, want := range map[string]bool{
				"PodSpec *corev1.PodSpec `json": same, "PodSpec *JobPodSpec `json": !same,
				"Resources *corev1.ResourceRequirements `json": true, "Reference *corev1.LocalObjectReference `json": true,
			} {
				if strings.Contains(text, field) != want {
					t.Errorf("%q: got %v, want %v", field, !want, want)
				}
			}
		})
	}
}

// flattened returns the schema that controller-gen derives from a type.
func flattened(t *testing.T, g *controllerGen, id crd.TypeIdent) *api.JSONSchemaProps {
	t.Helper()
	g.parser.NeedFlattenedSchemaFor(id)
	text, err := json.Marshal(g.parser.FlattenedSchemata[id])
	if err != nil {
		t.Fatal(err)
	}
	var props api.JSONSchemaProps
	if err := api.Unmarshal(text, &props); err != nil {
		t.Fatal(err)
	}
	return &props
}

// TestGoToGo derives schemas from real Go types with controller-gen, and Go types from these
// schemas. Each field of the original has a field with the same name in JSON whose values are
// assignable, or the difference has a class.
func TestGoToGo(t *testing.T) {
	t.Run("S-16 Go to OpenAPI to Go", goToGo)
}

func goToGo(t *testing.T) {
	originals := []string{"k8s.io/api/apps/v1", "k8s.io/api/networking/v1", "k8s.io/api/batch/v1"}
	g := newControllerGen(t, ".", originals...)
	dir := newModule(t)
	kinds := map[string][]string{} // by the path of the original
	for id := range maps.Clone(g.parser.Types) {
		path := id.Package.PkgPath
		if !slices.Contains(originals, path) || strings.HasSuffix(id.Name, "List") {
			continue
		}
		props := flattened(t, g, id)
		if _, ok := props.Properties["metadata"]; !ok || props.Properties["apiVersion"].Type == nil {
			continue
		}
		kinds[path] = append(kinds[path], id.Name)
	}
	patterns := slices.Clone(originals)
	for path, names := range kinds {
		var inputs []generate.Input
		for _, name := range names {
			for id := range g.parser.Types {
				if id.Package.PkgPath == path && id.Name == name {
					props := flattened(t, g, id)
					props.Properties["metadata"] = api.JSONSchemaProps{Type: api.StringOrArray{"object"}}
					inputs = append(inputs, input(t, name, document(t, "example.com", "v1", name, props)))
				}
			}
		}
		packages, problems := generate.Build(inputs)
		if len(problems) > 0 {
			t.Fatalf("%s: %v", path, problems)
		}
		generateGo(t, dir+"/"+path, packages)
		patterns = append(patterns, "./"+path+"/example.com/v1")
	}
	loaded, err := gopackages.Load(&gopackages.Config{Dir: dir, Mode: gopackages.NeedName | gopackages.NeedTypes | gopackages.NeedImports | gopackages.NeedDeps | gopackages.NeedExportFile}, patterns...)
	if err != nil {
		t.Fatal(err)
	}
	scopes := map[string]*types.Scope{}
	for _, p := range loaded {
		for _, e := range p.Errors {
			t.Error(e)
		}
		scopes[p.PkgPath] = p.Types.Scope()
	}
	c := typeComparison{t: t, classes: map[string]int{}, seen: map[[2]types.Type]bool{}}
	for path, names := range kinds {
		for _, name := range names {
			c.compare(name, scopes[path].Lookup(name).Type(), scopes["espalier.dev/generated/"+path+"/example.com/v1"].Lookup(name).Type())
		}
	}
	summary := ""
	for _, class := range slices.Sorted(maps.Keys(c.classes)) {
		summary += fmt.Sprintf("%6d %s\n", c.classes[class], class)
	}
	golden(t, "testdata/gotypes.txt", summary)
}

// typeComparison compares Go types field by field.
type typeComparison struct {
	t       *testing.T
	classes map[string]int
	seen    map[[2]types.Type]bool
}

func (c *typeComparison) compare(path string, original, generated types.Type) {
	original, generated = deref(types.Unalias(original)), deref(types.Unalias(generated))
	if types.Identical(original, generated) {
		c.classes["identical types"]++
		return
	}
	if key := [2]types.Type{original, generated}; c.seen[key] {
		return
	} else {
		c.seen[key] = true
	}
	switch o := original.Underlying().(type) {
	case *types.Basic:
		if g, ok := generated.Underlying().(*types.Basic); ok && g.Kind() == o.Kind() {
			c.classes["a named scalar is a plain one"]++
			return
		}
	case *types.Slice:
		if g, ok := generated.Underlying().(*types.Slice); ok {
			c.compare(path+"[]", o.Elem(), g.Elem())
			return
		}
	case *types.Map:
		if g, ok := generated.Underlying().(*types.Map); ok {
			c.compare(path+"{}", o.Elem(), g.Elem())
			return
		}
	case *types.Struct:
		if g, ok := generated.Underlying().(*types.Struct); ok && !strings.HasPrefix(generated.String(), "k8s.io/apimachinery/") {
			c.classes["a struct of the package, compared field by field"]++
			c.fields(path, o, g)
			return
		}
	}
	c.classes["unexplained"]++
	c.t.Errorf("%s: %s became %s", path, original, generated)
}

func deref(t types.Type) types.Type {
	if p, ok := t.(*types.Pointer); ok {
		return types.Unalias(p.Elem())
	}
	return t
}

func (c *typeComparison) fields(path string, original, generated *types.Struct) {
	have := jsonFields(generated)
	for name, field := range jsonFields(original) {
		if have[name] == nil {
			c.classes["unexplained"]++
			c.t.Errorf("%s.%s is missing", path, name)
			continue
		}
		c.compare(path+"."+name, field, have[name])
	}
}

// jsonFields returns the types of the fields of a struct by name in JSON.
func jsonFields(s *types.Struct) map[string]types.Type {
	fields := map[string]types.Type{}
	for i := range s.NumFields() {
		name, _, _ := strings.Cut(reflect.StructTag(s.Tag(i)).Get("json"), ",")
		switch {
		case name == "-":
		case name == "" && s.Field(i).Embedded():
			if inner, ok := deref(types.Unalias(s.Field(i).Type())).Underlying().(*types.Struct); ok {
				maps.Copy(fields, jsonFields(inner))
			}
		default:
			fields[name] = s.Field(i).Type()
		}
	}
	return fields
}
