package custom

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/schema"
)

// TestRejected checks that the errors of bodies which kube-apiserver cannot decode are its errors.
func TestRejected(t *testing.T) {
	t.Parallel()
	kind := testKind(t, newWidgets(t, widgetCRD, schema.Kubernetes))("v1")
	s := newBodySerializer(kind, nil, runtime.NewScheme(), creator{func(string) (Kind, error) { return kind, nil }}, typer{runtime.NewScheme()})
	gvk := kind.GroupVersionKind()
	const unparsed = "couldn't get version/kind; json parse error: "
	for _, c := range []struct {
		body string
		sent runtimeschema.GroupVersionKind
		want string
	}{
		{``, runtimeschema.GroupVersionKind{}, unparsed + "unexpected end of JSON input"},
		{`{"kind":`, runtimeschema.GroupVersionKind{}, unparsed + "unexpected end of JSON input"},
		{`[]`, runtimeschema.GroupVersionKind{}, unparsed + "json: cannot unmarshal array into Go value of type struct {"},
		{`{"kind":1}`, runtimeschema.GroupVersionKind{}, unparsed + "json: cannot unmarshal number into Go struct field .kind of type string"},
		{`{"apiVersion":"a/b/c","kind":"Widget"}`, runtimeschema.GroupVersionKind{}, "unexpected GroupVersion string: a/b/c"},
		{`{}`, runtimeschema.GroupVersionKind{}, "Object 'Kind' is missing in '{}'"},
		{`{"apiVersion":"example.com/v1"}`, runtimeschema.GroupVersionKind{Group: "example.com", Version: "v1"}, `Object 'Kind' is missing in '{"apiVersion":"example.com/v1"}'`},
		// The handler rejects it.
		{`{"kind":"Widget"}`, runtimeschema.GroupVersionKind{Kind: "Widget"}, ""},
	} {
		into := kind.New()
		_, sent, err := s.DecoderToVersion(s.media[0].StrictSerializer, nil).Decode([]byte(c.body), &gvk, into)
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: have %v, want %s", c.body, err, c.want)
		}
		if sent == nil {
			sent = &runtimeschema.GroupVersionKind{}
		}
		if *sent != c.sent {
			t.Errorf("%s: kind %v, want %v", c.body, sent, c.sent)
		}
		if err != nil && into.GetObjectKind().GroupVersionKind() != gvk {
			t.Errorf("%s: the object is changed, of which messages name the kind: %v", c.body, into)
		}
	}
}
