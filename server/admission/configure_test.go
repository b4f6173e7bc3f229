package admission_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	mutatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	validatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"

	"espalier.dev/schema"
	dynamic "espalier.dev/server/admission"
	"espalier.dev/server/servertest"
	"espalier.dev/store"
)

// TestConfigure checks the parts of --admission-control-config-file that the plugins accept.
func TestConfigure(t *testing.T) {
	t.Parallel()
	const (
		valid   = "apiVersion: apiserver.config.k8s.io/v1\nkind: WebhookAdmissionConfiguration\nkubeConfigFile: /a\n"
		invalid = "apiVersion: apiserver.config.k8s.io/v1\nkind: Other\n"
	)
	static := valid + "staticManifestsDir: " + t.TempDir() + "\n"
	for _, test := range []struct{ plugin, file, says string }{
		{mutating.PluginName, "", ""},
		{mutating.PluginName, "a: b", "static policies is not supported"},
		{validating.PluginName, "", ""},
		{validating.PluginName, "a: b", "static policies is not supported"},
		{validating.PluginName, "a", "static policies is not supported"},
		{mutatingwebhook.PluginName, "", ""},
		{mutatingwebhook.PluginName, valid, ""},
		{mutatingwebhook.PluginName, static, "staticManifestsDir is not supported"},
		{mutatingwebhook.PluginName, invalid, "no kind"},
		{validatingwebhook.PluginName, "", ""},
		{validatingwebhook.PluginName, valid, ""},
		{validatingwebhook.PluginName, static, "staticManifestsDir is not supported"},
		{"Nothing", "", `there is no plugin "Nothing"`},
	} {
		p, err := dynamic.New(dynamic.Config{Store: &store.Store{}}).Plugin(test.plugin, []byte(test.file))
		if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) || err == nil && p == nil {
			t.Errorf("%s %s: %v, %v", test.plugin, test.file, p, err)
		}
	}
}

// TestDisabledPolicies checks that the plugin of mutating policies handles nothing if its feature gate is off.
func TestDisabledPolicies(t *testing.T) {
	for _, enabled := range []bool{true, false} {
		featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.MutatingAdmissionPolicy, enabled)
		p, err := dynamic.New(dynamic.Config{Store: &store.Store{}}).Plugin(mutating.PluginName, nil)
		if err != nil || p.Handles(admission.Create) != enabled {
			t.Errorf("%v: got %v, %v", enabled, p, err)
		}
	}
}

// TestUnreadableConfigurations checks that requests are rejected while a stored configuration cannot be
// read, and that configurations can be repaired then.
func TestUnreadableConfigurations(t *testing.T) {
	t.Parallel()
	p := servertest.Serve(t, schema.Kubernetes)
	const api = "/apis/admissionregistration.k8s.io/v1/"
	written := func(unreadable string) {
		t.Helper()
		servertest.Eventually(t, func() error {
			code, text := servertest.Exchange(t, p.Client, http.MethodPost, p.URL()+"/api/v1/namespaces/default/configmaps", `{"metadata":{"generateName":"a-"}}`)
			if unreadable == "" && code == http.StatusCreated || unreadable != "" && code == http.StatusInternalServerError &&
				strings.Contains(text, "the stored object "+unreadable+" cannot be read, so requests cannot be admitted: delete it or restore it") {
				return nil
			}
			return fmt.Errorf("%d %s", code, text)
		})
	}
	remove := func(key string) {
		t.Helper()
		if _, err := p.Etcd().Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		written("")
	}
	put := func(key string) {
		t.Helper()
		if _, err := p.Etcd().Put(t.Context(), key, "x"); err != nil {
			t.Fatal(err)
		}
	}
	for resource, spec := range map[string]string{"mutatingwebhookconfigurations": "", "validatingwebhookconfigurations": "",
		"mutatingadmissionpolicybindings": `,"spec":{"policyName":"none"}`, "validatingadmissionpolicybindings": `,"spec":{"policyName":"none","validationActions":["Deny"]}`} {
		key := "/registry/" + resource + "/broken"
		put(key)
		written(key)
		p.Must(http.StatusCreated, http.MethodPost, api+resource, `{"metadata":{"name":"good"}`+spec+`}`)
		remove(key)
	}
	// Policies that cannot be read matter if there are bindings.
	const policy = "/registry/validatingadmissionpolicies/p"
	put(policy)
	written(policy)
	remove(policy)
}
