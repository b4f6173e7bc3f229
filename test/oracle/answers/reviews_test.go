package answers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/scheme"

	"espalier.dev/server/reviews"
	"espalier.dev/test/oracle/builtin"
)

// deciding decides by the verb of a request, as the authorizer of the reference does. Its reason
// shows all attributes.
type deciding struct{}

func (deciding) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	fields, fieldErr := a.GetFieldSelector()
	labels, labelErr := a.GetLabelSelector()
	u := a.GetUser()
	reason := fmt.Sprintf("%q %q %q %q %q %q %q %q %q %v %q %v fields %v %v labels %v %v", a.GetVerb(), a.GetNamespace(), a.GetAPIGroup(), a.GetAPIVersion(),
		a.GetResource(), a.GetSubresource(), a.GetName(), u.GetName(), u.GetUID(), u.GetGroups(), u.GetExtra(), a.IsResourceRequest(), fields, fieldErr, labels, labelErr)
	reason += a.GetPath()
	switch a.GetVerb() {
	case "allow":
		return authorizer.DecisionAllow, reason, nil
	case "deny":
		return authorizer.DecisionDeny, reason, nil
	case "fail":
		return authorizer.DecisionNoOpinion, reason, errors.New("it fails")
	}
	return authorizer.DecisionNoOpinion, reason, nil
}

func (deciding) RulesFor(_ context.Context, u user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	var err error
	if namespace == "fail" {
		err = errors.New("it fails")
	}
	return []authorizer.ResourceRuleInfo{&authorizer.DefaultResourceRuleInfo{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: u.GetGroups()}},
		[]authorizer.NonResourceRuleInfo{&authorizer.DefaultNonResourceRuleInfo{Verbs: []string{"get"}, NonResourceURLs: []string{"/" + namespace}}}, namespace == "partly", err
}

