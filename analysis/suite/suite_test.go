package suite_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"espalier.dev"
	"espalier.dev/analysis"
	"espalier.dev/analysis/internal/analysistest"
	"espalier.dev/analysis/suite"
	"espalier.dev/crd/cel"
	"espalier.dev/internal/jsonx"
	"espalier.dev/internal/testcase"
	_ "espalier.dev/kinds"
	"espalier.dev/schema"
)

// crontab returns the CRD of the suites in testdata.
func crontab(t testing.TB) string {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/suites.txtar")
	if err != nil {
		t.Fatal(err)
	}
	return testcase.Section(archive, "crd.yaml")
}

// head begins a suite.
const head = `
apiVersion: espalier.dev/v1
kind: TestSuite
base: {spec: {image: example}}
`

var update = flag.Bool("update", false, "rewrite the expected results in testdata")

// TestGolden runs the suites in testdata/suites.txtar, and parses the texts in testdata/malformed.txt. A suite about
// built-in kinds needs no CRD. Each finding has a line: pointer, message, and the lines of the detail, separated by |.
func TestGolden(t *testing.T) {
	t.Parallel()
	t.Run("malformed", malformed)
	testcase.GoldenArchives(t, "testdata/*.txtar", *update, func(t *testing.T, archive *txtar.Archive) {
		var b strings.Builder
		for _, f := range archive.Files {
			if f.Name == "crd.yaml" || f.Name == "want" {
				continue
			}
			s, wrong := suite.Parse(analysistest.JSON(t, string(f.Data)), func(name string) ([]byte, error) {
				if name != "file.yaml" {
					return nil, fmt.Errorf("no file %s", name)
				}
				return []byte(`{"spec":{"image":"from a file"}}`), nil
			})
			fmt.Fprintf(&b, "%s: %d cases, policies %q\n", f.Name, len(s.Cases), s.Policies)
			writeFindings(&b, wrong)
			p := &policies{}
			o := suite.Options{Rules: cel.Checker{}}
			if len(s.Policies) > 0 {
				o.Policies = p
			}
			r, err := suite.NewRunner(t.Context(), s, analysistest.JSON(t, testcase.Section(archive, "crd.yaml")), o)
			if types, ok := s.NeedsNoCRD(func(apiVersion, kind string) bool { return kind == "Service" }); ok {
				var admitter *espalier.Admitter
				admitter, err = espalier.Kind(types.APIVersion, types.Kind)
				r = suite.NewRunnerFor(s, admitter, types, o)
			}
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "  in %s semantics\n", r.Semantics())
			for _, c := range s.Cases {
				writeFindings(&b, r.Run(t.Context(), c))
			}
			if len(s.Policies) > 0 {
				b.WriteString("requests:\n  " + strings.Join(p.requests, "\n  ") + "\n")
			}
		}
		testcase.SetSection(archive, "want", b.String())
	})
}

func writeFindings(b *strings.Builder, findings []analysis.Finding) {
	for _, f := range findings {
		fmt.Fprintf(b, "  %s %s\n", f.Pointer, strings.Join(append([]string{f.Message}, f.Detail...), "|"))
	}
}

// malformed parses the texts in testdata/malformed.txt, one in each line: what is wrong follows.
func malformed(t *testing.T) {
	t.Parallel()
	const file = "testdata/malformed.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, ">") || strings.HasPrefix(line, " ") {
			continue
		}
		doc, err := yaml.YAMLToJSON([]byte(line))
		if err != nil {
			doc = []byte(strings.TrimSpace(line))
		}
		s, wrong := suite.Parse(doc, noFiles)
		fmt.Fprintf(&b, "%s> a suite: %t, %d cases\n", line, suite.Recognize(doc), len(s.Cases))
		writeFindings(&b, wrong)
	}
	testcase.Golden(t, file, b.String(), *update)
}

