package oracle

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	checker "github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	localized "golang.org/x/text/message"
	"sigs.k8s.io/yaml"

	"espalier.dev/internal/program"
	"espalier.dev/test/oracle/builtin"
)

// otherManifests are valid objects of kinds that have no seeds, because they are not stored, or
// not compared with the reference.
const otherManifests = `
apiVersion: v1
kind: Binding
metadata: {name: web}
target: {apiVersion: v1, kind: Node, name: worker}
---
apiVersion: authentication.k8s.io/v1
kind: SelfSubjectReview
---
apiVersion: authentication.k8s.io/v1
kind: TokenReview
spec: {token: abc, audiences: [api]}
---
apiVersion: authorization.k8s.io/v1
kind: SubjectAccessReview
spec: {user: jane, groups: [dev], extra: {scopes: [a]}, resourceAttributes: {verb: get, resource: pods, namespace: default}}
---
apiVersion: authorization.k8s.io/v1
kind: LocalSubjectAccessReview
metadata: {namespace: default}
spec: {user: jane, resourceAttributes: {verb: get, resource: pods, namespace: default}}
---
apiVersion: authorization.k8s.io/v1
kind: SelfSubjectAccessReview
spec: {nonResourceAttributes: {verb: get, path: /healthz}}
---
apiVersion: authorization.k8s.io/v1
kind: SelfSubjectRulesReview
spec: {namespace: default}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec:
  selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]
  config: [{opaque: {driver: gpu.example.com, parameters: {apiVersion: gpu.example.com/v1, kind: Config, sharing: {strategy: TimeSlicing}}}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: gpu, namespace: default}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu, allocationMode: ExactCount, count: 1, capacity: {requests: {memory: 10Gi}}}}]}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu, namespace: default}
spec: {metadata: {labels: {app: web}}, spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: worker-gpu}
spec:
  driver: gpu.example.com
  nodeName: worker
  pool: {name: worker, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-0, attributes: {model: {string: A100}, index: {int: 0}}, capacity: {memory: {value: 80Gi}}}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crontabs.stable.example.com, creationTimestamp: null}
spec:
  group: stable.example.com
  scope: Namespaced
  names: {kind: CronTab, plural: crontabs, singular: crontab, shortNames: [ct]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    additionalPrinterColumns: [{name: Spec, type: string, jsonPath: .spec.cronSpec}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [cronSpec]
            x-kubernetes-validations: [{rule: "self.replicas < 10"}]
            properties:
              cronSpec: {type: string, default: "* * * * *", enum: ["* * * * *"]}
              replicas: {type: integer, minimum: 1}
              nested: {type: object, properties: {a: {type: object, properties: {b: {type: object, additionalProperties: {x-kubernetes-int-or-string: true}}}}}}
`

// anyValue matches the paths of values that may be any JSON.
var anyValue = regexp.MustCompile(`^data\.spec|\.parameters\.|\.devices\[\]\.data\.|\.cronSpec\.(default|enum\[\])|\.b\.additionalProperties`)