// TestReviewsOfAccess compares the answers to reviews, and the errors, with those of Kubernetes
// 1.36.
func TestReviewsOfAccess(t *testing.T) {
	reference := builtin.Open(t)
	storages := (&reviews.Config{Authorizer: deciding{}, Rules: deciding{}}).Storages()
	resource := func(inner string) string { return `{"spec":{"user":"u","resourceAttributes":{` + inner + `}}}` }
	var specs []string
	for _, verb := range []string{"allow", "deny", "fail", "other"} {
		specs = append(specs, resource(`"verb":"`+verb+`","resource":"pods","namespace":"ns","group":"g","subresource":"log","name":"n"`),
			`{"spec":{"groups":["a","b"],"uid":"1","extra":{"k":["v","w"]},"nonResourceAttributes":{"verb":"`+verb+`","path":"/x"}}}`)
	}
	for _, version := range []string{"", "v1", "*"} {
		specs = append(specs, resource(`"verb":"allow","version":"`+version+`"`))
	}
	for _, selector := range []string{
		`{}`, `{"rawSelector":"a=b,c!=d"}`, `{"rawSelector":"a in (b"}`, `{"rawSelector":"a=b","requirements":[{"key":"a","operator":"In","values":["b"]}]}`,
		`{"requirements":[{"key":"a","operator":"In","values":["b"]},{"key":"c","operator":"NotIn","values":["d"]}]}`,
		`{"requirements":[{"key":"a","operator":"In","values":["b","c"]}]}`, `{"requirements":[{"key":"a","operator":"In"}]}`, `{"requirements":[{"key":"a","operator":"NotIn"}]}`,
		`{"requirements":[{"key":"a","operator":"Exists"}]}`, `{"requirements":[{"key":"a","operator":"DoesNotExist","values":["x"]}]}`,
		`{"requirements":[{"key":"a","operator":"Newer","values":["x"]},{"key":"a","operator":"In","values":["b"]}]}`, `{"requirements":[{"key":"","operator":""}]}`,
		`{"requirements":[{"key":"-a","operator":"In","values":["-"]}]}`, `{"requirements":[]}`,
	} {
		specs = append(specs, resource(`"verb":"allow","fieldSelector":`+selector), resource(`"verb":"allow","labelSelector":`+selector))
	}
	specs = append(specs,
		`{}`, `{"spec":{}}`, `{"spec":{"user":"u"}}`, `{"spec":{"groups":["g"],"resourceAttributes":{},"nonResourceAttributes":{"path":"/p","verb":"get"}}}`,
		`{"metadata":{"name":"x"},"spec":{"user":"u","resourceAttributes":{"verb":"allow"}}}`,
		`{"metadata":{"namespace":"ns","labels":{"a":"b"}},"spec":{"user":"u","resourceAttributes":{"verb":"allow","namespace":"ns"}}}`,
		`{"metadata":{"namespace":"ns"},"spec":{"user":"u","resourceAttributes":{"verb":"allow","namespace":"ns"}}}`,
		`{"metadata":{"namespace":"ns"},"spec":{"user":"u","resourceAttributes":{"verb":"allow","namespace":"other"}}}`,
		`{"metadata":{"namespace":"other"},"spec":{"user":"u","resourceAttributes":{"verb":"allow","namespace":"other"}}}`,
		`{"metadata":{"namespace":"ns"},"spec":{"user":"u","nonResourceAttributes":{"verb":"allow","path":"/"}}}`,
		`{"spec":{"namespace":"ns"}}`, `{"spec":{"namespace":"fail"}}`, `{"spec":{"namespace":"partly"}}`,
		`{"spec":{"token":"t"}}`, `{"spec":{"token":"t","audiences":["a"]}}`, `{"spec":{"user":7}}`,
	)
	who := &builtin.User{Name: "me", UID: "2", Groups: []string{"g"}, Extra: map[string][]string{"k": {"v"}}}
	compared := 0
	for gvr, storage := range storages {
		for _, spec := range specs {
			for _, namespace := range []string{"", "ns"} {
				want, err := reference.Ask(&builtin.Request{Op: "review", APIVersion: gvr.GroupVersion().String(), Resource: gvr.Resource, Namespace: namespace, Object: json.RawMessage(spec), User: who})
				if err != nil {
					t.Fatal(err)
				}
				obj := storage.New()
				kind := reflect.TypeOf(obj).Elem().Name()
				gvk := gvr.GroupVersion().WithKind(kind)
				if _, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(spec), &gvk, obj); err != nil {
					if want.Error == "" {
						t.Errorf("%s %s: %v", kind, spec, err)
					}
					continue // the handler answers
				}
				obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
				ctx := apirequest.WithUser(apirequest.WithNamespace(t.Context(), namespace), &user.DefaultInfo{Name: who.Name, UID: who.UID, Groups: who.Groups, Extra: who.Extra})
				out, err := storage.Create(ctx, obj, nil, nil)
				compared++
				if err != nil {
					var status apierrors.APIStatus
					if !errors.As(err, &status) || status.Status().Message != want.Error || string(status.Status().Reason) != want.Reason {
						t.Errorf("%s %s in %q:\ngot  %v\nwant %s", kind, spec, namespace, err, want.Error)
					}
					continue
				}
				out.GetObjectKind().SetGroupVersionKind(gvk)
				got, err := json.Marshal(out)
				if err != nil {
					t.Fatal(err)
				}
				if kind == "SelfSubjectReview" {
					got, want.Object = withoutTime(got), withoutTime(want.Object)
				}
				if a, b := decodeTree(t, got), decodeTree(t, want.Object); !reflect.DeepEqual(a, b) || want.Error != "" {
					t.Errorf("%s %s in %q:\ngot  %s\nwant %s %s", kind, spec, namespace, got, want.Object, want.Error)
				}
			}
		}
	}
	t.Logf("%d reviews", compared)
	if compared < 500 {
		t.Error("too little was compared")
	}
}

// withoutTime removes the creation time, which is that of the answer.
func withoutTime(data []byte) []byte {
	const begin = `"creationTimestamp":"`
	i := bytes.Index(data, []byte(begin))
	if i < 0 {
		return data
	}
	end := i + len(begin) + strings.IndexByte(string(data[i+len(begin):]), '"')
	return append(append([]byte{}, data[:i]...), append([]byte(`"creationTimestamp":"`), data[end:]...)...)
}

// decodeTree decodes JSON, without nulls.
func decodeTree(t *testing.T, data []byte) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	dropNulls(out)
	return out
}

func dropNulls(m map[string]any) {
	for key, value := range m {
		if value == nil {
			delete(m, key)
		}
		if inner, ok := value.(map[string]any); ok {
			dropNulls(inner)
		}
	}
}
