package aggregator

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"sync"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/transport"
	"k8s.io/klog/v2"
	"k8s.io/kube-openapi/pkg/handler3"

	"espalier.dev/server/publish"
)

const (
	// refreshInterval is the time after which documents of other servers are fetched again, as in
	// kube-apiserver. After a failure they are fetched earlier, after a pause that doubles.
	refreshInterval = time.Minute
	firstPause      = 500 * time.Millisecond
	// fetchTime limits the time for the documents of a version.
	fetchTime = 5 * time.Second
	// fetches is the number of servers that are asked at a time.
	fetches = 4
	// maxDiscovery limits the size of a discovery document, and maxResources the number of resources and
	// subresources of a version: they are part of a document that all clients read.
	maxDiscovery = 4 << 20
	maxResources = 5000
	// maxObjects limits the number of objects and arrays in a document, and maxMembers that of their members: the
	// struct for an empty object needs hundreds of times the memory of its two bytes. The OpenAPI v2 document
	// of this server has 17,000 and 31,000.
	maxObjects, maxMembers = 100_000, 400_000
	// checkUser is who asks other servers for their discovery documents.
	checkUser = "system:kube-aggregator"
)

// discoverer knows what other servers serve. A goroutine, run, asks them; it starts others that end within
// fetchTime, and waits for them.
type discoverer struct {
	a    *Aggregator
	wake chan struct{} // has an element if there may be something to fetch
	// parsing is held while an OpenAPI v2 document is parsed.
	parsing sync.Mutex

	mu    sync.Mutex
	table *table
	known map[runtimeschema.GroupVersion]*documents
}

// documents are what a server has told about a version, and when it is asked again.
type documents struct {
	// of is the server that was asked.
	of *backend
	// fetching is set while it is asked.
	fetching bool
	due      time.Time
	pause    time.Duration

	resources []apidiscoveryv2.APIResourceDiscovery
	current   bool
	openapi   string // the hash of the OpenAPI v3 document
	swagger   swagger
}

// swagger is what an OpenAPI v2 document says about a version, with the ETag of the document.
type swagger struct {
	etag string
	part *publish.RemoteSwagger
}

func newDiscoverer(a *Aggregator) *discoverer {
	return &discoverer{a: a, wake: make(chan struct{}, 1), known: map[runtimeschema.GroupVersion]*documents{}}
}

// update takes in the servers of a table.
func (d *discoverer) update(t *table) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.table = t
	for gv, known := range d.known {
		b := t.backends[gv]
		switch {
		case b == nil:
			delete(d.known, gv)
		case b == known.of:
		case !b.available || b.transport != known.of.transport || !reflect.DeepEqual(b.service.Spec.Service, known.of.service.Spec.Service):
			delete(d.known, gv) // as in kube-apiserver, what an unavailable server has told is forgotten
		default:
			known.of, known.due = b, time.Time{}
		}
	}
	for gv, b := range t.backends {
		if d.known[gv] == nil {
			d.known[gv] = &documents{of: b}
		}
	}
	d.publish()
	d.notify()
}

func (d *discoverer) notify() {
	select {
	case d.wake <- struct{}{}:
	default: // it will be looked at
	}
}

// publish makes what is known visible. mu is held.
func (d *discoverer) publish() {
	if len(d.table.backends) == 0 {
		if d.a.remote.Load() != nil {
			d.a.remote.Store(nil)
		}
		return
	}
	next := &publish.Remote{}
	for _, b := range d.table.sorted() {
		known := d.known[b.groupVersion()]
		next.Versions = append(next.Versions, publish.RemoteVersion{
			GroupVersion: b.groupVersion(), GroupPriority: b.service.Spec.GroupPriorityMinimum,
			VersionPriority: b.service.Spec.VersionPriority,
			Resources:       known.resources, Stale: !known.current || !b.available, OpenAPI: known.openapi, Swagger: known.swagger.part,
		})
	}
	if before := d.a.remote.Load(); before == nil || !reflect.DeepEqual(before, next) {
		d.a.remote.Store(next)
	}
}

// run asks other servers until ctx ends.
func (d *discoverer) run(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	slots := make(chan struct{}, fetches)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		due, next := d.next(time.Now())
		for gv, one := range due {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			group.Go(func() {
				defer func() { <-slots }()
				d.fetch(ctx, gv, one)
			})
		}
		timer.Reset(next)
		select {
		case <-timer.C:
		case <-d.wake:
		case <-ctx.Done():
			return
		}
	}
}

