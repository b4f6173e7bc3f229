package policies_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// generator makes admission policies and what they are about, the same ones for a seed. Most
// expressions can be evaluated for some of the objects only.
type generator struct {
	*rand.Rand
	namespace string
	// variables are the names of the variables of the policy by type.
	variables map[string][]string
	// params is set if the policy has parameters.
	params bool
	// costly is a condition whose cost exceeds the budget of an expression, or empty.
	costly string
	// cheap is set if no condition exceeds the budget.
	cheap bool
}

type tree = map[string]any

func pick[T any](g *generator, list ...T) T { return list[g.IntN(len(list))] }

// chance reports whether something that happens in n of 100 cases does.
func (g *generator) chance(n int) bool { return g.IntN(100) < n }

// generatedKind is a kind of objects, with what its objects have.
type generatedKind struct {
	group, version, kind, resource string
	clusterScoped                  bool
	// strings and ints are expressions for fields.
	strings, ints []string
	// apply are apply configurations.
	apply []string
	// patches are the operations of JSON patches.
	patches []string
	// spec returns what objects have beside their metadata.
	spec func(g *generator) tree
}

func generatedKinds() []generatedKind {
	garden := func(g *generator) tree {
		spec := tree{"beds": g.IntN(12)}
		if g.chance(60) {
			spec["owner"] = pick(g, "ann", "bob", "")
		}
		if g.chance(50) {
			spec["tools"] = []tree{{"name": "spade"}, {"name": "rake", "count": g.IntN(5)}}
		}
		if g.chance(50) {
			spec["tags"] = tree{"a": "1", "b/c": "2"}
		}
		return tree{"spec": spec}
	}
	gardenKind := generatedKind{
		group: "example.com", version: "v1", kind: "Garden", resource: "gardens",
		strings: []string{"object.spec.soil", "object.spec.owner", "object.spec.tags['a']", "object.spec.tools[0].name", "oldObject.spec.owner"},
		ints:    []string{"object.spec.beds", "object.spec.tools[1].count", "oldObject.spec.beds", "object.spec.count"},
		apply: []string{"Object{spec: Object.spec{owner: %s}}", "Object{spec: Object.spec{tools: [Object.spec.tools{name: %s}]}}", "Object{spec: Object.spec{tags: {'made': %s}}}",
			"Object{spec: Object.spec{beds: size(%s)}}", "Object{spec: Object.spec{unknown: %s}}", "Object{spec: Object.spec{count: has(object.spec.count) ? object.spec.count + 1 : size(%s)}}"},
		patches: []string{`JSONPatch{op: "add", path: "/spec/owner", value: %s}`, `JSONPatch{op: "replace", path: "/spec/beds", value: size(%s)}`, `JSONPatch{op: "remove", path: "/spec/tags"}`,
			`JSONPatch{op: "add", path: "/spec/tags/" + jsonpatch.escapeKey("x/y"), value: %s}`, `JSONPatch{op: "test", path: "/spec/owner", value: "ann"}`, `JSONPatch{op: "move", from: "/spec/owner", path: "/spec/soil"}`,
			`JSONPatch{op: "add", path: "/spec/tools/-", value: Object.spec.tools{name: "hoe"}}`, `JSONPatch{op: "add", path: "/spec/other", value: %s}`},
		spec: garden,
	}
	newer := gardenKind
	newer.version = "v2"
	newer.strings = append(slices.Clone(newer.strings), "string(object.spec.sunny)")
	pod := func(g *generator) tree {
		c := tree{"name": "main", "image": pick(g, "a:1", "example.com/b:2", "c")}
		if g.chance(40) {
			c["resources"] = tree{"limits": tree{"cpu": pick(g, "1", "200m"), "memory": "1Gi"}}
		}
		if g.chance(30) {
			c["env"] = []tree{{"name": "A", "value": "1"}}
		}
		return tree{"containers": []tree{c}, "terminationGracePeriodSeconds": 30 + g.IntN(5)}
	}
	return []generatedKind{
		gardenKind, newer,
		{
			group: "apps", version: "v1", kind: "Deployment", resource: "deployments",
			strings: []string{"object.spec.template.spec.containers[0].image", "object.spec.template.metadata.labels['app']", "object.spec.strategy.type", "oldObject.spec.template.spec.containers[0].image"},
			ints:    []string{"object.spec.replicas", "object.spec.template.spec.terminationGracePeriodSeconds", "oldObject.spec.replicas", "object.spec.minReadySeconds"},
			apply: []string{"Object{spec: Object.spec{replicas: size(%s)}}", "Object{spec: Object.spec{template: Object.spec.template{metadata: Object.spec.template.metadata{annotations: {'made': %s}}}}}",
				"Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: [Object.spec.template.spec.containers{name: 'main', imagePullPolicy: 'Never'}]}}}}"},
			patches: []string{`JSONPatch{op: "replace", path: "/spec/replicas", value: size(%s)}`, `JSONPatch{op: "add", path: "/spec/template/spec/containers/0/env", value: [Object.spec.template.spec.containers.env{name: "B", value: %s}]}`},
			spec: func(g *generator) tree {
				return tree{"spec": tree{"replicas": g.IntN(8), "selector": tree{"matchLabels": tree{"app": "x"}}, "template": tree{"metadata": tree{"labels": tree{"app": "x"}}, "spec": pod(g)}}}
			},
		},
		{
			version: "v1", kind: "Pod", resource: "pods",
			strings: []string{"object.spec.containers[0].image", "object.spec.containers[0].resources.limits['cpu']", "object.spec.restartPolicy"},
			ints:    []string{"object.spec.terminationGracePeriodSeconds", "size(object.spec.containers)"},
			apply:   []string{"Object{spec: Object.spec{priorityClassName: ''}}", "Object{spec: Object.spec{nodeSelector: {'pool': %s}}}", "Object{spec: Object.spec{initContainers: [Object.spec.initContainers{name: 'init', image: 'init', restartPolicy: 'Always'}]}}"},
			patches: []string{`JSONPatch{op: "add", path: "/spec/nodeSelector", value: {"pool": %s}}`, `JSONPatch{op: "add", path: "/spec/containers/-", value: Object.spec.containers{name: "side", image: "side"}}`},
			spec:    func(g *generator) tree { return tree{"spec": pod(g)} },
		},
		{
			version: "v1", kind: "ConfigMap", resource: "configmaps",
			strings: []string{"object.data['a']", "object.data.b", "oldObject.data['a']"},
			ints:    []string{"size(object.data)", "int(object.data['n'])"},
			apply:   []string{"Object{data: {'made': %s}}", "Object{data: {'a': %s}}"},
			patches: []string{`JSONPatch{op: "add", path: "/data/made", value: %s}`, `JSONPatch{op: "remove", path: "/data/a"}`},
			spec: func(g *generator) tree {
				data := tree{}
				for _, key := range []string{"a", "b", "n"} {
					if g.chance(60) {
						data[key] = pick(g, "", "7", "text", "12")
					}
				}
				return tree{"data": data}
			},
		},
		{
			group: "mutations.example.com", version: "v1", kind: "Sidecar", resource: "sidecars", clusterScoped: true,
			strings: []string{"object.spec.name", "object.spec.image"}, ints: []string{"size(object.spec)"},
			apply:   []string{"Object{spec: Object.spec{image: %s}}"},
			patches: []string{`JSONPatch{op: "add", path: "/spec/restartPolicy", value: %s}`},
			spec:    func(g *generator) tree { return tree{"spec": tree{"name": pick(g, "a", "b"), "image": "i"}} },
		},
	}
}

