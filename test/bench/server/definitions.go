package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// kindOf returns the kind of a CRD by its number.
func kindOf(i int) string { return fmt.Sprintf("Kind%05d", i) }

// measureCRDs measures many CRDs in one group. The servers follow each other.
func measureCRDs(ctx context.Context, b *bench) error {
	values := map[string]figures{}
	details := map[string]map[string]float64{}
	add := func(row, server string, v float64) {
		if values[row] == nil {
			values[row], details[row] = figures{}, map[string]float64{"CRDs": float64(b.settings.definitions)}
		}
		values[row][server] = v
	}
	var errs []error
	for _, name := range b.names() {
		if err := b.measureGroup(ctx, name, add, func(row, what string, v float64) { details[row][name+" "+what] = v }); err != nil {
			errs = append(errs, fmt.Errorf("%d CRDs: %s: %w", b.settings.definitions, name, err))
		}
	}
	for _, r := range rows() {
		if values[r.name] != nil {
			b.record(r.name, values[r.name], details[r.name])
		}
	}
	return errors.Join(errs...)
}

// measureGroup measures one server. add gets the figures, detail what explains them.
func (b *bench) measureGroup(ctx context.Context, name string, add, detail func(row, key string, v float64)) (err error) {
	n := b.settings.definitions
	s, err := b.startServer(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	empty, err := s.weigh(ctx)
	if err != nil {
		return err
	}
	l, err := s.createCRDs(ctx, 0, n)
	if err != nil {
		return err
	}
	add("crd-create", name, l.perRequest())
	detail("crd-create", "CRDs/s", float64(n)/l.elapsed.Seconds())
	untouched, err := s.weigh(ctx)
	if err != nil {
		return err
	}
	add("heap-crd", name, (untouched.heap-empty.heap)/float64(n)/1000)
	if b.wants("heap-crd-touched") || b.wants("goroutines") {
		if err := s.touchAll(ctx, n); err != nil {
			return err
		}
		touched, err := s.weigh(ctx)
		if err != nil {
			return err
		}
		if b.profiles != "" && name == espalierName {
			heap, err := s.get(ctx, "/debug/pprof/heap?gc=1")
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(b.profiles, "heap-crd-touched.pprof"), heap, 0o644); err != nil {
				return err
			}
		}
		add("heap-crd-touched", name, (touched.heap-empty.heap)/float64(n)/1000)
		add("goroutines", name, (touched.goroutines-untouched.goroutines)/float64(n))
		detail("goroutines", "in total", touched.goroutines)
	}
	if b.wants("openapi") {
		elapsed, cpu, size, err := s.changeOpenAPI(ctx, b.settings.turns)
		if err != nil {
			return fmt.Errorf("OpenAPI: %w", err)
		}
		add("openapi", name, elapsed)
		detail("openapi", "ms CPU, with the write", cpu)
		detail("openapi", "bytes", size)
	}
	if b.wants("restart") {
		elapsed, cpu, err := s.restart(ctx, func() error { return s.serves(ctx, n) })
		if err != nil {
			return err
		}
		add("restart", name, elapsed.Seconds())
		detail("restart", "s CPU", cpu.Seconds())
	}
	return b.profileCRDs(ctx, s, n)
}

// profileCRDs writes a CPU profile of the creation of CRDs, if profiles are requested.
func (b *bench) profileCRDs(ctx context.Context, s *server, from int) error {
	if b.profiles == "" || s.name != espalierName {
		return nil
	}
	buffers := newBuffers(s)
	return s.profile(ctx, filepath.Join(b.profiles, "crd-create.pprof"), concurrency, func(ctx context.Context, c, i int) error {
		body, err := newCRD(kindOf(from + i))
		if err != nil {
			return err
		}
		return s.send(ctx, s.clients[c], request{method: http.MethodPost, path: crdsPath, contentType: jsonType, body: body}, &buffers[c])
	})
}

// weight is the state of an idle server.
type weight struct{ heap, goroutines float64 }

// weigh waits until the server is idle, and measures it. Idle connections of the clients are
// closed first: they have goroutines and buffers in the server.
func (s *server) weigh(ctx context.Context) (w weight, err error) {
	s.disconnect()
	if err := s.settle(ctx); err != nil {
		return w, err
	}
	if w.heap, err = s.heap(ctx); err != nil {
		return w, err
	}
	w.goroutines, err = s.goroutines(ctx)
	return w, err
}

// createCRDs creates the CRDs from a number on, and returns when all are served and the server
// is idle. The elapsed time is that until all are served.
func (s *server) createCRDs(ctx context.Context, from, n int) (load, error) {
	before, err := s.process.cpu()
	if err != nil {
		return load{}, err
	}
	begin := time.Now()
	buffers := newBuffers(s)
	l, err := s.spend(ctx, concurrency, 0, n, func(ctx context.Context, c, i int) error {
		body, err := newCRD(kindOf(from + i))
		if err != nil {
			return err
		}
		return s.send(ctx, s.clients[c], request{method: http.MethodPost, path: crdsPath, contentType: jsonType, body: body}, &buffers[c])
	})
	if err != nil {
		return load{}, err
	}
	if err := s.await(ctx, func() error { return s.serves(ctx, from+n) }); err != nil {
		return load{}, err
	}
	l.elapsed = time.Since(begin)
	if err := s.settle(ctx); err != nil {
		return load{}, err
	}
	after, err := s.process.cpu()
	l.cpu = after - before
	return l, err
}

