package aggregator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/client-go/transport"

	"espalier.dev/server/namespaces"
	"espalier.dev/server/publish"
)

const (
	// emptyTotal limits the time for the objects of a namespace, emptyTime that of a request, and maxList the
	// size of its answer.
	emptyTotal = 20 * time.Second
	emptyTime  = 10 * time.Second
	maxList    = 16 << 20
	// page is the number of objects that are listed, and maxItems that which is taken from a server that lists
	// more: the rest is deleted the next time.
	page     = 500
	maxItems = 10_000
	// maxFinalizers limits the size of the finalizers of an object, as JSON, and maxNames the number of
	// different finalizers that are reported for a version.
	maxFinalizers = 64 << 10
	maxNames      = 1000
	// maxErrors is the number of errors that are reported for a resource, and maxPath limits the length of a path in
	// an error: it may end with a name that another server has made up.
	maxErrors = 3
	maxPath   = 512
	// emptied is the number of versions that are emptied at a time.
	emptied = 8
)

// unreachableError is the error of a server that did not answer.
type unreachableError struct{ error }

// statusError is the error of a request with an unsuccessful answer.
type statusError struct {
	request string
	code    int
}

func (e *statusError) Error() string {
	// The text of the status is that of another server, and of any length.
	return fmt.Sprintf("%s: %d %s", e.request, e.code, http.StatusText(e.code))
}

// unsupported reports whether a server answered that it does not support a request, or does not have the
// resource. As in kube-controller-manager, it need not support what its discovery document lists.
func unsupported(err error) bool {
	var e *statusError
	return errors.As(err, &e) && (e.code == http.StatusNotFound || e.code == http.StatusMethodNotAllowed)
}

// Empty deletes the objects of other servers in a namespace, and returns what is left. A server that cannot
// be asked may have objects, too. The goroutines that it starts end before it returns.
func (a *Aggregator) Empty(ctx context.Context, namespace string) namespaces.Left {
	left := namespaces.Left{Remaining: map[string]int{}, Finalizers: map[string]int{}}
	remote := a.Remote()
	if remote == nil {
		return left
	}
	ctx, cancel := context.WithTimeout(ctx, emptyTotal)
	defer cancel()
	t := a.table.Load()
	var mu sync.Mutex // of left
	var group sync.WaitGroup
	slots := make(chan struct{}, emptied)
	for i := range remote.Versions {
		v := &remote.Versions[i]
		b := t.backends[v.GroupVersion]
		if b == nil {
			continue // it was just removed
		}
		if v.Stale || !b.available {
			left.Undiscovered = append(left.Undiscovered, v.GroupVersion.String())
			continue
		}
		group.Go(func() {
			one := namespaces.Left{Remaining: map[string]int{}, Finalizers: map[string]int{}}
			select {
			case slots <- struct{}{}:
				a.emptyVersion(ctx, b, v, namespace, &one)
				<-slots
			case <-ctx.Done():
				one.Failures = append(one.Failures, fmt.Errorf("%s: %w", v.GroupVersion, ctx.Err()))
			}
			mu.Lock()
			defer mu.Unlock()
			left.Failures = append(left.Failures, one.Failures...)
			for name, n := range one.Remaining {
				left.Remaining[name] += n
			}
			for name, n := range one.Finalizers {
				left.Finalizers[name] += n
			}
		})
	}
	group.Wait()
	slices.SortFunc(left.Failures, func(x, y error) int { return strings.Compare(x.Error(), y.Error()) })
	return left
}

// emptyVersion deletes the objects of a version, and adds what is left. It stops when the server does not
// answer: each of its resources would take as long.
func (a *Aggregator) emptyVersion(ctx context.Context, b *backend, v *publish.RemoteVersion, namespace string, left *namespaces.Left) {
	for _, r := range v.Resources {
		if r.Scope != apidiscoveryv2.ScopeNamespace || !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "delete") {
			continue
		}
		path := "/apis/" + v.Group + "/" + v.Version + "/namespaces/" + url.PathEscape(namespace) + "/" + url.PathEscape(r.Resource)
		err := a.emptyResource(ctx, b, path, r.Resource+"."+v.Group, slices.Contains(r.Verbs, "deletecollection"), left)
		if err != nil {
			left.Failures = append(left.Failures, err)
		}
		if errors.As(err, new(unreachableError)) {
			return
		}
	}
}

