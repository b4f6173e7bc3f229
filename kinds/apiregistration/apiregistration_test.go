package apiregistration_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"espalier.dev/kinds/apiregistration"
	"espalier.dev/kinds/kind/kindtest"
)

func TestAPIServices(t *testing.T) {
	t.Parallel()
	type service = *apiregistrationv1.APIService
	rules := apiregistration.Rules()["apiservices"]
	valid := &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1.example.com"},
		Spec:       apiregistrationv1.APIServiceSpec{Group: "example.com", Version: "v1", GroupPriorityMinimum: 20000, VersionPriority: 1000},
		Status:     apiregistrationv1.APIServiceStatus{Conditions: []apiregistrationv1.APIServiceCondition{{Type: "x", Status: "y"}}},
	}
	create := kindtest.Create(t, rules, valid)
	if c := create(func(service) {}).Status.Conditions; len(c) != 1 || c[0].Type != "Available" || c[0].Status != "True" || c[0].Reason != "Local" {
		t.Errorf("the status of a local service: %+v", c)
	}
	remote := func(s service) { s.Spec.Service = &apiregistrationv1.ServiceReference{Namespace: "a", Name: "b"} }
	if s := create(remote); len(s.Status.Conditions) != 0 || *s.Spec.Service.Port != 443 {
		t.Errorf("a service of another server: %+v", s)
	}
	create(func(s service) { s.Name = "v2.example.com" },
		"metadata.name: Invalid value: \"v2.example.com\": must be `spec.version+\".\"+spec.group`: \"v1.example.com\"")
	create(func(s service) { s.Name, s.Spec.Group = "v1.", "" })
	create(func(s service) { s.Name, s.Spec.Group, s.Spec.Version = "v2.", "", "v2" },
		"spec.group: Required value: only v1 may have an empty group and it better be legacy kube")
	create(func(s service) {
		s.Spec.GroupPriorityMinimum, s.Spec.VersionPriority = 20001, 0
		s.Spec.CABundle, s.Spec.InsecureSkipTLSVerify = []byte("x"), true
	},
		"spec.groupPriorityMinimum: Invalid value: 20001: must be positive and less than 20000",
		"spec.versionPriority: Invalid value: 0: must be positive and less than 1000",
		`spec.caBundle: Invalid value: "1 bytes": local APIServices may not have a caBundle`,
		"spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify")
	create(func(s service) {
		s.Spec.Service = &apiregistrationv1.ServiceReference{Port: new(int32(0))}
		s.Spec.CABundle, s.Spec.InsecureSkipTLSVerify = []byte("x"), true
	},
		"spec.service.namespace: Required value",
		"spec.service.name: Required value",
		"spec.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
		"spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present")

	update := kindtest.Update(t, rules, "", valid)
	if s := update(func(s service) { s.Status.Conditions = nil }); len(s.Status.Conditions) != 1 {
		t.Error("an update has changed the status")
	}
	status := kindtest.Update(t, rules, "status", valid)
	status(func(s service) { s.Status.Conditions[0].Status = "" },
		`status.conditions[0].status: Unsupported value: "": supported values: "True", "False", "Unknown"`)
	s := status(func(s service) {
		s.Spec.VersionPriority, s.Labels = 1, map[string]string{"a": "b"}
		s.Status.Conditions[0].Status = "False"
	})
	if s.Spec.VersionPriority != 1000 || s.Labels != nil || s.Status.Conditions[0].Status != "False" {
		t.Errorf("an update of the status: %+v", s)
	}
}
