package main

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	greetings "example.com/greetings/api/example.com/v1"

	"espalier.dev/espaliertest"
)

func TestReconcile(t *testing.T) {
	server := espaliertest.Start(t, espaliertest.WithCRDs("crd.yaml"))

	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- Run(ctx, server.Config()) }()
	t.Cleanup(func() {
		cancel()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})

	scheme := runtime.NewScheme()
	if err := greetings.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(server.Config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	greeting := &greetings.Greeting{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "ann"},
		Spec:       greetings.GreetingSpec{Name: "Ann"},
	}
	if err := c.Create(ctx, greeting); err != nil {
		t.Fatal(err)
	}
	if language := greeting.Spec.Language; language == nil || *language != "en" {
		t.Errorf("the language is %v, expected the default of the CRD", language)
	}
	for start := time.Now(); greeting.Status == nil; time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > 10*time.Second {
			t.Fatal("the Greeting has no status after 10 seconds")
		}
		if err := c.Get(ctx, client.ObjectKeyFromObject(greeting), greeting); err != nil {
			t.Fatal(err)
		}
	}
	if text := *greeting.Status.Text; text != "Hello, Ann!" {
		t.Errorf("the text is %q", text)
	}
}
