package authorization_test

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"espalier.dev/server/servertest"
)

// TestReviews asks all kinds of reviews over the wire.
func TestReviews(t *testing.T) {
	t.Parallel()
	tokens := filepath.Join(t.TempDir(), "tokens.csv")
	if err := os.WriteFile(tokens, []byte("some-token,somebody,7,\"one,two\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := servertest.Options(t)
	o.TokenAuthFile = tokens
	o.DisableAdmissionPlugins = nil
	s := servertest.Start(t, o)
	ctx := t.Context()
	get := &authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods", Namespace: "default"}
	for _, media := range []string{runtime.ContentTypeProtobuf, runtime.ContentTypeJSON} {
		admin := servertest.Clientset(t, s, nil, media)
		access := admin.AuthorizationV1()
		t.Run(media, func(t *testing.T) {
			self, err := access.SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: get}}, metav1.CreateOptions{})
			if err != nil || !self.Status.Allowed {
				t.Errorf("the administrator: %+v %v", self, err)
			}
			other, err := access.SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
				Spec: authorizationv1.SubjectAccessReviewSpec{User: "nobody", ResourceAttributes: get}}, metav1.CreateOptions{})
			if err != nil || other.Status.Allowed {
				t.Errorf("a stranger: %+v %v", other, err)
			}
			path, err := access.SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
				Spec: authorizationv1.SubjectAccessReviewSpec{User: "nobody", NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/livez", Verb: "get"}}}, metav1.CreateOptions{})
			if err != nil || !path.Status.Allowed {
				t.Errorf("health: %+v %v", path, err)
			}
			// The namespace need not exist.
			missing := get.DeepCopy()
			missing.Namespace = "missing"
			local, err := access.LocalSubjectAccessReviews("missing").Create(ctx, &authorizationv1.LocalSubjectAccessReview{
				ObjectMeta: metav1.ObjectMeta{Namespace: "missing"},
				Spec:       authorizationv1.SubjectAccessReviewSpec{Groups: []string{"system:masters"}, ResourceAttributes: missing}}, metav1.CreateOptions{})
			if err != nil || !local.Status.Allowed {
				t.Errorf("within a namespace: %+v %v", local, err)
			}
			if _, err := access.SelfSubjectRulesReviews().Create(ctx, &authorizationv1.SelfSubjectRulesReview{
				Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "default"}}, metav1.CreateOptions{}); err != nil {
				t.Errorf("rules: %v", err)
			}
			me, err := admin.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
			if err != nil || !slices.Equal(me.Status.UserInfo.Groups, []string{"system:masters", "system:authenticated"}) {
				t.Errorf("the administrator: %+v %v", me, err)
			}
			for token, want := range map[string]authenticationv1.TokenReviewStatus{
				"some-token": {Authenticated: true, User: authenticationv1.UserInfo{Username: "somebody", UID: "7"}},
				"guessed":    {Error: "invalid bearer token"},
			} {
				r, err := admin.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if got := r.Status; got.Authenticated != want.Authenticated || got.User.Username != want.User.Username || got.User.UID != want.User.UID || !strings.Contains(got.Error, want.Error) {
					t.Errorf("%s: got %+v, want %+v", token, got, want)
				}
			}
		})
	}
	http1 := servertest.Client(t, s, nil)
	post := func(path, contentType, body string) (int, []byte) {
		t.Helper()
		resp, err := http1.Post(s.URL()+path, contentType, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, answer
	}
	const access = "/apis/authorization.k8s.io/v1/"
	t.Run("YAML", func(t *testing.T) {
		code, body := post(access+"selfsubjectaccessreviews", "application/yaml", "spec: {nonResourceAttributes: {path: /metrics, verb: get}}")
		if code != http.StatusCreated || !bytes.Contains(body, []byte(`"allowed":true`)) {
			t.Errorf("%d %s", code, body)
		}
	})
	t.Run("other verbs", func(t *testing.T) {
		for path, code := range map[string]int{"subjectaccessreviews": http.StatusMethodNotAllowed, "subjectaccessreviews/x": http.StatusNotFound} {
			resp, err := http1.Get(s.URL() + access + path)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != code {
				t.Errorf("%s: %d", path, resp.StatusCode)
			}
		}
	})
	t.Run("discovery", func(t *testing.T) {
		for path, want := range map[string]string{
			access: `{"name":"subjectaccessreviews","singularName":"subjectaccessreview","namespaced":false,"kind":"SubjectAccessReview","verbs":["create"]}`,
			"/openapi/v3/apis/authorization.k8s.io/v1":  `"createAuthorizationV1SelfSubjectAccessReview"`,
			"/openapi/v3/apis/authentication.k8s.io/v1": `"createAuthenticationV1TokenReview"`,
		} {
			resp, err := http1.Get(s.URL() + strings.TrimSuffix(path, "/"))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || !bytes.Contains(body, []byte(want)) {
				t.Errorf("%s has no %s: %.500s", path, want, body)
			}
		}
	})
}
