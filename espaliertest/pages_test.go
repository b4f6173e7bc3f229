package espaliertest_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"espalier.dev/espaliertest"
)

// The tests of this file are what the pages in docs show.

// TestPageConflict shows a client that repeats updates that conflict.
func TestPageConflict(t *testing.T) {
	server := espaliertest.Start(t)
	faults := server.Inject(t, espaliertest.Rule{
		Fault:    espaliertest.Conflict,
		User:     "controller",
		Resource: "configmaps",
		First:    2,
	})
	client := kubernetes.NewForConfigOrDie(server.AddUser(t, "controller", "system:masters")).CoreV1().ConfigMaps("default")
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		m, err := client.Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
		if err != nil {
			return err
		}
		m.Data["seen"] = "true"
		_, err = client.Update(t.Context(), m, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(faults.Hits()) // 2
	if faults.Hits() != 2 {
		t.Error("the faults did not happen")
	}
}

// TestPageHeld shows a watch whose events are held.
func TestPageHeld(t *testing.T) {
	server := espaliertest.Start(t)
	controller := "controller"
	client := kubernetes.NewForConfigOrDie(server.AddUser(t, controller, "system:masters")).CoreV1().ConfigMaps("default")
	w, err := client.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=a"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	held := server.Inject(t, espaliertest.Rule{Fault: espaliertest.HoldEvents, User: controller, Resource: "configmaps"})
	if _, err := client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case event := <-w.ResultChan():
		t.Errorf("an event is not held: %v", event)
	case <-time.After(200 * time.Millisecond):
	}
	held.Remove()
	<-w.ResultChan()
}

// TestPageClock shows what happens after an hour: events expire.
func TestPageClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := espaliertest.Start(t, espaliertest.WithCRDs("testdata/crds"))
		client := kubernetes.NewForConfigOrDie(server.Config())
		event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "a"}, InvolvedObject: corev1.ObjectReference{Namespace: "default"}}
		if _, err := client.CoreV1().Events("default").Create(t.Context(), event, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		if _, err := client.CoreV1().Events("default").Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the event still exists: %v", err)
		}
	})
}

// TestPageDial shows a client with a token.
func TestPageDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := espaliertest.Start(t)
		accounts := kubernetes.NewForConfigOrDie(server.Config()).CoreV1().ServiceAccounts("kube-system")
		if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		answer, err := accounts.CreateToken(t.Context(), "robot", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		token := answer.Status.Token
		config := rest.AnonymousClientConfig(server.Config()) // keeps Dial
		config.BearerToken = token
		review, err := kubernetes.NewForConfigOrDie(config).AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil || review.Status.UserInfo.Username != "system:serviceaccount:kube-system:robot" {
			t.Errorf("%v %v", review, err)
		}
	})
}

// TestPageFork shows a fork, a saved state and an earlier state.
func TestPageFork(t *testing.T) {
	template := espaliertest.Start(t, espaliertest.WithSeed(1))
	t.Run("fork", func(t *testing.T) {
		t.Parallel()
		server := template.Fork(t)
		if err := kubernetes.NewForConfigOrDie(server.Config()).CoreV1().ConfigMaps("default").Delete(t.Context(), "kube-root-ca.crt", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("state", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "state.db")
		template.Save(t, file)                                        // once
		server := espaliertest.Start(t, espaliertest.WithState(file)) // in every test
		if _, err := kubernetes.NewForConfigOrDie(server.Config()).CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("before", func(t *testing.T) {
		server, ctx := template.Fork(t), t.Context()
		maps := kubernetes.NewForConfigOrDie(server.Config()).CoreV1().ConfigMaps("default")
		w, err := maps.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=a"})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		event := <-w.ResultChan() // of a watch
		before := kubernetes.NewForConfigOrDie(server.Before(t, event))
		_, err = before.CoreV1().ConfigMaps("default").Get(ctx, "a", metav1.GetOptions{}) // as it was when the event happened
		if !apierrors.IsNotFound(err) {
			t.Errorf("it exists before it is created: %v", err)
		}
	})
}
