package kinds

import (
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/api/admissionregistration/v1alpha1"
	"k8s.io/api/admissionregistration/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/kinds/kind"
)

// TestOptional makes sure that optional versions have the same fields as those that are stored:
// they are converted field by field.
func TestOptional(t *testing.T) {
	types, err := NewScheme(func(runtimeschema.GroupVersionKind, kind.Object) {}, Optional(All()))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, r := range Optional(All()) {
		if _, fromStored := reshaped(r.GroupVersionKind().GroupVersion()); fromStored != nil {
			continue
		}
		n++
		version, err := types.New(r.GroupVersionKind())
		if err != nil {
			t.Fatal(err)
		}
		stored, err := types.New(r.Stored)
		if err != nil {
			t.Fatal(err)
		}
		if at := differs(reflect.TypeOf(version), reflect.TypeOf(stored), map[reflect.Type]bool{}); at != "" {
			t.Errorf("%s and %s differ at %s", r.GroupVersionKind(), r.Stored, at)
		}
	}
	if n == 0 {
		t.Error("there are no optional versions")
	}
}

// TestParameterNotFoundAction checks the default that references to parameters have in v1alpha1.
func TestParameterNotFoundAction(t *testing.T) {
	types, err := NewScheme(func(runtimeschema.GroupVersionKind, kind.Object) {}, Optional(All()))
	if err != nil {
		t.Fatal(err)
	}
	allow := v1alpha1.AllowAction
	converter := &Converter{Scheme: types}
	for _, test := range []struct {
		in   runtime.Object
		want string
	}{
		{&v1alpha1.MutatingAdmissionPolicyBinding{Spec: v1alpha1.MutatingAdmissionPolicyBindingSpec{ParamRef: &v1alpha1.ParamRef{Name: "a"}}}, "Deny"},
		{&v1alpha1.MutatingAdmissionPolicyBinding{Spec: v1alpha1.MutatingAdmissionPolicyBindingSpec{ParamRef: &v1alpha1.ParamRef{Name: "a", ParameterNotFoundAction: &allow}}}, "Allow"},
		{&v1beta1.MutatingAdmissionPolicyBinding{Spec: v1beta1.MutatingAdmissionPolicyBindingSpec{ParamRef: &v1beta1.ParamRef{Name: "a"}}}, ""},
	} {
		var out v1.MutatingAdmissionPolicyBinding
		if err := converter.Convert(test.in, &out, nil); err != nil {
			t.Fatal(err)
		}
		got := ""
		if action := out.Spec.ParamRef.ParameterNotFoundAction; action != nil {
			got = string(*action)
		}
		if got != test.want {
			t.Errorf("%T: got %q, want %q", test.in, got, test.want)
		}
	}
}

// differs returns the path of the first field that two types do not share.
func differs(a, b reflect.Type, seen map[reflect.Type]bool) string {
	switch {
	case a == b || seen[a]:
		return ""
	case a.Kind() != b.Kind():
		return " (" + a.String() + ", " + b.String() + ")"
	}
	seen[a] = true
	switch a.Kind() {
	case reflect.Pointer, reflect.Slice:
		return differs(a.Elem(), b.Elem(), seen)
	case reflect.Map:
		return differs(a.Key(), b.Key(), seen) + differs(a.Elem(), b.Elem(), seen)
	case reflect.Struct:
		fields := map[string]reflect.StructField{}
		for i := range b.NumField() {
			fields[b.Field(i).Tag.Get("json")] = b.Field(i)
		}
		for i := range a.NumField() {
			f := a.Field(i)
			other, ok := fields[f.Tag.Get("json")]
			if !ok {
				return "." + f.Name
			}
			delete(fields, f.Tag.Get("json"))
			if at := differs(f.Type, other.Type, seen); at != "" {
				return "." + f.Name + at
			}
		}
		for _, f := range fields {
			return "." + f.Name
		}
	}
	return ""
}

// TestServed makes sure that --runtime-config enables and disables what it does in kube-apiserver,
// with its errors.
func TestServed(t *testing.T) {
	const pods, deployments, scale = "v1/pods", "apps/v1/deployments", "apps/v1/replicasets"
	const cidrs, addresses, policies = "networking.k8s.io/v1beta1/servicecidrs", "networking.k8s.io/v1beta1/ipaddresses", "admissionregistration.k8s.io/v1alpha1/mutatingadmissionpolicies"
	for _, test := range []struct {
		config, served, not, missing, err string
	}{
		{config: "", served: pods + " " + deployments, not: cidrs + " " + policies},
		{config: "api/all=true", served: pods + " " + cidrs + " " + policies},
		{config: "api/beta=true", served: pods + " " + cidrs, not: policies},
		{config: "api/alpha=true", served: policies, not: cidrs},
		{config: "api/all=false,api/ga=true", served: pods, not: cidrs},
		{config: "api/all=false,apps/v1=true", served: deployments, not: pods},
		{config: "apps/v1=false", served: pods, not: deployments},
		{config: "/v1=0", served: deployments, not: pods},
		{config: "v1=false,api/legacy=x", served: deployments, not: pods},
		{config: "api/v1=false", served: deployments, not: pods},
		{config: "apps/v1/deployments=false", served: scale, not: deployments},
		{config: "networking.k8s.io/v1beta1", served: cidrs + " " + addresses},
		{config: "networking.k8s.io/v1beta1/servicecidrs=true", served: cidrs, not: addresses},
		{config: "networking.k8s.io/v1beta1=true,networking.k8s.io/v1beta1/servicecidrs=false", served: addresses, not: cidrs},
		{config: "batch/v1beta1=true,coordination.k8s.io/v1beta1/leasecandidates=true,extensions/v1beta1=false", served: pods,
			missing: "batch/v1beta1 coordination.k8s.io/v1beta1/leasecandidates"},
		{config: "api/all=false", err: "invalid runtime-config with only api/all=false"},
		{config: "api/all=yes", err: "invalid value api/all=yes"},
		{config: "apps/v1=yes", err: `invalid value of apps/v1: yes, err: strconv.ParseBool: parsing "yes": invalid syntax`},
		{config: "apps/v9=true", err: "group version apps/v9 that has not been registered"},
		{config: "none/v1=true,none.io/v1=true", err: "unknown api groups none.io/v1,none/v1"},
		{config: "apps=true", err: "runtime-config invalid key apps"},
		{config: "apps/v1/Deployments=true", err: `invalid key apps/v1/Deployments: group/version/resource and resource is always lowercase plural, not "Deployments"`},
	} {
		config := map[string]string{}
		for _, pair := range strings.Split(test.config, ",") {
			if key, value, _ := strings.Cut(pair, "="); key != "" {
				config[key] = value
			}
		}
		resources, missing, err := Served(config)
		if err != nil || test.err != "" {
			if err == nil || err.Error() != test.err {
				t.Errorf("%s: got error %v, want %s", test.config, err, test.err)
			}
			continue
		}
		if got := strings.Join(missing, " "); got != test.missing {
			t.Errorf("%s: missing are %q, want %q", test.config, got, test.missing)
		}
		served := map[string]bool{}
		for _, r := range resources {
			served[r.GroupVersionKind().GroupVersion().String()+"/"+r.Plural] = true
		}
		for _, name := range strings.Fields(test.served) {
			if !served[name] {
				t.Errorf("%s: %s is not served", test.config, name)
			}
		}
		for _, name := range strings.Fields(test.not) {
			if served[name] {
				t.Errorf("%s: %s is served", test.config, name)
			}
		}
	}
}
