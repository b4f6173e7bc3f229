package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// pageSize is the number of objects in a page of a list.
const pageSize = 500

// measureMillion measures Espalier alone with very many small objects, which are written to etcd.
func measureMillion(ctx context.Context, b *bench) (err error) {
	n := b.settings.smallObjects
	if n == 0 {
		return nil
	}
	s, err := b.startServer(ctx, espalierName)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := s.createCRD(ctx, mainKind); err != nil {
		return err
	}
	t, err := s.template(ctx, mainKind, "small-template")
	if err != nil {
		return err
	}
	if t, err = s.reduce(ctx, mainKind, t); err != nil {
		return err
	}
	before, err := s.heap(ctx)
	if err != nil {
		return err
	}
	size, err := s.fillWith(ctx, t, mainKind, "small", n)
	if err != nil {
		return err
	}
	last := fmt.Sprintf("%s/small-%07d?resourceVersion=0", collection(mainKind), n-1)
	elapsed, cpu, err := s.restart(ctx, func() error { _, err := s.get(ctx, last); return err })
	if err != nil {
		return err
	}
	b.record("million-restart", figures{espalierName: elapsed.Seconds()}, map[string]float64{"s CPU": cpu.Seconds(), "objects": float64(n)})
	pages, first, end, err := s.walk(ctx)
	if err != nil {
		return err
	}
	if pages < n/pageSize {
		return fmt.Errorf("the list has %d pages", pages)
	}
	b.record("million-pages", figures{espalierName: end / first}, map[string]float64{"ms CPU, first tenth": first, "ms CPU, last tenth": end, "pages": float64(pages)})
	if err := s.settle(ctx); err != nil {
		return err
	}
	rss, err := s.process.anonymous()
	if err != nil {
		return err
	}
	after, err := s.heap(ctx)
	if err != nil {
		return err
	}
	b.record("million-heap", figures{espalierName: (after - before) / size / float64(n)}, map[string]float64{"bytes of JSON": size, "MB heap": after / 1e6})
	b.record("million-rss", figures{espalierName: rss / 1e6}, nil)
	return nil
}

// walk reads all pages of a list, and returns the CPU time of a page in the first and in the last tenth.
func (s *server) walk(ctx context.Context) (pages int, first, last float64, err error) {
	var costs []float64
	var body bytes.Buffer
	for next, more := "", true; more; {
		before, err := s.process.cpu()
		if err != nil {
			return 0, 0, 0, err
		}
		path := fmt.Sprintf("%s?limit=%d&continue=%s", collection(mainKind), pageSize, url.QueryEscape(next))
		if err := s.send(ctx, s.admin, request{method: http.MethodGet, path: path}, &body); err != nil {
			return 0, 0, 0, err
		}
		after, err := s.process.cpu()
		if err != nil {
			return 0, 0, 0, err
		}
		costs = append(costs, (after-before).Seconds()*1e3)
		var list struct{ Metadata struct{ Continue string } }
		if err := json.Unmarshal(body.Bytes(), &list); err != nil {
			return 0, 0, 0, err
		}
		next = list.Metadata.Continue
		more = next != ""
	}
	tenth := max(1, len(costs)/10)
	self := func(v float64) float64 { return v }
	return len(costs), median(costs[:tenth], self), median(costs[len(costs)-tenth:], self), nil
}
