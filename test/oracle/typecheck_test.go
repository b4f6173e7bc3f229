package oracle

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"

	"espalier.dev/analysis/lint"
	"espalier.dev/api/codec"
	"espalier.dev/crd"
	"espalier.dev/kinds/schemas"
	"espalier.dev/schema"
	"espalier.dev/schema/rules/typecheck"
)

// typedCRD has fields of all types.
const typedCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gardens.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: gardens, singular: garden, kind: Garden, listKind: GardenList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [beds]
            properties:
              beds: {type: integer}
              ratio: {type: number}
              soil: {type: string}
              planted: {type: string, format: date-time}
              every: {type: string, format: duration}
              key: {type: string, format: byte}
              sunny: {type: boolean}
              port: {x-kubernetes-int-or-string: true}
              namespace: {type: string}
              tags: {type: object, additionalProperties: {type: string}}
              tools: {type: array, items: {type: object, properties: {name: {type: string}, count: {type: integer}}}}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
              some: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: string}}}
              any: {x-kubernetes-preserve-unknown-fields: true}
              open: {type: object, additionalProperties: true}
              empty: {type: object}
              template: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
              maybe: {type: string, nullable: true}
  - name: v2
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {beds: {type: string}, soil: {type: string}}}}}}`

// typeOracle has the kinds that expressions are checked for.
type typeOracle struct {
	*testing.T
	definition *crd.Definition
	documents  map[runtimeschema.GroupVersion]map[string]*spec.Schema
	mapper     *meta.DefaultRESTMapper
	kinds      []runtimeschema.GroupVersionKind
	resources  map[runtimeschema.GroupVersionKind]runtimeschema.GroupVersionResource
	schemas    map[runtimeschema.GroupVersionKind]*schema.Structural
	// published are the schemas of the reference, with what they refer to.
	published map[runtimeschema.GroupVersionKind]*spec.Schema
}

func newTypeOracle(t *testing.T) *typeOracle {
	o := &typeOracle{T: t, documents: map[runtimeschema.GroupVersion]map[string]*spec.Schema{}, mapper: meta.NewDefaultRESTMapper(nil),
		resources: map[runtimeschema.GroupVersionKind]runtimeschema.GroupVersionResource{}, schemas: map[runtimeschema.GroupVersionKind]*schema.Structural{}, published: map[runtimeschema.GroupVersionKind]*spec.Schema{}}
	published := filepath.Join(moduleDir(t, "k8s.io/kubernetes", "v1.36.3"), "api", "openapi-spec", "v3")
	for _, k := range []struct{ group, version, kind, resource string }{
		{"", "v1", "Pod", "pods"}, {"", "v1", "ConfigMap", "configmaps"}, {"", "v1", "Secret", "secrets"}, {"", "v1", "Service", "services"},
		{"apps", "v1", "Deployment", "deployments"}, {"apps", "v1", "DaemonSet", "daemonsets"}, {"batch", "v1", "CronJob", "cronjobs"},
	} {
		gvk := runtimeschema.GroupVersionKind{Group: k.group, Version: k.version, Kind: k.kind}
		file := "api__v1_openapi.json"
		if k.group != "" {
			file = fmt.Sprintf("apis__%s__%s_openapi.json", k.group, k.version)
		}
		text, err := os.ReadFile(filepath.Join(published, file))
		if err != nil {
			t.Fatal(err)
		}
		o.document(gvk.GroupVersion(), text)
		o.add(gvk, k.resource)
		for _, b := range schemas.Called(k.kind) {
			if b.Group == k.group {
				d, err := b.Definition()
				if err != nil {
					t.Fatal(err)
				}
				o.schemas[gvk] = d.Version(k.version).Structural()
			}
		}
	}
	var theirs apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal([]byte(typedCRD), &theirs); err != nil {
		t.Fatal(err)
	}
	text, err := yaml.YAMLToJSON([]byte(typedCRD))
	if err != nil {
		t.Fatal(err)
	}
	hub, err := codec.DecodeLenient(text)
	if err != nil {
		t.Fatal(err)
	}
	if o.definition, err = crd.New(hub, crd.Options{Semantics: schema.Kubernetes, IgnoreRules: true}); err != nil {
		t.Fatal(err)
	}
	for _, v := range o.definition.Versions() {
		doc, err := builder.BuildOpenAPIV3(&theirs, v.Name(), builder.Options{})
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		o.document(v.GroupVersionKind().GroupVersion(), text)
		o.add(v.GroupVersionKind(), "gardens")
		o.schemas[v.GroupVersionKind()] = v.Structural()
	}
	return o
}

func (o *typeOracle) add(gvk runtimeschema.GroupVersionKind, resource string) {
	gvr := gvk.GroupVersion().WithResource(resource)
	o.mapper.AddSpecific(gvk, gvr, gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind)), meta.RESTScopeNamespace)
	o.kinds = append(o.kinds, gvk)
	o.resources[gvk] = gvr
}

func (o *typeOracle) document(gv runtimeschema.GroupVersion, text []byte) {
	var doc struct {
		Components struct {
			Schemas map[string]*spec.Schema `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		o.Fatal(err)
	}
	o.documents[gv] = doc.Components.Schemas
}