// asked is a server that has to be asked, and the documents that its answer replaces.
type asked struct {
	known   *documents
	of      *backend
	swagger swagger // the one that is known
}

// next returns the servers that have to be asked now, and the time until the next one has to be.
func (d *discoverer) next(now time.Time) (due map[runtimeschema.GroupVersion]asked, wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	due, wait = map[runtimeschema.GroupVersion]asked{}, refreshInterval
	for gv, known := range d.known {
		switch {
		case known.fetching || !known.of.available || known.of.err != nil:
		case !known.due.After(now):
			known.fetching = true
			due[gv] = asked{known: known, of: known.of, swagger: known.swagger}
		default:
			wait = min(wait, known.due.Sub(now))
		}
	}
	return due, wait
}

// fetch asks a server for its documents of a version.
func (d *discoverer) fetch(ctx context.Context, gv runtimeschema.GroupVersion, one asked) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	known, b := one.known, one.of
	resources, err := d.a.fetchResources(ctx, gv, b)
	openapi, v2 := "", swagger{}
	if err == nil {
		openapi = d.a.fetchHash(ctx, gv, b)
		v2 = d.a.fetchSwagger(ctx, gv, b, one.swagger)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known[gv] != known {
		return // the API service was deleted, or is that of another server
	}
	known.fetching = false
	defer d.notify()
	if known.of != b {
		known.due = time.Time{} // the API service has changed
	} else if err != nil {
		known.pause = min(max(2*known.pause, firstPause), refreshInterval)
		known.due = time.Now().Add(known.pause)
	} else {
		known.pause, known.due = 0, time.Now().Add(refreshInterval)
	}
	known.current = err == nil
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Cannot read the discovery document of another server", "groupVersion", gv.String(), "reason", err.Error())
		known.resources, known.openapi, known.swagger = nil, "", swagger{}
	} else {
		known.resources, known.openapi, known.swagger = resources, openapi, v2
	}
	d.publish()
}

// errTooLarge is returned for documents that are larger than they may be.
var errTooLarge = errors.New("the document is too large")

// get returns a document of another server, of a limited size, and its content type. A redirect is an error.
func (a *Aggregator) get(ctx context.Context, b *backend, path, accept string, limit int64) (text []byte, contentType string, err error) {
	text, header, err := a.getUnless(ctx, b, path, accept, "", limit)
	return text, header.Get("Content-Type"), err
}

// errSame is returned for documents that have the ETag that is known.
var errSame = errors.New("the document has not changed")

// getUnless returns a document and the header of the response, unless the document has an ETag.
func (a *Aggregator) getUnless(ctx context.Context, b *backend, path, accept, etag string, limit int64) (text []byte, header http.Header, err error) {
	service := b.service.Spec.Service
	address, err := a.config.Services.ResolveEndpoint(service.Namespace, service.Name, b.port())
	if err != nil {
		return nil, nil, err
	}
	u := url.URL{Scheme: "https", Host: address.Host, Path: path}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Accept", accept)
	if etag != "" {
		req.Header.Set("If-None-Match", etag)
	}
	transport.SetAuthProxyHeaders(req, checkUser, "", []string{"system:masters"}, nil)
	resp, err := b.transport.RoundTrip(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	if etag != "" && resp.StatusCode == http.StatusNotModified {
		return nil, nil, errSame
	}
	if resp.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("%s: %s", path, resp.Status)
	}
	text, err = io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s: %w: the limit is %d bytes", path, errTooLarge, limit)
	}
	if err == nil && (bytes.Count(text, []byte("{"))+bytes.Count(text, []byte("[")) > maxObjects || bytes.Count(text, []byte(",")) > maxMembers) {
		err = fmt.Errorf("%s: %w: the limits are %d objects and arrays, and %d members", path, errTooLarge, maxObjects, maxMembers)
	}
	return text, resp.Header, err
}

// acceptV2 asks for the aggregated list as JSON.
const acceptV2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// fetchResources returns the resources of a version. It takes nothing else from the documents of another
// server.
func (a *Aggregator) fetchResources(ctx context.Context, gv runtimeschema.GroupVersion, b *backend) ([]apidiscoveryv2.APIResourceDiscovery, error) {
	text, contentType, err := a.get(ctx, b, "/apis", acceptV2, maxDiscovery)
	isList, _ := discovery.ContentTypeIsGVK(contentType, apidiscoveryv2.SchemeGroupVersion.WithKind("APIGroupDiscoveryList"))
	if err != nil || !isList {
		// An older server, or one that serves nothing but its version.
		return a.fetchOldResources(ctx, gv, b)
	}
	var list apidiscoveryv2.APIGroupDiscoveryList
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, err
	}
	for _, g := range list.Items {
		if g.Name != gv.Group {
			continue
		}
		for _, v := range g.Versions {
			if v.Version == gv.Version {
				return complete(v.Resources)
			}
		}
	}
	return nil, nil // as in kube-apiserver, a version that the server does not list has no resources
}

