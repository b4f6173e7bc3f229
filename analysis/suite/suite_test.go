package suite_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"espalier.dev/analysis/suite"
	"espalier.dev/crd/cel"
	"espalier.dev/schema"
)

const crontab = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crontabs.stable.example.com}
spec:
  group: stable.example.com
  scope: Namespaced
  names: {plural: crontabs, kind: CronTab}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            required: [image]
            properties:
              image: {type: string, maxLength: 20}
              replicas: {type: integer, default: 1, maximum: 10}
            x-kubernetes-validations:
            - {rule: "self.image == oldSelf.image", message: the image cannot change}
            - {rule: "self.replicas != 7", message: seven is bad luck}
          status: {type: object, properties: {count: {type: integer}}}
`

const head = `
apiVersion: espalier.dev/v1
kind: TestSuite
base: {spec: {image: example}}
`

// TestRun runs suites. want has a line for each finding: pointer, message, and the lines of
// the detail, separated by |.
func TestRun(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{{
		name: "everything as expected",
		text: `
semantics: kubernetes
valid:
- name: base
- {name: ten, with: {spec: {replicas: 10}}}
- {name: own, object: {apiVersion: stable.example.com/v1, kind: CronTab, metadata: {name: x}, spec: {image: a}}, stored: {metadata: {name: x}, spec: {image: a, replicas: 1}}}
- {name: pruned, with: {spec: {imgae: typo}}, pruned: [spec.imgae], defaulted: [spec.replicas]}
- {name: stored without pruned, with: {spec: {imgae: typo}}, stored: {spec: {image: example, replicas: 1}}}
- {name: none filled in, with: {spec: {replicas: 2}}, defaulted: []}
- {name: a file, object: file.yaml}
invalid:
- {name: any, with: {spec: {image: null}}}
- {name: path, with: {spec: {image: null}}, errors: [{path: spec.image}]}
- {name: all three, with: {spec: {replicas: 11}}, errors: [{path: spec.replicas, message: less than or equal to 10, rule: maximum}]}
- {name: keyword, with: {spec: {image: a very long name of an image}}, errors: [{rule: maxLength}]}
- {name: cel, with: {spec: {replicas: 7}}, errors: [{rule: self.replicas != 7}]}
- {name: cel message, with: {spec: {replicas: 7}}, errors: [bad luck]}
updates:
- {name: change, with: {spec: {replicas: 2}}, stored: {spec: {image: example, replicas: 2}}}
- {name: rejected, with: {spec: {image: other}}, errors: [the image cannot change]}
- {name: own, old: {spec: {image: a}}, new: {spec: {image: b}}, errors: [{path: spec}]}
- {name: ratcheting, old: {spec: {image: a, replicas: 12}}, with: {metadata: {labels: {a: b}}}}
- {name: status, subresource: status, with: {status: {count: 1}, spec: {image: ignored}}, stored: {spec: {image: example, replicas: 1}, status: {count: 1}}}
`,
	}, {
		name: "failures",
		text: `
valid:
- {name: rejected, with: {spec: {replicas: 11}}}
- {name: loses a field, with: {spec: {imgae: x}}}
- {name: other pruned, with: {spec: {imgae: x}}, pruned: [spec.x]}
- {name: other defaults, defaulted: []}
- {name: other stored, stored: {spec: {image: example, replicas: 2}}}
- {name: other name, stored: {metadata: {name: x}, spec: {image: example, replicas: 1}}}
invalid:
- {name: accepted, errors: [no way]}
- {name: other reason, with: {spec: {replicas: 11}}, errors: [{path: spec.image}, {path: spec.replicas}]}
- {name: other path and rule, with: {spec: {replicas: 11}}, errors: [{path: spec.image, message: a, rule: b}]}
- {name: two reasons, with: {spec: {replicas: 11, image: a very long name of an image}}, errors: [{path: spec.replicas}]}
updates:
- {name: not rejected, with: {spec: {replicas: 3}}, errors: [never]}
- {name: not accepted, with: {spec: {image: x}}}
`,
		want: `