// ResolveSchema implements the resolver of kube-apiserver, with the published documents.
func (o *typeOracle) ResolveSchema(gvk runtimeschema.GroupVersionKind) (*spec.Schema, error) {
	if s := o.published[gvk]; s != nil {
		return s, nil
	}
	all := o.documents[gvk.GroupVersion()]
	for name, s := range all {
		var gvks []runtimeschema.GroupVersionKind
		if err := s.Extensions.GetObject("x-kubernetes-group-version-kind", &gvks); err != nil || !slices.Contains(gvks, gvk) {
			continue
		}
		s, err := resolver.PopulateRefs(func(ref string) (*spec.Schema, bool) {
			s, ok := all[strings.TrimPrefix(ref, "#/components/schemas/")]
			return s, ok
		}, name)
		o.published[gvk] = s
		return s, err
	}
	return nil, resolver.ErrSchemaNotFound
}

// resolved returns the schema of the reference.
func (o *typeOracle) resolved(gvk runtimeschema.GroupVersionKind) *spec.Schema {
	s, err := o.ResolveSchema(gvk)
	if err != nil {
		o.Fatal(err)
	}
	return s
}

// reference returns the failing expressions with their kinds, as kube-apiserver finds them.
func (o *typeOracle) reference(p *v1.ValidatingAdmissionPolicy) []string {
	checker := &validating.TypeChecker{SchemaResolver: o, RestMapper: o.mapper}
	ctx := checker.CreateContext(p)
	var out []string
	check := func(path, expression string) {
		for _, r := range checker.CheckExpression(ctx, expression) {
			if r.Err != nil {
				o.Fatal(r.Err)
			}
			apiVersion, kind := r.GVK.ToAPIVersionAndKind()
			out = append(out, fmt.Sprintf("%s: %s %s", path, apiVersion, kind))
		}
	}
	for i, v := range p.Spec.Validations {
		check(fmt.Sprintf("spec.validations[%d].expression", i), v.Expression)
		if v.MessageExpression != "" {
			check(fmt.Sprintf("spec.validations[%d].messageExpression", i), v.MessageExpression)
		}
	}
	slices.Sort(out)
	return out
}

// ours returns the same, as lint finds it.
func (o *typeOracle) ours(p *v1.ValidatingAdmissionPolicy, checker schema.TypeChecker) []string {
	text, err := json.Marshal(p)
	if err != nil {
		o.Fatal(err)
	}
	found, err := lint.Policies(o.Context(), [][]byte{text}, lint.PolicyOptions{Types: checker, Definitions: []*crd.Definition{o.definition},
		Configs: []lint.Config{{Disable: []string{lint.All}, Enable: []string{"policy-type-status"}}},
		Builtin: func(gvk runtimeschema.GroupVersionKind) *schema.Structural { return o.schemas[gvk] }})
	if err != nil {
		o.Fatal(err)
	}
	out := map[string]bool{}
	for _, f := range found[0] {
		list, _, _ := strings.Cut(strings.TrimPrefix(f.Message, "for "), ": ")
		for _, d := range f.Detail {
			if all, ok := strings.CutPrefix(d, "the kinds are "); ok {
				list = all
			}
		}
		for _, kind := range strings.Split(list, ", ") {
			out[f.Path+": "+kind] = true
		}
	}
	return slices.Sorted(maps.Keys(out))
}

