package custom_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"espalier.dev/schema"
	"espalier.dev/server/servertest"
)

// TestReadsEdges checks reads for which k8s.io/apiserver is no reference: it answers them
// incorrectly, or at random.
func TestReadsEdges(t *testing.T) {
	t.Parallel()
	r := newReaders(t, schema.Kubernetes)
	r.must(http.StatusCreated, http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", r.definition(looseSchema, otherSchema))
	const things = "/apis/reads.example.com/v1/things"
	namespaced := func(namespace string) string {
		return "/apis/reads.example.com/v1/namespaces/" + namespace + "/things"
	}
	var want []string
	for i := range 9 {
		namespace := []string{"a", "b", "c"}[i%3]
		name := fmt.Sprintf("t%d", i)
		if namespace == "b" {
			want = append(want, name)
		}
		r.must(http.StatusCreated, http.MethodPost, namespaced(namespace), `{"apiVersion":"reads.example.com/v1","kind":"Thing","metadata":{"name":"`+name+`"}}`)
	}

	t.Run("pages of a namespace that is selected", func(t *testing.T) {
		var got []string
		for token, page := "", 0; page == 0 || token != "" && page < 10; page++ {
			q := url.Values{"fieldSelector": {"metadata.namespace=b"}, "limit": {"1"}}
			if token != "" {
				q.Set("continue", token)
			}
			part, next, _ := servertest.Names(t, r.must(http.StatusOK, http.MethodGet, things+"?"+q.Encode(), ""))
			got, token = append(got, part...), next
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})

	t.Run("revisions that etcd cannot have", func(t *testing.T) {
		for _, revision := range []string{"9223372036854775808", "18446744073709551615"} {
			const message = "Too large resource version: "
			for _, path := range []string{namespaced("a") + "/t0?", things + "?", things + "?limit=1&", things + "?resourceVersionMatch=Exact&", things + "?resourceVersionMatch=NotOlderThan&"} {
				path += "resourceVersion=" + revision
				if body := r.must(http.StatusGatewayTimeout, http.MethodGet, path, ""); !strings.Contains(body, message+revision) {
					t.Errorf("%s: %s", path, body)
				}
			}
			for _, parameters := range []string{"", "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&"} {
				path := things + "?watch=true&timeoutSeconds=1&" + parameters + "resourceVersion=" + revision
				var event struct {
					Type   string
					Object struct {
						Code    int
						Message string
					}
				}
				body := r.must(http.StatusOK, http.MethodGet, path, "")
				if err := json.Unmarshal([]byte(body), &event); err != nil || event.Type != "ERROR" || event.Object.Code != http.StatusGatewayTimeout || !strings.Contains(event.Object.Message, message+revision) {
					t.Errorf("%s: %v, %s", path, err, body)
				}
			}
		}
	})

	t.Run("bookmarks of a revision in the future", func(t *testing.T) {
		at, err := strconv.Atoi(r.now())
		if err != nil {
			t.Fatal(err)
		}
		const watch = things + "?watch=true&timeoutSeconds=5&allowWatchBookmarks=true&resourceVersion="
		if body := r.must(http.StatusOK, http.MethodGet, watch+strconv.Itoa(at+1000), ""); body != "" {
			t.Errorf("the watch goes back: %s", body)
		}
		if body := r.must(http.StatusOK, http.MethodGet, watch+strconv.Itoa(at), ""); !strings.Contains(body, "BOOKMARK") {
			t.Errorf("no bookmark: %q", body)
		}
	})
}
