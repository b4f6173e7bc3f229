package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	openapiV2 = "/openapi/v2"
	// aggregatedType is the media type of aggregated discovery.
	aggregatedType = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	// documentClients is the number of clients that read OpenAPI documents at once.
	documentClients = 4
	// idleTime is the time after which an idle server has returned memory to the system.
	idleTime = 25 * time.Second
)

// measurePublished measures Espalier alone with very many CRDs in one group: its OpenAPI documents.
func measurePublished(ctx context.Context, b *bench) (err error) {
	n := b.settings.manyDefinitions
	if n == 0 {
		return nil
	}
	s, err := b.startServer(ctx, espalierName)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := s.fillCRDs(ctx, n, 1); err != nil {
		return err
	}
	if _, _, err := s.restart(ctx, func() error { return s.serves(ctx, n) }); err != nil {
		return err
	}
	profiled := make(chan error, 1)
	go func() { profiled <- b.profileFirst(ctx, s) }()
	first, details := 0.0, map[string]float64{"CRDs": float64(n)}
	for _, d := range []struct{ name, path string }{{"v2", openapiV2}, {"v3", openapiV3}} {
		for _, gzip := range []bool{false, true} {
			name := d.name
			if gzip {
				name += ", gzip"
			}
			before, err := s.process.cpu()
			if err != nil {
				return err
			}
			elapsed, size, err := s.readDocument(ctx, s.admin, d.path, gzip)
			if err != nil {
				return err
			}
			after, err := s.process.cpu()
			if err != nil {
				return err
			}
			details[name+": s CPU"] = (after - before).Seconds()
			details[name+": s"], details[name+": MB"] = elapsed.Seconds(), size/1e6
			first = max(first, elapsed.Seconds())
		}
	}
	if err := <-profiled; err != nil {
		return err
	}
	b.record("crds-openapi", figures{espalierName: first}, details)
	slowest, details := 0.0, map[string]float64{}
	for _, path := range []string{openapiV2, openapiV3} {
		if err := s.describeAgain(ctx, kindOf(1), path); err != nil {
			return err
		}
		elapsed, _, err := s.readDocument(ctx, s.admin, path, true)
		if err != nil {
			return err
		}
		details[path+": s"] = elapsed.Seconds()
		slowest = max(slowest, elapsed.Seconds())
	}
	b.record("crds-openapi-change", figures{espalierName: slowest}, details)
	if err := b.profilePublished(ctx, s, "crds-openapi"); err != nil {
		return err
	}
	elapsed, err := s.readWhileChanging(ctx)
	if err != nil {
		return err
	}
	b.record("crds-openapi-clients", figures{espalierName: elapsed.Seconds()}, map[string]float64{"clients": documentClients})
	if _, err := s.heap(ctx); err != nil { // collects garbage
		return err
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	rss, err := s.process.anonymous()
	if err != nil {
		return err
	}
	heap, err := s.heap(ctx)
	b.record("crds-openapi-rss", figures{espalierName: rss / 1e6}, map[string]float64{"MB heap": heap / 1e6})
	return err
}

// readWhileChanging reads both documents with several clients at once while CRDs change. It returns
// the time of the slowest read.
func (s *server) readWhileChanging(ctx context.Context) (slowest time.Duration, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var readers, writer sync.WaitGroup
	var lock sync.Mutex
	for c := range documentClients {
		readers.Go(func() {
			for i := range 2 {
				path := []string{openapiV2, openapiV3}[(c+i)%2]
				elapsed, _, err := s.readDocument(ctx, s.clients[c], path, true)
				if err != nil {
					cancel(err)
					return
				}
				lock.Lock()
				slowest = max(slowest, elapsed)
				lock.Unlock()
			}
		})
	}
	ended, end := context.WithCancel(ctx)
	writer.Go(func() {
		for i := 0; ended.Err() == nil; i++ {
			if err := s.describeAgain(ended, kindOf(i%100), fmt.Sprint("change ", i)); err != nil && ended.Err() == nil {
				cancel(err)
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	readers.Wait()
	end()
	writer.Wait()
	return slowest, context.Cause(ctx)
}

// readDocument reads a document, and returns its size as sent. If the server answers that the document
// is being written, it asks again, as clients do; every other status but 200 is an error.
func (s *server) readDocument(ctx context.Context, client *http.Client, path string, gzip bool) (time.Duration, float64, error) {
	begin := time.Now()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
		if err != nil {
			return 0, 0, err
		}
		req.Header.Set("Accept", "application/json")
		if gzip {
			req.Header.Set("Accept-Encoding", "gzip")
		}
		resp, err := client.Do(req)
		if err != nil {
			return 0, 0, err
		}
		size, err := io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		switch {
		case err != nil:
		case resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") != "":
			continue // it has waited long already
		case resp.StatusCode != http.StatusOK:
			err = fmt.Errorf("%s after %v", resp.Status, time.Since(begin))
		}
		if err != nil {
			return 0, 0, fmt.Errorf("GET %s: %w", path, err)
		}
		return time.Since(begin), float64(size), nil
	}
}

// describeAgain changes a description in a CRD.
func (s *server) describeAgain(ctx context.Context, kind, text string) error {
	patch, err := json.Marshal([]any{map[string]any{
		"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/description", "value": text,
	}})
	if err != nil {
		return err
	}
	var out bytes.Buffer
	return s.send(ctx, s.admin, request{
		method: http.MethodPatch, path: crdsPath + "/" + plural(kind) + "." + group, contentType: jsonPatch, body: patch,
	}, &out)
}

// measureGroups measures Espalier alone with very many CRDs in many groups.
func measureGroups(ctx context.Context, b *bench) (err error) {
	n := b.settings.manyDefinitions
	if n == 0 {
		return nil
	}
	groups := max(1, n/10)
	s, err := b.startServer(ctx, espalierName)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := s.fillCRDs(ctx, n, groups); err != nil {
		return err
	}
	resource := func(i int) string { return "/apis/" + groupOf(i, groups) + "/v1/" + plural(kindOf(i)) }
	ready := func() error { _, err := s.get(ctx, resource(n-1)); return err }
	elapsed, cpu, err := s.restart(ctx, ready)
	if err != nil {
		return err
	}
	b.record("groups-restart", figures{espalierName: elapsed.Seconds()}, map[string]float64{"s CPU": cpu.Seconds(), "CRDs": float64(n), "groups": float64(groups)})
	buffers := newBuffers(s)
	if _, err := s.spend(ctx, concurrency, 0, n, func(ctx context.Context, c, i int) error {
		return s.send(ctx, s.clients[c], request{method: http.MethodGet, path: resource(i)}, &buffers[c])
	}); err != nil {
		return err
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	busy, err := s.process.anonymous()
	if err != nil {
		return err
	}
	time.Sleep(idleTime)
	rss, err := s.process.anonymous()
	if err != nil {
		return err
	}
	heap, err := s.heap(ctx)
	if err != nil {
		return err
	}
	b.record("groups-rss", figures{espalierName: rss / 1e6}, map[string]float64{"MB at once": busy / 1e6, "MB heap": heap / 1e6})
	type sample struct{ ms, size float64 }
	var samples []sample
	for i := range 1 + b.settings.turns { // the first is the first of all
		if err := s.describeAgain(ctx, kindOf(0), fmt.Sprint("change ", i)); err != nil {
			return err
		}
		begin := time.Now()
		size, err := s.discover(ctx)
		if err != nil {
			return err
		}
		if i > 0 {
			samples = append(samples, sample{time.Since(begin).Seconds() * 1e3, size})
		}
	}
	b.record("groups-discovery", figures{espalierName: median(samples, func(s sample) float64 { return s.ms })},
		map[string]float64{"MB": samples[0].size / 1e6})
	return b.profilePublished(ctx, s, "groups")
}

// discover reads aggregated discovery.
func (s *server) discover(ctx context.Context) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/apis", nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Accept", aggregatedType)
	resp, err := s.admin.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	size, err := io.Copy(io.Discard, resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET /apis: %s", resp.Status)
	}
	return float64(size), err
}

// groupOf returns the group of a CRD, if there are several.
func groupOf(i, groups int) string {
	if groups == 1 || i == 0 {
		return group
	}
	return fmt.Sprintf("g%04d.%s", i%groups, group)
}

// fillCRDs writes CRDs to etcd, as the server itself has stored one that is created first.
func (s *server) fillCRDs(ctx context.Context, n, groups int) error {
	kind := kindOf(0)
	if err := s.createCRD(ctx, kind, true); err != nil {
		return err
	}
	const dir = prefix + "/apiextensions.k8s.io/customresourcedefinitions/"
	resp, err := s.store.Get(ctx, dir+plural(kind)+"."+group)
	if err != nil {
		return err
	}
	if len(resp.Kvs) != 1 {
		return fmt.Errorf("%s stores no CRD", s.name)
	}
	var meta struct{ Metadata struct{ UID string } }
	if err := json.Unmarshal(resp.Kvs[0].Value, &meta); err != nil {
		return err
	}
	for i := 1; i < n; {
		var ops []clientv3.Op
		for ; i < n && len(ops) < fillPerTxn/4; i++ {
			next, in := kindOf(i), groupOf(i, groups)
			value := strings.NewReplacer(kind, next, strings.ToLower(kind), strings.ToLower(next), group, in,
				meta.Metadata.UID, fmt.Sprintf("%08d%s", i, meta.Metadata.UID[8:])).Replace(string(resp.Kvs[0].Value))
			ops = append(ops, clientv3.OpPut(dir+plural(next)+"."+in, value))
		}
		if _, err := s.store.Txn(ctx).Then(ops...).Commit(); err != nil {
			return err
		}
	}
	return s.await(ctx, func() error {
		_, err := s.get(ctx, "/apis/"+groupOf(n-1, groups)+"/v1/"+plural(kindOf(n-1)))
		return err
	})
}

// profileFirst writes a CPU profile of the first seconds of the first reads, if profiles are requested.
func (b *bench) profileFirst(ctx context.Context, s *server) error {
	if b.profiles == "" {
		return nil
	}
	var out bytes.Buffer
	if err := s.send(ctx, s.clients[0], request{method: http.MethodGet, path: "/debug/pprof/profile?seconds=10"}, &out); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.profiles, "crds-openapi.pprof"), out.Bytes(), 0o644)
}

// profilePublished writes a heap profile of a server with very many CRDs, if profiles are requested.
func (b *bench) profilePublished(ctx context.Context, s *server, row string) error {
	if b.profiles == "" {
		return nil
	}
	heap, err := s.get(ctx, "/debug/pprof/heap?gc=1")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.profiles, row+"-heap.pprof"), heap, 0o644)
}