// builtinSchemas writes the JSON Schemas of all built-in kinds with the program, and returns their
// directory.
func builtinSchemas(t *testing.T, espalier string, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	run := exec.Command(espalier, append([]string{"show", "json-schema", "--builtin", "--output-dir", dir}, flags...)...)
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// compileFile compiles a JSON Schema in a file, and those that it refers to.
func compileFile(t *testing.T, path string) *checker.Schema {
	t.Helper()
	c := checker.NewCompiler()
	c.AssertFormat()
	s, err := c.Compile(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// builtinManifests returns valid manifests of all built-in kinds.
func builtinManifests(t *testing.T) map[string][]map[string]any {
	t.Helper()
	manifests, err := builtin.Seeds()
	if err != nil {
		t.Fatal(err)
	}
	others, err := builtin.ReadManifest([]byte(otherManifests))
	if err != nil {
		t.Fatal(err)
	}
	for _, obj := range others {
		key := str(obj["apiVersion"]) + " " + str(obj["kind"])
		manifests[key] = append(manifests[key], obj)
	}
	return manifests
}

// TestJSONSchemaBuiltin checks the JSON Schemas of Kubernetes' own kinds with manifests of all of
// them: valid ones, and copies that are broken in one place.
func TestJSONSchemaBuiltin(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program")
	}
	espalier := program.Path(t, program.Complete)
	dir, strictDir := builtinSchemas(t, espalier), builtinSchemas(t, espalier, "--strict")
	open, strict := compileFile(t, filepath.Join(dir, "all.json")), compileFile(t, filepath.Join(strictDir, "all.json"))
	manifests := builtinManifests(t)

	t.Run("valid", func(t *testing.T) {
		files, err := filepath.Glob(filepath.Join(dir, "*", "*.json"))
		if err != nil || len(files) != len(manifests) {
			t.Errorf("there are %d schemas, and manifests of %d kinds (%v)", len(files), len(manifests), err)
		}
		for _, kind := range slices.Sorted(maps.Keys(manifests)) {
			for _, obj := range manifests[kind] {
				for name, s := range map[string]*checker.Schema{"open": open, "strict": strict} {
					if err := checkJSON(t, s, encode(obj)); err != nil {
						t.Errorf("%s %s: the %s schema rejects a valid object: %v", kind, encode(obj["metadata"]), name, err)
					}
				}
			}
		}
	})

	t.Run("broken", func(t *testing.T) {
		count := 0
		for _, kind := range slices.Sorted(maps.Keys(manifests)) {
			for _, obj := range manifests[kind] {
				eachBroken(obj, func(path string, broken map[string]any, unknown bool) {
					if anyValue.MatchString(path) {
						return
					}
					count++
					text := encode(broken)
					if checkJSON(t, strict, text) == nil {
						t.Errorf("%s: the strict schema accepts a change of %s: %s", kind, path, text)
					}
					if rejected := checkJSON(t, open, text) != nil; rejected == unknown {
						t.Errorf("%s: the open schema accepts a change of %s: %v, want %v", kind, path, !rejected, unknown)
					}
				})
			}
		}
		t.Logf("%d broken objects", count)
	})

	t.Run("accepted", func(t *testing.T) {
		ref := builtin.Open(t)
		kinds, err := builtin.Kinds(ref)
		if err != nil {
			t.Fatal(err)
		}
		runner, err := builtin.NewRunner(ref)
		if err != nil {
			t.Fatal(err)
		}
		valid, incomplete := 0, 0
		for _, k := range kinds {
			seeds := builtin.SeedsOf(manifests, k)
			objects, accepted, err := runner.Objects(k, seeds, int(setting(t, "ORACLE_CASES", 40)))
			if err != nil {
				t.Fatal(err)
			}
			for i, obj := range objects {
				if !accepted[i] {
					continue
				}
				valid++
				err := checkJSON(t, strict, encode(obj))
				if err == nil {
					continue
				}
				// Kubernetes publishes some fields as required although it accepts objects without
				// them.
				incomplete++
				for _, cause := range causes(err) {
					if !strings.Contains(cause, "missing propert") {
						t.Errorf("%s: an accepted object is rejected: %s\n%s", k.Name, cause, encode(obj))
					} else if testing.Verbose() {
						t.Logf("%s: %s", k.Name, cause)
					}
				}
			}
		}
		if incomplete*20 > valid {
			t.Errorf("%d of %d accepted objects are rejected", incomplete, valid)
		}
		t.Logf("%d accepted objects, of which %d lack a required field", valid, incomplete)
	})

	t.Run("kubeconform", func(t *testing.T) {
		var list []string
		for _, kind := range slices.Sorted(maps.Keys(manifests)) {
			for _, obj := range manifests[kind] {
				text, err := yaml.Marshal(obj)
				if err != nil {
					t.Fatal(err)
				}
				list = append(list, string(text))
			}
		}
		path := filepath.Join(t.TempDir(), "all.yaml")
		if err := os.WriteFile(path, []byte(strings.Join(list, "---\n")), 0o644); err != nil {
			t.Fatal(err)
		}
		run := exec.Command("go", "tool", "kubeconform", "-strict", "-summary", "-output", "json",
			"-schema-location", strictDir+"/{{.Group}}/{{.ResourceKind}}_{{.ResourceAPIVersion}}.json", path)
		run.Dir = filepath.Join("..", "bench", "cli", "others", "kubeconform")
		out, err := run.Output()
		var result struct {
			Summary struct{ Valid, Invalid, Errors, Skipped int }
		}
		if decodeErr := json.Unmarshal(out, &result); decodeErr != nil || err != nil {
			t.Fatalf("%v, %v\n%s", err, decodeErr, out)
		}
		if result.Summary.Valid != len(list) || result.Summary.Invalid+result.Summary.Errors+result.Summary.Skipped > 0 {
			t.Errorf("kubeconform reports %+v for %d objects:\n%s", result.Summary, len(list), out)
		}
	})
}

// causes returns the innermost errors of a validation.
func causes(err error) (texts []string) {
	var e *checker.ValidationError
	if !errors.As(err, &e) {
		return []string{err.Error()}
	}
	if len(e.Causes) == 0 {
		return []string{strings.Join(e.InstanceLocation, ".") + ": " + e.ErrorKind.LocalizedString(localized.NewPrinter(language.English))}
	}
	for _, c := range e.Causes {
		texts = append(texts, causes(c)...)
	}
	return texts
}

// eachBroken calls visit for copies of a manifest that are broken in one place: a scalar that is an
// object, a list or object that is a string, or an unknown field.
func eachBroken(obj map[string]any, visit func(path string, broken map[string]any, unknown bool)) {
	var walk func(path string, v any, set func(any))
	try := func(path string, set func(any), before, after any, unknown bool) {
		set(after)
		visit(path, clone(obj), unknown)
		set(before)
	}
	walk = func(path string, v any, set func(any)) {
		switch v := v.(type) {
		case map[string]any:
			try(path, set, v, "text", false)
			for _, name := range slices.Sorted(maps.Keys(v)) {
				walk(path+"."+name, v[name], func(x any) { v[name] = x })
			}
		case []any:
			try(path, set, v, "text", false)
			for i := range v {
				walk(path+"[]", v[i], func(x any) { v[i] = x })
			}
		default:
			try(path, set, v, map[string]any{"a": "b"}, false)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(obj)) {
		walk(name, obj[name], func(x any) { obj[name] = x })
	}
	try("an unknown field", func(x any) {
		if obj["unknwon"] = x; x == nil {
			delete(obj, "unknwon")
		}
	}, nil, "text", true)
}
