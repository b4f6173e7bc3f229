package definitions

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/filters"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"espalier.dev/api/codec"
)

// send sends a request to the handler of resources.
func (u *unit) send(method, path, contentType, body string) *httptest.ResponseRecorder {
	req := httptest.NewRequestWithContext(u.t.Context(), method, "/apis/apiextensions.k8s.io/"+path, strings.NewReader(body))
	req.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	h := filters.WithRequestInfo(filters.WithWarningRecorder(u.handler), &apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")})
	h.ServeHTTP(w, req.WithContext(apirequest.WithUser(audit.WithAuditContext(req.Context()), &user.DefaultInfo{Name: "tester"})))
	return w
}

// TestWrites sends writes of CRDs, each of which is in the catalog when it is answered.
func TestWrites(t *testing.T) {
	t.Parallel()
	u := newUnit(t, newDB(t), nil)
	u.run()
	const json, merge, crds = "application/json", "application/merge-patch+json", "v1/customresourcedefinitions"
	c := widgetsWith(nil)
	c.UID, c.Generation = "", 0
	data, err := codec.Encode(c, "apiextensions.k8s.io/v1")
	if err != nil {
		t.Fatal(err)
	}
	served := func(version string) bool {
		d := u.Catalog().Get(widgets)
		return d != nil && d.Version(version) != nil && d.Version(version).Served()
	}
	for _, step := range []struct {
		method, path, contentType, body string
		code                            int
		v1                              bool // whether v1 is served afterwards
		contains                        string
	}{
		{http.MethodPost, crds + "?dryRun=All", json, string(data), http.StatusCreated, false, widgets},
		{http.MethodPost, crds, json, string(data), http.StatusCreated, true, widgets},
		{http.MethodPost, crds, json, string(data), http.StatusConflict, true, "already exists"},
		{http.MethodPatch, crds + "/" + widgets + "?dryRun=All", merge, `{"spec":{"versions":[{"name":"v1","served":false,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`, http.StatusOK, true, `"served":false`},
		{http.MethodPatch, crds + "/" + widgets, merge, `{"spec":{"versions":[{"name":"v1","served":false,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`, http.StatusOK, false, `"served":false`},
		{http.MethodPatch, crds + "/" + widgets, merge, `{"spec":{"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`, http.StatusOK, true, `"served":true`},
		{http.MethodPatch, crds + "/" + widgets + "/status", merge, `{"spec":{"scope":"Cluster"},"status":{"storedVersions":["v1","v1"]}}`, http.StatusOK, true, `"storedVersions":["v1","v1"]`},
		{http.MethodGet, crds + "/" + widgets + "/status", "", "", http.StatusOK, true, `"scope":"Namespaced"`},
		{http.MethodGet, "v1beta1/customresourcedefinitions/" + widgets, "", "", http.StatusOK, true, `"validation":`},
		{http.MethodPatch, crds + "/others.example.com/status", merge, `{}`, http.StatusNotFound, true, "not found"},
		{http.MethodPatch, crds + "/" + widgets, "application/strategic-merge-patch+json", `{"metadata":{"labels":{"a":"b"}}}`, http.StatusOK, true, `"a":"b"`},
		{http.MethodPatch, crds + "/" + widgets, "application/strategic-merge-patch+json", `{"metadata":{"labels":{"$patch":"replace","c":"d"}}}`, http.StatusOK, true, `"labels":{"c":"d"}`},
		{http.MethodPatch, crds + "/" + widgets, "application/strategic-merge-patch+json", `{"$patch":"x"}`, http.StatusInternalServerError, true, "unknown patch type"},
		{http.MethodDelete, crds + "/" + widgets, json, `{}`, http.StatusOK, false, `"deletionTimestamp"`},
	} {
		w := u.send(step.method, step.path, step.contentType, step.body)
		if w.Code != step.code || !strings.Contains(w.Body.String(), step.contains) {
			t.Errorf("%s %s: %d %s", step.method, step.path, w.Code, w.Body)
		}
		if step.method != http.MethodDelete && served("v1") != step.v1 {
			t.Errorf("%s %s %s: v1 is served: %v", step.method, step.path, step.body, !step.v1)
		}
	}
	u.eventually("it is gone", func() bool { return u.Catalog().Get(widgets) == nil })
}