// serves returns an error unless discovery has n resources, and the last of them can be read.
func (s *server) serves(ctx context.Context, n int) error {
	text, err := s.get(ctx, groupPath)
	if err != nil {
		return err
	}
	// Each resource has a subresource.
	if have := bytes.Count(text, []byte(`/status"`)); have < n {
		// A server that builds its answer for each request should not be kept busy with it.
		time.Sleep(50 * time.Millisecond)
		return fmt.Errorf("%d of %d resources are served", have, n)
	}
	_, err = s.get(ctx, collection(kindOf(n-1)))
	return err
}

// touchAll uses all CRDs: it creates, lists and deletes an object of each. The reference
// rejects requests while it prepares the storage of a CRD.
func (s *server) touchAll(ctx context.Context, n int) error {
	buffers := newBuffers(s)
	_, err := s.spend(ctx, concurrency, 0, n, func(ctx context.Context, c, i int) error {
		kind := kindOf(i)
		for _, r := range []request{
			{method: http.MethodPost, path: collection(kind), contentType: jsonType, body: newObject(kind, "touch")},
			{method: http.MethodGet, path: collection(kind)},
			{method: http.MethodDelete, path: collection(kind) + "/touch"},
		} {
			if err := s.await(ctx, func() error { return s.send(ctx, s.clients[c], r, &buffers[c]) }); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

// changeOpenAPI changes a CRD and measures the time from the response to that write until the
// new document has been read, in milliseconds, and the CPU time of both. The document was read
// before the change.
func (s *server) changeOpenAPI(ctx context.Context, times int) (elapsed, cpu, size float64, err error) {
	type sample struct{ elapsed, cpu float64 }
	var samples []sample
	var document bytes.Buffer
	etag, err := s.readOpenAPI(ctx, "", &document)
	if err != nil {
		return 0, 0, 0, err
	}
	for i := range times {
		if err := s.settle(ctx); err != nil {
			return 0, 0, 0, err
		}
		marker := fmt.Sprintf("Changed for the time %d of the benchmark", i)
		patch, err := json.Marshal([]any{map[string]any{
			"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/description", "value": marker,
		}})
		if err != nil {
			return 0, 0, 0, err
		}
		before, err := s.process.cpu()
		if err != nil {
			return 0, 0, 0, err
		}
		var b bytes.Buffer
		path := crdsPath + "/" + plural(kindOf(i)) + "." + group
		if err := s.send(ctx, s.admin, request{method: http.MethodPatch, path: path, contentType: jsonPatch, body: patch}, &b); err != nil {
			return 0, 0, 0, err
		}
		begin := time.Now()
		if err := s.await(ctx, func() error {
			next, err := s.readOpenAPI(ctx, etag, &document)
			if err != nil {
				return err
			}
			if etag = next; !bytes.Contains(document.Bytes(), []byte(marker)) {
				return errors.New("the document has not changed")
			}
			return nil
		}); err != nil {
			return 0, 0, 0, err
		}
		took := time.Since(begin)
		after, err := s.process.cpu()
		if err != nil {
			return 0, 0, 0, err
		}
		samples = append(samples, sample{took.Seconds() * 1e3, (after - before).Seconds() * 1e3})
	}
	return median(samples, func(s sample) float64 { return s.elapsed }),
		median(samples, func(s sample) float64 { return s.cpu }), float64(document.Len()), nil
}

// readOpenAPI reads the document of the group, if it is another one than that of the etag.
func (s *server) readOpenAPI(ctx context.Context, etag string, dst *bytes.Buffer) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+openapiV3, nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("Accept", "application/json")
	if etag != "" {
		req.Header.Set("If-None-Match", etag)
	}
	resp, err := s.admin.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotModified {
		return etag, nil
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("GET %s: %s", openapiV3, resp.Status)
	}
	dst.Reset()
	if _, err := dst.ReadFrom(resp.Body); err != nil {
		return "", err
	}
	if dst.Len() == 0 {
		return "", fmt.Errorf("GET %s: empty response", openapiV3)
	}
	return resp.Header.Get("ETag"), nil
}

// manyTimeout is the time that the creation of many CRDs may take.
const manyTimeout = 6 * time.Minute

// measureManyCRDs measures Espalier alone with very many CRDs.
func measureManyCRDs(ctx context.Context, b *bench) (err error) {
	n := b.settings.manyDefinitions
	if n == 0 {
		return nil
	}
	s, err := b.startServer(ctx, espalierName)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	const step = 500
	begin := time.Now()
	var creating time.Duration
	cost := map[string]float64{}
	var last float64
	for from := 0; from < n; from += step {
		l, err := s.createCRDs(ctx, from, step)
		if err != nil {
			return err
		}
		creating += l.elapsed
		last = l.perRequest()
		cost[fmt.Sprintf("ms CPU per CRD, up to %d", from+step)] = last
		if time.Since(begin) > manyTimeout && from+step < n {
			return fmt.Errorf("only %d CRDs were created in %v; the last ones cost %.1f ms CPU each", from+step, manyTimeout, last)
		}
	}
	b.record("crds-rate", figures{espalierName: float64(n) / creating.Seconds()}, map[string]float64{"CRDs": float64(n)})
	b.record("crds-last", figures{espalierName: last}, cost)
	created, err := s.process.anonymous()
	if err != nil {
		return err
	}
	elapsed, cpu, err := s.restart(ctx, func() error { return s.serves(ctx, n) })
	if err != nil {
		return err
	}
	b.record("crds-restart", figures{espalierName: elapsed.Seconds()}, map[string]float64{"s CPU": cpu.Seconds()})
	if err := s.settle(ctx); err != nil {
		return err
	}
	restarted, err := s.process.anonymous()
	if err != nil {
		return err
	}
	b.record("crds-rss", figures{espalierName: max(created, restarted) / 1e6}, map[string]float64{
		"MB after creation": created / 1e6, "MB after restart": restarted / 1e6,
	})
	return nil
}
