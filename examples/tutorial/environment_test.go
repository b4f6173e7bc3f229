package main

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	greetings "example.com/greetings/api/example.com/v1"

	envtest "espalier.dev/espaliertest" // was "sigs.k8s.io/controller-runtime/pkg/envtest"
)

func TestEnvironment(t *testing.T) {
	env := &envtest.Environment{CRDDirectoryPaths: []string{"crd.yaml"}, ErrorIfCRDPathMissing: true}
	config, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	scheme := runtime.NewScheme()
	if err := greetings.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	nobody := &greetings.Greeting{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "nobody"}}
	if err := c.Create(t.Context(), nobody); !apierrors.IsInvalid(err) {
		t.Errorf("a Greeting without a name: %v, expected that it is invalid", err)
	}
}
