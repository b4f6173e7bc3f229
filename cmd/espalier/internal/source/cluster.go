package source

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"espalier.dev/api"
	"espalier.dev/api/manifest"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/workdir"
	"espalier.dev/crd"
	"espalier.dev/internal/upstream"
)

// Cluster configures a source whose objects an API server serves.
type Cluster struct {
	// Dir is the directory that the paths of kubeconfigs are relative to.
	Dir workdir.Dir
	// Kubeconfig is the path of a kubeconfig. If it is empty, Default are the paths of those that
	// are merged or, if there are none either, those that kubectl uses.
	Kubeconfig string
	Default    []string
	// Context is a context of the kubeconfig. If it is empty, the current one is used.
	Context string
	// RequestTimeout is the time that a request may take. Zero means DefaultRequestTimeout.
	RequestTimeout time.Duration
}

// DefaultRequestTimeout is the time that a request to an API server may take by default.
const DefaultRequestTimeout = time.Minute

// The number of objects in a page: the first page, and the maximum for the next ones, which adapt
// to the size of the objects so that a page has about pageBytes.
const (
	firstPage = 50
	maxPage   = 1000
	pageBytes = 4 << 20
)

// Config returns the configuration of a client.
func (c Cluster) Config() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.Dir.Path(c.Kubeconfig)
	if len(c.Default) > 0 {
		rules.Precedence = nil
		for _, file := range c.Default {
			rules.Precedence = append(rules.Precedence, c.Dir.Path(file))
		}
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: c.Context}).ClientConfig()
	if err != nil {
		if clientcmd.IsEmptyConfig(err) && len(c.missing()) > 0 {
			err = fmt.Errorf("%s, which KUBECONFIG names, does not exist", strings.Join(c.missing(), ", "))
		}
		return nil, fmt.Errorf("read the kubeconfig: %w (set --kubeconfig and --context)", err)
	}
	config.Timeout = cmp.Or(c.RequestTimeout, DefaultRequestTimeout)
	config.QPS = -1 // the API server limits its clients
	config.UserAgent = "espalier"
	config.WarningHandler = rest.NoWarnings{}
	return config, nil
}

// missing returns the files of Default that do not exist.
func (c Cluster) missing() (names []string) {
	for _, f := range c.Default {
		if _, err := c.Dir.Stat(f); errors.Is(err, fs.ErrNotExist) {
			names = append(names, f)
		}
	}
	return names
}

// served is an API server as a source.
type served struct {
	client *rest.RESTClient
}

// OpenCluster returns a source that reads from an API server. It sends no request.
func OpenCluster(c Cluster) (Finder, error) {
	config, err := c.Config()
	if err != nil {
		return nil, err
	}
	return NewCluster(config)
}

// NewCluster returns a source that reads from an API server. It sends no request.
func NewCluster(config *rest.Config) (Finder, error) {
	config = rest.CopyConfig(config)
	config.NegotiatedSerializer = serializer.NewCodecFactory(upstream.Scheme()).WithoutConversion()
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	h, err := HTTPClient(config)
	if err != nil {
		return nil, err
	}
	client, err := rest.UnversionedRESTClientForConfigAndClient(config, h)
	if err != nil {
		return nil, err
	}
	return &served{client: client}, nil
}

func (s *served) Stored() bool { return false }

func (s *served) Close() error { return nil }

// The version in which CRDs are read, and the name of their resource.
const definitionsVersion, definitionsPlural = "v1", "customresourcedefinitions"

// definitionsPath is the path of the CRDs.
const definitionsPath = "/apis/" + api.GroupName + "/" + definitionsVersion + "/" + definitionsPlural

// Semantics is not known: the API does not say it.
func (s *served) Semantics(context.Context) (string, error) { return "", nil }

func (s *served) Definitions(ctx context.Context) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		l := &listing{client: s.client, path: definitionsPath, complete: definitionOf, yield: yield}
		if err := l.all(ctx, ""); err != nil {
			yield(Object{}, fmt.Errorf("list the CRDs: %w", err))
		}
	}
}

func (s *served) Objects(ctx context.Context, selected Selection) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		for _, d := range selected.Definitions {
			version := servedVersion(d)
			if version == "" {
				if !yield(Object{}, failed(d, "", Vanished, errors.New("no version of the CRD is served"))) {
					return
				}
				continue
			}
			group, plural := "/apis/"+d.Group()+"/"+version, d.CRD().Spec.Names.Plural
			if d.Group() == "" {
				group = "/api/" + version
			}
			for _, p := range pathsOf(group, plural, d.Namespaced(), selected.Namespaces) {
				l := &listing{client: s.client, path: p, yield: yield}
				if selected.Name != "" {
					l.fields = metav1.ObjectNameField + "=" + selected.Name
				}
				l.complete = func(o Object) Object {
					o.JSON = withType(o.JSON, strings.TrimPrefix(d.Group()+"/"+version, "/"), d.CRD().Spec.Names.Kind)
					o.Definition = d.Name()
					o.where = objectPath(group, plural, o)
					return o
				}
				err := l.all(ctx, d.Name())
				if f := asFailure(d, p, err); f != nil && !l.stopped {
					l.emit(Object{}, f)
				} else if err != nil {
					l.emit(Object{}, err)
					return
				}
				if l.stopped {
					return
				}
			}
		}
	}
}

// withType adds the apiVersion and kind to an item of a list. Those of CRDs and of built-in kinds do
// not repeat what they are.
func withType(src []byte, apiVersion, kind string) []byte {
	if id, err := api.Identify(src); err != nil || id.Kind != "" {
		return src
	}
	return manifest.WithMember(manifest.WithMember(src, "kind", kind), "apiVersion", apiVersion)
}

