package admission_test

import (
	"fmt"
	"testing"

	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/rest"
	featuregatetesting "k8s.io/component-base/featuregate/testing"

	"espalier.dev/espaliertest"
	"espalier.dev/server/servertest"
)

// TestReviewsAndWebhooks checks that webhooks do not see reviews, so that a webhook that fails
// locks nobody out, unless a feature gate asks for the behaviour before Kubernetes 1.37. It is not
// parallel, because the gate applies to the whole process.
func TestReviewsAndWebhooks(t *testing.T) {
	for _, excluded := range []bool{true, false} {
		t.Run(fmt.Sprint(excluded), func(t *testing.T) {
			featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.ExcludeAdmissionWebhookVirtualResources, excluded)
			s := espaliertest.Start(t, servertest.Store())
			c, err := rest.HTTPClientFor(s.Config())
			if err != nil {
				t.Fatal(err)
			}
			e := &env{T: t, url: s.URL(), client: c, namespace: "reviews"}
			e.must("POST", "/api/v1/namespaces", `{apiVersion: v1, kind: Namespace, metadata: {name: reviews, labels: {test: reviews}}}`)
			hook := newHook(t, allow)
			e.configure("Validating", "all", hook, `, rules: [{apiGroups: ["*"], apiVersions: ["*"], resources: ["*"], operations: ["*"]}]`)
			answer := e.must("POST", "/apis/authorization.k8s.io/v1/namespaces/reviews/localsubjectaccessreviews",
				`{metadata: {namespace: reviews}, spec: {user: somebody, resourceAttributes: {namespace: reviews, verb: get, resource: pods}}}`)
			if answer.at("status.allowed") != false {
				t.Error(answer)
			}
			e.must("POST", "/api/v1/namespaces/reviews/configmaps", `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}`)
			want := []string{"localsubjectaccessreviews", "configmaps"}
			if excluded {
				want = want[1:]
			}
			var got []string
			for _, r := range hook.requests() {
				if r.UserInfo.Username != "system:apiserver" {
					got = append(got, r.Resource.Resource)
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("the webhook saw %v, want %v", got, want)
			}
		})
	}
}
