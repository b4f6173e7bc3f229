package custom_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"espalier.dev/schema"
	"espalier.dev/server/servertest"
)

// TestReadForms checks what a comparison of two answers at one time does not show: lists in
// parts while objects change, compression, and bookmarks.
func TestReadForms(t *testing.T) {
	t.Parallel()
	r := newReaders(t, schema.Kubernetes)
	r.define(`{"type":"object","x-kubernetes-preserve-unknown-fields":true}`)
	const count = 60
	var want []string
	for i := range count {
		name := fmt.Sprintf("r%02d", i)
		want = append(want, name)
		r.must(http.StatusCreated, http.MethodPost, rows("v1"), `{"apiVersion":"reads.example.com/v1","kind":"Row","metadata":{"name":"`+name+`"},"spec":{"text":"`+strings.Repeat(name, 1000)+`"}}`)
	}

	t.Run("parts", func(t *testing.T) {
		var got []string
		revision := ""
		for token, page := "", 0; page == 0 || token != ""; page++ {
			part, next, at := servertest.Names(t, r.must(http.StatusOK, http.MethodGet, rows("v1")+"?limit=7&continue="+url.QueryEscape(token), ""))
			if revision != "" && at != revision {
				t.Errorf("the part has revision %s, the first had %s", at, revision)
			}
			got, token, revision = append(got, part...), next, at
			// What changes meanwhile is in no part.
			r.must(http.StatusCreated, http.MethodPost, rows("v1"), fmt.Sprintf(`{"apiVersion":"reads.example.com/v1","kind":"Row","metadata":{"name":"s%02d"}}`, page))
			r.must(http.StatusOK, http.MethodDelete, rows("v1")+"/"+fmt.Sprintf("s%02d", page), "")
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %v", got)
		}
	})

	compressed := func(path string) (fast, stock []byte) {
		header := http.Header{"Accept-Encoding": {"gzip"}}
		for _, c := range []struct {
			client *http.Client
			into   *[]byte
		}{{r.fast, &fast}, {r.stock, &stock}} {
			resp, body := r.read(c.client, path, header)
			if resp.Header.Get("Content-Encoding") != "gzip" || resp.Header.Get("Vary") != "Accept-Encoding" {
				t.Fatalf("%s: %v", path, resp.Header)
			}
			z, err := gzip.NewReader(bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			if *c.into, err = io.ReadAll(z); err != nil {
				t.Error(err)
			}
		}
		return fast, stock
	}
	t.Run("gzip", func(t *testing.T) {
		if fast, stock := compressed(rows("v1")); !bytes.Equal(fast, stock) {
			t.Errorf("%.1000s\n%.1000s", fast, stock)
		}
		fast, stock := compressed(rows("v1") + "?watch=true&timeoutSeconds=2&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
		if !bytes.Equal(fast, stock) || bytes.Count(fast, []byte("\n")) != count+1 {
			t.Errorf("%.1000s\n%.1000s", fast, stock)
		}
		if resp, _ := r.read(r.fast, rows("v1")+"?limit=1", http.Header{"Accept-Encoding": {"gzip"}}); resp.Header.Get("Content-Encoding") != "" {
			t.Error("a short list is compressed")
		}
	})

	t.Run("events of a compressed watch", func(t *testing.T) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.server.URL()+rows("v1")+"?watch=true&timeoutSeconds=60&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept-Encoding", "gzip")
		resp, err := r.fast.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		z, err := gzip.NewReader(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(z)
		for lines.Scan() && !bytes.HasPrefix(lines.Bytes(), []byte(`{"type":"BOOKMARK"`)) {
		}
		// Each event arrives before the next is written.
		want := func(kind string) {
			t.Helper()
			if !lines.Scan() || !bytes.HasPrefix(lines.Bytes(), []byte(`{"type":"`+kind+`"`)) {
				t.Errorf("%.100s, %v, want %s", lines.Bytes(), lines.Err(), kind)
			}
		}
		r.must(http.StatusCreated, http.MethodPost, rows("v1"), `{"apiVersion":"reads.example.com/v1","kind":"Row","metadata":{"name":"compressed"}}`)
		want("ADDED")
		r.must(http.StatusOK, http.MethodDelete, rows("v1")+"/compressed", "")
		want("DELETED")
	})

	t.Run("bookmarks", func(t *testing.T) {
		_, _, from := servertest.Names(t, r.must(http.StatusOK, http.MethodGet, rows("v1")+"?limit=1", ""))
		// The watch does not select this object, but its bookmark is newer.
		var obj struct {
			Metadata struct{ ResourceVersion string }
		}
		if err := json.Unmarshal([]byte(r.must(http.StatusCreated, http.MethodPost, rows("v1"), `{"apiVersion":"reads.example.com/v1","kind":"Row","metadata":{"name":"later"}}`)), &obj); err != nil {
			t.Fatal(err)
		}
		at, _ := strconv.Atoi(obj.Metadata.ResourceVersion)
		events := 0
		r.watch(t.Context(), r.fast, rows("v1")+"?watch=true&timeoutSeconds=6&allowWatchBookmarks=true&fieldSelector=metadata.name%3Dnone&resourceVersion="+from, nil, func(line string) bool {
			events++
			var event struct {
				Type   string
				Object struct {
					Kind, APIVersion string
					Metadata         struct{ ResourceVersion string }
				}
			}
			if err := json.Unmarshal([]byte(line), &event); err != nil {
				t.Error(err)
			}
			if n, _ := strconv.Atoi(event.Object.Metadata.ResourceVersion); event.Type != "BOOKMARK" || event.Object.Kind != "Row" || event.Object.APIVersion != "reads.example.com/v1" || n < at {
				t.Errorf("%s, want a bookmark at %d", line, at)
			}
			return false
		})
		if events == 0 {
			t.Error("no bookmark")
		}
	})
}