func (o *typeOracle) policy(kinds ...runtimeschema.GroupVersionKind) *v1.ValidatingAdmissionPolicy {
	p := &v1.ValidatingAdmissionPolicy{TypeMeta: metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingAdmissionPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	p.Spec.MatchConstraints = &v1.MatchResources{}
	for _, gvk := range kinds {
		p.Spec.MatchConstraints.ResourceRules = append(p.Spec.MatchConstraints.ResourceRules, v1.NamedRuleWithOperations{RuleWithOperations: v1.RuleWithOperations{
			Operations: []v1.OperationType{v1.Create, v1.Update},
			Rule:       v1.Rule{APIGroups: []string{gvk.Group}, APIVersions: []string{gvk.Version}, Resources: []string{o.resources[gvk].Resource}}}})
	}
	return p
}

// TestTypeChecking compares the type errors that lint finds with the rule policy-type-status with those
// that kube-apiserver writes into the status of validating policies.
func TestTypeChecking(t *testing.T) {
	o := newTypeOracle(t)
	checker := typecheck.New()
	compare := func(p *v1.ValidatingAdmissionPolicy) (failing int) {
		want, got := o.reference(p), o.ours(p, checker)
		if !slices.Equal(want, got) {
			text, _ := yaml.Marshal(p.Spec)
			t.Errorf("kube-apiserver: %q\nlint:           %q\n%s", want, got, text)
		}
		return len(want)
	}
	t.Run("table", func(t *testing.T) {
		for _, expression := range []string{
			"object.metadata.name == 'a' && object.metadata.namespace == 'b'", "object.metadata.creationTimestamp < timestamp('2020-01-01T00:00:00Z')", "object.metadata.labels['a'] == 1",
			"has(object.spec.replicas) && object.spec.replicas > 1", "object.spec.containers.all(c, has(c.resources.limits))", "object.spec.template.spec.containers[0].image == ''",
			"object.spec.ports.all(p, p.targetPort == 80)", "object.data['a'] == 'b'", "object.data['a'] == b'b'", "object.spec.planted < object.metadata.creationTimestamp", "object.spec.every > duration('1h')",
			"object.spec.port == 1 || object.spec.port == 'a'", "object.spec.free.a == 1", "object.spec.some.a == ''", "object.spec.some.b == ''", "object.spec.any == 1", "object.spec.open.a == 1", "object.spec.empty.a == 1",
			"object.spec.template.metadata.labels['a'] == ''", "object.spec.template.spec == null", "object.spec.maybe == null", "object.spec.tags.a == 'b'", "object.spec.tools.exists(t, t.count > 'a')", "object.spec.ratio > 1",
			"object.spec.namespace == ''", "object == null", "oldObject.spec == object.spec", "object.spec.tools + [] == []", "authorizer.requestResource.check('get').allowed()", "authorizer.group('').resource('pods').check('get').allowed()",
			"request.options.dryRun == true", "request.userInfo.groups.all(g, g.startsWith('a'))", "namespaceObject.metadata.labels['a'] == ''", "namespaceObject.spec.foo == ''", "object.spec.jobTemplate.spec.template.spec.containers.size() > 0",
			"object.spec.selector.matchLabels == object.spec.template.metadata.labels", "variables.x == ''", "params.spec == 1", "unknown == 1", "object.", "object.spec.?soil.orValue(1) == 1", "object.?metadata.?labels['a'].orValue('') == ''",
			"[object.spec.beds, 'a'].size() > 1", "object.kind == 'Pod' ? object.spec.hostNetwork : true",
		} {
			p := o.policy(o.kinds...)
			p.Spec.Validations = []v1.Validation{{Expression: expression, MessageExpression: expression}}
			compare(p)
		}
	})
	t.Run("variables and params", func(t *testing.T) {
		p := o.policy(o.kinds...)
		p.Spec.ParamKind = &v1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
		p.Spec.Variables = []v1.Variable{{Name: "spec", Expression: "object.spec"}, {Name: "tools", Expression: "object.spec.tools"}, {Name: "beds", Expression: "object.spec.beds"}, {Name: "wrong", Expression: "object.nothing"},
			{Name: "labels", Expression: "object.metadata.labels"}, {Name: "twice", Expression: "variables.beds * 2"}}
		for _, expression := range []string{"variables.spec.nothing == 1", "variables.tools[0].nothing == 1", "variables.beds > 1", "variables.beds > 'a'", "variables.wrong.a == 1", "variables.labels['a'] == 1",
			"variables.twice == 1", "variables.none", "params.data['a'] == ''", "params.data['a'] == 1", "params.dat == 1", "params.metadata.name == object.metadata.name"} {
			p.Spec.Validations = append(p.Spec.Validations, v1.Validation{Expression: expression})
		}
		compare(p)
		p.Spec.ParamKind = &v1.ParamKind{APIVersion: "example.com/v1", Kind: "Garden"}
		compare(p)
		p.Spec.ParamKind = &v1.ParamKind{APIVersion: "other.org/v1", Kind: "Unknown"}
		compare(p)
	})
	t.Run("generated", func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		failing, expressions := 0, 0
		for range 60 {
			var kinds []runtimeschema.GroupVersionKind
			for range 1 + r.IntN(4) {
				kinds = append(kinds, o.kinds[r.IntN(len(o.kinds))])
			}
			p := o.policy(kinds...)
			for range 8 {
				e := &expressionGenerator{Rand: r, schema: o.schemas[kinds[0]], published: o.resolved(kinds[0])}
				p.Spec.Validations = append(p.Spec.Validations, v1.Validation{Expression: e.condition(2), MessageExpression: "string(" + e.path() + ")"})
				expressions += 2
			}
			failing += compare(p)
		}
		t.Logf("%d expressions, %d of them with a kind fail", expressions, failing)
		if failing == 0 {
			t.Error("no expression fails")
		}
	})
}

