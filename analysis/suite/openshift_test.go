package suite_test

import (
	"fmt"
	"strings"
	"testing"

	"espalier.dev/analysis/suite"
	"espalier.dev/crd/cel"
)

// TestOpenShift runs suites in OpenShift's format. want has a line for each finding, as in TestRun.
func TestOpenShift(t *testing.T) {
	const apply = `apiVersion: stable.example.com/v1, kind: CronTab`
	for _, c := range []struct{ name, tests, want string }{{
		name: "everything as expected",
		tests: `
onCreate:
- {name: stored, initial: "{APPLY, spec: {image: a}}", expected: "{APPLY, spec: {image: a, replicas: 1}}"}
- {name: as sent, initial: "{APPLY, spec: {image: a, replicas: 2}}"}
- {name: rejected, initial: "{APPLY, spec: {image: a, replicas: 11}}", expectedError: less than or equal to 10}
- {name: current wording, initial: "{APPLY, spec: {image: a, replicas: 7}}", expectedError: 'spec: Invalid value: seven is bad luck'}
- {name: earlier wording of a value, initial: "{APPLY, spec: {image: a, object: {a: 2}}}", expectedError: 'Unsupported value: map[string]interface {}{"a":2}'}
- {name: another kind, initial: "{apiVersion: stable.example.com/v1, kind: Other, spec: {image: a}}", expectedError: Other}
- {name: earlier wording of an object, initial: "{APPLY, spec: {image: a, replicas: 7}}", expectedError: 'spec: Invalid value: "object": seven is bad luck'}
- {name: earlier wording of an integer, initial: "{APPLY, spec: {image: a, level: 3}}", expectedError: 'spec.level: Invalid value: "integer": three is bad luck'}
- {name: earlier wording of a string, initial: "{APPLY, spec: {image: a, word: x}}", expectedError: 'spec.word: Invalid value: "string": x is bad luck'}
- {name: earlier wording of a list, initial: "{APPLY, spec: {image: a, words: [x]}}", expectedError: 'spec.words: Invalid value: "array": one is bad luck'}
- {name: earlier wording of null, initial: "{APPLY, spec: {image: a, maybe: null}}", expectedError: 'spec.maybe: Unsupported value: "null"'}
onUpdate:
- {name: another name, initial: "{APPLY, metadata: {name: x}, spec: {image: a, replicas: 2}}", updated: "{APPLY, metadata: {name: z}, spec: {image: a, replicas: 2}}"}
- {name: changed, initial: "{APPLY, spec: {image: a}}", updated: "{APPLY, spec: {image: a, replicas: 2}}"}
- {name: rejected, initial: "{APPLY, spec: {image: a}}", updated: "{APPLY, spec: {image: b}}", expectedError: the image cannot change}
- {name: status, initial: "{APPLY, spec: {image: a}, status: {count: 1}}", updated: "{APPLY, spec: {image: a}, status: {count: 2}}", expected: "{APPLY, spec: {image: a, replicas: 1}, status: {count: 2}}"}
- {name: status is kept, initial: "{APPLY, spec: {image: a}, status: {count: 1}}", updated: "{APPLY, spec: {image: a}}", expected: "{APPLY, spec: {image: a, replicas: 1}, status: {count: 1}}"}
- {name: rejected status, initial: "{APPLY, spec: {image: a}}", updated: "{APPLY, spec: {image: a}, status: {count: x}}", expectedStatusError: must be of type integer}
- name: ratcheting
  initialCRDPatches: [{op: remove, path: /spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/replicas/maximum}]
  initial: "{APPLY, spec: {image: a, replicas: 12}}"
  updated: "{APPLY, metadata: {labels: {a: b}}, spec: {image: a, replicas: 12}}"
- name: patches of lists
  initialCRDPatches:
  - {op: remove, path: /spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-validations/1}
  - {op: add, path: /spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-validations/0, value: {rule: "self.replicas != 8"}}
  - {op: add, path: /spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-validations/-, value: {rule: "self.replicas != 9"}}
  - {op: add, path: /spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-validations/3, value: {rule: "self.replicas != 6"}}
  - {op: replace, path: /spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-validations/3/rule, value: "self.replicas != 5"}
  - {op: replace, path: /spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-validations/0, value: {rule: "self.replicas != 4"}}
  - {op: add, path: /metadata/labels, value: {a: b}}
  initial: "{APPLY, spec: {image: a, replicas: 7}}"
  updated: "{APPLY, spec: {image: a, replicas: 5}}"
`,
	}, {
		name: "failures",
		tests: `
onCreate:
- {name: rejected, initial: "{APPLY, spec: {image: a, replicas: 11}}"}
- {name: accepted, initial: "{APPLY, spec: {image: a}}", expectedError: never}
- {name: other reason, initial: "{APPLY, spec: {image: a, replicas: 11}}", expectedError: never}
- {name: differs, initial: "{APPLY, spec: {image: a}}"}
- {name: no YAML, initial: "{"}
- {name: no object, initial: "[]"}
- {name: expects no object, initial: "{APPLY, spec: {image: a}}", expected: "[]"}
- {name: without spec, initial: "{APPLY}"}
onUpdate:
- {name: differs, initial: "{APPLY, spec: {image: a}}", updated: "{APPLY, spec: {image: a}}"}
- {name: rejected, initial: "{APPLY, spec: {image: a}}", updated: "{APPLY, spec: {image: b}}"}
- {name: not created, initial: "{APPLY, spec: {}}", updated: "{APPLY, spec: {image: a}}"}
- {name: initial status, initial: "{APPLY, spec: {image: a}, status: {count: x}}", updated: "{APPLY, spec: {image: a}}"}
- {name: accepted status, initial: "{APPLY, spec: {image: a}}", updated: "{APPLY, spec: {image: a}, status: {count: 1}}", expectedStatusError: never}
- {name: updated is no object, initial: "{APPLY, spec: {image: a}}", updated: "7"}
- {name: initial is no object, initial: "7", updated: "{APPLY, spec: {image: a}}"}
- {name: patch of nothing, initialCRDPatches: [{op: remove, path: /spec/none}], initial: "{}", updated: "{}"}
- {name: patch of an element, initialCRDPatches: [{op: replace, path: /spec/versions/7, value: 1}], initial: "{}", updated: "{}"}
- {name: patch after the end, initialCRDPatches: [{op: add, path: /spec/versions/2, value: 1}], initial: "{}", updated: "{}"}
- {name: patch of a string, initialCRDPatches: [{op: add, path: /spec/group/x, value: 1}], initial: "{}", updated: "{}"}
- {name: patch of everything, initialCRDPatches: [{op: remove, path: ""}], initial: "{}", updated: "{}"}
- {name: patch with everything, initialCRDPatches: [{op: add, path: "", value: 7}], initial: "{}", updated: "{}"}
- {name: patch of a negative element, initialCRDPatches: [{op: remove, path: /spec/versions/-1}], initial: "{}", updated: "{}"}
- {name: patch of a word, initialCRDPatches: [{op: remove, path: /spec/versions/x}], initial: "{}", updated: "{}"}
- {name: remove the end, initialCRDPatches: [{op: remove, path: /spec/versions/-}], initial: "{}", updated: "{}"}
- {name: remove after the end, initialCRDPatches: [{op: remove, path: /spec/versions/1}], initial: "{}", updated: "{}"}
- {name: add below the end, initialCRDPatches: [{op: add, path: /spec/versions/-/x, value: 1}], initial: "{}", updated: "{}"}
- {name: add after the end, initialCRDPatches: [{op: add, path: /spec/versions/1/x, value: 1}], initial: "{}", updated: "{}"}
- {name: below an element, initialCRDPatches: [{op: remove, path: /spec/versions/0/none}], initial: "{}", updated: "{}"}
- {name: unknown operation, initialCRDPatches: [{op: move, path: /spec/group}], initial: "{}", updated: "{}"}
`,
		want: `
/tests/onCreate/0 rejected, but it should be accepted|CronTab.stable.example.com "test-4x7bq" is invalid: spec.replicas: Invalid value: 11: spec.replicas in body should be less than or equal to 10
/tests/onCreate/1/expectedError accepted, but it should be rejected|- never
/tests/onCreate/2/expectedError rejected, but not for this reason|- never|+ CronTab.stable.example.com "test-4x7bq" is invalid: spec.replicas: Invalid value: 11: spec.replicas in body should be less than or equal to 10
/tests/onCreate/3/initial the stored object differs|expected (-), got (+):|  metadata: {}|  spec:|    image: a|+   replicas: 1
/tests/onCreate/4/initial yaml: line 1: did not find expected node content
/tests/onCreate/5/initial must be an object
/tests/onCreate/6/expected must be an object
/tests/onCreate/7 rejected, but it should be accepted|CronTab.stable.example.com "test-4x7bq" is invalid: [spec: Required value, <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation]
/tests/onUpdate/0/updated the stored object differs|expected (-), got (+):|  metadata: {}|  spec:|    image: a|+   replicas: 1
/tests/onUpdate/1 rejected, but it should be accepted|CronTab.stable.example.com "test-4x7bq" is invalid: spec: Invalid value: the image cannot change
/tests/onUpdate/2/initial create the initial object: CronTab.stable.example.com "test-4x7bq" is invalid: [spec.image: Required value, <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation]
/tests/onUpdate/3/initial write the initial status: CronTab.stable.example.com "test-4x7bq" is invalid: [status.count: Invalid value: "string": count in body must be of type integer: "string", <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation]
/tests/onUpdate/4/expectedStatusError accepted, but it should be rejected|- never
/tests/onUpdate/5/updated must be an object
/tests/onUpdate/6/initial must be an object
/tests/onUpdate/7/initialCRDPatches patch of /spec/none: "none" not found
/tests/onUpdate/8/initialCRDPatches patch of /spec/versions/7: element "7" not found
/tests/onUpdate/9/initialCRDPatches patch of /spec/versions/2: element "2" not found
/tests/onUpdate/10/initialCRDPatches patch of /spec/group/x: a string has no fields
/tests/onUpdate/11/initialCRDPatches patch of : cannot "remove" here
/tests/onUpdate/12/initialCRDPatches expected an object, got 7
/tests/onUpdate/13/initialCRDPatches patch of /spec/versions/-1: element "-1" not found
/tests/onUpdate/14/initialCRDPatches patch of /spec/versions/x: element "x" not found
/tests/onUpdate/15/initialCRDPatches patch of /spec/versions/-: element "-" not found
/tests/onUpdate/16/initialCRDPatches patch of /spec/versions/1: element "1" not found
/tests/onUpdate/17/initialCRDPatches patch of /spec/versions/-/x: element "-" not found
/tests/onUpdate/18/initialCRDPatches patch of /spec/versions/1/x: element "1" not found
/tests/onUpdate/19/initialCRDPatches patch of /spec/versions/0/none: "none" not found
/tests/onUpdate/20/initialCRDPatches patch of /spec/group: cannot "move" here`,
	}} {
		t.Run(c.name, func(t *testing.T) {
			crd := strings.Replace(crontab, "replicas: {", `maybe: {type: string, nullable: true, enum: [a]}
              object: {type: object, x-kubernetes-preserve-unknown-fields: true, enum: [{a: 1}]}
              level: {type: integer, x-kubernetes-validations: [{rule: self != 3, message: three is bad luck}]}
              word: {type: string, x-kubernetes-validations: [{rule: "self != 'x'", message: x is bad luck}]}
              words: {type: array, maxItems: 3, items: {type: string}, x-kubernetes-validations: [{rule: size(self) != 1, message: one is bad luck}]}
              replicas: {`, 1)
			text := "name: OpenShift\ncrdName: crontabs.stable.example.com\nversion: v1\ntests:" + strings.ReplaceAll(c.tests, "\n", "\n  ")
			s, wrong := suite.Parse(toJSON(t, strings.ReplaceAll(text, "APPLY", apply)), noFiles)
			for _, f := range wrong {
				t.Errorf("%s: %s", f.Pointer, f.Message)
			}
			r, err := suite.NewRunner(t.Context(), s, toJSON(t, crd), suite.Options{Rules: cel.Checker{}})
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

// TestOpenShiftVersion checks that a suite tests the version that it names, and no other.
func TestOpenShiftVersion(t *testing.T) {
	two := strings.Replace(crontab, "  versions:\n", "  versions:\n  - {name: v2, served: false, storage: false, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {image: {type: string}}}}}}}\n", 1)
	for version, want := range map[string]string{"v1": "", "v2": "", "v3": `crontabs.stable.example.com has no version "v3"`} {
		s, _ := suite.Parse(toJSON(t, "crdName: x\nversion: "+version+"\ntests: {onCreate: [{name: a, initial: '{apiVersion: stable.example.com/"+version+", kind: CronTab, spec: {image: a}}',"+
			"expected: '{apiVersion: stable.example.com/"+version+", kind: CronTab, spec: {image: a}}'}]}"), noFiles)
		r, err := suite.NewRunner(t.Context(), s, toJSON(t, two), suite.Options{Rules: cel.Checker{}})
		if err != nil || want != "" {
			if fmt.Sprint(err) != want {
				t.Errorf("%s: %v", version, err)
			}
			continue
		}
		found := r.Run(t.Context(), s.Cases[0])
		if differs := len(found) == 1 && found[0].Message == "the stored object differs"; differs != (version == "v1") {
			t.Errorf("%s: %v", version, found) // only v1 has a default
		}
	}
}
