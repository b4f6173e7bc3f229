package helm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	helmcmd "helm.sh/helm/v4/pkg/cmd"
	"helm.sh/helm/v4/pkg/kube"

	"espalier.dev/espaliertest"
)

// asHelm is the environment variable that makes the test binary behave as helm, or as kustomize if
// that is its name: there is no second binary to link.
const asHelm = "ESPALIER_TEST_AS_HELM"

func TestMain(m *testing.M) {
	if os.Getenv(asHelm) == "" {
		os.Exit(m.Run())
	}
	if filepath.Base(os.Args[0]) == "kustomize" {
		if err := kustomize(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "Error:", err)
			os.Exit(1)
		}
		return
	}
	kube.ManagedFieldsManager = "helm"
	cmd, err := helmcmd.NewRootCmd(os.Stdout, os.Args[1:], helmcmd.SetupLogging)
	if err == nil {
		err = cmd.Execute()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// timeout bounds a run of helm, and every wait.
const timeout = time.Minute

// session is a server, and a namespace that helm uses.
type session struct {
	server    *espaliertest.Server
	namespace string
	env       []string
	typed     *kubernetes.Clientset
	dynamic   *dynamic.DynamicClient
}

func newSession(t *testing.T, server *espaliertest.Server, namespace string) *session {
	t.Helper()
	home := t.TempDir()
	s := &session{server: server, namespace: namespace}
	s.env = append(os.Environ(), asHelm+"=1", "KUBECONFIG="+server.Kubeconfig(), "HELM_NAMESPACE="+namespace, "HOME="+home,
		"HELM_CACHE_HOME="+filepath.Join(home, "cache"), "HELM_CONFIG_HOME="+filepath.Join(home, "config"), "HELM_DATA_HOME="+filepath.Join(home, "data"))
	config := rest.CopyConfig(server.Config())
	config.QPS = -1 // no limit
	var err error
	if s.typed, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	if s.dynamic, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	return s
}

// run runs helm. It returns its output, and whether it succeeded.
func (s *session) run(t *testing.T, args ...string) (string, bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = s.env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || ctx.Err() != nil) {
		t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), errors.Join(err, ctx.Err()), out.String())
	}
	return out.String(), err == nil
}

// helm runs helm, which must succeed, and returns its output.
func (s *session) helm(t *testing.T, args ...string) string {
	t.Helper()
	out, ok := s.run(t, args...)
	if !ok {
		t.Fatalf("helm %s:\n%s", strings.Join(args, " "), out)
	}
	return out
}

// fails runs helm, which must fail with an output that contains want.
func (s *session) fails(t *testing.T, want string, args ...string) {
	t.Helper()
	if out, ok := s.run(t, args...); ok || !strings.Contains(out, want) {
		t.Fatalf("helm %s did not fail with %q:\n%s", strings.Join(args, " "), want, out)
	}
}

// revision is an entry of helm history or helm list.
type revision struct {
	Name        string `json:"name"`
	Revision    any    `json:"revision"` // list has a string, history a number
	Status      string `json:"status"`
	Description string `json:"description"`
}

func (r revision) String() string { return fmt.Sprintf("%v %s", r.Revision, r.Status) }

// history returns the revisions of a release and their status, as in "1 superseded, 2 deployed".
func (s *session) history(t *testing.T, release string) string {
	t.Helper()
	return revisions(t, s.helm(t, "history", release, "-o", "json"))
}

func revisions(t *testing.T, output string) string {
	t.Helper()
	var list []revision
	if err := json.Unmarshal([]byte(output), &list); err != nil {
		t.Fatalf("%v in:\n%s", err, output)
	}
	var all []string
	for _, r := range list {
		all = append(all, r.String())
	}
	return strings.Join(all, ", ")
}

// get returns an object as a tree; nil if it does not exist.
func (s *session) get(t *testing.T, gvr schema.GroupVersionResource, name string) map[string]any {
	t.Helper()
	obj, err := s.dynamic.Resource(gvr).Namespace(s.namespace).Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return obj.Object
}

// allowed checks what the service account of the release is allowed to do.
func (s *session) allowed(t *testing.T, want bool, verb string, resource schema.GroupResource, namespace string) {
	t.Helper()
	review, err := s.typed.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:" + s.namespace + ":site",
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: resource.Group, Resource: resource.Resource, Namespace: namespace},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if review.Status.Allowed != want {
		t.Errorf("%s %s: %+v", verb, resource, review.Status)
	}
}

// workloads writes the status of Deployments, Jobs and Pods in a namespace until the test ends,
// as if their controllers and a kubelet ran and everything succeeded.
func (s *session) workloads(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		// An error means a conflict, or that the object has gone: the next round sees it.
		_ = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			s.succeed(ctx)
			return false, nil
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
}

func (s *session) succeed(ctx context.Context) {
	now := metav1.Now()
	deployments, err := s.typed.AppsV1().Deployments(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for _, d := range deployments.Items {
		if d.Status.ObservedGeneration == d.Generation {
			continue
		}
		n := *d.Spec.Replicas
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
			Conditions: []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue},
				{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"},
			}}
		_, _ = s.typed.AppsV1().Deployments(s.namespace).UpdateStatus(ctx, &d, metav1.UpdateOptions{})
	}
	jobs, err := s.typed.BatchV1().Jobs(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for _, j := range jobs.Items {
		if j.Status.CompletionTime != nil {
			continue
		}
		j.Status = batchv1.JobStatus{StartTime: &now, CompletionTime: &now, Succeeded: 1, Conditions: []batchv1.JobCondition{
			{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue, LastTransitionTime: now},
			{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: now},
		}}
		_, _ = s.typed.BatchV1().Jobs(s.namespace).UpdateStatus(ctx, &j, metav1.UpdateOptions{})
	}
	pods, err := s.typed.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for _, p := range pods.Items {
		if p.Status.Phase == corev1.PodSucceeded {
			continue
		}
		p.Status.Phase = corev1.PodSucceeded
		_, _ = s.typed.CoreV1().Pods(s.namespace).UpdateStatus(ctx, &p, metav1.UpdateOptions{})
	}
}

func contains(t *testing.T, out string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(out, w) {
			t.Errorf("%q is not in:\n%s", w, out)
		}
	}
}

func equal[T comparable](t *testing.T, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}
