package codec_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/api/v1beta1"
)

// TestReplaceStatus checks that the text is the one of the CRD with the new status.
func TestReplaceStatus(t *testing.T) {
	c, err := codec.Decode([]byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"things.example.com","annotations":{"status":"<&>"}},
"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"things","kind":"Thing"},"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},
"schema":{"openAPIV3Schema":{"type":"object","properties":{"status":{"type":"object"}}}}}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	status := api.CustomResourceDefinitionStatus{
		Conditions:     []api.CustomResourceDefinitionCondition{{Type: api.Established, Status: api.ConditionTrue, Message: `"<status>"`, LastTransitionTime: metav1.NewTime(time.Unix(1, 0))}},
		AcceptedNames:  c.Spec.Names,
		StoredVersions: []string{"v1"}, ObservedGeneration: 3,
	}
	for _, version := range []string{api.APIVersion, v1beta1.APIVersion} {
		before, err := codec.Encode(c, version)
		if err != nil {
			t.Fatal(err)
		}
		changed := c.DeepCopy()
		changed.Status = status
		want, err := codec.Encode(changed, version)
		if err != nil {
			t.Fatal(err)
		}
		copied := string(before)
		if got, ok := codec.ReplaceStatus(before, &status); !ok || string(got) != string(want) {
			t.Errorf("%s: got %v %s\nwant %s", version, ok, got, want)
		}
		if string(before) != copied {
			t.Errorf("%s: the text has changed", version)
		}
	}
	for _, text := range []string{``, `[]`, `{}`, `{"spec":{"status":{}}}`, `{"status":{},"status":{}}`, `{"status":{}`, `{"status":{}}{}`, strings.Repeat(`{"a":`, 3)} {
		if got, ok := codec.ReplaceStatus([]byte(text), &status); ok {
			t.Errorf("%s: got %s", text, got)
		}
	}
}
