package espaliertest_test

import (
	"context"
	"fmt"
	"log"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"espalier.dev/espaliertest"
)

// Who has changed an object, and what.
func ExampleServer_Changes() {
	server, err := espaliertest.Run()
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := server.Stop(); err != nil {
			log.Fatal(err)
		}
	}()
	config := server.Config()
	config.Impersonate.UserName, config.Impersonate.Groups = "alice", []string{"system:masters"}
	config.UserAgent = "example/v1"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	settings, err := client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"color": "red"},
	}, metav1.CreateOptions{})
	if err != nil {
		log.Fatal(err)
	}
	settings.Data["color"] = "blue"
	if _, err = client.CoreV1().ConfigMaps("default").Update(ctx, settings, metav1.UpdateOptions{}); err != nil {
		log.Fatal(err)
	}
	if err := client.CoreV1().ConfigMaps("default").Delete(ctx, "settings", metav1.DeleteOptions{}); err != nil {
		log.Fatal(err)
	}

	changes, err := server.Changes(espaliertest.HistoryFilter{Kind: "ConfigMap", Name: "settings"})
	if err != nil {
		log.Fatal(err)
	}
	for c := range changes {
		fmt.Println(c.Action, c.Object(), "by", c.Origin)
		if c.Action == "update" {
			fmt.Print(c.Diff())
		}
	}
	// Output:
	// create ConfigMap default/settings by alice (create configmaps, example/v1)
	// update ConfigMap default/settings by alice (update configmaps, example/v1)
	//   data:
	// -   color: red
	// +   color: blue
	// delete ConfigMap default/settings by alice (delete configmaps, example/v1)
}

// A test that fails if somebody else than the controller has written the status.
func ExampleServer_History() {
	_ = func(t *testing.T) { // TestController
		server := espaliertest.Start(t, espaliertest.WithCRDs("testdata/crds"))
		for c := range server.History(t, espaliertest.HistoryFilter{Kind: "CronTab"}) {
			if c.Origin.Resource == "crontabs.example.com/status" && c.Origin.User != "controller" {
				t.Errorf("%s has changed the status:\n%s", c.Origin, c.Diff())
			}
		}
	}
}
