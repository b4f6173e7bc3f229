package typecheck_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"espalier.dev/api"
	"espalier.dev/kinds/schemas"
	"espalier.dev/schema"
	"espalier.dev/schema/rules/typecheck"
)

// builtin returns the schema of a built-in kind.
func builtin(t *testing.T, gvk runtimeschema.GroupVersionKind) (*schema.Structural, string) {
	t.Helper()
	for _, k := range schemas.Called(gvk.Kind) {
		if k.Group != gvk.Group {
			continue
		}
		d, err := k.Definition()
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range d.Versions() {
			if v.Name() == gvk.Version {
				return v.Structural(), k.Names.Plural
			}
		}
	}
	t.Fatalf("there is no %v", gvk)
	return nil, ""
}

// structural returns the schema of a custom resource.
func structural(t *testing.T, text string) *schema.Structural {
	t.Helper()
	var props api.JSONSchemaProps
	if err := yaml.Unmarshal([]byte(text), &props); err != nil {
		t.Fatal(err)
	}
	s, err := schema.NewStructural(&props)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func texts(r schema.TypedExpression) (out []string) {
	for _, i := range r.Issues {
		text := fmt.Sprintf("%d:%d: %s", i.Line, i.Column, i.Message)
		if i.Nearest != "" {
			text += " (" + i.Nearest + ")"
		}
		out = append(out, text)
	}
	return out
}

// TestBuiltin checks expressions about pods and deployments.
func TestBuiltin(t *testing.T) {
	pod := runtimeschema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	deployment := runtimeschema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	secret := runtimeschema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	checker := typecheck.New()
	for _, test := range []struct {
		kind       runtimeschema.GroupVersionKind
		expression string
		want       string
		// published is what kube-apiserver says, if it is something else.
		published string
	}{
		{deployment, `object.spec.replicas <= 5`, "", ""},
		{deployment, `object.spec.replcas <= 5`, "1:12: undefined field 'replcas' (replicas)", "1:12: undefined field 'replcas' (replicas)"},
		{deployment, "true &&\n  object.spec.foobar <= 5", "2:14: undefined field 'foobar'", "2:14: undefined field 'foobar'"},
		{deployment, `object.spec.replicas <= '5'`, "1:22: found no matching overload for '_<=_' applied to '(int, string)'",
			"1:22: found no matching overload for '_<=_' applied to '(int, string)'"},
		{deployment, `object.spec.template.spec.containers.all(c, c.imag.startsWith('a'))`, "1:46: undefined field 'imag' (image)", "1:46: undefined field 'imag' (image)"},
		{deployment, `object.metadata.namespace == 'x' && request.namespace == 'y' && namespaceObject.metadata.labels['a'] == 'b'`, "", ""},
		{deployment, `request.naem == ''`, "1:8: undefined field 'naem' (name)", "1:8: undefined field 'naem' (name)"},
		{deployment, `namespaceObject.metadata.label.a == ''`, "1:25: undefined field 'label' (labels)", "1:25: undefined field 'label' (labels)"},
		// Kinds that are told apart.
		{pod, `object.kind == 'Pod' ? object.spec.containers.size() > 0 : object.spec.template.spec.containers.size() > 0`, "", "1:71: undefined field 'template'"},
		{deployment, `object.kind == 'Pod' ? object.spec.containers.size() > 0 : object.spec.template.spec.containers.size() > 0`, "", "1:35: undefined field 'containers'"},
		{pod, `request.kind.kind != 'Deployment' || object.spec.replicas > 1`, "", "1:49: undefined field 'replicas'"},
		{pod, `!(request.resource.resource in ['deployments', 'statefulsets']) || object.spec.replicas > 1`, "", "1:79: undefined field 'replicas'"},
		{pod, `request.resource.resource in ['pods', 'statefulsets'] && object.spec.replicas > 1`, "1:69: undefined field 'replicas'", "1:69: undefined field 'replicas'"},
		{pod, `object.kind == 'Pod' && object.spec.replicas > 1`, "1:36: undefined field 'replicas'", "1:36: undefined field 'replicas'"},
		{pod, `object.spec.replicas > 1 && object.kind == 'Deployment'`, "", "1:12: undefined field 'replicas'"},
		{pod, `has(object.spec.template) ? object.spec.template.spec.hostNetwork : true`, "", "1:4: undefined field 'template'; 1:40: undefined field 'template'"},
		{pod, `!has(object.spec.template) || object.spec.replicas > 1`, "", "1:5: undefined field 'template'; 1:42: undefined field 'replicas'"},
		{deployment, `!has(object.spec.template) && object.spec.containers.size() > 0`, "", "1:42: undefined field 'containers'"},
		{deployment, `!has(object.spec.strategy) && object.spec.containers.size() > 0`, "1:42: undefined field 'containers'", "1:42: undefined field 'containers'"},
		{pod, `has(object.spec.template.spec)`, "1:16: undefined field 'template'", "1:16: undefined field 'template'"},
		{pod, `object.spec.?template.spec.containers.orValue([]).all(c, c.name != '')`, "", "1:12: undefined field 'template'"},
		{pod, `object.?metadata.?labels['a'].orValue('') == 'b'`, "", ""},
		{pod, `['Deployment', 'Job'].all(kind, object.kind != kind) || object.spec.template.spec.hostNetwork`, "", "1:68: undefined field 'template'"},
		{pod, `['Pod', 'Job'].exists(kind, object.kind == kind) && object.spec.template.spec.hostNetwork`, "1:64: undefined field 'template'", "1:64: undefined field 'template'"},
		{pod, `!['Deployment', 'Job'].exists(kind, object.kind == kind) || object.spec.template.spec.hostNetwork`, "", "1:72: undefined field 'template'"},
		{pod, `['Pod', 'Job'].all(k, k != object.metadata.name) || object.spec.template.spec.hostNetwork`, "1:64: undefined field 'template'", "1:64: undefined field 'template'"},
		// Values when they are evaluated.
		{pod, `object.spec.containers.all(c, quantity(c.resources.limits['cpu']).isLessThan(quantity('1')))`, "", "1:51: undefined field 'limits'"},
		{pod, `object.metadata.creationTimestamp == null || object.metadata.creationTimestamp.startsWith('2')`, "",
			"1:90: found no matching overload for 'startsWith' applied to 'timestamp.(string)'"},
		{pod, `object.metadata.labels == null`, "", "1:24: found no matching overload for '_==_' applied to '(map(string, string), null)'"},
		{pod, `(object.spec.containers + object.spec.initContainers).all(c, c.imge != '')`, "1:63: undefined field 'imge' (image)",
			"1:25: found no matching overload for '_+_' applied to '(list(Pod.spec.containers.@idx), list(Pod.spec.initContainers.@idx))'"},
		{pod, `(object.spec.containers + object.spec.?ephemeralContainers.orValue([])).all(c, c.image != '')`, "",
			"1:25: found no matching overload for '_+_' applied to '(list(Pod.spec.containers.@idx), list(Pod.spec.ephemeralContainers.@idx))'"},
		{secret, `object.data.all(k, object.data[k] != '')`, "", "1:35: found no matching overload for '_!=_' applied to '(bytes, string)'"},
		{pod, `'hostNetwork' in object.spec && object.spec['hostNetwork'] == true`, "",
			"1:15: found no matching overload for '@in' applied to '(string, Pod.spec)'; 1:44: found no matching overload for '_[_]' applied to '(Pod.spec, string)'"},
		{pod, `object.spec.all(k, k != 'hostNetwork')`, "", "1:7: expression of type 'Pod.spec' cannot be range of a comprehension (must be list, map, or dynamic)"},
		{pod, `(has(object.spec.priority) ? object.spec.priority : 'none') != 'none'`, "", "1:28: found no matching overload for '_?_:_' applied to '(bool, int, string)'"},
		{pod, `authorizer.requestResource.check('get').allowed()`, "", "1:11: unexpected failed resolution of 'kubernetes.authorization.Authorizer'"},
		{pod, `object == null || oldObject != null`, "", ""},
		{pod, `1 in [object.spec.priority, object.spec.containers[0].ports[0].containerPort, object.spec.containers[0].livenessProbe.httpGet.port]`, "",
			"1:126: expected type 'int' but found 'dyn'"},
		{pod, `object.spec.nodeName == 1`, "1:22: found no matching overload for '_==_' applied to '(string, int)'", "1:22: found no matching overload for '_==_' applied to '(string, int)'"},
	} {
		s, plural := builtin(t, test.kind)
		for published, want := range map[bool]string{false: test.want, true: test.published} {
			e, err := checker.Expressions(schema.ExpressionTypes{Kind: test.kind, Resource: test.kind.GroupVersion().WithResource(plural), Object: s, Published: published})
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(texts(e.Check(test.expression)), "; "); got != want {
				t.Errorf("%s: %s (published: %t)\n got %s\nwant %s", test.kind.Kind, test.expression, published, got, want)
			}
		}
	}
}

// TestNestedQuantifiers checks that the work for nested quantifiers of long lists is bounded.
func TestNestedQuantifiers(t *testing.T) {
	pod := runtimeschema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	s, _ := builtin(t, pod)
	e, err := typecheck.New().Expressions(schema.ExpressionTypes{Kind: pod, Object: s})
	if err != nil {
		t.Fatal(err)
	}
	list := "[" + strings.Repeat("'a',", 99) + "'b']"
	expression := "a == 'c' && b == 'c' && c == 'c' && d == 'c' && e == object.spec.nodeNme"
	for _, name := range []string{"e", "d", "c", "b", "a"} {
		expression = list + ".exists(" + name + ", " + expression + ")"
	}
	if got := texts(e.Check(expression)); len(got) != 1 || !strings.Contains(got[0], "nodeNme") {
		t.Errorf("got %v", got)
	}
}

// TestMutating checks that mutating policies, which run before objects are validated, may get objects
// without required fields.
func TestMutating(t *testing.T) {
	deployment := runtimeschema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	s, _ := builtin(t, deployment)
	for mutating, want := range map[bool]string{false: "", true: "1:42: undefined field 'containers'"} {
		e, err := typecheck.New().Expressions(schema.ExpressionTypes{Kind: deployment, Object: s, Mutating: mutating})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(texts(e.Check(`!has(object.spec.template) && object.spec.containers.size() > 0`)), "; "); got != want {
			t.Errorf("mutating: %t: got %q, want %q", mutating, got, want)
		}
	}
}

// TestSameKind checks a policy whose parameters have the kind of the objects, in another version.
func TestSameKind(t *testing.T) {
	v1 := structural(t, `{type: object, properties: {size: {type: integer}}}`)
	v2 := structural(t, `{type: object, properties: {size: {type: string}}}`)
	kind := runtimeschema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}
	checker := typecheck.New()
	for _, published := range []bool{false, true} {
		for _, object := range []*schema.Structural{v1, v2} {
			e, err := checker.Expressions(schema.ExpressionTypes{Kind: kind, Object: object, HasParams: true, ParamKind: kind, Params: v1, Published: published})
			if err != nil {
				t.Fatal(err)
			}
			want := object == v1
			if got := len(e.Check("object.size < params.size").Issues) == 0; got != want {
				t.Errorf("the types are equal: %t, want %t", got, want)
			}
		}
	}
}