// object returns an object of a kind.
func (g *generator) object(k *generatedKind, name string) tree {
	meta := tree{"name": name}
	if g.chance(70) {
		meta["labels"] = tree{"team": pick(g, "red", "blue"), "env": pick(g, "test", "prod")}
	}
	if g.chance(30) {
		meta["annotations"] = tree{"note": pick(g, "x", "long text")}
	}
	if !k.clusterScoped {
		meta["namespace"] = g.namespace
	}
	apiVersion := k.version
	if k.group != "" {
		apiVersion = k.group + "/" + k.version
	}
	out := tree{"apiVersion": apiVersion, "kind": k.kind, "metadata": meta}
	for key, value := range k.spec(g) {
		out[key] = value
	}
	return out
}

// text returns an expression that is a string, mostly for objects of a kind.
func (g *generator) text(k *generatedKind, depth int) string {
	if depth > 0 && g.chance(40) {
		switch g.IntN(6) {
		case 0:
			return fmt.Sprintf("(%s ? %s : %s)", g.condition(k, depth-1), g.text(k, depth-1), g.text(k, depth-1))
		case 1:
			return fmt.Sprintf("string(%s)", g.number(k, depth-1))
		case 2:
			return fmt.Sprintf("('t' + %s)", g.text(k, depth-1))
		case 3:
			return fmt.Sprintf("%s.lowerAscii()", "string("+g.text(k, depth-1)+")")
		case 4:
			return fmt.Sprintf("object.metadata.?labels[?'team'].orValue(%s)", g.text(k, depth-1))
		}
		return fmt.Sprintf("[%s, 'z'].join('-')", "string("+g.text(k, depth-1)+")")
	}
	if names := g.variables["string"]; len(names) > 0 && g.chance(30) {
		return "variables." + pick(g, names...)
	}
	if g.params && g.chance(30) {
		return pick(g, "params.data['limit']", "params.nice", "params.spec.image", "params.metadata.name", "params.metadata.namespace")
	}
	switch g.IntN(4) {
	case 0:
		return strconv.Quote(pick(g, "red", "blue", "ann", "x", "CREATE", ""))
	case 1:
		return pick(g, "object.metadata.name", "object.metadata.labels['team']", "object.metadata.labels.env", "object.metadata.annotations['note']", "oldObject.metadata.name", "object.kind", "object.apiVersion")
	case 2:
		return pick(g, "request.operation", "request.name", "request.namespace", "request.userInfo.username", "request.resource.resource", "request.kind.kind", "request.kind.version", "request.requestKind.version",
			"namespaceObject.metadata.name", "namespaceObject.metadata.labels['tier']", "namespaceObject.metadata.annotations['owner']", "request.subResource")
	}
	return pick(g, k.strings...)
}

