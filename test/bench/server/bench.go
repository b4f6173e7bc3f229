package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"espalier.dev/server/pki"
)

// bench is one run of the benchmark.
type bench struct {
	settings settings
	selected []string
	// counts are the numbers of servers to measure instead of the selected rows.
	counts   []int
	alone    bool
	profiles string
	// with are flags that the measured server has. If there are any, it is compared with a server without
	// them, instead of the reference. user sends the requests; empty means an administrator.
	with []string
	user string

	dir      string
	programs programs
	certs    *pki.Bundle
	results  []result
	scale    []scaled
}

// row is a line of the table.
type row struct {
	name, title, unit string
	must              must
}

// rows returns all rows, in the order of the table.
func rows() []row {
	return []row{
		{"create", "CREATE", "ms CPU", must{ratio: 5.6}},
		{"get", "GET", "ms CPU", must{ratio: 5}},
		{"get-rv0", "GET resourceVersion=0", "ms CPU", must{ratio: 1.6}},
		{"list", "LIST 5,000 objects", "ms CPU", must{ratio: 12}},
		{"list-gzip", "LIST 5,000 objects, gzip", "ms CPU", must{}},
		{"watch", "WATCH, 50 watchers, per CREATE and its events", "ms CPU", must{ratio: 7}},
		{"watch-events", "WATCH, 50 watchers, per event", "ms CPU", must{ratio: 12}},
		{"watch-p99", "WATCH, p99 from request to event", "ms", must{}},
		{"put", "PUT", "ms CPU", must{ratio: 5}},
		{"apply", "server-side apply", "ms CPU", must{ratio: 5}},
		{"apply-same", "apply without change", "ms CPU", must{ratio: 15}},
		{"delete", "DELETE", "ms CPU", must{ratio: 6}},
		{"heap-crd", "heap per CRD, untouched", "KB", must{most: 60}},
		{"heap-crd-touched", "heap per CRD, touched", "KB", must{most: 120}},
		{"goroutines", "goroutines per touched CRD", "", must{zero: true}},
		{"crd-create", "CPU per CRD created, in one group", "ms CPU", must{most: 10}},
		{"restart", "restart with CRDs", "s", must{most: 1}},
		{"openapi", "OpenAPI v3 of the group after one change", "ms", must{most: 100}},
		{"heap-object", "heap per stored object", "x JSON", must{most: 1.5}},
		{"crds-rss", "many CRDs (10,000): RssAnon", "MB", must{most: 1500}},
		{"crds-rate", "many CRDs: created per second", "/s", must{least: 50}},
		{"crds-last", "many CRDs: CPU of the last 500", "ms CPU", must{most: 10}},
		{"crds-restart", "many CRDs: restart", "s", must{most: 5}},
		{"million-heap", "1,000,000 objects of 1 KB: heap", "x JSON", must{most: 1.5}},
		{"million-rss", "1,000,000 objects of 1 KB: RssAnon", "MB", must{}},
		{"million-restart", "1,000,000 objects of 1 KB: restart to first read", "s", must{}},
		{"million-pages", "1,000,000 objects of 1 KB: CPU of late pages / early pages of 500", "x CPU", must{most: 1.5}},
	}
}

// stage measures some rows with servers of its own.
type stage struct {
	rows []string
	run  func(context.Context, *bench) error
}

func stages() []stage {
	return []stage{
		{[]string{"create", "get", "get-rv0", "put", "apply", "apply-same", "delete", "watch", "watch-events", "watch-p99"}, measureRequests},
		{[]string{"heap-object", "list", "list-gzip"}, measureLists},
		{[]string{"crd-create", "heap-crd", "heap-crd-touched", "goroutines", "openapi", "restart"}, measureCRDs},
		{[]string{"crds-rss", "crds-rate", "crds-last", "crds-restart"}, measureManyCRDs},
		{[]string{"million-heap", "million-rss", "million-restart", "million-pages"}, measureMillion},
	}
}