// servedVersion returns the version in which objects are read: the storage version if it is
// served, so that the fewest objects are converted. It is empty if none is served.
func servedVersion(d *crd.Definition) (name string) {
	for _, v := range slices.Backward(d.Versions()) {
		if v.Served() && (name == "" || !d.Version(name).Storage()) {
			name = v.Name()
		}
	}
	return name
}

func failed(d *crd.Definition, where string, reason Reason, err error) *Failure {
	return &Failure{Object{Definition: d.Name(), where: where}, reason, err}
}

// asFailure returns the failure to list a resource, or nil if the error is not about this
// resource alone.
func asFailure(d *crd.Definition, where string, err error) *Failure {
	status := new(apierrors.StatusError)
	switch {
	case !errors.As(err, &status), apierrors.IsUnauthorized(err), apierrors.IsTooManyRequests(err):
		return nil
	case apierrors.IsForbidden(err):
		return failed(d, where, Forbidden, err)
	case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
		return failed(d, where, Vanished, fmt.Errorf("the resource is not served: the CRD was deleted, or is not established: %w", err))
	}
	return failed(d, where, Failing, err)
}

// listing reads the objects of one resource.
type listing struct {
	client *rest.RESTClient
	path   string
	// fields is the field selector, and accept the content type of the answer. Both may be empty.
	fields   string
	accept   string
	complete func(Object) Object
	yield    func(Object, error) bool
	stopped  bool
	// last is the largest namespace and name that was returned. Lists are sorted by both, so
	// objects up to resumed have been returned already if the list had to be started again.
	last, resumed string
	// version is the resource version of the list.
	version string
}

func (l *listing) emit(o Object, err error) {
	l.stopped = l.stopped || !l.yield(o, err)
}

// page is what is read of a list.
type page struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Continue        string `json:"continue"`
		Remaining       int64  `json:"remainingItemCount"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Items json.RawMessage `json:"items"`
}

// maxItems limits the objects in an answer. Servers may ignore the limit of a request.
const maxItems = 1_000_000

// readPage reads a page of a list at a path.
func readPage(path string, body []byte) (*page, []json.RawMessage, error) {
	p := new(page)
	if err := json.Unmarshal(body, p); err != nil {
		return nil, nil, fmt.Errorf("%s: the answer is not a list: %w", path, err)
	}
	items, err := elements[json.RawMessage](p.Items, maxItems)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: the items of the answer: %w", path, err)
	}
	return p, items, nil
}

// all reads all pages. If the API server has forgotten the state that the pages are of, all goes
// on with a newer state, and returns no object twice.
func (l *listing) all(ctx context.Context, definition string) error {
	limit, token := firstPage, ""
	for !l.stopped {
		body, err := l.get(ctx, limit, token)
		if status := new(apierrors.StatusError); token != "" && errors.As(err, &status) && status.ErrStatus.Code == http.StatusGone {
			if token = status.ErrStatus.Continue; token == "" {
				l.resumed = l.last
			}
			continue
		}
		if err != nil {
			return err
		}
		p, items, err := readPage(l.path, body)
		if err != nil {
			return err
		}
		if items == nil && !strings.HasSuffix(p.Kind, "List") {
			return fmt.Errorf("%s: the answer is not a list: it has no items", l.path)
		}
		l.version = p.Metadata.ResourceVersion
		for _, item := range items {
			o := identified(Object{Definition: definition, JSON: item})
			if key := o.Namespace + "/" + o.Name; key > l.resumed {
				l.last = max(l.last, key)
				l.emit(l.complete(o), nil)
			}
			if l.stopped {
				return nil
			}
		}
		if token = p.Metadata.Continue; token == "" {
			return nil
		}
		limit = min(max(pageBytes/(len(body)/max(len(items), 1)+1), 1), maxPage)
	}
	return nil
}

// attempts is the number of times that a request is sent if the API server accepts no connections,
// and retryAfter the time after the first attempt, which doubles. client-go repeats requests that
// lose their connection, or whose answers have a Retry-After header.
const (
	attempts   = 5
	retryAfter = 200 * time.Millisecond
)

// get reads a page.
func (l *listing) get(ctx context.Context, limit int, token string) ([]byte, error) {
	req := l.client.Get().AbsPath(l.path).Param("limit", strconv.Itoa(limit))
	if token != "" {
		req.Param("continue", token)
	}
	if l.fields != "" {
		req.Param("fieldSelector", l.fields)
	}
	if l.accept != "" {
		req.SetHeader("Accept", l.accept).Param("includeObject", "Object")
	}
	return get(ctx, req)
}

// get sends a request, again if the API server accepts no connections, and returns the answer.
func get(ctx context.Context, req *rest.Request) ([]byte, error) {
	for i, wait := 1, retryAfter; ; i, wait = i+1, 2*wait {
		result := req.Do(ctx)
		body, err := result.Raw()
		if err != nil {
			err = result.Error() // it has the message of the server
		}
		if utilnet.IsTimeout(err) && ctx.Err() == nil {
			return nil, fmt.Errorf("no answer in time (--request-timeout): %w", err)
		}
		if i == attempts || !utilnet.IsConnectionRefused(err) {
			return body, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// identified completes an object with the identity that its JSON has.
func identified(o Object) Object {
	// An object that is no JSON has none.
	id, _ := input.Identify(o.JSON)
	o.Namespace, o.Name = id.Namespace, id.Name
	return o
}
