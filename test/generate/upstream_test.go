package generate

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-tools/pkg/crd"

	"espalier.dev/analysis/generate"
	"espalier.dev/api"
	"espalier.dev/schema"
)

// TestUpstream derives the table of the types that generated Go code takes from other packages,
// from the schemas that controller-gen emits for them.
func TestUpstream(t *testing.T) {
	g := newControllerGen(t, ".", "k8s.io/api/core/v1", "k8s.io/apimachinery/pkg/apis/meta/v1")
	byFingerprint := map[string][]string{}
	for id := range maps.Clone(g.parser.Types) {
		alias := map[string]string{"k8s.io/api/core/v1": "corev1", "k8s.io/apimachinery/pkg/apis/meta/v1": "metav1"}[id.Package.PkgPath]
		switch {
		case alias == "" || !ast.IsExported(id.Name):
			continue
		case alias == "metav1" && !slices.Contains([]string{"Condition", "LabelSelector", "ObjectMeta", "OwnerReference"}, id.Name):
			continue // types of the API machinery
		case strings.HasSuffix(id.Name, "Common"):
			continue // embedded in another type, which has the same schema
		}
		if s := upstreamSchema(t, g, id); s != nil {
			fingerprint := generate.Fingerprint(s)
			byFingerprint[fingerprint] = append(byFingerprint[fingerprint], alias+"."+id.Name)
		}
	}
	var lines []string
	for fingerprint, names := range byFingerprint {
		if len(names) == 1 { // otherwise the schema does not determine the type
			lines = append(lines, fingerprint+" "+names[0])
		}
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[strings.Index(a, " "):], b[strings.Index(b, " "):]) })
	if len(lines) < 50 {
		t.Errorf("found only %d types", len(lines))
	}
	golden(t, "../../analysis/generate/golang/upstream.txt", fmt.Sprintf("# Derived by go test -run TestUpstream -update in test/generate.\n%s\n", strings.Join(lines, "\n")))
}

// upstreamSchema returns the schema of a type, or nil if generated code does not use it: if it
// is no struct, is a resource of its own, or is so small that other types may have the same
// schema by chance.
func upstreamSchema(t *testing.T, g *controllerGen, id crd.TypeIdent) *schema.Structural {
	t.Helper()
	if _, isStruct := g.parser.Types[id].RawSpec.Type.(*ast.StructType); !isStruct {
		return nil
	}
	g.parser.NeedFlattenedSchemaFor(id)
	text, err := json.Marshal(g.parser.FlattenedSchemata[id])
	if err != nil {
		t.Fatal(err)
	}
	var props api.JSONSchemaProps
	if err := api.Unmarshal(text, &props); err != nil {
		t.Fatal(err)
	}
	_, isObject := props.Properties["apiVersion"]
	_, hasMetadata := props.Properties["metadata"]
	if len(props.Properties) == 0 || isObject && hasMetadata {
		return nil
	}
	s, err := schema.NewStructural(&props)
	if err != nil {
		t.Fatalf("%s: %v", id, err)
	}
	fields := 0
	for range s.All() {
		fields++
	}
	const least = 4 // with the type itself
	if fields < least && props.XMapType == nil {
		return nil
	}
	return s
}