// TestCustom checks expressions with variables and params, about custom resources.
func TestCustom(t *testing.T) {
	object := structural(t, `{type: object, properties: {spec: {type: object, properties: {size: {type: integer}, ratio: {type: number}, port: {x-kubernetes-int-or-string: true},
		free: {type: object, x-kubernetes-preserve-unknown-fields: true}, empty: {type: object}, items: {type: array, items: {type: object, properties: {name: {type: string}}}}}}}}`)
	params := structural(t, `{type: object, properties: {max: {type: integer}}}`)
	kind := runtimeschema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}
	checker := typecheck.New()
	e, err := checker.Expressions(schema.ExpressionTypes{Kind: kind, Object: object, HasParams: true, Params: params, Mutating: true,
		ParamKind: runtimeschema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Limit"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []struct{ name, expression, want string }{
		{"isThing", `object.kind == 'Thing'`, ""},
		{"spec", `variables.isThing ? object.spec : object.spec.template`, ""},
		{"broken", `object.spec.siz`, "1:12: undefined field 'siz' (size)"},
	} {
		if got := strings.Join(texts(e.Declare(v.name, v.expression)), "; "); got != v.want {
			t.Errorf("%s: got %s, want %s", v.name, got, v.want)
		}
	}
	for expression, want := range map[string]string{
		`variables.spec.size <= params.max`:                                   "",
		`variables.spec.sizes <= params.maxi`:                                 "1:15: undefined field 'sizes' (size); 1:31: undefined field 'maxi' (max)",
		`variables.specs.size > 1`:                                            "1:10: undefined field 'specs' (spec)",
		`variables.broken > 1`:                                                "",
		`object.spec.ratio > 1 && object.spec.ratio > 1.5`:                    "",
		`object.spec.port == 1 || object.spec.port == 'http'`:                 "",
		`object.spec.free.anything == 1`:                                      "",
		`object.spec.empty.anything == 1`:                                     "1:18: undefined field 'anything'",
		`Object{spec: Object.spec{sise: 1}}`:                                  "1:26: undefined field 'sise' (size)",
		`Object{spec: Object.spec{items: [Object.spec.items{nam: 'x'}]}}`:     "1:52: undefined field 'nam' (name)",
		`Object{metadata: Object.metadata{labels: {'a': 'b'}}}`:               "",
		`[JSONPatch{op: 'add', path: '/spec/size', value: object.spec.size}]`: "",
		`!variables.isThing && object.whatever`:                               "",
	} {
		if got := strings.Join(texts(e.Check(expression)), "; "); got != want {
			t.Errorf("%s\n got %s\nwant %s", expression, got, want)
		}
	}
	if !e.Check(`object.kind == 'Other' && object.x`).False || e.Check(`object.kind == 'Thing'`).False {
		t.Error("what is never true is not recognized")
	}
	if issues := e.Check(`object.spec.`).Issues; !slices.ContainsFunc(issues, func(i schema.TypeIssue) bool { return strings.Contains(i.Message, "Syntax error") }) {
		t.Errorf("a syntax error gives %v", issues)
	}
}