// expressionGenerator makes expressions about objects with a schema, of which some have type errors.
type expressionGenerator struct {
	*rand.Rand
	schema *schema.Structural
	// published is the schema of the reference, which is older.
	published *spec.Schema
}

func (g *expressionGenerator) pick(list ...string) string { return list[g.IntN(len(list))] }

// path returns a field of the object. One of ten does not exist.
func (g *expressionGenerator) path() string {
	s, p, out := g.schema, g.published, g.pick("object", "object", "oldObject")
	for {
		switch {
		case g.IntN(30) == 0:
			return out + "." + g.pick("foo", "spec", "name")
		case len(s.Properties) > 0:
			var fields []string
			for name := range s.Properties {
				if _, ok := p.Properties[name]; ok {
					fields = append(fields, name)
				}
			}
			if len(fields) == 0 {
				return out
			}
			slices.Sort(fields)
			name := fields[g.IntN(len(fields))]
			next := p.Properties[name]
			out, s, p = out+"."+name, s.Properties[name], &next
		case s.Items != nil:
			if g.IntN(3) == 0 {
				return out
			}
			out, s, p = out+"[0]", s.Items, p.Items.Schema
		case s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil:
			if g.IntN(3) == 0 {
				return out
			}
			out, s, p = out+"['a']", s.AdditionalProperties.Structural, p.AdditionalProperties.Schema
		default:
			return out
		}
		if g.IntN(6) == 0 {
			return out
		}
	}
}

func (g *expressionGenerator) literal() string {
	return g.pick("1", "'a'", "true", "1.5", "null", "b'x'", "timestamp('2020-01-01T00:00:00Z')", "duration('1h')", "[]", "{}", "['a']", "quantity('1')")
}

func (g *expressionGenerator) condition(depth int) string {
	if depth > 0 && g.IntN(3) == 0 {
		return fmt.Sprintf("(%s %s %s)", g.condition(depth-1), g.pick("&&", "||"), g.condition(depth-1))
	}
	p := g.path()
	switch g.IntN(9) {
	case 0:
		if strings.HasSuffix(p, "]") || !strings.Contains(p, ".") {
			return "true"
		}
		return "has(" + p + ")"
	case 1:
		return fmt.Sprintf("size(%s) > 0", p)
	case 2:
		return fmt.Sprintf("%s.all(i, i %s %s)", p, g.pick("==", "<"), g.literal())
	case 3:
		return fmt.Sprintf("'a' in %s", p)
	case 4:
		return fmt.Sprintf("string(%s).startsWith('a')", p)
	case 5:
		return fmt.Sprintf("%s == %s", p, g.path())
	case 6:
		return fmt.Sprintf("(%s ? %s : %s) == %s", g.condition(0), p, g.path(), g.literal())
	}
	return fmt.Sprintf("%s %s %s", p, g.pick("==", "!=", "<", ">="), g.literal())
}
