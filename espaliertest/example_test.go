package espaliertest_test

import (
	"context"
	"fmt"
	"log"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"espalier.dev/espaliertest"
)

// A test starts its server with espaliertest.Start(t), which stops it too.
func Example() {
	server, err := espaliertest.Run()
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := server.Stop(); err != nil {
			log.Fatal(err)
		}
	}()
	if err := server.InstallCRDs("testdata/crds"); err != nil {
		log.Fatal(err)
	}
	client, err := dynamic.NewForConfig(server.Config())
	if err != nil {
		log.Fatal(err)
	}
	crontabs := client.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "crontabs"}).Namespace("default")

	crontab := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1",
		"kind":       "CronTab",
		"metadata":   map[string]any{"name": "nightly"},
		"spec":       map[string]any{"schedule": "0 3 * * *", "privileged": true},
	}}
	created, err := crontabs.Create(context.Background(), crontab, metav1.CreateOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(created.Object["spec"])

	crontab.Object["spec"] = map[string]any{"schedule": "at night"}
	crontab.SetName("daily")
	_, err = crontabs.Create(context.Background(), crontab, metav1.CreateOptions{})
	fmt.Println(err)
	// Output:
	// map[replicas:1 schedule:0 3 * * *]
	// CronTab.example.com "daily" is invalid: spec.schedule: Invalid value: "at night": spec.schedule in body should match '^(\S+ ){4}\S+$'
}
