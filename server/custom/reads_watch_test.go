package custom_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// patience is the time after which a watch that lacks an event fails. Only a broken server
// needs it.
const patience = 5 * time.Minute

// watch sends a request for a watch and calls each with its lines as they arrive, until each
// reports false, or the watch or ctx ends. started, if not nil, is called when the answer begins.
func (r *readers) watch(ctx context.Context, c *http.Client, path string, started func(), each func(line string) bool) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.server.URL()+path, nil)
	if err != nil {
		r.Error(err)
		return
	}
	resp, err := (&http.Client{Transport: c.Transport}).Do(req) // its timeout would end the watch
	if started != nil {
		started()
	}
	if err != nil {
		r.Error(err)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() && each(lines.Text()) {
	}
	if err := lines.Err(); err != nil && ctx.Err() == nil {
		r.Error(path, err)
	}
}

// oldest is the part of an error that says which revision is the oldest: each cache has its
// own.
var oldest = regexp.MustCompile(`too old resource version: \d+ \(\d+\)`)

// bookmarked is the revision of a bookmark.
var bookmarked = regexp.MustCompile(`"resourceVersion":"\d+"`)

// masked returns an event without what depends on the time of a watch. The server itself may write
// between the starts of two watches.
func masked(line string) string {
	if strings.Contains(line, `"type":"BOOKMARK"`) {
		line = bookmarked.ReplaceAllString(line, `"resourceVersion":""`)
	}
	return oldest.ReplaceAllString(line, "too old")
}

// watched is what a client has received from a watch.
type watched struct {
	lines []string
	// complete reports whether the last event arrived, or the watch failed as it should.
	complete bool
}

// follow receives the events of a watch until ctx ends. seen is called when the one that
// contains last has arrived, or the watch has ended.
func (r *readers) follow(ctx context.Context, c *http.Client, path, last string, started, seen func()) (w watched) {
	defer func() {
		if !w.complete {
			seen()
		}
	}()
	r.watch(ctx, c, path, started, func(line string) bool {
		// How late a bookmark is, depends on the time.
		if strings.Contains(line, `"type":"BOOKMARK"`) && !strings.Contains(line, "initial-events-end") {
			return true
		}
		w.lines = append(w.lines, masked(line))
		if !w.complete && (strings.Contains(line, last) || strings.Contains(line, `"status":"Failure"`)) {
			w.complete = true
			seen()
		}
		return true
	})
	return w
}

// watches compares watches with all kinds of parameters, while objects change.
func (r *readers) watches() {
	before := r.now()
	results := map[string]*[2]watched{} // of the fast client and of the stock client
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	var started, seen, ended sync.WaitGroup
	for _, path := range []string{"/apis/reads.example.com/v1/things", "/apis/reads.example.com/v1/namespaces/a/things", "/apis/reads.example.com/v2/namespaces/a/things"} {
		for _, from := range []string{"", "resourceVersion=0", "resourceVersion=" + before, "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
			"sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0", "resourceVersion=x", "resourceVersion=" + before + "&limit=x", "sendInitialEvents=true", "resourceVersion=1"} {
			for selector, last := range map[string]string{
				"":                                  `"name":"raw"`,
				"labelSelector=even%3Dtrue":         `"name":"raw"`,
				"fieldSelector=metadata.name%3Dt00": `"size":77`,
				"fieldSelector=spec.color%3Dred":    `"name":"raw"`,
				"fieldSelector=metadata.name%3Dt02,metadata.namespace%3Da": `"type":"DELETED"`,
			} {
				key := path + "?" + strings.Trim(strings.Join([]string{"watch=true&timeoutSeconds=600", from, selector}, "&"), "&")
				res := &[2]watched{}
				results[key] = res
				for i, c := range []*http.Client{r.fast, r.stock} {
					started.Add(1)
					seen.Add(1)
					ended.Go(func() { res[i] = r.follow(ctx, c, key, last, started.Done, seen.Done) })
				}
			}
		}
	}
	started.Wait()
	r.change()
	seen.Wait()
	time.Sleep(200 * time.Millisecond) // for events that should not be there
	cancel()
	ended.Wait()
	events := 0
	for key, res := range results {
		fast, stock := res[0], res[1]
		events += len(fast.lines)
		if !fast.complete || !stock.complete {
			r.Errorf("%s: the last event did not arrive: %t, %t", key, !fast.complete, !stock.complete)
		}
		if !slices.Equal(fast.lines, stock.lines) {
			for i := range max(len(fast.lines), len(stock.lines)) {
				a, b := append(fast.lines, "", "")[min(i, len(fast.lines))], append(stock.lines, "", "")[min(i, len(stock.lines))]
				if a != b {
					r.Errorf("%s: event %d:\n%s\n%s", key, i, a, b)
					break
				}
			}
		}
	}
	if events < 100 {
		r.Error("only", events, "events")
	}
}

// change changes objects so that they begin and cease to match selectors.
func (r *readers) change() {
	const things = "/apis/reads.example.com/v1/namespaces/a/things"
	object := func(name, color string, even bool) string {
		return fmt.Sprintf(`{"apiVersion":"reads.example.com/v1","kind":"Thing","metadata":{"name":"%s","labels":{"even":"%t"}},"spec":{"color":"%s","size":1}}`, name, even, color)
	}
	r.must(http.StatusCreated, http.MethodPost, things, object("w1", "red", true))
	r.must(http.StatusCreated, http.MethodPost, things, object("w2", "blue", false))
	r.must(http.StatusOK, http.MethodPatch, things+"/w1", `{"spec":{"color":"blue"}}`)
	r.must(http.StatusOK, http.MethodPatch, things+"/w2", `{"metadata":{"labels":{"even":"true"}},"spec":{"color":"red"}}`)
	r.must(http.StatusOK, http.MethodPatch, things+"/w1", `{"metadata":{"labels":{"even":"false"}}}`)
	r.must(http.StatusOK, http.MethodPatch, things+"/t00", `{"spec":{"size":77}}`)
	r.must(http.StatusOK, http.MethodDelete, things+"/w1", "")
	r.must(http.StatusOK, http.MethodDelete, things+"/w2", "")
	r.must(http.StatusOK, http.MethodDelete, things+"/t02", "")
	r.put("reads.example.com/things/a/raw", `{"kind":"Thing","apiVersion":"reads.example.com/v1","metadata":{"name":"raw","namespace":"a","labels":{"even":"true"}},"spec":{"color":"red","unknown":1}}`)
}
