package builtin_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"espalier.dev/kinds"
	"espalier.dev/kinds/resource"
	"espalier.dev/server"
	"espalier.dev/server/servertest"
)

// TestRuntimeConfig uses versions that --runtime-config enables, with a typed client and each verb,
// and makes sure that those that it disables are neither served nor published.
func TestRuntimeConfig(t *testing.T) {
	o := servertest.Options(t)
	o.DisableAdmissionPlugins = nil
	o.RuntimeConfig = map[string]string{"api/all": "true", "apps/v1": "false", "batch/v1/cronjobs": "false"}
	o.AdvertiseAddress = "10.1.2.3"
	s := servertest.Start(t, o)
	config, err := s.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1

	resources, _, err := kinds.Served(o.RuntimeConfig)
	if err != nil {
		t.Fatal(err)
	}
	objects := servertest.Seeds(t, "../../test/oracle/builtin/seeds")
	for kind, text := range map[string]string{
		"DeviceClass":           `{"spec":{"selectors":[{"cel":{"expression":"true"}}]}}`,
		"ResourceClaim":         `{"spec":{"devices":{"requests":[{"name":"a","exactly":{"deviceClassName":"c"}}]}}}`,
		"ResourceClaimTemplate": `{"spec":{"spec":{"devices":{"requests":[{"name":"a","exactly":{"deviceClassName":"c"}}]}}}}`,
		"ResourceSlice":         `{"spec":{"driver":"a.b","nodeName":"n","pool":{"name":"n","generation":1,"resourceSliceCount":1},"devices":[{"name":"d"}]}}`,
	} {
		objects["resource.k8s.io/v1 "+kind] = []byte(strings.Replace(text, "{", `{"metadata":{"name":"a"},`, 1))
	}
	tested := 0
	for _, r := range resources {
		if !r.Optional {
			continue
		}
		tested++
		for _, media := range []string{runtime.ContentTypeProtobuf, runtime.ContentTypeJSON} {
			t.Run(media+" "+r.GroupVersionResource().String(), func(t *testing.T) {
				var seed map[string]any
				if err := json.Unmarshal(objects[r.Group+"/v1 "+r.Kind], &seed); err != nil {
					t.Fatal(err)
				}
				gv := r.GroupVersionKind().GroupVersion()
				seed["apiVersion"] = gv.String()
				if gv.Group == "resource.k8s.io" && gv.Version == "v1beta1" {
					resource.ToV1beta1(seed)
				}
				text, err := json.Marshal(seed)
				if err != nil {
					t.Fatal(err)
				}
				c := rest.CopyConfig(config)
				c.APIPath, c.GroupVersion = "/apis", &gv
				c.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
				c.ContentType, c.AcceptContentTypes = media, media
				client, err := rest.RESTClientFor(c)
				if err != nil {
					t.Fatal(err)
				}
				(&kindClient{T: t, client: client, known: scheme.Scheme, resource: r, seed: text}).all()
			})
		}
	}
	if tested < 15 {
		t.Errorf("%d resources are enabled", tested)
	}

	c := servertest.Client(t, s, nil)
	for path, want := range map[string]int{
		"/apis/apps/v1/deployments": http.StatusNotFound, "/apis/apps/v1": http.StatusNotFound, "/apis/apps": http.StatusNotFound,
		"/openapi/v3/apis/apps/v1": http.StatusNotFound, "/apis/batch/v1/cronjobs": http.StatusNotFound, "/apis/batch/v1/jobs": http.StatusOK,
		"/apis/networking.k8s.io/v1beta1": http.StatusOK, "/openapi/v3/apis/networking.k8s.io/v1beta1": http.StatusOK,
	} {
		if code, body := servertest.Get(t, s, c, path); code != want {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if _, body := servertest.Get(t, s, c, "/apis/batch/v1"); !strings.Contains(body, `"jobs"`) || strings.Contains(body, `"cronjobs"`) {
		t.Errorf("the resources of batch/v1 are %s", body)
	}
	var group struct {
		Versions         []struct{ Version string }
		PreferredVersion struct{ Version string }
	}
	_, body := servertest.Get(t, s, c, "/apis/admissionregistration.k8s.io")
	if err := json.Unmarshal([]byte(body), &group); err != nil || len(group.Versions) != 3 || group.Versions[1].Version != "v1beta1" || group.PreferredVersion.Version != "v1" {
		t.Errorf("the versions are %s, %v", body, err)
	}
	// Both versions have the same objects.
	for _, version := range []string{"v1", "v1beta1"} {
		if _, body := servertest.Get(t, s, c, "/apis/networking.k8s.io/"+version+"/servicecidrs/kubernetes"); !strings.Contains(body, `"apiVersion":"networking.k8s.io/`+version+`"`) || !strings.Contains(body, `"cidrs":["10.`) {
			t.Errorf("%s: %s", version, body)
		}
	}
	createClaim(t, s, c)
	if _, body := servertest.Get(t, s, c, "/api/v1/namespaces/default/endpoints/kubernetes"); !strings.Contains(body, `"ip":"10.1.2.3"`) {
		t.Errorf("the endpoints are %s", body)
	}
}

// createClaim creates a claim in a version with other fields than the one that is stored.
func createClaim(t *testing.T, s *server.Server, c *http.Client) {
	t.Helper()
	const path = "/namespaces/default/resourceclaims"
	body := `{"metadata":{"name":"b"},"spec":{"devices":{"requests":[{"name":"r","deviceClassName":"c"}]}}}`
	resp, err := c.Post(s.URL()+"/apis/resource.k8s.io/v1beta1"+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	for version, want := range map[string]string{
		"v1beta1": `"requests":[{"name":"r","deviceClassName":"c","allocationMode":"ExactCount","count":1}]`,
		"v1beta2": `"requests":[{"name":"r","exactly":{"deviceClassName":"c","allocationMode":"ExactCount","count":1}}]`,
		"v1":      `"requests":[{"name":"r","exactly":{"deviceClassName":"c","allocationMode":"ExactCount","count":1}}]`,
	} {
		if _, body := servertest.Get(t, s, c, "/apis/resource.k8s.io/"+version+path+"/b"); !strings.Contains(body, want) {
			t.Errorf("%s: %s", version, body)
		}
	}
}
