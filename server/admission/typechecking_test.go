package admission_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"espalier.dev/espaliertest"
	"espalier.dev/server/policystatus"
	"espalier.dev/server/servertest"
)

// policies are the validating policies of a server.
type policies struct {
	*testing.T
	set kubernetes.Interface
}

func newPolicies(t *testing.T, s *espaliertest.Server) policies {
	t.Helper()
	set, err := kubernetes.NewForConfig(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	return policies{t, set}
}

// rule matches resources, which are given as group/version/resource.
func rule(names ...string) (out v1.NamedRuleWithOperations) {
	out.Operations = []v1.OperationType{v1.Create}
	for _, name := range names {
		parts := strings.SplitN(name, "/", 3) // a subresource has another slash
		add := func(list *[]string, value string) {
			if !slices.Contains(*list, value) {
				*list = append(*list, value)
			}
		}
		add(&out.APIGroups, parts[0])
		add(&out.APIVersions, parts[1])
		add(&out.Resources, parts[2])
	}
	return out
}

func policy(name string, rules []v1.NamedRuleWithOperations, expressions ...string) *v1.ValidatingAdmissionPolicy {
	p := &v1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.MatchConstraints = &v1.MatchResources{ResourceRules: rules}
	for _, e := range expressions {
		p.Spec.Validations = append(p.Spec.Validations, v1.Validation{Expression: e})
	}
	return p
}

func (p policies) create(policy *v1.ValidatingAdmissionPolicy) {
	p.Helper()
	if _, err := p.set.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(p.Context(), policy, metav1.CreateOptions{}); err != nil {
		p.Fatal(err)
	}
}

func (p policies) get(name string) *v1.ValidatingAdmissionPolicy {
	p.Helper()
	got, err := p.set.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(p.Context(), name, metav1.GetOptions{})
	if err != nil {
		p.Fatal(err)
	}
	return got
}

// await waits until the status of a policy has the warnings, each as field and text, and is current.
func (p policies) await(name string, want ...string) *v1.ValidatingAdmissionPolicy {
	p.Helper()
	var policy *v1.ValidatingAdmissionPolicy
	servertest.Eventually(p, func() error {
		policy = p.get(name)
		var got []string
		if c := policy.Status.TypeChecking; c != nil {
			for _, w := range c.ExpressionWarnings {
				got = append(got, w.FieldRef+" "+w.Warning)
			}
		} else {
			got = []string{"not checked"}
		}
		if policy.Status.ObservedGeneration != policy.Generation || !slices.Equal(got, want) {
			return fmt.Errorf("%s: generation %d, observed %d\n%q\nwant\n%q", name, policy.Generation, policy.Status.ObservedGeneration, got, want)
		}
		return nil
	})
	return policy
}

// stays checks that nothing is written for a while.
func (p policies) stays(old *v1.ValidatingAdmissionPolicy) {
	p.Helper()
	time.Sleep(300 * time.Millisecond)
	if got := p.get(old.Name); got.ResourceVersion != old.ResourceVersion {
		p.Errorf("%s is written again: %+v", old.Name, got.Status)
	}
}

// undefined is what a warning says about a field that a kind does not have.
func undefined(kind, expression string, column int, field string) string {
	return fmt.Sprintf("%s: ERROR: <input>:1:%d: undefined field '%s'\n | %s\n | %s^\n", kind, column, field, expression, strings.Repeat(".", column-1))
}

const (
	deployment = "apps/v1, Kind=Deployment"
	garden     = "example.com/v1, Kind=Garden"
	gardens    = "example.com/v1/gardens"
)

// gardenCRD returns a CRD with a version, whose spec has a field.
func gardenCRD(field string) string {
	return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"gardens.example.com"},
		"spec":{"group":"example.com","scope":"Namespaced","names":{"kind":"Garden","plural":"gardens","singular":"garden"},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object",
		"properties":{"spec":{"type":"object","properties":{"` + field + `":{"type":"integer"}}}}}}}]}}`
}

func TestTypeChecking(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testTypeChecking)
}

func testTypeChecking(t *testing.T) {
	p := newPolicies(t, espaliertest.Start(t))
	const bad = "object.spec.replica > 1"
	deployments := []v1.NamedRuleWithOperations{rule("apps/v1/deployments")}
	p.create(policy("good", deployments, "object.spec.replicas > 1"))
	p.create(policy("bad", deployments, "object.spec.replicas > 1", bad))
	p.create(policy("types", []v1.NamedRuleWithOperations{rule("apps/v1/deployments", "apps/v1/daemonsets")}, "object.spec.replicas == 1 && object.spec == 'a'"))
	withMessage := policy("message", deployments, "true")
	withMessage.Spec.Validations[0].MessageExpression = "variables.x + string(object.kin)"
	withMessage.Spec.Variables = []v1.Variable{{Name: "x", Expression: "object.spec.nothing"}}
	p.create(withMessage)
	withParams := policy("params", deployments, "params.dat['a'] == 'b' || params.data.size() == params.metadata")
	withParams.Spec.ParamKind = &v1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
	p.create(withParams)
	p.create(policy("wild", []v1.NamedRuleWithOperations{rule("*/v1/deployments"), rule("apps/*/deployments"), rule("apps/v1/*"), rule("apps/v1/deployments/scale")}, bad))
	p.create(policy("crds", []v1.NamedRuleWithOperations{rule("apiextensions.k8s.io/v1/customresourcedefinitions")}, "object.spec.group == '' && object.spec.kind == ''"))
	p.create(policy("unknown", []v1.NamedRuleWithOperations{rule("other.org/v1/things")}, bad))

	p.stays(p.await("good"))
	written := p.await("bad", "spec.validations[1].expression "+undefined(deployment, bad, 12, "replica"))
	p.stays(written)
	p.await("types", "spec.validations[0].expression apps/v1, Kind=DaemonSet: ERROR: <input>:1:12: undefined field 'replicas'\n"+
		" | object.spec.replicas == 1 && object.spec == 'a'\n | ...........^\n"+
		"ERROR: <input>:1:42: found no matching overload for '_==_' applied to '(DaemonSet.spec, string)'\n"+
		" | object.spec.replicas == 1 && object.spec == 'a'\n | .........................................^\n\n"+
		"apps/v1, Kind=Deployment: ERROR: <input>:1:42: found no matching overload for '_==_' applied to '(Deployment.spec, string)'\n"+
		" | object.spec.replicas == 1 && object.spec == 'a'\n | .........................................^\n")
	p.await("message", "spec.validations[0].messageExpression "+undefined(deployment, withMessage.Spec.Validations[0].MessageExpression, 28, "kin"))
	p.await("params", "spec.validations[0].expression apps/v1, Kind=Deployment: ERROR: <input>:1:7: undefined field 'dat'\n"+
		" | params.dat['a'] == 'b' || params.data.size() == params.metadata\n | ......^\n"+
		"ERROR: <input>:1:46: found no matching overload for '_==_' applied to '(int, ConfigMap.metadata)'\n"+
		" | params.dat['a'] == 'b' || params.data.size() == params.metadata\n | .............................................^\n")
	p.await("crds", "spec.validations[0].expression "+undefined("apiextensions.k8s.io/v1, Kind=CustomResourceDefinition", "object.spec.group == '' && object.spec.kind == ''", 39, "kind"))
	p.await("wild")
	p.await("unknown")

	// A change of the spec is checked, and one of the metadata is not.
	written.Labels = map[string]string{"a": "b"}
	written.Spec.Validations = written.Spec.Validations[1:]
	if _, err := p.set.AdmissionregistrationV1().ValidatingAdmissionPolicies().Update(t.Context(), written, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	written = p.await("bad", "spec.validations[0].expression "+undefined(deployment, bad, 12, "replica"))
	if written.Generation != 2 {
		t.Error("generation", written.Generation)
	}
	written.Spec.Validations[0].Expression = "true"
	if _, err := p.set.AdmissionregistrationV1().ValidatingAdmissionPolicies().Update(t.Context(), written, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	written = p.await("bad")
	var owned []string
	for _, m := range written.ManagedFields {
		if m.Subresource == "status" {
			owned = append(owned, fmt.Sprint(m.Manager, " ", m.Operation, " ", m.FieldsV1))
		}
	}
	if want := policystatus.Manager + ` Apply {"f:status":{"f:observedGeneration":{},"f:typeChecking":{}}}`; len(owned) != 1 || owned[0] != want {
		t.Errorf("managed fields: %q, want %q", owned, want)
	}
}

// TestTypeCheckingOfCRDs changes the CRD that policies of two servers concern.
func TestTypeCheckingOfCRDs(t *testing.T) {
	t.Parallel()
	const expression = "object.spec.beds > 1"
	c := servertest.NewCluster(t)
	one, two := c.Start(), c.Start()
	p, other := newPolicies(t, one.Server), newPolicies(t, two.Server)
	p.create(policy("p", []v1.NamedRuleWithOperations{rule(gardens)}, expression))
	withParams := policy("params", []v1.NamedRuleWithOperations{rule("apps/v1/deployments")}, "params.spec.beds > 1")
	withParams.Spec.ParamKind = &v1.ParamKind{APIVersion: "example.com/v1", Kind: "Garden"}
	p.create(withParams)
	p.await("p")
	other.await("params")

	one.Want(http.StatusCreated, http.MethodPost, servertest.CRDs, gardenCRD("bed"))
	warning := "spec.validations[0].expression " + undefined(garden, expression, 12, "beds")
	written := p.await("p", warning)
	other.await("p", warning)
	p.await("params", "spec.validations[0].expression "+undefined(deployment, "params.spec.beds > 1", 12, "beds"))
	p.stays(written)

	// The next server finds it as it is, or corrects it.
	one.StopSoon()
	two.StopSoon()
	three := c.Start()
	p = newPolicies(t, three.Server)
	p.stays(p.await("p", warning))
	three.Want(http.StatusOK, http.MethodPatch, servertest.CRDs+"/gardens.example.com", gardenCRD("beds"))
	p.await("p")
	p.await("params")
}

// TestTypeCheckingOff checks that the controller can be switched off.
func TestTypeCheckingOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testTypeCheckingOff)
}

func testTypeCheckingOff(t *testing.T) {
	s := espaliertest.Start(t, espaliertest.WithFlags("--controllers=*,-validatingadmissionpolicy-status-controller"))
	p := newPolicies(t, s)
	p.create(policy("p", []v1.NamedRuleWithOperations{rule("apps/v1/deployments")}, "true"))
	time.Sleep(300 * time.Millisecond)
	if got := p.get("p"); got.Status.ObservedGeneration != 0 || slices.Contains(s.Controllers(), "validatingadmissionpolicy-status-controller") {
		t.Errorf("status: %+v, controllers %q", got.Status, s.Controllers())
	}
}

// TestTypeCheckingManyWarnings has a policy whose warnings together are too large to be stored: its status has the first ones.
func TestTypeCheckingManyWarnings(t *testing.T) {
	if testing.Short() {
		t.Skip("many warnings")
	}
	t.Parallel()
	p := newPolicies(t, espaliertest.Start(t))
	var expressions []string
	for i := range 100 {
		expressions = append(expressions, fmt.Sprintf("object.spec.field%d == '%s'", i, strings.Repeat("x", 3000)))
	}
	p.create(policy("many", []v1.NamedRuleWithOperations{rule("/v1/pods", "/v1/nodes", "/v1/services", "/v1/namespaces", "/v1/replicationcontrollers",
		"/v1/persistentvolumes", "/v1/persistentvolumeclaims")}, expressions...))
	servertest.Eventually(t, func() error {
		status := p.get("many").Status
		if status.TypeChecking == nil || status.ObservedGeneration != 1 {
			return errors.New("the policy is not checked")
		}
		n, size := len(status.TypeChecking.ExpressionWarnings), 0
		for i, w := range status.TypeChecking.ExpressionWarnings {
			size += len(w.Warning)
			if want := fmt.Sprintf("spec.validations[%d].expression", i); w.FieldRef != want {
				return fmt.Errorf("warning %d is about %s", i, w.FieldRef)
			}
		}
		if n < 2 || n == len(expressions) || size > 257<<10 {
			return fmt.Errorf("%d warnings of %d bytes", n, size)
		}
		if last := status.TypeChecking.ExpressionWarnings[n-1].Warning; !strings.HasPrefix(last, "no warnings from this expression on: ") {
			return fmt.Errorf("the last warning is %.100s", last)
		}
		return nil
	})
}

// TestTypeCheckingManyCombinations has policies that Kubernetes' type checker needs hours for. Their status says which
// expressions are not checked.
func TestTypeCheckingManyCombinations(t *testing.T) {
	if testing.Short() {
		t.Skip("policies that are expensive to check")
	}
	t.Parallel()
	p := newPolicies(t, espaliertest.Start(t))
	many := func(format string, n int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprintf(format, i))
		}
		return list
	}
	invented := rule("/v1/pods")
	invented.APIGroups, invented.APIVersions, invented.Resources = many("g%d.example.com", 1000), many("v%d", 1000), many("r%d", 1000)
	p.create(policy("resources", []v1.NamedRuleWithOperations{invented}, "object.nothing == 1"))
	variables := policy("variables", []v1.NamedRuleWithOperations{rule("/v1/pods", "/v1/nodes")}, many("variables.v%d == 1", 1000)...)
	for i := range 1000 {
		variables.Spec.Variables = append(variables.Spec.Variables, v1.Variable{Name: fmt.Sprintf("v%d", i), Expression: "1"})
	}
	p.create(variables)
	long := fmt.Sprintf("object.nothing == '%s'", strings.Repeat("x", 50_000))
	p.create(policy("text", []v1.NamedRuleWithOperations{rule("/v1/pods")}, long, long))
	servertest.Eventually(t, func() error {
		for name, want := range map[string]int{"resources": 0, "variables": 1, "text": 1} {
			status := p.get(name).Status
			if status.TypeChecking == nil || len(status.TypeChecking.ExpressionWarnings) != want {
				return fmt.Errorf("%s: %v", name, status.TypeChecking)
			}
		}
		return nil
	})
}
