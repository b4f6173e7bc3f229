package lint_test

import (
	"encoding/json"
	"strings"
	"testing"

	"espalier.dev/analysis/lint"
	"espalier.dev/kinds/schemas"
	"espalier.dev/schema"
)

// embedded returns a CRD whose field pod has the schema of a part of the built-in kind that a name
// names, without list types, as CRDs of older versions have it.
func embedded(t *testing.T, kind string, path ...string) string {
	t.Helper()
	d, err := schemas.Called(kind)[0].Definition()
	if err != nil {
		t.Fatal(err)
	}
	part := d.CRD().Spec.Versions[0].Schema.OpenAPIV3Schema
	for _, name := range path {
		p := part.Properties[name]
		part = &p
	}
	text, err := json.Marshal(part)
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	strip(tree)
	if text, err = json.Marshal(tree); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// strip removes the keywords of list types and enums, and formats that are not those of CRDs.
func strip(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range []string{"x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type", "enum", "default"} {
			delete(v, name)
		}
		if v["format"] == "quantity" {
			delete(v, "format")
		}
		for _, x := range v {
			strip(x)
		}
	case []any:
		for _, x := range v {
			strip(x)
		}
	}
}

// TestConventionsOfKnownTypes checks that the conventions leave types of the Kubernetes API alone,
// which authors of CRDs cannot change, and nothing else.
func TestConventionsOfKnownTypes(t *testing.T) {
	within := func(field string) string {
		return `{type: object, properties: {spec: {type: object, properties: {a: ` + field + `}}}}`
	}
	const a = ".properties[spec].properties[a]"
	// A probe has ten fields. The command is a list without a list type, which is reported if the rest
	// is not recognized as a probe.
	const command = "warning " + a + ".properties[exec].properties[command].x-kubernetes-list-type"
	probe := func(fields ...string) string {
		return within(`{type: object, properties: {exec: {type: object, properties: {command: {type: array, items: {type: string}}}}, ` + strings.Join(fields, ", ") + `}}`)
	}
	const seconds = "initialDelaySeconds: {type: integer}, timeoutSeconds: {type: integer}, periodSeconds: {type: integer}"
	const thresholds = "successThreshold: {type: integer}, failureThreshold: {type: integer}, terminationGracePeriodSeconds: {type: integer}"
	const sockets = "grpc: {type: object, required: [port], properties: {port: {type: integer}, service: {type: string}}}, tcpSocket: {type: object, x-kubernetes-preserve-unknown-fields: true}"
	const get = "httpGet: {x-kubernetes-preserve-unknown-fields: true}"
	headers := func(port, items string) string {
		return within(`{type: object, properties: {path: {type: string}, host: {type: string}, scheme: {type: string}, port: ` + port + `, httpHeaders: {type: array, items: ` + items + `}}}`)
	}
	const header = `{type: object, properties: {name: {type: string}, value: {type: string}}}`
	const list = "warning " + a + ".properties[httpHeaders].x-kubernetes-list-type"
	const mount = "mountPath: {type: string}, readOnly: {type: boolean}, subPath: {type: string}, subPathExpr: {type: string}, mountPropagation: {type: string}"
	for _, c := range []struct {
		name, schema string
		want         []string
	}{
		{"a pod template", within(embedded(t, "deployments", "spec", "template")), nil},
		{"a pod spec", within(embedded(t, "pods", "spec")), nil},
		{"a volume claim template", within(embedded(t, "pvc")), nil},
		{"a service", within(embedded(t, "services", "spec")), nil},
		{"affinity", within(embedded(t, "pods", "spec", "affinity")), nil},
		{"a pod spec of an own version", within(strings.Replace(embedded(t, "pods", "spec"), `"hostNetwork":`, `"host_network":`, 1)),
			[]string{"warning " + a + ".properties[host_network]", "warning " + a + ".properties[host_network].type"}},
		{"a list of environment variables", within(`{type: array, x-kubernetes-list-type: atomic, items: {type: object, required: [name], properties: {name: {type: string}, value: {type: string},
			valueFrom: {type: object, properties: {secretKeyRef: {type: object, properties: {key: {type: string}, name: {type: string}, optional: {type: boolean}}},
			configMapKeyRef: {type: object, properties: {key: {type: string}, name: {type: string}, optional: {type: boolean}}},
			fieldRef: {type: object, properties: {apiVersion: {type: string}, fieldPath: {type: string}}}}}}}}`), nil},
		{"resources of an older version", within(`{type: object, properties: {limits: {type: object, additionalProperties: {x-kubernetes-int-or-string: true}}, requests: {type: object, additionalProperties: {x-kubernetes-int-or-string: true}}}}`), nil},
		{"a label selector", within(`{type: object, properties: {matchLabels: {type: object, additionalProperties: {type: string}}, matchExpressions: {type: array,
			items: {type: object, properties: {key: {type: string}, operator: {type: string}, values: {type: array, items: {type: string}}}}}}}`), nil},
		{"an own type with the names of a secret key", within(`{type: object, properties: {key: {type: string}, name: {type: string}, optional: {type: boolean}, force: {type: boolean}}}`),
			[]string{"warning " + a + ".properties[force].type", "warning " + a + ".properties[optional].type"}},
		{"a field of another type", within(`{type: object, properties: {key: {type: boolean}, name: {type: string}, optional: {type: boolean}}}`),
			[]string{"warning " + a + ".properties[key].type", "warning " + a + ".properties[optional].type"}},
		{"an own template", within(`{type: object, properties: {metadata: {type: object}, spec: {type: object, properties: {prune: {type: boolean}}}}}`),
			[]string{"warning " + a + ".properties[spec].properties[prune].type"}},
		{"an own enum in a known type", within(`{type: object, properties: {key: {type: string, enum: [a]}, name: {type: string}, optional: {type: boolean}}}`),
			[]string{"warning " + a + ".properties[key].enum[0]"}},
		{"a probe", probe(seconds, thresholds, sockets, get), nil},
		{"a probe with an own field", probe(seconds, thresholds, sockets, get, "force: {type: boolean}"), []string{"warning " + a + ".properties[force].type"}},
		{"most of a probe with an own field", probe(seconds, thresholds, sockets, "force: {type: boolean}"), []string{command, "warning " + a + ".properties[force].type"}},
		{"more than half of a probe", probe(seconds, "successThreshold: {type: integer}, failureThreshold: {type: integer}"), nil},
		{"half of a probe", probe(seconds, "successThreshold: {type: integer}"), []string{command}},
		{"a probe with a number as text", probe(seconds, sockets, "successThreshold: {type: string}"), []string{command}},
		{"a probe with another field below", probe(seconds, thresholds, "grpc: {type: object, properties: {port: {type: integer}, secure: {type: string}}}"), []string{command}},
		{"one field of a known type", within(`{type: object, properties: {command: {type: array, items: {type: string}}}}`), []string{"warning " + a + ".properties[command].x-kubernetes-list-type"}},
		{"a request", headers("{x-kubernetes-int-or-string: true}", header), nil},
		{"a request to a port as text", headers("{type: string}", header), nil},
		{"a request to a port of any type", headers("{x-kubernetes-preserve-unknown-fields: true}", header), nil},
		{"a request to a port with a number alone", headers("{type: integer}", header), []string{list}},
		{"a request with other headers", headers("{type: string}", `{type: object, properties: {name: {type: string}, text: {type: string}}}`), []string{list}},
		{"a request with headers of several types", headers("{type: string}", `[{type: string}]`), nil},
		{"a request with headers that are strings", headers("{type: string}", `{type: string}`), nil},
		{"a request to a port of another type", headers("{type: boolean}", header), []string{list, "warning " + a + ".properties[port].type"}},
		{"capabilities", within(`{type: object, properties: {add: {type: array, items: {type: string}}, drop: {type: array, items: {type: string}}}}`), nil},
		{"capabilities with one text for several", within(`{type: object, properties: {add: {type: string}, drop: {type: array, items: {type: string}}}}`), []string{"warning " + a + ".properties[drop].x-kubernetes-list-type"}},
		{"a client configuration with another type for bytes", within(`{type: object, properties: {url: {type: string}, caBundle: {type: boolean}}}`), []string{"warning " + a + ".properties[caBundle].type"}},
		{"a condition with another type for its time", within(`{type: object, properties: {type: {type: string}, status: {type: string}, reason: {type: string}, message: {type: string}, lastTransitionTime: {type: boolean}}}`),
			[]string{"warning " + a + ".properties[lastTransitionTime].type"}},
		{"a volume", within(`{type: object, properties: {name: {type: string}, optional: {type: boolean}, items: {type: array, items: {type: object, required: [key, path], properties: {key: {type: string}, path: {type: string}, mode: {type: integer}}}}}}`), nil},
		{"a volume with text for a boolean", within(`{type: object, properties: {name: {type: string}, optional: {type: string}, items: {type: array, items: {type: object, required: [key, path], properties: {key: {type: string}, path: {type: string}, mode: {type: integer}}}}}}`),
			[]string{"warning " + a + ".properties[items].x-kubernetes-list-type"}},
		{"a selector with another type for a map", within(`{type: object, properties: {matchLabels: {type: string}, matchExpressions: {type: array, items: {type: object, properties: {key: {type: string}, operator: {type: string}}}}}}`),
			[]string{"warning " + a + ".properties[matchExpressions].x-kubernetes-list-type"}},
		{"a mount", within(`{type: object, properties: {name: {type: string}, ` + mount + `}}`), nil},
		{"a mount of something without a name", within(`{type: object, properties: {` + mount + `}}`), []string{"warning " + a + ".properties[readOnly].type"}},
		{"an own type with the names of metadata", within(`{type: object, properties: {name: {type: string}, namespace: {type: string}, finalizers: {type: array, items: {type: string}}}}`),
			[]string{"warning " + a + ".properties[finalizers].x-kubernetes-list-type"}},
		{"a template with a part of the metadata", within(`{type: object, properties: {metadata: {type: object, properties: {finalizers: {type: array, items: {type: string}}}}, spec: ` + embedded(t, "pods", "spec") + `}}`), nil},
		{"a selector with any labels", within(`{type: object, properties: {matchLabels: {type: object, additionalProperties: true}, matchExpressions: {type: array, items: {type: object, properties: {key: {type: string}, operator: {type: string}}}}}}`), nil},
		{"a known type with the name spec", within(`{type: object, properties: {spec: {type: object, properties: {key: {type: string}, name: {type: string}, optional: {type: boolean}}}, status: {type: object, properties: {key: {type: string}, name: {type: string}, optional: {type: boolean}}}}}`), nil},
		{"the status of the resource", `{type: object, properties: {status: {type: object, properties: {key: {type: string}, name: {type: string}, optional: {type: boolean}}}}}`,
			[]string{"warning .properties[status].properties[optional].type", "warning spec.versions[0].subresources.status"}},
		{"a known type beside the spec", `{type: object, properties: {ref: {type: object, properties: {key: {type: string}, name: {type: string}, optional: {type: boolean}}}}}`, nil},
		{"a secret with text for bytes", within(`{type: object, properties: {apiVersion: {type: string}, kind: {type: string}, immutable: {type: boolean}, type: {type: string}, data: {type: object, additionalProperties: {type: string}}, stringData: {type: object, additionalProperties: {type: string}}}}`), nil},
		{"the spec of the resource", `{type: object, properties: {spec: {type: object, properties: {key: {type: string}, name: {type: string}, optional: {type: boolean}}}}}`,
			[]string{"warning .properties[spec].properties[optional].type"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var config lint.Config
			config.Disable, config.Enable = []string{lint.All}, []string{lint.Conventions}
			expect(t, lintAll(t, schema.Kubernetes, config, v1(c.schema))[0], c.want...)
		})
	}
}
