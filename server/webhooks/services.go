package webhooks

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/util/webhook"
)

// Lister reads stored objects.
type Lister interface {
	// Get returns an object. The error of an object that does not exist is a NotFound error.
	Get(ctx context.Context, resource runtimeschema.GroupResource, namespace, name string) (runtime.Object, error)
	// List returns all objects of a resource in a namespace.
	List(ctx context.Context, resource runtimeschema.GroupResource, namespace string) ([]runtime.Object, error)
}

// Services finds the addresses of services. Nothing routes cluster IPs to this server's pods, so
// a webhook is called at one of the endpoints of its service.
type Services struct {
	// Objects has the services and their endpoints.
	Objects Lister
	// URLs has the addresses of services that are elsewhere, by name.namespace. They take
	// precedence.
	URLs map[string]*url.URL
}

var _ webhook.ServiceResolver = &Services{}

// lookupTimeout limits the lookup of a service.
const lookupTimeout = 10 * time.Second

// ParseServices parses assignments of the form name.namespace=URL.
func ParseServices(assignments []string) (map[string]*url.URL, error) {
	urls := map[string]*url.URL{}
	var errs []error
	for _, a := range assignments {
		service, text, ok := strings.Cut(a, "=")
		name, namespace, named := strings.Cut(service, ".")
		u, err := url.Parse(text)
		switch {
		case !ok || !named || name == "" || namespace == "" || strings.Contains(namespace, "."):
			errs = append(errs, fmt.Errorf("%q: must be name.namespace=URL", a))
		case err != nil:
			errs = append(errs, fmt.Errorf("%q: %w", a, err))
		case u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "":
			errs = append(errs, fmt.Errorf("%q: the URL must be https://host:port", a))
		case urls[service] != nil:
			errs = append(errs, fmt.Errorf("%q: the service has two URLs", a))
		default:
			urls[service] = u
		}
	}
	return urls, errors.Join(errs...)
}

// ResolveEndpoint returns the address of a service: that of ParseServices, the external name, or
// one of the ready endpoints, at random.
func (s *Services) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	if u := s.URLs[name+"."+namespace]; u != nil {
		host := u.Host
		if u.Port() == "" {
			host = net.JoinHostPort(u.Hostname(), "443")
		}
		return &url.URL{Scheme: "https", Host: host}, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	host, err := s.endpoint(ctx, namespace, name, port)
	if err != nil {
		return nil, fmt.Errorf("the service %s/%s has no address: %w: create the service with an EndpointSlice on this server, or set --service-resolver=%s.%s=URL", namespace, name, err, name, namespace)
	}
	return &url.URL{Scheme: "https", Host: host}, nil
}

func (s *Services) endpoint(ctx context.Context, namespace, name string, port int32) (string, error) {
	obj, err := s.Objects.Get(ctx, runtimeschema.GroupResource{Resource: "services"}, namespace, name)
	if err != nil {
		return "", err
	}
	service, ok := obj.(*corev1.Service)
	if !ok {
		return "", fmt.Errorf("%T is not a service", obj)
	}
	if service.Spec.Type == corev1.ServiceTypeExternalName {
		return net.JoinHostPort(service.Spec.ExternalName, strconv.Itoa(int(port))), nil
	}
	i := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == port })
	if i < 0 {
		return "", fmt.Errorf("no service port %d found for service %q", port, name)
	}
	list, err := s.endpointSlices(ctx, namespace, name)
	if err != nil {
		return "", err
	}
	preferred := discoveryv1.AddressType("")
	if len(service.Spec.IPFamilies) > 0 {
		preferred = discoveryv1.AddressType(service.Spec.IPFamilies[0])
	}
	all := addresses(list, service.Spec.Ports[i].Name, preferred)
	if len(all) == 0 {
		all = addresses(list, service.Spec.Ports[i].Name, "")
	}
	if len(all) == 0 {
		return "", fmt.Errorf("no endpoints available for service %q", name)
	}
	return all[rand.IntN(len(all))], nil
}

// addresses returns the addresses of the ready endpoints with a port, of an address type or of
// all.
func addresses(list []*discoveryv1.EndpointSlice, port string, only discoveryv1.AddressType) (all []string) {
	for _, slice := range list {
		if only != "" && slice.AddressType != only {
			continue
		}
		for _, p := range slice.Ports {
			if p.Port == nil || p.Name == nil && port != "" || p.Name != nil && *p.Name != port {
				continue
			}
			for _, e := range slice.Endpoints {
				if len(e.Addresses) > 0 && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
					all = append(all, net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(*p.Port))))
				}
			}
		}
	}
	return all
}

// endpointSlices returns the endpoint slices of a service. Without any, they are those that
// Kubernetes would make of its Endpoints.
func (s *Services) endpointSlices(ctx context.Context, namespace, name string) (list []*discoveryv1.EndpointSlice, err error) {
	all, err := s.Objects.List(ctx, runtimeschema.GroupResource{Group: discoveryv1.GroupName, Resource: "endpointslices"}, namespace)
	if err != nil {
		return nil, err
	}
	for _, obj := range all {
		if slice, ok := obj.(*discoveryv1.EndpointSlice); ok && slice.Labels[discoveryv1.LabelServiceName] == name {
			list = append(list, slice)
		}
	}
	if len(list) > 0 {
		return list, nil
	}
	obj, err := s.Objects.Get(ctx, runtimeschema.GroupResource{Resource: "endpoints"}, namespace, name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	//lint:ignore SA1019 clients may still create them
	endpoints, ok := obj.(*corev1.Endpoints)
	if !ok {
		return nil, fmt.Errorf("%T has no endpoints", obj)
	}
	for _, subset := range endpoints.Subsets {
		slice := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4}
		for _, p := range subset.Ports {
			slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &p.Name, Port: &p.Port})
		}
		for _, a := range subset.Addresses {
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{a.IP}})
		}
		list = append(list, slice)
	}
	return list, nil
}
