package espalier_test

import (
	"context"
	"fmt"
	"log"

	"espalier.dev"
	_ "espalier.dev/kinds"
)

// deployment returns a Deployment of an app.
func deployment(app string, replicas int) espalier.Object {
	labels := map[string]any{"app": app}
	return espalier.Object{
		"apiVersion": "apps/v1",
		"kind":       "Deployment",
		"metadata":   map[string]any{"name": "web"},
		"spec": map[string]any{
			"replicas": replicas,
			"selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "web", "image": "nginx:1.29"}}},
			},
		},
	}
}

// Kubernetes' own kinds need no CRD, but the import of espalier.dev/kinds.
func ExampleKind() {
	ctx := context.Background()
	deployments, err := espalier.Kind("apps/v1", "Deployment")
	if err != nil {
		log.Fatal(err)
	}

	stored := deployment("web", 2)
	result, err := deployments.Create(ctx, stored)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("valid:", result.Err())
	for _, c := range result.Defaulted()[:3] {
		fmt.Println("defaulted:", c.Path)
	}

	invalid := deployment("web", -1)
	invalid["spec"].(map[string]any)["paussed"] = true
	result, err = deployments.Create(ctx, invalid)
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range result.Pruned() {
		fmt.Printf("pruned: %s; did you mean %s?\n", c.Path, c.Nearest())
	}
	fmt.Println(result.Err())

	// An update must not change the selector.
	result, err = deployments.Update(ctx, deployment("api", 2), stored)
	if err != nil {
		log.Fatal(err)
	}
	for _, v := range result.Violations {
		fmt.Printf("%s: %s\n", v.Path, v.Cause.Detail)
	}
	// Output:
	// valid: <nil>
	// defaulted: spec.progressDeadlineSeconds
	// defaulted: spec.revisionHistoryLimit
	// defaulted: spec.strategy
	// pruned: spec.paussed; did you mean paused?
	// Deployment.apps "web" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0
	// spec.selector: field is immutable
}

// A Set knows built-in kinds, too.
func ExampleSet_Create_builtin() {
	ctx := context.Background()
	set, err := espalier.NewSet(mustParse(crontabs))
	if err != nil {
		log.Fatal(err)
	}
	for _, obj := range []espalier.Object{
		cronTab(map[string]any{"schedule": "0 3 * * *"}),
		{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "web"}, "data": map[string]any{"..": "c"}},
	} {
		result, err := set.Create(ctx, obj)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(result.Err())
	}
	// Output:
	// <nil>
	// ConfigMap "web" is invalid: data[..]: Invalid value: "..": must not be '..'
}
