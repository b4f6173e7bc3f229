package espalier_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"espalier.dev"
	"espalier.dev/schema"
)

func builtin(t *testing.T, apiVersion, kind string, opts ...espalier.Option) *espalier.Admitter {
	t.Helper()
	a, err := espalier.Kind(apiVersion, kind, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestKindResult checks all parts of the result for an object of a built-in kind.
func TestKindResult(t *testing.T) {
	t.Parallel()
	a := builtin(t, "v1", "Service", espalier.WithNamespace("shop"))
	result, err := a.CreateJSON(t.Context(), []byte(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"web","nam":"x"},
		"spec":{"ports":[{"port":80,"prot":1}],"ports":[{"port":80,"prot":1}],"externalName":null,"type":null},"status":{"x":1}}`))
	if err != nil {
		t.Fatal(err)
	}
	var changes []string
	for _, c := range slices.Concat(result.Changes, result.IgnoredChanges) {
		changes = append(changes, fmt.Sprintf("%s %s", c.Path, c.Kind))
	}
	if want := []string{"metadata.nam pruned", "spec.externalName null dropped", "spec.internalTrafficPolicy defaulted", "spec.ipFamilies defaulted",
		"spec.ipFamilyPolicy defaulted", "spec.ports duplicate", "spec.ports[0].prot pruned", "spec.ports[0].prot pruned", "spec.ports[0].protocol defaulted",
		"spec.ports[0].targetPort defaulted", "spec.sessionAffinity defaulted", "spec.type defaulted", "status.x pruned"}; !slices.Equal(changes, want) {
		t.Errorf("changes: got %q", changes)
	}
	if want := []string{`unknown field "metadata.nam"`, `unknown field "spec.ports[0].prot"`, `duplicate field "spec.ports"`, `unknown field "status.x"`}; !slices.Equal(slices.Sorted(slices.Values(result.Warnings)), slices.Sorted(slices.Values(want))) {
		t.Errorf("warnings: got %q", result.Warnings)
	}
	text, err := json.Marshal(result.Object)
	if err != nil || result.Err() != nil {
		t.Fatal(err, result.Err())
	}
	if want := `{"apiVersion":"v1","kind":"Service","metadata":{"name":"web","namespace":"shop"},"spec":{"internalTrafficPolicy":"Cluster","ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack","ports":[{"port":80,"protocol":"TCP","targetPort":80}],"sessionAffinity":"None","type":"ClusterIP"}}`; string(text) != want {
		t.Errorf("object: got %s", text)
	}
}

// TestKindUpdates checks what updates of built-in kinds keep and reject.
func TestKindUpdates(t *testing.T) {
	t.Parallel()
	a := builtin(t, "apps/v1", "Deployment")
	with := func(field string, value any, meta map[string]any) espalier.Object {
		obj := deployment("web", 1)
		obj[field] = value
		for k, v := range meta {
			obj["metadata"].(map[string]any)[k] = v
		}
		return obj
	}
	old := with("status", map[string]any{"replicas": 1}, map[string]any{"uid": "u", "resourceVersion": "7", "namespace": "shop", "generation": 3})
	result, err := a.Update(t.Context(), deployment("web", 2), old)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(result.Object["metadata"], result.Object["status"], result.Err()), "map[generation:4 name:web namespace:shop resourceVersion:7 uid:u] map[replicas:1] <nil>"; got != want {
		t.Errorf("got %s", got)
	}
	if before := fmt.Sprint(old["metadata"]); !strings.Contains(before, "generation:3") {
		t.Errorf("the old object has changed: %s", before)
	}
	for _, update := range []func(context.Context, espalier.Object, espalier.Object) (*espalier.Result, error){a.Update, a.UpdateStatus} {
		for _, before := range []espalier.Object{nil, {}, {"apiVersion": "v1", "kind": "Pod"}} {
			if _, err := update(t.Context(), deployment("web", 2), before); err == nil || !strings.HasPrefix(err.Error(), "old object: ") {
				t.Errorf("the old object %v: %v", before, err)
			}
		}
	}
	result, err = a.UpdateStatus(t.Context(), with("status", map[string]any{"replicas": 1, "readyReplicas": 2, "x": 1}, nil), old)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(result.Err()), `Deployment.apps "web" is invalid: status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas`; got != want {
		t.Errorf("got %s", got)
	}
	if len(result.Changes) != 1 || result.Changes[0].Path.String() != "status.x" {
		t.Errorf("got %v", result.Changes)
	}
	// Without the metadata of a server, nothing of it is invented.
	result, err = a.Update(t.Context(), deployment("web", 2), deployment("web", 1))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(result.Object["metadata"], result.Object["status"]), "map[generation:1 name:web namespace:default] <nil>"; got != want {
		t.Errorf("got %s", got)
	}
	for name, f := range map[string]func() (*espalier.Result, error){
		"metadata.resourceVersion: 8 is not 7": func() (*espalier.Result, error) {
			return a.Update(t.Context(), with("status", nil, map[string]any{"resourceVersion": "8"}), old)
		},
		"metadata.resourceVersion: must not be set": func() (*espalier.Result, error) {
			return a.Create(t.Context(), with("status", nil, map[string]any{"resourceVersion": "8"}))
		},
		"old object: the Admitter of Deployment.apps does not admit v1 Pod": func() (*espalier.Result, error) {
			return a.Update(t.Context(), deployment("web", 2), espalier.Object{"apiVersion": "v1", "kind": "Pod"})
		},
		"the Admitter of Deployment.apps does not admit v1 Pod": func() (*espalier.Result, error) {
			return a.Create(t.Context(), espalier.Object{"apiVersion": "v1", "kind": "Pod"})
		},
		"ConfigMap has no status subresource": func() (*espalier.Result, error) {
			c := espalier.Object{"apiVersion": "v1", "kind": "ConfigMap"}
			return builtin(t, "v1", "ConfigMap").UpdateStatus(t.Context(), c, c)
		},
		"a TokenReview cannot be updated": func() (*espalier.Result, error) {
			r := espalier.Object{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"}
			return builtin(t, "authentication.k8s.io/v1", "TokenReview").Update(t.Context(), r, r)
		},
	} {
		if _, err := f(); err == nil || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("want %s: got %v", name, err)
		}
	}
}

// TestKindVersions checks that an Admitter admits all versions of its kind.
func TestKindVersions(t *testing.T) {
	t.Parallel()
	a := builtin(t, "autoscaling/v1", "HorizontalPodAutoscaler")
	hpa := func(version, field string, value any) espalier.Object {
		return espalier.Object{"apiVersion": "autoscaling/" + version, "kind": "HorizontalPodAutoscaler", "metadata": map[string]any{"name": "web"},
			"spec": map[string]any{"maxReplicas": 3, "scaleTargetRef": map[string]any{"kind": "Deployment", "name": "web"}, field: value}}
	}
	result, err := a.Update(t.Context(), hpa("v1", "targetCPUUtilizationPercentage", 80), hpa("v2", "minReplicas", 2))
	if err != nil || result.Err() != nil || result.Object["apiVersion"] != "autoscaling/v1" {
		t.Errorf("%v, %v", result, err)
	}
}

// TestKindUndecodable checks the error for values of a wrong type.
func TestKindUndecodable(t *testing.T) {
	t.Parallel()
	obj := deployment("web", 1)
	obj["spec"].(map[string]any)["replicas"], obj["spec"].(map[string]any)["paused"] = "x", 1
	_, err := builtin(t, "apps/v1", "Deployment").Create(t.Context(), obj)
	var status apierrors.APIStatus
	if !errors.As(err, &status) || len(status.Status().Details.Causes) != 2 {
		t.Fatal(err)
	}
	if cause := status.Status().Details.Causes[1]; cause.Field != "spec.replicas" || cause.Message != `must be an integer, is the string "x"` {
		t.Errorf("got %v", cause)
	}
}

// TestKindDeprecated checks that a deprecated version is a warning, also for an invalid object.
func TestKindDeprecated(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"web", "W"} {
		result, err := builtin(t, "v1", "Endpoints").Create(t.Context(), espalier.Object{"apiVersion": "v1", "kind": "Endpoints", "metadata": map[string]any{"name": name}})
		if err != nil || len(result.Warnings) != 1 || !strings.Contains(result.Warnings[0], "v1 Endpoints is deprecated") || (result.Err() == nil) != (name == "web") {
			t.Errorf("%s: %v, %v, %v", name, result.Warnings, result.Err(), err)
		}
	}
}

// TestKindInto stores a result in the Go type of its kind.
func TestKindInto(t *testing.T) {
	t.Parallel()
	obj, err := espalier.ToObject(deployment("web", 2))
	if err != nil {
		t.Fatal(err)
	}
	result, err := builtin(t, "apps/v1", "Deployment").Create(t.Context(), obj)
	if err != nil {
		t.Fatal(err)
	}
	var stored appsv1.Deployment
	if err := result.Into(&stored); err != nil || *stored.Spec.Replicas != 2 || stored.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType {
		t.Errorf("%v: %v", err, stored)
	}
	if !reflect.DeepEqual(obj, deploymentObject(t)) {
		t.Error("the argument has changed")
	}
}

func deploymentObject(t *testing.T) espalier.Object {
	t.Helper()
	obj, err := espalier.ToObject(deployment("web", 2))
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

// TestKindUnknown checks the errors for kinds that Kubernetes does not have, and that CRDs take
// precedence over built-in kinds.
func TestKindUnknown(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"apps/v1 Deploymnt":       "there is no built-in kind apps/v1 Deploymnt: did you mean Deployment.apps?",
		"app/v1 Deployment":       "there is no built-in kind app/v1 Deployment: did you mean Deployment.apps?",
		"apps/v1beta1 Deployment": "there is no built-in kind apps/v1beta1 Deployment: the kind is served as apps/v1",
		"example.com/v1 CronTab":  "there is no built-in kind example.com/v1 CronTab",
		" Deployment":             "apiVersion and kind are required",
	} {
		apiVersion, kind, _ := strings.Cut(id, " ")
		_, err := espalier.Kind(apiVersion, kind)
		var unknown *espalier.UnknownKindError
		if !errors.As(err, &unknown) || err.Error() != want {
			t.Errorf("%s: got %v", id, err)
		}
	}
	set, err := espalier.Load(t.Context(), os.DirFS("espaliertest/testdata/crds"), espalier.WithNamespace("shop"))
	if err != nil {
		t.Fatal(err)
	}
	result, err := set.Create(t.Context(), deployment("web", 1))
	if err != nil || result.Object["metadata"].(map[string]any)["namespace"] != "shop" {
		t.Errorf("%v, %v", result, err)
	}
	for _, a := range set.Admitters() {
		if a.Definition() == nil {
			t.Error("an Admitter without a CRD")
		}
	}
	_, err = set.Create(t.Context(), espalier.Object{"apiVersion": "apps/v1", "kind": "Deploymnt"})
	if want := "no CRD serves apps/v1 Deploymnt: did you mean Deployment.apps?"; err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	jobs := strings.NewReplacer("example.com", "batch.k8s.io", "CronTab", "Job", "metadata: {", "metadata: {annotations: {api-approved.kubernetes.io: https://example.com}, ").Replace(crontabs)
	if set, err = espalier.NewSet(mustParse(jobs), builtin(t, "v1", "Pod")); err != nil {
		t.Fatal(err)
	}
	if _, err = espalier.NewSet(builtin(t, "v1", "Pod"), builtin(t, "v1", "Pod")); err == nil {
		t.Error("two Admitters of a kind")
	}
	if result, err = set.Create(t.Context(), espalier.Object{"apiVersion": "batch.k8s.io/v1", "kind": "Job", "metadata": map[string]any{"name": "a"}}); err != nil || len(result.Violations) > 0 {
		t.Errorf("%v, %v", result, err)
	}
}

// TestKindConcurrently uses an Admitter concurrently.
func TestKindConcurrently(t *testing.T) {
	t.Parallel()
	a := builtin(t, "apps/v1", "Deployment")
	failed := make(chan error)
	for i := range 8 {
		go func() {
			result, err := a.Create(context.Background(), deployment("web", i-1))
			if err == nil && (len(result.Violations) > 0) != (i == 0) {
				err = result.Err()
			}
			failed <- err
		}()
	}
	for range 8 {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}

// TestViolationsOfKinds checks that the violations of built-in kinds are data: a path into the
// object, the value and Kubernetes' error.
func TestViolationsOfKinds(t *testing.T) {
	t.Parallel()
	result, err := builtin(t, "v1", "Service").Create(t.Context(), espalier.Object{"apiVersion": "v1", "kind": "Service",
		"metadata": map[string]any{"name": "web", "annotations": map[string]any{"a b": "x"}},
		"spec":     map[string]any{"ports": []any{map[string]any{"port": 80}, map[string]any{"port": 0, "name": "b"}}}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range result.Violations {
		v := &result.Violations[i]
		if v.Kind != schema.Builtin {
			t.Errorf("%v: kind %v", v, v.Kind)
		}
		got = append(got, fmt.Sprintf("%s %v", v.Path.Pointer(), v.Value))
	}
	if want := []string{"/metadata/annotations a b", "/spec/ports/0/name ", "/spec/ports/1/port 0", "/spec/ports/1/targetPort 0"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
