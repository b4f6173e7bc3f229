package custom

import (
	"errors"
	"net/http"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	requestmetrics "k8s.io/apiserver/pkg/endpoints/handlers/metrics"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/component-base/metrics/legacyregistry"

	"espalier.dev/crd"
)

// maxNamed is the number of custom resources that metrics name. A resource that is in use has
// 20 to 60 KB of metrics, more than all that is needed to serve it.
const maxNamed = 100

// other is the name of all other custom resources in metrics: their group, version and
// resource.
const other = "other"

// metricNames are the custom resources that metrics name: the first maxNamed that were used and
// have not been deleted since.
type metricNames struct {
	mu        sync.Mutex
	resources map[runtimeschema.GroupResource]bool
}

// add reports whether metrics name a resource, and has them do so if there is room.
func (n *metricNames) add(gr runtimeschema.GroupResource) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.resources[gr] && len(n.resources) < maxNamed {
		n.resources[gr] = true
	}
	return n.resources[gr]
}

// remove makes room for another resource.
func (n *metricNames) remove(gr runtimeschema.GroupResource) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.resources, gr)
}

// names returns the names of the CRDs.
func (n *metricNames) names() (names []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for gr := range n.resources {
		names = append(names, gr.String())
	}
	return names
}

// labels returns the names of a version in metrics.
func (s *serving) labels(v *crd.Version) runtimeschema.GroupVersionResource {
	if !s.named {
		return runtimeschema.GroupVersionResource{Group: other, Version: other, Resource: other}
	}
	return v.Definition().GroupResource().WithVersion(v.Name())
}

// labelsOf returns the request info of a request with the names of its resource in metrics.
func (s *serving) labelsOf(r *apirequest.RequestInfo) *apirequest.RequestInfo {
	if s.named {
		return r
	}
	c := *r
	c.APIGroup, c.APIVersion, c.Resource = other, other, other
	return &c
}

// unlabelled removes the series that a handler of k8s.io/apiserver makes for a deletion, if
// metrics do not name the resource.
func (s *serving) unlabelled(r *apirequest.RequestInfo, handler http.HandlerFunc) http.HandlerFunc {
	if s.named {
		return handler
	}
	return func(w http.ResponseWriter, req *http.Request) {
		defer func() {
			for _, verb := range []requestmetrics.RequestBodyVerb{requestmetrics.Delete, requestmetrics.DeleteCollection} {
				requestmetrics.RequestBodySizes.Delete(map[string]string{"group": r.APIGroup, "resource": r.Resource, "verb": string(verb)})
			}
		}()
		handler(w, req)
	}
}

// forget removes the metrics of a resource whose CRD has been deleted. Requests that are
// under way add to them when they end, and call it again.
func (h *Handler) forget(gr runtimeschema.GroupResource) {
	if h.config.Source.Catalog().Get(gr.String()) != nil {
		return // created again
	}
	h.named.remove(gr)
	forgetSeries(gr)
}

// forgetSeries removes all series of a resource. The vectors of k8s.io/apiserver are not
// exported, but its registry has them.
func forgetSeries(gr runtimeschema.GroupResource) {
	registry := legacyregistry.Registerer()
	all, ok := registry.(prometheus.Collector)
	if !ok {
		return
	}
	descriptions := make(chan *prometheus.Desc)
	go func() { // ends when the loop has read all
		defer close(descriptions)
		all.Describe(descriptions)
	}()
	var list []*prometheus.Desc
	for d := range descriptions { // the registry is locked meanwhile
		if strings.Contains(d.String(), "resource") {
			list = append(list, d)
		}
	}
	for _, d := range list {
		known := prometheus.AlreadyRegisteredError{}
		if err := registry.Register(descCollector{d}); !errors.As(err, &known) {
			continue // part of a collector that is not a vector
		}
		if v, ok := known.ExistingCollector.(interface {
			DeletePartialMatch(prometheus.Labels) int
		}); ok {
			v.DeletePartialMatch(prometheus.Labels{"group": gr.Group, "resource": gr.Resource})
		}
	}
}

// descCollector is a collector that has the description of another one, which is how the registry
// finds that.
type descCollector struct{ *prometheus.Desc }

func (d descCollector) Describe(c chan<- *prometheus.Desc) { c <- d.Desc }

func (descCollector) Collect(chan<- prometheus.Metric) {}
