package compiling_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"espalier.dev/api"
	"espalier.dev/server/compiling"
)

// class returns an object with an expression.
func class(expression string) *resourcev1.DeviceClass {
	return &resourcev1.DeviceClass{Spec: resourcev1.DeviceClassSpec{
		Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}}}
}

// by returns the context of a request.
func by(t *testing.T, name string, groups ...string) context.Context {
	return apirequest.WithUser(t.Context(), &user.DefaultInfo{Name: name, Groups: groups})
}

var heavy = "[" + strings.Repeat("{},", 1_000) + "{}].size() > 0"

// TestTurns has users write objects at the same time: the second one of a user waits, more than eight are rejected, and those
// of others and cheap ones are not held up.
func TestTurns(t *testing.T) {
	l := compiling.New()
	first, err := l.Begin(by(t, "a"), class(heavy))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if end, err := l.Begin(by(t, "a"), class("true")); err != nil {
			t.Error(err)
		} else {
			end()
		}
	}
	admin, err := l.Begin(by(t, "root", user.SystemPrivilegedGroup), class(heavy))
	if err != nil {
		t.Fatal(err)
	}
	admin()

	ctx, cancel := context.WithCancel(by(t, "a"))
	const waiting = 8
	results := make(chan error, waiting)
	started := make(chan struct{}, waiting)
	for range waiting {
		go func() {
			started <- struct{}{}
			end, err := l.Begin(ctx, class(heavy))
			if err == nil {
				end()
			}
			results <- err
		}()
	}
	for range waiting {
		<-started
	}
	// The goroutines may not have begun to wait. A request that is not rejected yet would wait, so its context has ended.
	ended, end := context.WithCancel(by(t, "a"))
	end()
	for {
		if _, err = l.Begin(ended, class(heavy)); !apierrors.IsTimeout(err) {
			break
		}
	}
	if _, seconds := apierrors.SuggestsClientDelay(err); !apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), `8 requests of user "a" wait`) {
		t.Errorf("got %v, %v", err, seconds)
	}
	cancel()
	for range waiting {
		if err := <-results; !apierrors.IsTimeout(err) {
			t.Errorf("got %v", err)
		}
	}
	first()
	again, err := l.Begin(by(t, "a"), class(heavy))
	if err != nil {
		t.Fatal(err)
	}
	again()
}

// TestRules finds the rules of a CRD.
func TestRules(t *testing.T) {
	l := compiling.New()
	c := &api.CustomResourceDefinition{Spec: api.CustomResourceDefinitionSpec{Versions: []api.CustomResourceDefinitionVersion{{
		Schema: &api.CustomResourceValidation{OpenAPIV3Schema: &api.JSONSchemaProps{Properties: map[string]api.JSONSchemaProps{
			"spec": {XValidations: []api.ValidationRule{{Rule: heavy}}}}}}}}}}
	end, err := l.Begin(by(t, "a"), c)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	ctx, cancel := context.WithCancel(by(t, "a"))
	cancel()
	if _, err := l.Begin(ctx, c); !apierrors.IsTimeout(err) {
		t.Errorf("another one does not wait: %v", err)
	}
}

// TestServiceAccounts has the service accounts of a namespace take turns together.
func TestServiceAccounts(t *testing.T) {
	l := compiling.New()
	end, err := l.Begin(by(t, "system:serviceaccount:n:first"), class(heavy))
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	for i := range 8 {
		go func() { _, _ = l.Begin(by(t, fmt.Sprint("system:serviceaccount:n:a", i)), class(heavy)) }()
	}
	ended, cancel := context.WithCancel(by(t, "system:serviceaccount:n:last"))
	cancel()
	for range 10_000 {
		if _, err = l.Begin(ended, class(heavy)); !apierrors.IsTimeout(err) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if !apierrors.IsTooManyRequests(err) {
		t.Errorf("got %v", err)
	}
}