// complete checks the resources of another server. Some clients need the kinds that may be missing.
func complete(resources []apidiscoveryv2.APIResourceDiscovery) ([]apidiscoveryv2.APIResourceDiscovery, error) {
	n := len(resources)
	for i := range resources {
		n += len(resources[i].Subresources)
	}
	if n > maxResources {
		return nil, fmt.Errorf("it lists %d resources and subresources: the limit is %d", n, maxResources)
	}
	for i := range resources {
		r := &resources[i]
		r.ResponseKind = cmp.Or(r.ResponseKind, &metav1.GroupVersionKind{})
		for j := range r.Subresources {
			s := &r.Subresources[j]
			s.ResponseKind = cmp.Or(s.ResponseKind, &metav1.GroupVersionKind{})
		}
	}
	// What is published may be longer than what the server has sent, for example escaped.
	text, err := json.Marshal(resources)
	if err == nil && len(text) > maxDiscovery {
		err = fmt.Errorf("its resources: %w: the limit is %d bytes", errTooLarge, maxDiscovery)
	}
	return resources, err
}

// fetchOldResources returns the resources of a version in the list of that version.
func (a *Aggregator) fetchOldResources(ctx context.Context, gv runtimeschema.GroupVersion, b *backend) ([]apidiscoveryv2.APIResourceDiscovery, error) {
	text, _, err := a.get(ctx, b, "/apis/"+gv.Group+"/"+gv.Version, "application/json", maxDiscovery)
	if err != nil {
		return nil, err
	}
	var list metav1.APIResourceList
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, err
	}
	if list.GroupVersion != gv.String() {
		return nil, fmt.Errorf("it lists the resources of %q", list.GroupVersion)
	}
	for i := range list.APIResources {
		r := &list.APIResources[i]
		r.Group, r.Version = cmp.Or(r.Group, gv.Group), cmp.Or(r.Version, gv.Version)
	}
	resources, err := endpoints.ConvertGroupVersionIntoToDiscovery(list.APIResources)
	if err != nil {
		return nil, err
	}
	return complete(resources)
}

// fetchHash returns the hash of the OpenAPI v3 document of a version, or nothing if the server has none.
func (a *Aggregator) fetchHash(ctx context.Context, gv runtimeschema.GroupVersion, b *backend) string {
	text, _, err := a.get(ctx, b, "/openapi/v3", "application/json", maxDiscovery)
	if err != nil {
		return ""
	}
	var list handler3.OpenAPIV3Discovery
	if json.Unmarshal(text, &list) != nil {
		return ""
	}
	u, err := url.Parse(list.Paths["apis/"+gv.Group+"/"+gv.Version].ServerRelativeURL)
	if err != nil || u.Path != "/openapi/v3/apis/"+gv.Group+"/"+gv.Version {
		return ""
	}
	return u.Query().Get("hash")
}

// maxSwagger limits the size of an OpenAPI v2 document, which describes all versions of its server.
const maxSwagger = 8 << 20

// fetchSwagger returns what the OpenAPI v2 document of a server says about a version, or nothing if it has none
// that can be used.
func (a *Aggregator) fetchSwagger(ctx context.Context, gv runtimeschema.GroupVersion, b *backend, known swagger) swagger {
	text, header, err := a.getUnless(ctx, b, "/openapi/v2", "application/json", known.etag, maxSwagger)
	if errors.Is(err, errSame) {
		return known
	}
	var next swagger
	if err == nil {
		next.etag = header.Get("Etag")
		next.part, err = a.parseSwagger(gv, text, known.part)
	}
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Cannot use the OpenAPI v2 document of another server", "groupVersion", gv.String(), "reason", err.Error())
		return swagger{}
	}
	return next
}

// parseSwagger takes the part of a version from an OpenAPI v2 document. Only one is parsed at a time, because
// that may need a hundred times the memory of the text.
func (a *Aggregator) parseSwagger(gv runtimeschema.GroupVersion, text []byte, known *publish.RemoteSwagger) (*publish.RemoteSwagger, error) {
	a.discovery.parsing.Lock()
	defer a.discovery.parsing.Unlock()
	return publish.NewRemoteSwagger(gv, text, known)
}