// emptyResource deletes the objects at a path, and adds those that are left.
func (a *Aggregator) emptyResource(ctx context.Context, b *backend, path, name string, collection bool, left *namespaces.Left) error {
	list, err := a.list(ctx, b, path)
	if err != nil || len(list) == 0 {
		return err
	}
	if collection {
		_, err = a.send(ctx, b, http.MethodDelete, path, "propagationPolicy=Background")
	}
	if !collection || unsupported(err) {
		err = a.deleteEach(ctx, b, path, list)
	}
	if err != nil {
		return err
	}
	if list, err = a.list(ctx, b, path); err != nil {
		return err
	}
	for _, one := range list {
		left.Remaining[name]++
		for _, f := range one.Metadata.Finalizers {
			if left.Finalizers[f] > 0 || len(left.Finalizers) < maxNames {
				left.Finalizers[f]++
			}
		}
	}
	return nil
}

// deleteEach deletes objects one by one. Those that the server does not delete are left. It returns the first
// errors, and their number: there may be one for each object.
func (a *Aggregator) deleteEach(ctx context.Context, b *backend, path string, list []item) error {
	var errs []error
	more := 0
	for _, one := range list {
		_, err := a.send(ctx, b, http.MethodDelete, path+"/"+url.PathEscape(one.Metadata.Name), "propagationPolicy=Background")
		switch {
		case err == nil || unsupported(err):
		case errors.As(err, new(unreachableError)):
			return err // the reason why the others are left, too
		case len(errs) < maxErrors:
			errs = append(errs, err)
		default:
			more++
		}
	}
	if more > 0 {
		errs = append(errs, fmt.Errorf("%d more objects could not be deleted", more))
	}
	return errors.Join(errs...)
}

// item is what has to be known of an object: the metadata of a hostile server could need a hundred times the
// memory of its text.
type item struct {
	Metadata struct {
		Name       string
		Finalizers finalizers
	}
}

// finalizers are the finalizers of an object.
type finalizers []string

// UnmarshalJSON decodes finalizers of a limited size.
func (f *finalizers) UnmarshalJSON(text []byte) error {
	if len(text) > maxFinalizers {
		return fmt.Errorf("the finalizers of an object: %w: the limit is %d bytes", errTooLarge, maxFinalizers)
	}
	return json.Unmarshal(text, (*[]string)(f))
}

// items are the first objects of a list, at most maxItems.
type items []item

// UnmarshalJSON decodes one object at a time, and no more than maxItems.
func (list *items) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	start, err := d.Token()
	if err != nil || start == nil {
		return err
	}
	if start != json.Delim('[') {
		return errors.New("the items are no array")
	}
	for d.More() && len(*list) < maxItems {
		var one item
		if err := d.Decode(&one); err != nil {
			return err
		}
		*list = append(*list, one)
	}
	return nil
}

// list returns the first objects at a path.
func (a *Aggregator) list(ctx context.Context, b *backend, path string) ([]item, error) {
	text, err := a.send(ctx, b, http.MethodGet, path, fmt.Sprintf("limit=%d", page))
	if unsupported(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list struct{ Items items }
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return list.Items, nil
}

// send sends a request of the namespace controller. An error is a statusError or an unreachableError, or
// about the size of the answer.
func (a *Aggregator) send(ctx context.Context, b *backend, method, path, query string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, emptyTime)
	defer cancel()
	request := method + " " + path[:min(len(path), maxPath)]
	service := b.service.Spec.Service
	address, err := a.config.Services.ResolveEndpoint(service.Namespace, service.Name, b.port())
	if err != nil {
		return nil, unreachableError{err}
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
		return nil, unreachableError{fmt.Errorf("%s: %w", request, err)}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxList+1))
	switch {
	case err != nil:
		return nil, unreachableError{fmt.Errorf("%s: %w", request, err)}
	case len(text) > maxList:
		return nil, fmt.Errorf("%s: %w: the limit is %d bytes", request, errTooLarge, maxList)
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return nil, &statusError{request: request, code: resp.StatusCode}
	}
	return text, nil
}