// TestDefinitions checks that CRDs are rejected if the API server rejects them, and that
// v1beta1 is accepted.
func TestDefinitions(t *testing.T) {
	s, _ := suite.Parse(analysistest.JSON(t, head+`valid: [{name: a}]`), noFiles)
	if _, err := suite.NewRunner(t.Context(), s, analysistest.JSON(t, strings.ReplaceAll(crontab(t), "plural: crontabs", "plural: others")), suite.Options{Rules: cel.Checker{}}); err == nil {
		t.Error("a definition whose name does not fit is taken")
	}
	if _, err := suite.NewRunner(t.Context(), s, analysistest.JSON(t, crontab(t)), suite.Options{}); !strings.Contains(fmt.Sprint(err), schema.ErrRules.Error()) {
		t.Errorf("a definition with rules, without a RuleChecker: got error %v", err)
	}
	r, err := suite.NewRunner(t.Context(), s, analysistest.JSON(t, `
apiVersion: apiextensions.k8s.io/v1beta1
kind: CustomResourceDefinition
metadata: {name: crontabs.stable.example.com}
spec: {group: stable.example.com, version: v1, scope: Cluster, names: {plural: crontabs, kind: CronTab}}
`), suite.Options{Rules: cel.Checker{}})
	if err != nil {
		t.Fatal(err)
	}
	if found := r.Run(t.Context(), s.Cases[0]); len(found) > 0 {
		t.Errorf("got %v", found)
	}
}

// TestDocumentation runs the suite in the package documentation.
func TestDocumentation(t *testing.T) {
	source, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for line := range strings.Lines(string(source)) {
		if rest, ok := strings.CutPrefix(line, "//\t"); ok {
			text.WriteString(rest)
		}
	}
	s, wrong := suite.Parse(analysistest.JSON(t, text.String()), noFiles)
	for _, f := range wrong {
		t.Errorf("%s: %s", f.Pointer, f.Message)
	}
	r, err := suite.NewRunner(t.Context(), s, readJSON(t, "../../cmd/espalier/testdata/examples/crontab-crd.yaml"), suite.Options{Rules: cel.Checker{}})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Cases) != 8 {
		t.Errorf("there are %d cases", len(s.Cases))
	}
	for _, c := range s.Cases {
		for _, f := range r.Run(t.Context(), c) {
			t.Errorf("%s: %s\n%s", c.FullName(), f.Message, strings.Join(f.Detail, "\n"))
		}
	}
}

// policies decides by the image of the object, and records the requests.
type policies struct{ requests []string }

func (p *policies) Admit(_ context.Context, r suite.PolicyRequest) (*suite.PolicyResult, error) {
	user := "admin"
	if r.User != nil {
		user = r.User.Name + " of " + strings.Join(r.User.Groups, ",")
	}
	image := func(obj schema.Object) any {
		spec, _ := obj["spec"].(map[string]any)
		return spec["image"]
	}
	p.requests = append(p.requests, fmt.Sprintf("%v %v status %t %s %s", image(r.Old), image(r.Object), r.Status, r.Definition.Name(), user))
	switch image(r.Object) {
	case "fails":
		return nil, errors.New("no such namespace")
	case "denied":
		return &suite.PolicyResult{Denials: []suite.Denial{{Policy: "images", Message: "the image is not allowed", Path: "spec.image"}, {Policy: "any", Message: "nothing is allowed"}}}, nil
	case "denied first":
		return &suite.PolicyResult{Denials: []suite.Denial{{Policy: "later", Message: "never said"}, {Policy: "mutating", Message: "cannot be changed", Mutating: true}}}, nil
	case "mutated", "spoilt":
		obj := jsonx.CopyObject(r.Object)
		obj["spec"].(map[string]any)["replicas"] = map[any]int64{"mutated": 5, "spoilt": 11}[image(r.Object)]
		return &suite.PolicyResult{Object: obj, Changed: []string{"spec.replicas", "metadata.labels"}}, nil
	case "warned":
		return &suite.PolicyResult{Warnings: []string{"the image is old", "the image is large"}}, nil
	case "unjudged":
		return &suite.PolicyResult{Unjudged: []string{"policy p needs a parameter"}}, nil
	}
	return &suite.PolicyResult{}, nil
}
