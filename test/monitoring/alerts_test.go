package monitoring

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"

	"espalier.dev/internal/pages"
)

// TestAlertsFire evaluates each alert with made-up series: it must fire if it should, and must not if it
// should not. Series have a value for each minute.
func TestAlertsFire(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(pages.Root(t), "deploy", "monitoring", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	groups, errs := rulefmt.Parse(text, false, model.UTF8Validation, parser.NewParser(parser.Options{}))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	tried := map[string]map[bool]bool{}
	for _, c := range cases() {
		if tried[c.alert] == nil {
			tried[c.alert] = map[bool]bool{}
		}
		tried[c.alert][c.fires] = true
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1_000_000, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{})})
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			if !tried[r.Alert][true] || !tried[r.Alert][false] {
				t.Errorf("%s needs series with which it fires, and others with which it does not", r.Alert)
			}
			for _, c := range cases() {
				if c.alert != r.Alert {
					continue
				}
				delete(tried, r.Alert)
				t.Run(r.Alert+"/"+c.name, func(t *testing.T) {
					if got := fires(t, engine, r, c.series, c.at); got != c.fires {
						t.Errorf("the alert fires: %v, expected %v\n%s", got, c.fires, r.Expr)
					}
				})
			}
		}
	}
	for name := range tried {
		t.Errorf("there is no alert %s", name)
	}
}

// fires reports whether an alert fires after some minutes: whether its expression has had the same
// labels for as long as its "for".
func fires(t *testing.T, engine *promql.Engine, r rulefmt.Rule, series string, minute int) bool {
	t.Helper()
	data := load(t, series)
	var active map[string]bool
	for i := minute - int(time.Duration(r.For)/time.Minute); i <= minute; i++ {
		query, err := engine.NewInstantQuery(t.Context(), data, nil, r.Expr, time.Unix(int64(i)*60, 0))
		if err != nil {
			t.Fatal(err)
		}
		result := query.Exec(t.Context())
		vector, err := result.Vector()
		if err != nil {
			t.Fatal(err)
		}
		now := map[string]bool{}
		for _, s := range vector {
			if labels := labels.NewBuilder(s.Metric).Del("__name__").Labels().String(); active == nil || active[labels] {
				now[labels] = true
			}
		}
		active = now
		query.Close()
	}
	return len(active) > 0
}

// load returns a storage with series, one in each line.
func load(t *testing.T, text string) storage.Queryable {
	t.Helper()
	var all []storage.Series
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		name, values, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(strings.TrimSpace(line))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		var samples []chunks.Sample
		for i, v := range values {
			if !v.Omitted {
				samples = append(samples, sample{int64(i) * 60_000, v.Value})
			}
		}
		all = append(all, storage.NewListSeries(name, samples))
	}
	slices.SortFunc(all, func(a, b storage.Series) int { return cmp.Compare(a.Labels().String(), b.Labels().String()) })
	return &storage.MockQueryable{MockQuerier: &storage.MockQuerier{
		SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
			set := &seriesSet{}
			for _, s := range all {
				if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.Labels().Get(m.Name)) }) {
					set.rest = append(set.rest, s)
				}
			}
			return set
		},
	}}
}

// A sample is a value at a time in milliseconds.
type sample struct {
	time  int64
	value float64
}

func (s sample) T() int64                      { return s.time }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

// A seriesSet iterates over series.
type seriesSet struct {
	at   storage.Series
	rest []storage.Series
}

func (s *seriesSet) Next() bool {
	if len(s.rest) == 0 {
		return false
	}
	s.at, s.rest = s.rest[0], s.rest[1:]
	return true
}

func (s *seriesSet) At() storage.Series                { return s.at }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// A fireCase has the series with which an alert fires or not after some minutes, in the notation of
// Prometheus' tests: "0+60x30" begins with 0, and adds 60 thirty times; "_" is no value.
type fireCase struct {
	alert, name, series string
	at                  int
	fires               bool
}

