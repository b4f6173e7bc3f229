package plugins_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"espalier.dev/server/plugins"
)

// accounts are the service accounts of the tests.
const accounts = `
{apiVersion: v1, kind: Namespace, metadata: {name: ns}}
{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: ns}}
{apiVersion: v1, kind: ServiceAccount, metadata: {name: pull, namespace: ns}, imagePullSecrets: [{name: registry}]}
{apiVersion: v1, kind: ServiceAccount, metadata: {name: quiet, namespace: ns}, automountServiceAccountToken: false}
{apiVersion: v1, kind: ServiceAccount, metadata: {name: strict, namespace: ns, annotations: {kubernetes.io/enforce-mountable-secrets: "true"}}, secrets: [{name: mine}], imagePullSecrets: [{name: registry}]}
`

// accountPlugin returns the plugin ServiceAccount.
func accountPlugin(t *testing.T, objects plugins.Lister) admission.MutationInterface {
	t.Helper()
	for _, p := range plugins.All() {
		if p.Name == "ServiceAccount" {
			plugin, err := p.New(plugins.Config{Objects: objects})
			if err != nil {
				t.Fatal(err)
			}
			return plugin.(admission.MutationInterface)
		}
	}
	t.Fatal("there is no plugin")
	return nil
}

// createPod returns the request that creates a pod.
func createPod(obj runtime.Object) admission.Attributes {
	return admission.NewAttributesRecord(obj, nil, corev1.SchemeGroupVersion.WithKind("Pod"), "ns", "p", corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, &metav1.CreateOptions{}, false, nil)
}

func TestServiceAccountRejection(t *testing.T) {
	strict := func(spec string) string { return pod("serviceAccountName: strict, " + spec) }
	const refused = ` is not allowed because service account strict does not reference that secret`
	mirror := func(spec string) string {
		return `{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ns, annotations: {kubernetes.io/config.mirror: a}}, spec: {` + spec + `}}`
	}
	for _, tt := range []request{
		{name: "no account", object: pod(`serviceAccountName: none`), err: `pods "p" is forbidden: error looking up service account ns/none: serviceaccount "none" not found`},
		{name: "no name of an account", object: pod(`serviceAccountName: a/b`), err: `error looking up service account ns/a/b: invalid resource name "a/b": [may not contain '/']`},
		{name: "no namespace", object: `{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: other}}`, err: `error looking up service account other/default: serviceaccount "default" not found`},
		{name: "allowed secret", object: strict(`volumes: [{name: v, secret: {secretName: mine}}]`)},
		{name: "volume", object: strict(`volumes: [{name: v, secret: {secretName: theirs}}]`), err: `volume with secret.secretName="theirs"` + refused},
		{name: "environment", object: strict(`containers: [{name: c, env: [{name: E, valueFrom: {secretKeyRef: {name: theirs, key: k}}}]}]`), err: `container c with envVar E referencing secret.secretName="theirs"` + refused},
		{name: "init environment", object: strict(`initContainers: [{name: c, envFrom: [{secretRef: {name: theirs}}]}]`), err: `init container c with envFrom referencing secret.secretName="theirs"` + refused},
		{name: "pull secret", object: strict(`imagePullSecrets: [{name: theirs}]`), err: `imagePullSecrets[0].name="theirs" is not allowed because service account strict does not reference that imagePullSecret`},
		{name: "ephemeral container", subresource: "ephemeralcontainers", old: strict(`containers: []`),
			object: strict(`ephemeralContainers: [{name: c, env: [{name: E, valueFrom: {secretKeyRef: {name: theirs, key: k}}}]}]`), err: `ephemeral container c with envVar E referencing secret.secretName="theirs"` + refused},
		{name: "update", old: strict(`containers: []`), object: strict(`volumes: [{name: v, secret: {secretName: theirs}}]`)},
		{name: "mirror pod", object: mirror(``), want: mirror(``)},
		{name: "mirror pod with an account", object: mirror(`serviceAccountName: default`), err: "a mirror pod may not reference service accounts"},
		{name: "mirror pod with a secret", object: mirror(`volumes: [{name: v, csi: {driver: d, nodePublishSecretRef: {name: s}}}]`), err: "a mirror pod may not reference secrets"},
		{name: "mirror pod with a token", object: mirror(`volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t}}]}}]`), err: "a mirror pod may not use ServiceAccountToken volume projections"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.plugin, tt.stored = "ServiceAccount", accounts
			err := tt.run(t, nil)
			switch {
			case tt.err == "" && err != nil:
				t.Error(err)
			case tt.err != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), tt.err)):
				t.Errorf("got %v, want %s", err, tt.err)
			}
		})
	}
}

// late has the default account of its namespace only when it is asked for the third time.
type late struct {
	stored
	asked atomic.Int32
}

func (l *late) Get(ctx context.Context, resource schema.GroupResource, namespace, name string) (runtime.Object, error) {
	if resource.Resource == "serviceaccounts" && l.asked.Add(1) < 3 {
		return nil, apierrors.NewNotFound(resource, name)
	}
	return l.stored.Get(ctx, resource, namespace, name)
}

// TestServiceAccountWait creates a pod in a namespace whose default account is created meanwhile.
func TestServiceAccountWait(t *testing.T) {
	objects := &late{stored: decode(t, accounts)}
	obj := &corev1.Pod{}
	if err := accountPlugin(t, objects).Admit(context.Background(), createPod(obj), nil); err != nil || obj.Spec.ServiceAccountName != "default" {
		t.Errorf("%v, %q", err, obj.Spec.ServiceAccountName)
	}
}
