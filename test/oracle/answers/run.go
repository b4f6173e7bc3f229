package answers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Answer is what clients read of an answer. What differs from run to run is replaced: see normalize.
type Answer struct {
	ID     string            `json:"id"`
	Status int               `json:"status"`
	Header map[string]string `json:"header,omitempty"`
	// Body is JSON, or a string.
	Body json.RawMessage `json:"body,omitempty"`
}

// headers are those that clients read.
var headers = []string{"Content-Type", "Allow", "Location", "Retry-After", "Warning", "Www-Authenticate"}

// requestTime is the time that one request may take.
const requestTime = 20 * time.Second

// Client makes requests to a server.
type Client struct {
	// URL is that of the server.
	URL  string
	HTTP *http.Client
	// Authorize adds the credentials of an administrator to a request.
	Authorize func(*http.Request)
}

// Setup creates what exists before the first request, and waits until the server knows it.
func (c *Client) Setup(ctx context.Context) error {
	all, err := initial()
	if err != nil {
		return err
	}
	for _, r := range all {
		if a, err := c.Do(ctx, r); err != nil || a.Status != http.StatusCreated {
			return fmt.Errorf("%s: %s, %w", r.ID, text(a), err)
		}
	}
	for _, path := range []string{"/apis/example.com/v1/namespaces/answers/widgets/none", "/apis/example.com/v1/gadgets/none"} {
		for {
			a, err := c.Do(ctx, Request{ID: "wait", Method: "GET", Path: path})
			if err != nil {
				return err
			}
			if strings.Contains(string(a.Body), `"name":"none"`) { // the resource is known, and has no such object
				break
			}
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

// Do makes a request.
func (c *Client) Do(ctx context.Context, r Request) (*Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, r.Method, c.URL+r.Path, strings.NewReader(r.Body))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.ID, err)
	}
	req.Header.Set("User-Agent", "answers")
	if r.ContentType != "" {
		req.Header.Set("Content-Type", r.ContentType)
	}
	if r.Accept != "" {
		req.Header.Set("Accept", r.Accept)
	}
	c.Authorize(req)
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.ID, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.ID, err)
	}
	a := &Answer{ID: r.ID, Status: resp.StatusCode, Header: map[string]string{}}
	for _, name := range headers {
		if values := resp.Header.Values(name); len(values) > 0 {
			a.Header[name] = normalize(strings.Join(values, "\n"))
		}
	}
	a.Body = normalizeBody(body, resp.Header.Get("Content-Type"))
	return a, nil
}

// varying is what differs from run to run, in texts.
var varying = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "<uid>"},
	{regexp.MustCompile(`\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "<time>"},
	{regexp.MustCompile(`(ResourceVersion in object meta: |ResourceVersion in record \(|current: |resourceVersion\\":\\"|resourceVersion":")\d+`), "$1<version>"},
	{regexp.MustCompile(`A_[a-z0-9]{5}\b`), "<generated>"},
	{regexp.MustCompile(`X509SHA256=[0-9a-f]+`), "<credential>"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "<server>"},
	{regexp.MustCompile(`\b10\.0\.0\.\d+\b`), "<address>"},
}

func normalize(s string) string {
	for _, v := range varying {
		s = v.what.ReplaceAllString(s, v.with)
	}
	return s
}

// normalizeBody returns a body without what differs from run to run.
func normalizeBody(body []byte, contentType string) json.RawMessage {
	if len(body) == 0 {
		return nil
	}
	if strings.Contains(contentType, "protobuf") || strings.Contains(contentType, "cbor") {
		return json.RawMessage(`"` + contentType + `"`) // the content is compared as JSON
	}
	var value any
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if decoder.Decode(&value) != nil || decoder.More() {
		value = dropVersions.ReplaceAllString(string(body), "$1: <varies>")
	}
	data, err := json.Marshal(normalizeValue(value, ""))
	if err != nil {
		panic(err) // it is from JSON
	}
	return data
}

// dropVersions matches fields that differ from run to run in YAML.
var dropVersions = regexp.MustCompile(`(?m)\b(resourceVersion|uid|time|creationTimestamp|deletionTimestamp): .*$`)

func normalizeValue(value any, field string) any {
	switch value := value.(type) {
	case map[string]any:
		for name, v := range value {
			value[name] = normalizeValue(v, name)
		}
	case []any:
		for i, v := range value {
			value[i] = normalizeValue(v, field)
		}
		if field == "managedFields" {
			// Servers sort them by time, in seconds, so their order depends on when a second begins.
			slices.SortFunc(value, func(a, b any) int { return strings.Compare(text(a), text(b)) })
		}
	case string:
		switch {
		case field == "resourceVersion" && value != "" && value != "0", field == "continue" && value != "", field == "token" && strings.Count(value, ".") == 2:
			return "<varies>"
		case field == "cells" && ageCell.MatchString(value):
			return "<age>"
		}
		return normalize(value)
	}
	return value
}

// ageCell matches an age in a table: of a new object, or since a time in an object.
var ageCell = regexp.MustCompile(`^(<unknown>|\d+[smhdy]|\d+m\d+s|\d+h\d+m|\d+d\d+h|\d+y\d+d)$`)