// measure runs all stages with selected rows. A stage that fails does not stop the next ones.
func (b *bench) measure(ctx context.Context) (err error) {
	if b.dir, err = os.MkdirTemp("", "espalier-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	if b.certs, err = newCertificates(b.dir); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "building the servers and etcd")
	if b.programs, err = buildPrograms(ctx, b.dir, ""); err != nil {
		return err
	}
	if len(b.counts) > 0 {
		return b.measureScale(ctx, b.counts)
	}
	var errs []error
	for _, s := range stages() {
		if !slices.ContainsFunc(s.rows, b.wants) || ctx.Err() != nil {
			continue
		}
		if err := s.run(ctx, b); err != nil {
			errs = append(errs, err)
			b.miss(s.rows, err)
		}
	}
	order := map[string]int{}
	for i, r := range rows() {
		order[r.name] = i
	}
	slices.SortFunc(b.results, func(x, y result) int { return order[x.Row] - order[y.Row] })
	return errors.Join(errs...)
}

// wants reports whether a row is selected.
func (b *bench) wants(name string) bool { return slices.Contains(b.selected, name) }

// miss records an error for the selected rows that have no figures.
func (b *bench) miss(names []string, err error) {
	for _, r := range rows() {
		measured := slices.ContainsFunc(b.results, func(have result) bool { return have.Row == r.name })
		if slices.Contains(names, r.name) && b.wants(r.name) && !measured {
			b.results = append(b.results, result{Row: r.name, Title: r.title, Unit: r.unit, Error: err.Error()})
		}
	}
}

// figures are the values of a row, by server.
type figures map[string]float64

// record adds a row to the results, if it is selected.
func (b *bench) record(name string, values figures, details map[string]float64) {
	if !b.wants(name) {
		return
	}
	i := slices.IndexFunc(rows(), func(r row) bool { return r.name == name })
	r := rows()[i]
	if len(b.with) > 0 {
		r.must = must{} // it is about the reference
	}
	res := result{Row: r.name, Title: r.title, Unit: r.unit, Details: details}
	if v, ok := values[referenceName]; ok {
		res.Reference = &v
	}
	if v, ok := values[espalierName]; ok {
		res.Espalier = &v
	}
	res.finish(r.must)
	b.results = append(b.results, res)
	fmt.Fprintf(os.Stderr, "%-18s %s %-8s espalier %-8s %s\n", name, b.base(), number(res.Reference), number(res.Espalier), r.unit)
}

// names returns the servers to measure. The reference comes first.
func (b *bench) names() []string {
	if b.alone {
		return []string{espalierName}
	}
	return []string{referenceName, espalierName}
}

// base returns what the server is compared with, for people.
func (b *bench) base() string {
	if len(b.with) > 0 {
		return "without"
	}
	return referenceName
}

// startServers starts the servers to measure. The function stops them.
func (b *bench) startServers(ctx context.Context) ([]*server, func() error, error) {
	var servers []*server
	stop := func() error {
		var errs []error
		for _, s := range servers {
			errs = append(errs, s.stop())
		}
		return errors.Join(errs...)
	}
	for _, name := range b.names() {
		s, err := b.startServer(ctx, name)
		if err != nil {
			return nil, nil, errors.Join(err, stop())
		}
		servers = append(servers, s)
	}
	return servers, stop, nil
}

// work is a row of requests.
type work struct {
	row     string
	clients int
	turn    time.Duration
	// calls is the number of requests in a turn; 0 means as many as fit.
	calls int
	// prepare returns the operation for a server.
	prepare func(context.Context, *server) (operation, error)
	// before is called before each turn, and may be nil.
	before func(context.Context, *server) error
}

// compare measures a row of requests: the servers take turns, and the median counts.
func (b *bench) compare(ctx context.Context, servers []*server, w work) error {
	if !b.wants(w.row) {
		return nil
	}
	ops, loads := make([]operation, len(servers)), make([][]load, len(servers))
	for i, s := range servers {
		op, err := w.prepare(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", w.row, s.name, err)
		}
		ops[i] = op
	}
	for turn := -1; turn < b.settings.turns; turn++ { // the first turn warms up
		for i, s := range servers {
			if w.before != nil {
				if err := w.before(ctx, s); err != nil {
					return fmt.Errorf("%s: %s: %w", w.row, s.name, err)
				}
			}
			d := w.turn
			if turn < 0 {
				d = w.turn / 4
			}
			l, err := s.spend(ctx, w.clients, d, w.calls, ops[i])
			if err != nil {
				return fmt.Errorf("%s: %s: %w", w.row, s.name, err)
			}
			if turn >= 0 {
				loads[i] = append(loads[i], l)
			}
		}
	}
	values, details := figures{}, map[string]float64{}
	for i, s := range servers {
		values[s.name] = median(loads[i], load.perRequest)
		details[s.name+" requests/s"] = median(loads[i], func(l load) float64 { return float64(l.requests) / l.elapsed.Seconds() })
	}
	b.record(w.row, values, details)
	return b.profile(ctx, servers, w, ops)
}

// profile writes the CPU profile of Espalier for a row, if profiles are requested.
func (b *bench) profile(ctx context.Context, servers []*server, w work, ops []operation) error {
	if b.profiles == "" {
		return nil
	}
	for i, s := range servers {
		if s.name != espalierName {
			continue
		}
		if w.before != nil {
			if err := w.before(ctx, s); err != nil {
				return err
			}
		}
		if err := s.profile(ctx, filepath.Join(b.profiles, w.row+".pprof"), w.clients, ops[i]); err != nil {
			return fmt.Errorf("profile of %s: %w", w.row, err)
		}
	}
	return nil
}

// median returns the median of a measure.
func median[T any](list []T, of func(T) float64) float64 {
	values := make([]float64, len(list))
	for i, v := range list {
		values[i] = of(v)
	}
	slices.Sort(values)
	return values[len(values)/2]
}
