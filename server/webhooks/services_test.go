package webhooks

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
)

// listed are stored objects, by resource.
type listed map[string][]runtime.Object

func (l listed) Get(_ context.Context, gr runtimeschema.GroupResource, namespace, name string) (runtime.Object, error) {
	for _, obj := range l[gr.Resource] {
		if m := obj.(metav1.Object); m.GetNamespace() == namespace && m.GetName() == name {
			return obj, nil
		}
	}
	return nil, apierrors.NewNotFound(gr, name)
}

func (l listed) List(_ context.Context, gr runtimeschema.GroupResource, _ string) ([]runtime.Object, error) {
	return l[gr.Resource], nil
}

func TestResolveEndpoint(t *testing.T) {
	t.Parallel()
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "ns", Name: name} }
	service := func(name string, ports ...corev1.ServicePort) *corev1.Service {
		return &corev1.Service{ObjectMeta: meta(name), Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Ports: ports, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}}}
	}
	slice := func(service string, family discoveryv1.AddressType, port string, number int32, addresses ...string) *discoveryv1.EndpointSlice {
		s := &discoveryv1.EndpointSlice{ObjectMeta: meta(service + "-x"), AddressType: family, Ports: []discoveryv1.EndpointPort{{Name: &port, Port: &number}}}
		s.Labels = map[string]string{discoveryv1.LabelServiceName: service}
		for _, a := range addresses {
			ready := !strings.HasPrefix(a, "!")
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{strings.TrimPrefix(a, "!")}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}})
		}
		return s
	}
	https := corev1.ServicePort{Name: "https", Port: 443}
	objects := listed{
		"services": {
			service("sliced", corev1.ServicePort{Name: "http", Port: 80}, https), service("dual", https), service("empty", https), service("unready", https), service("old", corev1.ServicePort{Port: 443}),
			&corev1.Service{ObjectMeta: meta("external"), Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "hooks.example.com"}},
		},
		"endpointslices": {
			slice("sliced", discoveryv1.AddressTypeIPv4, "http", 1, "10.0.0.1"), slice("sliced", discoveryv1.AddressTypeIPv4, "https", 8443, "!10.0.0.2", "10.0.0.3"),
			slice("dual", discoveryv1.AddressTypeIPv6, "https", 8443, "fd00::1"), slice("unready", discoveryv1.AddressTypeIPv4, "https", 8443, "!10.0.0.2"),
		},
		//lint:ignore SA1019 clients may still create them
		"endpoints": {&corev1.Endpoints{ObjectMeta: meta("old"), Subsets: []corev1.EndpointSubset{{
			Addresses: []corev1.EndpointAddress{{IP: "10.0.0.9"}}, NotReadyAddresses: []corev1.EndpointAddress{{IP: "10.0.0.8"}}, Ports: []corev1.EndpointPort{{Port: 9443}}}}}},
	}
	urls, err := ParseServices([]string{"elsewhere.ns=https://127.0.0.1:9", "plain.ns=https://example.com"})
	if err != nil {
		t.Fatal(err)
	}
	s := &Services{Objects: objects, URLs: urls}
	for _, c := range []struct {
		name string
		port int32
		want string
		err  string
	}{
		{name: "sliced", port: 443, want: "https://10.0.0.3:8443"},
		{name: "sliced", port: 80, want: "https://10.0.0.1:1"},
		{name: "dual", port: 443, want: "https://[fd00::1]:8443"},
		{name: "old", port: 443, want: "https://10.0.0.9:9443"},
		{name: "external", port: 444, want: "https://hooks.example.com:444"},
		{name: "elsewhere", port: 443, want: "https://127.0.0.1:9"},
		{name: "plain", port: 1, want: "https://example.com:443"},
		{name: "sliced", port: 1, err: `no service port 1 found for service "sliced"`},
		{name: "empty", port: 443, err: `no endpoints available for service "empty"`},
		{name: "unready", port: 443, err: `no endpoints available for service "unready"`},
		{name: "missing", port: 443, err: `the service ns/missing has no address: services "missing" not found: create the service with an EndpointSlice on this server, or set --service-resolver=missing.ns=URL`},
	} {
		u, err := s.ResolveEndpoint("ns", c.name, c.port)
		switch {
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s: got error %v, want %s", c.name, err, c.err)
		case c.err == "" && (err != nil || u.String() != c.want):
			t.Errorf("%s: got %v, %v, want %s", c.name, u, err, c.want)
		}
	}
}

func TestParseServices(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a":                          "must be name.namespace=URL",
		"a=https://x":                "must be name.namespace=URL",
		"a.b.c=https://x":            "must be name.namespace=URL",
		"a.b=http://x":               "the URL must be https://host:port",
		"a.b=https://x/path":         "the URL must be https://host:port",
		"a.b=https://x:port":         "invalid port",
		"a.b=https://127.0.0.1:8443": "",
	} {
		_, err := ParseServices([]string{text})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	if _, err := ParseServices([]string{"a.b=https://x", "a.b=https://y"}); err == nil {
		t.Error("a service with two URLs is accepted")
	}
}
