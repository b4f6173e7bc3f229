package generate

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	gopackages "golang.org/x/tools/go/packages"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-tools/pkg/crd"
	"sigs.k8s.io/controller-tools/pkg/loader"
	"sigs.k8s.io/controller-tools/pkg/markers"

	"espalier.dev/api"
)

// controllerGen derives schemas from Go types as controller-gen does with the options
// crd:allowDangerousTypes=true,generateEmbeddedObjectMeta=true.
type controllerGen struct {
	parser *crd.Parser
	byDir  map[string]*loader.Package
	// projects has the parsers of directories with packages.
	projects map[string]*crd.Parser
}

// newControllerGen loads packages of the module in a directory.
func newControllerGen(t *testing.T, dir string, patterns ...string) *controllerGen {
	t.Helper()
	roots, err := loader.LoadRootsWithConfig(&gopackages.Config{Dir: dir}, patterns...)
	if err != nil {
		t.Fatal(err)
	}
	registry := &markers.Registry{}
	if err := (crd.Generator{}).RegisterMarkers(registry); err != nil {
		t.Fatal(err)
	}
	g := &controllerGen{byDir: map[string]*loader.Package{}, projects: map[string]*crd.Parser{}, parser: &crd.Parser{
		Collector:                  &markers.Collector{Registry: registry},
		Checker:                    &loader.TypeChecker{NodeFilters: []loader.NodeFilter{(crd.Generator{}).CheckFilter()}},
		AllowDangerousTypes:        true,
		GenerateEmbeddedObjectMeta: true,
	}}
	crd.AddKnownTypes(g.parser)
	for _, root := range roots {
		g.parser.NeedPackage(root)
		if rel, err := filepath.Rel(dir, filepath.Dir(root.GoFiles[0])); err == nil {
			g.byDir[filepath.ToSlash(rel)] = root
		}
	}
	return g
}

// schema returns the schema of a type in the package in a directory.
func (g *controllerGen) schema(dir, name string) (*api.JSONSchemaProps, error) {
	pkg := g.byDir[dir]
	if pkg == nil {
		return nil, fmt.Errorf("there is no package in %s", dir)
	}
	id := crd.TypeIdent{Package: pkg, Name: name}
	g.parser.NeedFlattenedSchemaFor(id)
	flat, ok := g.parser.FlattenedSchemata[id]
	if !ok {
		return nil, fmt.Errorf("%s has no schema", name)
	}
	flat = *flat.DeepCopy()
	if _, ok := flat.Properties["metadata"]; ok {
		// As FixTopLevelMetadata does.
		flat.Properties["metadata"] = apiextensionsv1.JSONSchemaProps{Type: "object"}
	}
	text, err := json.Marshal(flat)
	if err != nil {
		return nil, err
	}
	var out api.JSONSchemaProps
	if err := api.Unmarshal(text, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// definition returns the CRD of a kind from the packages in a directory.
func (g *controllerGen) definition(dir string, kind schema.GroupKind) (*apiextensionsv1.CustomResourceDefinition, error) {
	parser := g.projects[dir]
	if parser == nil {
		parser = &crd.Parser{Collector: g.parser.Collector, Checker: g.parser.Checker, AllowDangerousTypes: true, GenerateEmbeddedObjectMeta: true}
		crd.AddKnownTypes(parser)
		for path, pkg := range g.byDir {
			if strings.HasPrefix(path, dir+"/") {
				parser.NeedPackage(pkg)
			}
		}
		g.projects[dir] = parser
	}
	parser.NeedCRDFor(kind, nil)
	definition, ok := parser.CustomResourceDefinitions[kind]
	if !ok {
		return nil, fmt.Errorf("controller-gen makes no CRD of %s", kind)
	}
	return &definition, nil
}

// errors returns the errors of the packages.
func (g *controllerGen) errors() (all []string) {
	for dir, pkg := range g.byDir {
		for _, e := range pkg.Errors {
			if e.Kind == gopackages.TypeError {
				// controller-gen leaves out imports that schemas do not need.
				continue
			}
			all = append(all, dir+": "+strings.TrimSpace(e.Msg))
		}
	}
	return all
}
