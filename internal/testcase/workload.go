package testcase

import (
	"fmt"
	"strings"
)

// A keyword sets keywords of a schema.
type keyword func(map[string]any)

func with(key string, value any) keyword {
	return func(s map[string]any) { s[key] = value }
}

func typed(t string, keywords []keyword) map[string]any {
	s := map[string]any{"type": t}
	for _, k := range keywords {
		k(s)
	}
	return s
}

func str(k ...keyword) map[string]any     { return typed("string", k) }
func integer(k ...keyword) map[string]any { return typed("integer", k) }
func number(k ...keyword) map[string]any  { return typed("number", k) }
func boolean(k ...keyword) map[string]any { return typed("boolean", k) }

func object(properties map[string]any, k ...keyword) map[string]any {
	return typed("object", append(k, with("properties", properties)))
}

func mapOf(values map[string]any, k ...keyword) map[string]any {
	return typed("object", append(k, with("additionalProperties", values)))
}

func list(items map[string]any, k ...keyword) map[string]any {
	return typed("array", append(k, with("items", items)))
}

func intOrString(k ...keyword) map[string]any {
	s := typed("", append(k,
		with("x-kubernetes-int-or-string", true),
		with("anyOf", []any{integer(), str()})))
	delete(s, "type")
	return s
}

func pattern(p string) keyword   { return with("pattern", p) }
func format(f string) keyword    { return with("format", f) }
func defaultTo(v any) keyword    { return with("default", v) }
func enum(values ...any) keyword { return with("enum", values) }
func required(names ...string) keyword {
	return with("required", names)
}

func between(low, high int) keyword {
	return func(s map[string]any) { s["minimum"], s["maximum"] = low, high }
}

func length(low, high int) keyword {
	return func(s map[string]any) { s["minLength"], s["maxLength"] = low, high }
}

func set() keyword { return with("x-kubernetes-list-type", "set") }

func listMap(keys ...string) keyword {
	return func(s map[string]any) {
		s["x-kubernetes-list-type"], s["x-kubernetes-list-map-keys"] = "map", keys
	}
}