/valid/0 rejected, but it should be accepted|spec.replicas: Invalid value: 11: spec.replicas in body should be less than or equal to 10
/valid/1 accepted, but fields are pruned: spec.imgae|if this is intended, list them under pruned|spec.imgae: did you mean "image"?
/valid/2/pruned different fields are pruned|expected (-), got (+):|- spec.x|+ spec.imgae
/valid/3/defaulted different fields are defaulted|expected (-), got (+):|+ spec.replicas
/valid/4/stored the stored object differs|expected (-), got (+):|  metadata: {}|  spec:|    image: example|-   replicas: 2|+   replicas: 1
/valid/5/stored the stored object differs|expected (-), got (+):|  apiVersion: stable.example.com/v1|  kind: CronTab|  metadata:|-   name: x|+   name: test|  spec:|    image: example|    replicas: 1
/invalid/0 accepted, but it should be rejected|- message "no way"
/invalid/1/errors/0 rejected, but not for this reason|- path "spec.image"|+ spec.replicas: Invalid value: 11: spec.replicas in body should be less than or equal to 10
/invalid/2/errors/0 rejected, but not for this reason|- path "spec.image", message "a", rule "b"|+ spec.replicas: Invalid value: 11: spec.replicas in body should be less than or equal to 10
/invalid/3/errors rejected for other reasons as well|spec.image: Too long: may not be more than 20 bytes
/updates/0 accepted, but it should be rejected|- message "never"
/updates/1 rejected, but it should be accepted|spec: Invalid value: the image cannot change`,
	}} {
		t.Run(c.name, func(t *testing.T) {
			s, wrong := suite.Parse(toJSON(t, head+c.text), func(name string) ([]byte, error) {
				if name != "file.yaml" {
					return nil, fmt.Errorf("no file %s", name)
				}
				return []byte(`{"spec":{"image":"from a file"}}`), nil
			})
			for _, f := range wrong {
				t.Errorf("%s: %s", f.Pointer, f.Message)
			}
			r, err := suite.NewRunner(t.Context(), s, toJSON(t, crontab), suite.Options{Rules: cel.Checker{}})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range s.Cases {
				for _, f := range r.Run(t.Context(), c) {
					got = append(got, strings.Join(append([]string{f.Pointer + " " + f.Message}, f.Detail...), "|"))
				}
			}
			if got, want := strings.Join(got, "\n"), strings.TrimSpace(c.want); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestMalformed checks the findings in malformed suites.
func TestMalformed(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{head + `valids: []`, `/valids unknown key "valids": did you mean "valid"?`},
		{head + `valid: [{name: a, objekt: {}}]`, `/valid/0/objekt unknown key "objekt": did you mean "object"?`},
		{head + `valid: [{name: a, errors: [x]}]`, `/valid/0/errors unknown key "errors": use one of changed, defaulted, name, object, pruned, stored, warnings, with`},
		{head + `invalid: [{name: a, stored: {}}]`, `/invalid/0/stored unknown key "stored": use one of errors, name, object, with`},
		{head + `valid: [{}]`, `/valid/0 the case needs a name`},
		{head + `valid: [{name: a}, {name: a}]`, `/valid/1/name a case with this name already exists`},
		{head + `valid: [{name: a, object: {}, with: {}}]`, `/valid/0/with a case has either object or with`},
		{head + `valid: [{name: a, with: 1}]`, `/valid/0/with must be an object that is merged into the base`},
		{head + `valid: [{name: a, object: missing.yaml}]`, `/valid/0/object file does not exist`},
		{head + `valid: [{name: a, object: 7}]`, `/valid/0/object must be an object, or the name of a file with one`},
		{head + `valid: [7]`, `/valid/0 must be an object with the keys changed, defaulted, name, object, pruned, stored, warnings, with`},
		{head + `valid: 7`, `/valid must be a list`},
		{head + `invalid: [{name: a, errors: []}]`, `/invalid/0/errors must not be empty: omit it if any error is expected`},
		{head + `invalid: [{name: a, errors: [{}]}]`, `/invalid/0/errors/0 must be a part of a message, or an object with path, message or rule`},
		{head + `invalid: [{name: a, errors: [{paht: x}]}]`, `/invalid/0/errors/0/paht unknown key "paht": did you mean "path"?`},
		{head + `updates: [{name: a}]`, `/updates/0 no new object: set new, or a patch in with`},
		{head + `updates: [{name: a, with: {}, subresource: scale}]`, `/updates/0/subresource must be status or absent`},
		{head + `updates: [{name: a, with: {}, errors: [x], stored: {}}]`, `/updates/0/errors a rejected object is not stored`},
		{head + `semantics: kube`, `/semantics unknown semantics "kube": use kep or kubernetes`},
		{head, ` there are no cases: list some under valid, invalid or updates`},
		{"apiVersion: espalier.dev/v2\nkind: TestSuite\nvalid: [{name: a}]", `/apiVersion must be espalier.dev/v1`},
		{"apiVersion: espalier.dev/v1\nkind: TestSuite\nvalid: [{name: a}]", `/valid/0 no object: set object, or a base for the suite`},
		{"apiVersion: espalier.dev/v1\nkind: TestSuite\nupdates: [{name: a, with: {}}]", `/updates/0 no old object: set old, or a base for the suite`},
		{"crdName: x\ntests: {onCreate: [{name: a, inital: x}]}", `/tests/onCreate/0/inital unknown key "inital": did you mean "initial"?`},
		{"crdName: x\ntests: {onDelete: []}", `/tests/onDelete unknown key "onDelete"`},
	} {
		doc := toJSON(t, c.text)
		if !suite.Recognize(doc) {
			t.Errorf("%s: not recognized", c.text)
		}
		_, wrong := suite.Parse(doc, noFiles)
		found := false
		var got []string
		for _, f := range wrong {
			got = append(got, f.Pointer+" "+f.Message)
			found = found || strings.HasPrefix(f.Pointer+" "+f.Message, c.want)
		}
		if !found {
			t.Errorf("%s: got %q, want %q", c.text, got, c.want)
		}
	}
	for _, text := range []string{"{}", "[]", "1", "kind: TestSuite", "apiVersion: v1\nkind: ConfigMap", crontab, "tests: [a]"} {
		if suite.Recognize(toJSON(t, text)) {
			t.Errorf("%s: taken for a suite", text)
		}
	}
}

// TestDefinitions checks that CRDs are rejected if the API server rejects them, and that
// v1beta1 is accepted.
func TestDefinitions(t *testing.T) {
	s, _ := suite.Parse(toJSON(t, head+`valid: [{name: a}]`), noFiles)
	if _, err := suite.NewRunner(t.Context(), s, toJSON(t, strings.ReplaceAll(crontab, "plural: crontabs", "plural: others")), suite.Options{Rules: cel.Checker{}}); err == nil {
		t.Error("a definition whose name does not fit is taken")
	}
	if _, err := suite.NewRunner(t.Context(), s, toJSON(t, crontab), suite.Options{}); !strings.Contains(fmt.Sprint(err), schema.ErrRules.Error()) {
		t.Errorf("a definition with rules, without a RuleChecker: got error %v", err)
	}
	r, err := suite.NewRunner(t.Context(), s, toJSON(t, `
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
	s, wrong := suite.Parse(toJSON(t, text.String()), noFiles)
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