// number returns an expression that is an integer.
func (g *generator) number(k *generatedKind, depth int) string {
	if depth > 0 && g.chance(30) {
		switch g.IntN(4) {
		case 0:
			return fmt.Sprintf("(%s + %s)", g.number(k, depth-1), g.number(k, depth-1))
		case 1:
			return fmt.Sprintf("(%s %s %d)", g.number(k, depth-1), pick(g, "/", "%", "*"), g.IntN(4))
		case 2:
			return fmt.Sprintf("size(string(%s))", g.text(k, depth-1))
		}
		return fmt.Sprintf("(%s ? %s : %d)", g.condition(k, depth-1), g.number(k, depth-1), g.IntN(9))
	}
	if names := g.variables["int"]; len(names) > 0 && g.chance(30) {
		return "variables." + pick(g, names...)
	}
	if g.params && g.chance(40) {
		return pick(g, "params.maxReplicas", "int(params.data['max'])", "size(params.data)")
	}
	if g.chance(40) {
		return strconv.Itoa(g.IntN(10))
	}
	return pick(g, k.ints...)
}

// condition returns an expression that is a boolean.
func (g *generator) condition(k *generatedKind, depth int) string {
	if depth > 0 && g.chance(45) {
		switch g.IntN(4) {
		case 0:
			return fmt.Sprintf("(%s && %s)", g.condition(k, depth-1), g.condition(k, depth-1))
		case 1:
			return fmt.Sprintf("(%s || %s)", g.condition(k, depth-1), g.condition(k, depth-1))
		case 2:
			return "!" + g.condition(k, depth-1)
		}
		return fmt.Sprintf("[int(%s), int(%s)].%s(i, i %s %s)", g.number(k, depth-1), g.number(k, depth-1), pick(g, "all", "exists", "exists_one"), pick(g, "<", ">="), g.number(k, depth-1))
	}
	switch g.IntN(11) {
	case 0, 1, 2:
		return fmt.Sprintf("(%s %s %s)", g.number(k, depth-1), pick(g, "<", "<=", ">", ">=", "==", "!="), g.number(k, depth-1))
	case 3, 4:
		return fmt.Sprintf("(%s %s %s)", g.text(k, depth-1), pick(g, "==", "!="), g.text(k, depth-1))
	case 5:
		return fmt.Sprintf("string(%s).%s('%s')", g.text(k, depth-1), pick(g, "startsWith", "contains", "matches"), pick(g, "a", "e", "r.*d"))
	case 6:
		return pick(g, "has(object.spec.replicas)", "has(object.metadata.labels)", "(has(object.spec) && has(object.spec.owner))", "has(object.data.a)")
	case 7:
		if g.params {
			return "(params == null)"
		}
		return pick(g, "(oldObject == null)", "(object != null)", "(request.operation == 'UPDATE')", "('prod' in [object.metadata.labels['env']])")
	case 8:
		return pick(g, "object.spec.tools.all(t, t.count > 0)", "object.spec.containers.exists(c, has(c.resources.limits))", "quantity(object.spec.containers[0].resources.limits['cpu']).isGreaterThan(quantity('500m'))",
			"object.data.all(k, object.data[k] != '')", "(object.spec.tags == oldObject.spec.tags)")
	case 9:
		return pick(g, "true", "false")
	}
	if g.chance(15) {
		return g.expensive()
	}
	return fmt.Sprintf("(%s in [string(%s), 'red', string(%s)])", g.text(k, depth-1), g.text(k, depth-1), g.text(k, depth-1))
}