func cases() []fireCase {
	const requests = `  apiserver_request_total{job="espalier", instance="a", code="200", subresource=""} 0+600x60` + "\n"
	request := func(code, subresource, values string) string {
		return requests + `  apiserver_request_total{job="espalier", instance="a", code="` + code + `", subresource="` + subresource + `"} ` + values
	}
	buckets := func(metric, labels, le, small, all string) string {
		metric = "  " + metric
		return metric + `_bucket{job="espalier", instance="a"` + labels + `, le="` + le + `"} ` + small + "\n" +
			metric + `_bucket{job="espalier", instance="a"` + labels + `, le="2592000"} ` + all + "\n" +
			metric + `_bucket{job="espalier", instance="a"` + labels + `, le="+Inf"} ` + all + "\n" +
			metric + `_count{job="espalier", instance="a"` + labels + `} ` + all
	}
	etcd := func(size, quota string) string {
		return `  apiserver_storage_size_bytes{job="espalier", instance="a", storage_cluster_id="etcd-0"} ` + size + "\n" +
			`  espalier_etcd_quota_bytes{job="espalier", instance="a"} ` + quota
	}
	const (
		duration    = "apiserver_request_duration_seconds"
		certificate = "apiserver_client_certificate_expiration_seconds"
		unavailable = `  espalier_etcd_failures_total{job="espalier", instance="a", reason="unavailable"} `
		full        = `  espalier_etcd_failures_total{job="espalier", instance="a", reason="full"} `
		isFull      = `  espalier_etcd_full{job="espalier", instance="a"} `
		undecodable = `  espalier_undecodable_values_total{job="espalier", instance="a", group="example.com", resource="crontabs"} `
		restarts    = `  espalier_controller_restarts_total{job="espalier", instance="a", name="namespace"} `
		objects     = `  espalier_noncompliant_objects{job="espalier", instance="a", crd="crontabs.example.com", kind="Invalid"} `
		keys        = `  espalier_service_account_key_reloads_total{job="espalier", instance="a", status="failure"} `
		keysRead    = `  espalier_service_account_key_reloads_total{job="espalier", instance="a", status="success"} `
		encryption  = `  apiserver_encryption_config_controller_automatic_reloads_total{job="espalier", instance="a", apiserver_id_hash="x", status="failure"} `
		encrypted   = `  apiserver_encryption_config_controller_automatic_reloads_total{job="espalier", instance="a", apiserver_id_hash="x", status="success"} `
	)
	return []fireCase{
		{"EspalierDown", "down", `  up{job="espalier", instance="a"} 1 0x9`, 5, true},
		{"EspalierDown", "one of two is down", `  up{job="espalier", instance="a"} 1x9` + "\n" + `  up{job="espalier", instance="b"} 0x9`, 5, true},
		{"EspalierDown", "no target", `  up{job="other", instance="a"} 1x9`, 5, true},
		{"EspalierDown", "up", `  up{job="espalier", instance="a"} 1x9`, 5, false},
		{"EspalierDown", "a restart", `  up{job="espalier", instance="a"} 1 1 1 0 1 1 1 1`, 5, false},

		{"EspalierErrors", "2%", request("500", "", "0+12x60"), 30, true},
		{"EspalierErrors", "a thousandth", request("503", "", "0+0.5x60"), 30, false},
		{"EspalierErrors", "errors of clients", request("404", "", "0+60x60"), 30, false},
		{"EspalierErrors", "none", requests, 30, false},

		{"EspalierSlow", "one of ten", buckets(duration, `, verb="GET"`, "1", "0+90x60", "0+100x60"), 40, true},
		{"EspalierSlow", "one of a thousand", buckets(duration, `, verb="GET"`, "1", "0+999x60", "0+1000x60"), 40, false},
		{"EspalierSlow", "watches", buckets(duration, `, verb="WATCH"`, "1", "0x60", "0+100x60"), 40, false},
		{"EspalierSlow", "five minutes", buckets(duration, `, verb="GET"`, "1", "0+100x30 3001+1x5 3100+100x20", "0+100x60"), 36, false},

		{"EspalierEtcdUnavailable", "unavailable", unavailable + "0 0 0 3x20", 6, true},
		{"EspalierEtcdUnavailable", "an hour ago", unavailable + "0 3x80", 60, false},
		{"EspalierEtcdUnavailable", "full", full + "0+1x20", 6, false},

		{"EspalierEtcdFull", "full", isFull + "1x20", 6, true},
		{"EspalierEtcdFull", "rejected writes", full + "0 0 0 3x20", 6, true},
		{"EspalierEtcdFull", "space again", isFull + "1x5 0x20", 20, false},
		{"EspalierEtcdFull", "unavailable", unavailable + "0+1x20", 6, false},

		{"EspalierEtcdLarge", "90%", etcd("900x60", "1000x60"), 30, true},
		{"EspalierEtcdLarge", "90% of the default", etcd("1900000000x60", "0x60"), 30, true},
		{"EspalierEtcdLarge", "70%", etcd("700x60", "1000x60"), 30, false},
		{"EspalierEtcdLarge", "70% of the default", etcd("1500000000x60", "0x60"), 30, false},
		{"EspalierEtcdLarge", "for ten minutes", etcd("700x20 900x10 700x30", "1000x60"), 30, false},

		{"EspalierUndecodableValues", "first value", undecodable + "_x10 1x30", 15, true},
		{"EspalierUndecodableValues", "another value", undecodable + "1x30 2x30", 33, true},
		{"EspalierUndecodableValues", "long ago", undecodable + "1x60", 40, false},

		{"EspalierControllerRestarts", "restarted", restarts + "0x10 1x30", 15, true},
		{"EspalierControllerRestarts", "long ago", restarts + "0 1x60", 40, false},

		{"EspalierNoncompliantObjects", "after a change", objects + "0x70 5x60", 90, true},
		{"EspalierNoncompliantObjects", "more", objects + "3x70 5x60", 90, true},
		{"EspalierNoncompliantObjects", "the first CRD", objects + "_x70 5x60", 90, true},
		{"EspalierNoncompliantObjects", "as before", objects + "5x200", 90, false},
		{"EspalierNoncompliantObjects", "fewer", objects + "5x70 3x60", 90, false},
		{"EspalierNoncompliantObjects", "all comply", objects + "0x200", 90, false},

		{"EspalierClientCertificates", "a day", buckets(certificate, "", "604800", "0+1x90", "0+1x90"), 80, true},
		{"EspalierClientCertificates", "long", buckets(certificate, "", "604800", "0x90", "0+1x90"), 80, false},
		{"EspalierClientCertificates", "no clients", buckets(certificate, "", "604800", "5x90", "5x90"), 80, false},

		{"EspalierTokenKeysNotReloaded", "failure", keys + "0x10 1x30", 15, true},
		{"EspalierTokenKeysNotReloaded", "success", keys + "0x40\n" + keysRead + "0x10 1x30", 15, false},
		{"EspalierTokenKeysNotReloaded", "long ago", keys + "0 1x60", 40, false},

		{"EspalierEncryptionNotReloaded", "first failure", encryption + "_x10 1x30", 15, true},
		{"EspalierEncryptionNotReloaded", "another failure", encryption + "1x30 2x30", 33, true},
		{"EspalierEncryptionNotReloaded", "success", encrypted + "_x10 1x30", 15, false},
		{"EspalierEncryptionNotReloaded", "long ago", encryption + "1x60", 40, false},

		{"EspalierRejectedRequests", "2%", request("429", "", "0+12x60"), 30, true},
		{"EspalierRejectedRequests", "few", request("429", "", "0+1x60"), 30, false},
		{"EspalierRejectedRequests", "evictions", request("429", "eviction", "0+60x60"), 30, false},
		{"EspalierRejectedRequests", "for a moment", request("429", "", "0x28 60x30"), 30, false},
	}
}