const (
	namePattern     = `^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	envPattern      = `^[-._a-zA-Z][-._a-zA-Z0-9]*$`
	quantityPattern = `^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]+))?$`
	imagePattern    = `^[a-z0-9]+([._/-][a-z0-9]+)*(:[A-Za-z0-9][A-Za-z0-9._-]*)?$`
)

// workloadSchema returns a schema that resembles the spec of many CRDs. The number varies the
// bounds, so that no two of these schemas are the same.
func workloadSchema(i int) map[string]any {
	quantity := func() map[string]any { return intOrString(pattern(quantityPattern)) }
	keyRef := func() map[string]any {
		return object(map[string]any{
			"name":     str(length(1, 253+i)),
			"key":      str(length(1, 253+i)),
			"optional": boolean(),
		}, required("name", "key"))
	}
	return object(map[string]any{
		"image":                str(length(1, 255+i), pattern(imagePattern)),
		"imagePullPolicy":      str(enum("Always", "IfNotPresent", "Never"), defaultTo("IfNotPresent")),
		"replicas":             integer(format("int32"), between(0, 1000+i), defaultTo(1)),
		"minReadySeconds":      integer(format("int32"), between(0, 3600+i), defaultTo(0)),
		"revisionHistoryLimit": integer(format("int32"), between(0, 100+i), defaultTo(10)),
		"paused":               boolean(defaultTo(false)),
		"weight":               number(between(0, 1+i), with("multipleOf", 0.25)),
		"strategy": object(map[string]any{
			"type": str(enum("RollingUpdate", "Recreate"), defaultTo("RollingUpdate")),
			"rollingUpdate": object(map[string]any{
				"maxSurge":       intOrString(defaultTo("25%")),
				"maxUnavailable": intOrString(defaultTo("25%")),
			}, defaultTo(map[string]any{})),
		}, defaultTo(map[string]any{})),
		"selector": mapOf(str(length(0, 63+i)), with("maxProperties", 32+i)),
		"ports": list(object(map[string]any{
			"name":          str(length(1, 15+i), pattern(namePattern)),
			"containerPort": integer(format("int32"), between(1, 65535)),
			"protocol":      str(enum("TCP", "UDP", "SCTP"), defaultTo("TCP")),
			"hostPort":      integer(format("int32"), between(0, 65535)),
		}, required("containerPort")), listMap("containerPort", "protocol"), with("maxItems", 128+i)),
		"env": list(object(map[string]any{
			"name":  str(length(1, 128+i), pattern(envPattern)),
			"value": str(with("maxLength", 4096+i)),
			"valueFrom": object(map[string]any{
				"configMapKeyRef": keyRef(),
				"secretKeyRef":    keyRef(),
			}, with("oneOf", []any{
				map[string]any{"required": []string{"configMapKeyRef"}},
				map[string]any{"required": []string{"secretKeyRef"}},
			})),
		}, required("name"), with("not", map[string]any{"required": []string{"value", "valueFrom"}})), listMap("name")),
		"args":         list(str(length(0, 1024+i)), with("maxItems", 64+i)),
		"capabilities": list(str(pattern(`^[A-Z][A-Z_]*$`)), set()),
		"resources": object(map[string]any{
			"limits":   mapOf(quantity()),
			"requests": mapOf(quantity()),
		}),
		"probe": object(map[string]any{
			"path":             str(pattern(`^/`), length(1, 1024+i)),
			"port":             intOrString(),
			"scheme":           str(enum("HTTP", "HTTPS"), defaultTo("HTTP")),
			"periodSeconds":    integer(format("int32"), between(1, 600+i), defaultTo(10)),
			"timeoutSeconds":   integer(format("int32"), between(1, 60+i), defaultTo(1)),
			"failureThreshold": integer(format("int32"), between(1, 30+i), defaultTo(3)),
		}, required("port")),
		"window": object(map[string]any{
			"start": str(format("date-time")),
			"end":   str(format("date-time")),
		}),
		"tolerations": list(object(map[string]any{
			"key":               str(length(0, 316+i)),
			"operator":          str(enum("Exists", "Equal"), defaultTo("Equal")),
			"value":             str(length(0, 63+i)),
			"effect":            str(enum("NoSchedule", "PreferNoSchedule", "NoExecute")),
			"tolerationSeconds": integer(format("int64"), with("minimum", 0)),
		}), with("x-kubernetes-list-type", "atomic")),
		"storage": object(map[string]any{
			"size":        quantity(),
			"className":   str(with("nullable", true), length(0, 253+i)),
			"accessModes": list(str(enum("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany")), set()),
		}),
		"notify": object(map[string]any{
			"email":   str(format("email")),
			"webhook": str(format("uri"), length(1, 2048+i)),
		}, with("anyOf", []any{
			map[string]any{"required": []string{"email"}},
			map[string]any{"required": []string{"webhook"}},
		})),
		"config": object(map[string]any{
			"version": integer(between(1, 9+i), defaultTo(1)),
		}, with("x-kubernetes-preserve-unknown-fields", true)),
	}, required("image", "ports"))
}

func statusSchema() map[string]any {
	return object(map[string]any{
		"phase":              str(enum("Pending", "Ready", "Failed")),
		"observedGeneration": integer(format("int64"), with("minimum", 0)),
		"readyReplicas":      integer(format("int32"), with("minimum", 0)),
		"conditions": list(object(map[string]any{
			"type":               str(length(1, 316)),
			"status":             str(enum("True", "False", "Unknown")),
			"reason":             str(length(1, 1024), pattern(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)),
			"message":            str(with("maxLength", 32768)),
			"lastTransitionTime": str(format("date-time")),
		}, required("type", "status")), listMap("type")),
	})
}

// workload returns the text of an object for workloadSchema(i). With n = 1 it is the spec of
// the medium case; the lists grow with n.
func workload(i, n int) string {
	return `{` + strings.Join([]string{
		fmt.Sprintf(`"image":"registry.example.com/shop/storefront%d:v1.%d.0"`, i, i),
		fmt.Sprintf(`"replicas":%d`, 3+i%5),
		`"autoscale":{"enabled":true,"min":2,"max":12,"metrics":["cpu","requests"],"cooldown":{"up":"30s","down":"5m"}}`,
		`"paused":null`,
		`"weight":0.75`,
		`"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":1,"maxUnavailable":"10%","pause":null}}`,
		`"selector":{"app":"storefront","tier":"web"}`,
		`"ports":[` + repeat(n, func(j int) string {
			return fmt.Sprintf(`{"name":"http%d","containerPort":%d},{"name":"dns%d","containerPort":%d,"protocol":"UDP","nodePort":%d}`,
				j, 8080+j, j, 5300+j, 30053+j)
		}) + `]`,
		`"env":[` + repeat(n, func(j int) string {
			return fmt.Sprintf(`{"name":"LOG_LEVEL_%d","value":"info"},`+
				`{"name":"TOKEN_%d","valueFrom":{"secretKeyRef":{"name":"storefront","key":"token-%d","version":"latest"}}}`, j, j, j)
		}) + `]`,
		`"args":["--listen=:8080",` + repeat(n, func(j int) string { return fmt.Sprintf(`"--feature=%d"`, j) }) + `]`,
		`"capabilities":["NET_ADMIN","SYS_TIME"]`,
		`"resources":{"limits":{"cpu":2,"memory":"512Mi"},"requests":{"cpu":"250m"}}`,
		`"probe":{"path":"/healthz","port":"http0","periodSeconds":5,"successThreshold":1}`,
		`"window":{"start":"2024-03-01T22:00:00Z","end":"2024-03-02T04:00:00Z"}`,
		`"tolerations":[` + repeat(n, func(j int) string {
			return fmt.Sprintf(`{"key":"spot-%d","operator":"Exists","effect":"NoExecute","tolerationSeconds":%d,"reason":"cheap"}`, j,
				60*(j+1))
		}) + `]`,
		`"sidecars":[` + repeat((n+1)/2, func(j int) string {
			return fmt.Sprintf(`{"name":"proxy-%d","image":"example.com/proxy:2.1","memory":"64Mi"}`, j)
		}) + `]`,
		`"storage":{"size":"10Gi","className":null,"accessModes":["ReadWriteOnce"],"encrypted":true}`,
		`"notify":{"email":"web@example.com","channel":"#web"}`,
		`"config":{"cache":{"ttl":"5m","entries":1000},"flags":["a","b"],"extra":` +
			`[` + repeat(n, func(j int) string { return fmt.Sprintf(`{"rule":%d,"allow":null}`, j) }) + `]}`,
	}, ",") + `}`
}

func status(n int) string {
	return `{"phase":"Ready","observedGeneration":4,"conditions":[` + repeat(n, func(j int) string {
		return fmt.Sprintf(`{"type":"Ready%d","status":"True","reason":"AllUp","lastTransitionTime":"2024-03-01T22:00:05Z","probe":{"code":200}}`, j)
	}) + `]}`
}

// repeat concatenates item(0) to item(n-1).
func repeat(n int, item func(int) string) string {
	items := make([]string, n)
	for j := range items {
		items[j] = item(j)
	}
	return strings.Join(items, ",")
}