// expensive returns a condition whose cost exceeds the budget, unless the conditions are cheap.
func (g *generator) expensive() string {
	if g.costly != "" {
		return g.costly
	}
	length := 40
	if g.cheap {
		length = 4
	}
	items := "[" + strings.TrimSuffix(strings.Repeat("1,", length), ",") + "]"
	return fmt.Sprintf("%s.all(a, %s.all(b, %s.all(c, %s.all(d, a + b + c + d > 0))))", items, items, items, items)
}

// rule returns a rule of a match.
func (g *generator) rule(k *generatedKind, wide bool) tree {
	r := tree{"apiGroups": []string{k.group}, "apiVersions": []string{k.version}, "resources": []string{k.resource},
		"operations": pick(g, []string{"CREATE"}, []string{"UPDATE"}, []string{"CREATE", "UPDATE"}, []string{"CREATE", "UPDATE"}, []string{"CREATE", "UPDATE"})}
	if wide && g.chance(20) {
		r["apiVersions"] = []string{"*"}
	}
	if wide && g.chance(10) {
		r["apiGroups"], r["resources"] = []string{"*"}, []string{"*"}
	}
	if g.chance(10) {
		r["scope"] = pick(g, "Namespaced", "Cluster", "*")
	}
	if g.chance(10) {
		r["resourceNames"] = []string{pick(g, "one", "two")}
	}
	return r
}

func (g *generator) selector(label string, values ...string) tree {
	if g.chance(50) {
		return tree{"matchLabels": tree{label: pick(g, values...)}}
	}
	return tree{"matchExpressions": []tree{{"key": label, "operator": pick(g, "In", "NotIn"), "values": values[:1]}}}
}

