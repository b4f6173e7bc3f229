package custom

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"espalier.dev/api"
	"espalier.dev/server/webhooks"
)

// resolved is a resolver of services that keeps what it is asked.
type resolved struct{ asked []string }

func (r *resolved) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	r.asked = append(r.asked, fmt.Sprintf("%s/%s:%d", namespace, name, port))
	return nil, errConversion
}

// TestWebhookClients checks how conversion webhooks are reached.
func TestWebhookClients(t *testing.T) {
	t.Parallel()
	services := &resolved{}
	clients, err := webhooks.NewNetwork(services).NewClients(conversionReviews())
	if err != nil {
		t.Fatal(err)
	}
	port, path, bad := int32(8443), "/convert", "::"
	var posts string // the path of the last webhook
	convert := func(c *api.WebhookClientConfig) error {
		t.Helper()
		converter, err := newWebhookConverter(t.Context(), clients, &api.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"},
			Spec: api.CustomResourceDefinitionSpec{Conversion: &api.CustomResourceConversion{Webhook: &api.WebhookConversion{ConversionReviewVersions: []string{"v1"}, ClientConfig: c}}}})
		if err != nil {
			return err
		}
		posts = converter.(*webhookConverter).client.Post().URL().Path
		out, err := converter.Convert(widget("v1").Object, toV2)
		if err == nil && out["apiVersion"] != toV2.String() {
			t.Errorf("got %v", out)
		}
		return err
	}
	for _, s := range []*api.ServiceReference{{Namespace: "n", Name: "s"}, {Namespace: "n", Name: "s", Port: &port, Path: &path}} {
		if err := convert(&api.WebhookClientConfig{Service: s}); !IsConversionError(err) || (posts == path) != (s.Path != nil) {
			t.Error(err, posts)
		}
	}
	if !slices.Equal(services.asked, []string{"n/s:443", "n/s:8443"}) {
		t.Error(services.asked)
	}
	if err := convert(&api.WebhookClientConfig{URL: &bad}); err == nil || !strings.HasPrefix(err.Error(), "conversion: ") {
		t.Error(err)
	}
	// The certificate of a server must be that of the bundle, unless this is empty.
	calls, requested := 0, ""
	answer := func(w http.ResponseWriter, req *http.Request) {
		calls++
		requested = req.URL.Path
		var review api.ConversionReview
		if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		review.Response = &api.ConversionResponse{UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
		for range min(calls-1, 2) { // none, one, two
			obj := widget("v2")
			switch calls {
			case 4:
				obj.SetName("other")
			case 5:
				obj.SetLabels(map[string]string{"Bad Key": "x"})
			case 6:
				obj.SetKind("")
			case 9:
				obj.Object["spec"] = strings.Repeat("x", maxConverted)
			}
			raw, err := json.Marshal(obj.Object)
			if err != nil {
				t.Error(err)
			}
			review.Response.ConvertedObjects = append(review.Response.ConvertedObjects, runtime.RawExtension{Raw: raw})
		}
		review.Request = nil
		if calls > 3 {
			review.Response.ConvertedObjects = review.Response.ConvertedObjects[:1]
		}
		w.Header().Set("Content-Type", "application/json")
		switch calls {
		case 7:
			w.WriteHeader(http.StatusInternalServerError)
		case 8:
			_, _ = w.Write([]byte("x")) // before the JSON
		}
		if err := json.NewEncoder(w).Encode(review); err != nil {
			t.Error(err)
		}
	}
	server := httptest.NewTLSServer(http.HandlerFunc(answer))
	t.Cleanup(server.Close)
	target := server.URL + "/x"
	if err := convert(&api.WebhookClientConfig{URL: &target, CABundle: []byte(" \n")}); !IsConversionError(err) || calls != 0 {
		t.Errorf("%v, %d calls", err, calls)
	}
	bundle := pemOf(server)
	for _, says := range []string{"it returned 0 objects, expected 1", "", "it returned 2 objects, expected 1",
		"returned invalid object: must have the same name", "returned invalid metadata: ", "failed: Object 'Kind' is missing", "failed: ", "failed: invalid character",
		"failed: it returned an object of 3"} {
		err := convert(&api.WebhookClientConfig{URL: &target, CABundle: bundle})
		if says == "" && err != nil || says != "" && (!IsConversionError(err) || !strings.Contains(err.Error(), says)) || requested != "/x" {
			t.Errorf("%v, want %q, path %s", err, says, requested)
		}
	}
}

// pemOf returns the certificate of a server.
func pemOf(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}
