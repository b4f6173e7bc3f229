package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"k8s.io/client-go/rest"
)

// maxAnswer is the maximum size of an answer. Pages have about pageBytes, or one object if that is
// larger; the first page can have firstPage large objects.
const maxAnswer = 256 << 20

// HTTPClient returns a client for an API server. It follows no redirects, because the credentials
// are for this server only, and it does not read answers without an end into memory.
func HTTPClient(config *rest.Config) (*http.Client, error) {
	shared, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	client := *shared // it may be that of other packages
	if client.Transport == nil {
		client.Transport = http.DefaultTransport
	}
	client.Transport = &strictTransport{client.Transport}
	return &client, nil
}

// strictTransport fails if an answer is a redirect, and limits the size of answers.
type strictTransport struct{ http.RoundTripper }

// WrappedRoundTripper returns the transport that has the connections, so that idle ones can be closed.
func (t *strictTransport) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }

func (t *strictTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if to, err := resp.Location(); err == nil && resp.StatusCode >= 300 && resp.StatusCode < 400 {
		_ = resp.Body.Close() // it is not used
		return nil, fmt.Errorf("the server redirects to %s, which is not followed: set the address of the API server in the kubeconfig",
			to.Redacted())
	}
	resp.Body = &limitedBody{ReadCloser: resp.Body, left: maxAnswer}
	return resp, nil
}

// limitedBody fails after a number of bytes.
type limitedBody struct {
	io.ReadCloser
	left int64
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("the answer is larger than %d MiB", maxAnswer>>20)
	}
	return n, err
}

// elements returns the elements of a JSON array, or of null. More of them than a limit are an error: an element of
// two bytes needs a hundred times as much in memory.
func elements[T any](array json.RawMessage, most int) (all []T, err error) {
	if string(bytes.TrimSpace(array)) == "null" || len(array) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(array))
	if start, err := d.Token(); err != nil || start != json.Delim('[') {
		return nil, errors.New("it is not a list")
	}
	all = []T{}
	for d.More() {
		if len(all) == most {
			return nil, fmt.Errorf("there are more than %d", most)
		}
		var element T
		if err := d.Decode(&element); err != nil {
			return nil, err
		}
		all = append(all, element)
	}
	return all, nil
}
