package monitoring

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"

	"espalier.dev/internal/pages"
)

// TestAlerts loads the alerts as Prometheus does, and checks the metrics and labels that they name.
func TestAlerts(t *testing.T) {
	known := metrics(t)
	text, err := os.ReadFile(filepath.Join(pages.Root(t), "deploy", "monitoring", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	groups, errs := rulefmt.Parse(text, false, model.UTF8Validation, parser.NewParser(parser.Options{}))
	for _, err := range errs {
		t.Error(err)
	}
	if groups == nil || len(groups.Groups) == 0 {
		t.Fatal("there are no groups")
	}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			if r.Alert == "" || r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%q lacks a name, a severity, a summary or a description", r.Alert)
			}
			labels := check(t, known, r.Alert, r.Expr)
			for _, m := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(strings.Join(slices.Collect(maps.Values(r.Annotations)), " "), -1) {
				if !slices.Contains(labels, m[1]) {
					t.Errorf("%s: the annotations use the label %s, which the alert does not have: %v", r.Alert, m[1], labels)
				}
			}
		}
	}
}

// dashboard is what the test reads of a Grafana dashboard.
type dashboard struct {
	Title, UID string
	Templating struct {
		List []struct{ Name, Type, Query string }
	}
	Panels []struct {
		ID          int
		Type, Title string
		Datasource  struct{ UID string }
		GridPos     struct{ H, W, X, Y int }
		Targets     []struct{ Expr, LegendFormat string }
	}
}

// TestDashboard parses the dashboard, and checks the metrics and labels that it names.
func TestDashboard(t *testing.T) {
	known := metrics(t)
	text, err := os.ReadFile(filepath.Join(pages.Root(t), "deploy", "monitoring", "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	if d.Title == "" || d.UID == "" || len(d.Panels) < 10 {
		t.Errorf("the dashboard %q has %d panels", d.UID, len(d.Panels))
	}
	for _, v := range d.Templating.List {
		if m := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`).FindStringSubmatch(v.Query); m != nil {
			check(t, known, "variable "+v.Name, m[1]+"{"+m[2]+`=""}`)
		}
	}
	ids, cells := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("%s: the ID %d is used twice", p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := cells[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%s overlaps %q, or is too wide", p.Title, other)
				}
				cells[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
			t.Errorf("%s has no targets, or another data source", p.Title)
		}
		for _, target := range p.Targets {
			labels := check(t, known, p.Title, strings.NewReplacer("$__rate_interval", "5m", "$job", "espalier").Replace(target.Expr))
			for _, m := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(target.LegendFormat, -1) {
				if !slices.Contains(labels, m[1]) {
					t.Errorf("%s: the legend has the label %s, which the series do not have: %v", p.Title, m[1], labels)
				}
			}
		}
	}
}

// check parses an expression, checks the metrics and labels that it names, and returns the labels of
// the result.
func check(t *testing.T, known map[string]metric, what, expression string) []string {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	if err != nil {
		t.Errorf("%s: %v\n%s", what, err, expression)
		return nil
	}
	problems, labels := visit(known, parsed)
	for _, p := range problems {
		t.Errorf("%s: %s", what, p)
	}
	return labels
}

// scraped are the labels that Prometheus adds.
func scraped() []string { return []string{"instance", "job"} }

// visit returns what is wrong with an expression, and the labels that its result can have.
func visit(known map[string]metric, e parser.Node) (problems, labels []string) {
	switch e := e.(type) {
	case *parser.VectorSelector:
		labels, ok := labelsOf(known, e.Name)
		if !ok {
			return []string{"there is no metric " + e.Name}, nil
		}
		for _, m := range e.LabelMatchers {
			if m.Name != "__name__" && !slices.Contains(labels, m.Name) {
				problems = append(problems, e.Name+" has no label "+m.Name)
			}
		}
		return problems, labels
	case *parser.AggregateExpr:
		problems, labels = visit(known, e.Expr)
		for _, g := range e.Grouping {
			if !slices.Contains(labels, g) {
				problems = append(problems, e.Expr.String()+" has no label "+g)
			}
		}
		if e.Op != parser.TOPK && e.Op != parser.BOTTOMK {
			labels = e.Grouping
		}
		return problems, labels
	case *parser.BinaryExpr:
		problems, labels = visit(known, e.LHS)
		more, others := visit(known, e.RHS)
		if len(labels) == 0 {
			labels = others
		}
		return append(problems, more...), labels
	}
	for child := range parser.ChildrenIter(e) {
		more, others := visit(known, child)
		problems, labels = append(problems, more...), append(labels, others...)
	}
	return problems, labels
}

// labelsOf returns the labels of the series of a metric with a name.
func labelsOf(known map[string]metric, name string) ([]string, bool) {
	if name == "up" { // Prometheus' own
		return scraped(), true
	}
	if m, ok := known[name]; ok && m.kind != "histogram" && m.kind != "summary" {
		return append(scraped(), m.labels...), true
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(name, suffix); ok && known[base].kind == "histogram" {
			labels := append(scraped(), known[base].labels...)
			if suffix == "_bucket" {
				labels = append(labels, "le")
			}
			return labels, true
		}
	}
	return nil, false
}

// TestVisit checks that names that do not exist are found.
func TestVisit(t *testing.T) {
	known := map[string]metric{"a_total": {kind: "counter", labels: []string{"code"}}, "b_seconds": {kind: "histogram", labels: []string{"verb"}}}
	for expression, want := range map[string]int{
		`sum by (code) (rate(a_total{code="5"}[5m]))`:                             0,
		`histogram_quantile(0.9, sum by (le, verb) (rate(b_seconds_bucket[5m])))`: 0,
		`topk(2, a_total) > 1`:            0,
		`rate(missing_total[5m])`:         1,
		`a_total{kode="5"}`:               1,
		`sum by (verb) (a_total)`:         1,
		`b_seconds`:                       1,
		`a_total / sum by (job) (c)`:      2,
		`sum by (code) (b_seconds_count)`: 1,
	} {
		parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
		if err != nil {
			t.Fatal(err)
		}
		if problems, _ := visit(known, parsed); len(problems) != want {
			t.Errorf("%s: %q", expression, problems)
		}
	}
}
