package rest

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// TestNameTypes checks the Go types in messages.
func TestNameTypes(t *testing.T) {
	const object, list = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
	const message = `{"message": "you requested PartialObjectMetadata, but the requested object is a list (*v1.PodList)"}`
	for _, c := range []struct {
		verb, accept string
		renamed      bool
	}{
		{"list", object, true},
		{"list", list, false},
		{"list", list + "," + object, true},
		{"get", list, true},
		{"get", object, false},
		{"create", list, true},
		{"watch", object, false},
		{"watch", list, false},
		{"list", "application/json", false},
	} {
		req := httptest.NewRequest("GET", "/", nil)
		req.Header.Set("Accept", c.accept)
		for _, body := range []string{message, `{"message": "(*v1.PodList)"}`, strings.Repeat(" ", 2000) + message} {
			out := httptest.NewRecorder()
			n, err := NameTypes(out, req, c.verb, "core").Write([]byte(body))
			if err != nil || n != len(body) {
				t.Fatal(n, err)
			}
			want := body
			if c.renamed && body == message {
				want = strings.Replace(body, "*v1.", "*core.", 1)
			}
			if out.Body.String() != want {
				t.Errorf("%s, %s: have %s, want %s", c.verb, c.accept, out.Body, want)
			}
		}
	}
}
