package aggregator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/transport"

	"espalier.dev/server/namespaces"
)

const (
	// emptyTime limits the time of a request that empties a namespace, and maxList the size of its answer.
	emptyTime = 10 * time.Second
	maxList   = 16 << 20
	// page is the number of objects that are listed.
	page = 500
)

// Empty deletes the objects of other servers in a namespace, and returns what is left. A server that cannot
// be asked may have objects, too.
func (a *Aggregator) Empty(ctx context.Context, namespace string) namespaces.Left {
	left := namespaces.Left{Remaining: map[string]int{}, Finalizers: map[string]int{}}
	remote := a.Remote()
	if remote == nil {
		return left
	}
	t := a.table.Load()
	for _, v := range remote.Versions {
		b := t.backends[v.GroupVersion]
		if b == nil {
			continue // it was just removed
		}
		if v.Stale || !b.available {
			left.Undiscovered = append(left.Undiscovered, v.GroupVersion.String())
			continue
		}
		for _, r := range v.Resources {
			if r.Scope != apidiscoveryv2.ScopeNamespace || !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "delete") {
				continue
			}
			path := "/apis/" + v.Group + "/" + v.Version + "/namespaces/" + url.PathEscape(namespace) + "/" + url.PathEscape(r.Resource)
			if err := a.emptyResource(ctx, b, path, r.Resource+"."+v.Group, slices.Contains(r.Verbs, "deletecollection"), &left); err != nil {
				left.Failures = append(left.Failures, err)
			}
		}
	}
	return left
}

// emptyResource deletes the objects at a path, and adds those that are left.
func (a *Aggregator) emptyResource(ctx context.Context, b *backend, path, name string, collection bool, left *namespaces.Left) error {
	list, err := a.list(ctx, b, path)
	if err != nil || len(list) == 0 {
		return err
	}
	if collection {
		_, err = a.send(ctx, b, http.MethodDelete, path, "propagationPolicy=Background")
	} else {
		for _, one := range list {
			_, failed := a.send(ctx, b, http.MethodDelete, path+"/"+url.PathEscape(one.Name), "propagationPolicy=Background")
			err = errors.Join(err, failed)
		}
	}
	if err != nil {
		return err
	}
	if list, err = a.list(ctx, b, path); err != nil {
		return err
	}
	for _, one := range list {
		left.Remaining[name]++
		for _, f := range one.Finalizers {
			left.Finalizers[f]++
		}
	}
	return nil
}

// list returns the metadata of some objects at a path.
func (a *Aggregator) list(ctx context.Context, b *backend, path string) (all []metav1.ObjectMeta, err error) {
	text, err := a.send(ctx, b, http.MethodGet, path, fmt.Sprintf("limit=%d", page))
	if err != nil {
		return nil, err
	}
	var list struct {
		Items []metav1.PartialObjectMetadata
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, one := range list.Items {
		all = append(all, one.ObjectMeta)
	}
	return all, nil
}

// send sends a request of the namespace controller.
func (a *Aggregator) send(ctx context.Context, b *backend, method, path, query string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, emptyTime)
	defer cancel()
	service := b.service.Spec.Service
	address, err := a.config.Services.ResolveEndpoint(service.Namespace, service.Name, b.port())
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, "https://"+address.Host+path+"?"+query, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json")
	transport.SetAuthProxyHeaders(req, "system:serviceaccount:kube-system:namespace-controller", "",
		[]string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"}, nil)
	resp, err := b.transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxList+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxList:
		return nil, fmt.Errorf("%s: %w: the limit is %d bytes", path, errTooLarge, maxList)
	case resp.StatusCode == http.StatusNotFound && method == http.MethodDelete:
		return nil, nil
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return nil, fmt.Errorf("%s %s: %s", method, path, resp.Status)
	}
	return text, nil
}