// match returns the resources that a policy or a binding matches.
func (g *generator) match(all []generatedKind, k *generatedKind, required bool) tree {
	m := tree{}
	if required || g.chance(40) {
		rules := []tree{g.rule(k, true)}
		if g.chance(35) {
			rules = append(rules, g.rule(&all[g.IntN(len(all))], true))
		}
		m["resourceRules"] = rules
	}
	if g.chance(8) {
		m["excludeResourceRules"] = []tree{g.rule(&all[g.IntN(len(all))], true)}
	}
	if g.chance(25) {
		m["matchPolicy"] = pick(g, "Exact", "Equivalent")
	}
	if g.chance(15) {
		m["namespaceSelector"] = g.selector("tier", "front", "back")
	}
	if g.chance(15) {
		m["objectSelector"] = g.selector("team", "red", "blue")
	}
	return m
}

// policy returns a policy and its bindings.
func (g *generator) policy(all []generatedKind, name string) (out []tree) {
	k := &all[g.IntN(len(all))]
	g.variables = map[string][]string{}
	mutating := g.chance(40)
	spec := tree{"failurePolicy": pick(g, "Fail", "Fail", "Ignore"), "matchConstraints": g.match(all, k, true)}
	if g.params = g.chance(40); g.params {
		spec["paramKind"] = pick(g, tree{"apiVersion": "v1", "kind": "ConfigMap"}, tree{"apiVersion": "rules.example.com/v1", "kind": "ReplicaLimit"}, tree{"apiVersion": "v1", "kind": "ConfigMap"},
			tree{"apiVersion": "rules.example.com/v1", "kind": "ReplicaLimit"}, tree{"apiVersion": "mutations.example.com/v1", "kind": "Sidecar"}, tree{"apiVersion": "other.example.com/v1", "kind": "Missing"})
	}
	// Conditions cannot use variables. Before variables are declared, there are none.
	if g.chance(30) {
		var conditions []tree
		for i := range 1 + g.IntN(2) {
			conditions = append(conditions, tree{"name": fmt.Sprintf("c%d", i), "expression": g.condition(k, 1)})
		}
		spec["matchConditions"] = conditions
	}
	if g.chance(40) {
		var variables []tree
		for i := range 1 + g.IntN(2) {
			name, typ := fmt.Sprintf("v%d", i), pick(g, "int", "string")
			expression := "int(" + g.number(k, 1) + ")"
			if typ == "string" {
				expression = "string(" + g.text(k, 1) + ")"
			}
			variables = append(variables, tree{"name": name, "expression": expression})
			g.variables[typ] = append(g.variables[typ], name)
		}
		spec["variables"] = variables
	}
	kind := "ValidatingAdmissionPolicy"
	if mutating {
		kind = "MutatingAdmissionPolicy"
		g.mutations(spec, k)
	} else {
		g.validations(spec, k)
	}
	meta := func(name string) tree { return tree{"name": name} }
	out = append(out, tree{"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": meta(name), "spec": spec})
	for i := range pick(g, 0, 1, 1, 1, 1, 2, 2, 3) {
		b := tree{"policyName": name}
		if !mutating {
			b["validationActions"] = pick(g, []string{"Deny"}, []string{"Deny"}, []string{"Warn"}, []string{"Audit"}, []string{"Deny", "Audit"}, []string{"Warn", "Audit"})
		}
		if g.chance(30) {
			b["matchResources"] = g.match(all, k, false)
		}
		if g.params && g.chance(90) || g.chance(5) {
			ref := tree{"parameterNotFoundAction": pick(g, "Deny", "Allow")}
			if g.chance(25) {
				// Others would select what controllers create.
				ref["selector"] = tree{"matchLabels": tree{"size": pick(g, "small", "large")}}
			} else {
				ref["name"] = pick(g, "first", "first", "second", "absent")
			}
			if g.chance(50) {
				ref["namespace"] = pick(g, g.namespace, g.namespace, "default")
			}
			b["paramRef"] = ref
		}
		out = append(out, tree{"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind + "Binding", "metadata": meta(fmt.Sprintf("%s-%d", name, i)), "spec": b})
	}
	return out
}

func (g *generator) validations(spec tree, k *generatedKind) {
	var list []tree
	for range 1 + g.IntN(3) {
		v := tree{"expression": g.condition(k, 2)}
		if g.chance(30) {
			v["message"] = pick(g, "not so", "too large")
		}
		if g.chance(40) {
			v["messageExpression"] = "'because of ' + string(" + g.text(k, 1) + ")"
		}
		if g.chance(30) {
			v["reason"] = pick(g, "Forbidden", "Invalid", "RequestEntityTooLarge")
		}
		list = append(list, v)
	}
	spec["validations"] = list
	if g.chance(20) {
		spec["auditAnnotations"] = []tree{{"key": "note", "valueExpression": "'note ' + string(" + g.text(k, 1) + ")"}}
	}
}

func (g *generator) mutations(spec tree, k *generatedKind) {
	fill := func(format string) string {
		switch {
		case strings.Contains(format, "%s") && g.chance(50):
			return fmt.Sprintf(format, pick(g, "'made'", "object.metadata.name", "request.operation"))
		case strings.Contains(format, "%s"):
			return fmt.Sprintf(format, "string("+g.text(k, 1)+")")
		}
		return format
	}
	var list []tree
	for range 1 + g.IntN(2) {
		if g.chance(50) {
			apply := pick(g, append(slices.Clone(k.apply), "Object{metadata: Object.metadata{labels: {'made': 'yes'}}}", "Object{metadata: Object.metadata{annotations: {'made': %s}}}")...)
			if g.chance(20) {
				apply = fmt.Sprintf("%s ? %s : Object{}", g.condition(k, 1), apply)
			}
			list = append(list, tree{"patchType": "ApplyConfiguration", "applyConfiguration": tree{"expression": fill(apply)}})
			continue
		}
		patch := pick(g, append(slices.Clone(k.patches), `JSONPatch{op: "add", path: "/metadata/labels/made", value: "yes"}`, `JSONPatch{op: "add", path: "/metadata/annotations", value: {"made": %s}}`)...)
		expression := "[" + fill(patch) + "]"
		if g.chance(20) {
			expression = fmt.Sprintf("%s ? %s : []", g.condition(k, 1), expression)
		}
		list = append(list, tree{"patchType": "JSONPatch", "jsonPatch": tree{"expression": expression}})
	}
	spec["mutations"] = list
	spec["reinvocationPolicy"] = pick(g, "Never", "IfNeeded")
}

// parameters returns the objects that policies use as parameters.
func (g *generator) parameters() (out []tree) {
	for _, name := range []string{"first", "second"} {
		labels := tree{"size": pick(g, "small", "large")}
		meta := func() tree { return tree{"name": name, "namespace": g.namespace, "labels": labels} }
		data := tree{"limit": pick(g, "red", "3")}
		if g.chance(60) {
			data["max"] = strconv.Itoa(g.IntN(10))
		}
		if g.chance(85) {
			out = append(out, tree{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(), "data": data})
		}
		if g.chance(85) {
			limit := tree{"apiVersion": "rules.example.com/v1", "kind": "ReplicaLimit", "metadata": meta()}
			if g.chance(70) {
				limit["maxReplicas"] = g.IntN(9)
			}
			out = append(out, limit)
		}
		if g.chance(70) {
			out = append(out, tree{"apiVersion": "mutations.example.com/v1", "kind": "Sidecar", "metadata": tree{"name": name, "labels": labels}, "spec": tree{"image": "param"}})
		}
	}
	return out
}

// document returns an object in YAML.
func document(obj tree) string {
	text, err := yaml.Marshal(obj)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
