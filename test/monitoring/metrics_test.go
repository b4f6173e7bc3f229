package monitoring

import (
	"flag"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/legacyregistry"

	"espalier.dev/espaliertest"
	"espalier.dev/internal/pages"
)

var update = flag.Bool("update", false, "write docs/reference/metrics.md")

// A metric is a metric of the server.
type metric struct {
	help, kind string
	labels     []string
	// runtime is set for metrics of the Go runtime and the process, which depend on the version of Go.
	runtime bool
}

// crd is a CRD with an object that does not comply with it after a change.
const crd = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crontabs.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: CronTab, plural: crontabs}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

// found has the metrics once a server has run.
var found map[string]metric

// metrics returns all metrics of a server, by name: those that are registered, with the labels that they
// can have, and the types of those that /metrics has.
func metrics(t *testing.T) map[string]metric {
	t.Helper()
	if found != nil {
		return found
	}
	server := espaliertest.Start(t, espaliertest.WithEtcd(), espaliertest.WithCRDs([]byte(crd)), espaliertest.WithFlags("--check-stored-objects"))
	client, err := rest.HTTPClientFor(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	do := func(method, path, body string) string {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, server.Config().Host+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode >= 300 {
			t.Fatalf("%s %s: %d %v\n%s", method, path, response.StatusCode, err, text)
		}
		return string(text)
	}
	const object = `{"apiVersion": "example.com/v1", "kind": "CronTab", "metadata": {"name": "a"}}`
	do(http.MethodPost, "/apis/example.com/v1/namespaces/default/crontabs", object)
	do(http.MethodGet, "/apis/example.com/v1/crontabs", "")
	do(http.MethodDelete, "/apis/example.com/v1/namespaces/default/crontabs/a", "")

	found = registered(t)
	families, err := textParser().TextToMetricFamilies(strings.NewReader(do(http.MethodGet, "/metrics", "")))
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range families {
		is, ok := found[name]
		if !ok || strings.HasPrefix(name, "go_") { // those of the Go runtime depend on its version
			found[name] = metric{runtime: true}
			continue
		}
		if kind := strings.ToLower(f.GetType().String()); is.kind != "" && is.kind != kind {
			t.Errorf("%s is a %s, and registered as a %s", name, kind, is.kind)
		}
		for _, series := range f.GetMetric() {
			for _, l := range series.GetLabel() {
				if !slices.Contains(is.labels, l.GetName()) {
					t.Errorf("%s has the label %s, and is registered without it", name, l.GetName())
				}
			}
		}
	}
	return found
}

// registered returns the metrics of the registry, also those without a series: /metrics does not have them.
// The registry tells the names and labels to those who read its fields only.
func registered(t *testing.T) map[string]metric {
	t.Helper()
	registry, ok := legacyregistry.Registerer().(*prometheus.Registry)
	if !ok {
		t.Fatalf("the registry is a %T", legacyregistry.Registerer())
	}
	kinds := map[uint64]string{}
	for id, collector := range reflect.ValueOf(registry).Elem().FieldByName("collectorsByID").Seq2() {
		name := collector.Elem().Type().String()
		for _, kind := range []string{"counter", "gauge", "histogram", "summary"} {
			if strings.Contains(strings.ToLower(name), kind) {
				kinds[id.Uint()] = kind
			}
		}
	}
	descriptions := make(chan *prometheus.Desc)
	go func() {
		registry.Describe(descriptions)
		close(descriptions)
	}()
	all := map[string]metric{}
	for d := range descriptions {
		fields := reflect.ValueOf(d).Elem()
		m := metric{help: fields.FieldByName("help").String(), kind: kinds[fields.FieldByName("id").Uint()]}
		for _, label := range fields.FieldByName("variableLabels").Elem().FieldByName("names").Seq2() {
			m.labels = append(m.labels, label.String())
		}
		slices.Sort(m.labels)
		all[fields.FieldByName("fqName").String()] = m
	}
	return all
}

// textParser returns a parser of the format of /metrics.
func textParser() *expfmt.TextParser {
	p := expfmt.NewTextParser(model.UTF8Validation)
	return &p
}

// TestMetrics generates the reference of metrics. Those of the Go runtime and of the process are left out.
func TestMetrics(t *testing.T) {
	var own, others [][]string
	all := metrics(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		m := all[name]
		row := []string{pages.Code(name), m.kind, strings.Join(m.labels, ", "), pages.Escape(m.help)}
		switch {
		case strings.HasPrefix(name, "espalier_"):
			own = append(own, row)
		case !m.runtime && !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_"):
			others = append(others, row)
		}
	}
	if len(own) < 7 || len(others) < 50 {
		t.Errorf("only %d and %d metrics were found", len(own), len(others))
	}
	g := pages.Generator{Command: "go test . -run TestMetrics -update (in test/monitoring)", Update: *update}
	head := []string{"metric", "type", "labels", "meaning"}
	g.Part(t, "docs/reference/metrics.md", "own", pages.Table(head, own))
	g.Part(t, "docs/reference/metrics.md", "others", pages.Table(head, others))
}
