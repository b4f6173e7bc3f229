package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"espalier.dev/cmd/espalier/internal/migrate"
	"espalier.dev/schema"
)

// faultyProxy is a proxy in front of a cluster that handles some requests itself.
type faultyProxy struct {
	*httptest.Server
	forward *httputil.ReverseProxy
}

// newFaultyProxy starts a proxy. handle reports whether it has answered a request.
func newFaultyProxy(c *jobsCluster, handle func(p *faultyProxy, w http.ResponseWriter, r *http.Request) bool) *faultyProxy {
	c.Helper()
	target, err := url.Parse(c.server.URL())
	if err != nil {
		c.Fatal(err)
	}
	p := &faultyProxy{forward: &httputil.ReverseProxy{Transport: c.http.Transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !handle(p, w, r) {
			p.forward.ServeHTTP(w, r)
		}
	}))
	c.Cleanup(p.Close)
	return p
}

// run migrates the jobs through the proxy.
func (p *faultyProxy) run(c *jobsCluster, m migrate.Migration) (*migrate.Counts, error) {
	c.Helper()
	client, err := migrate.NewClient(&rest.Config{Host: p.URL})
	if err != nil {
		c.Fatal(err)
	}
	client.RetryFor = 3 * time.Second
	m.Client, m.Semantics = client, c.sem
	r, err := client.Resource(c.Context(), jobsName)
	if err != nil {
		c.Fatal(err)
	}
	return m.Run(c.Context(), r)
}

// failRequest answers with an error.
func failRequest(w http.ResponseWriter, code int, reason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":%q,"code":%d}`, reason, message, code)
}

// TestMigrationFaults migrates while the server fails. In the end, a migration that says that it is
// complete has migrated everything, and any other one can be run again.
func TestMigrationFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for retries")
	}
	t.Parallel()
	c := newJobsCluster(t, schema.KEP)
	two := []string{jobsVersion("v1", false, `"n":{"type":"integer"}`), jobsVersion("v2", true, `"n":{"type":"integer"}`)}
	c.apply(versionedJobs(jobsVersion("v1", true, `"n":{"type":"integer"}`), jobsVersion("v2", false, `"n":{"type":"integer"}`)))
	const objects = 20
	fill := func() {
		for i := range objects {
			name := fmt.Sprintf("job-%d", i)
			c.store(name, storedJob(name, "v1", fmt.Sprintf(`"n":%d,"x":true`, i)))
		}
	}
	storedVersions := func() string {
		crd := decodeObject(t, c.must(http.MethodGet, crdsPath+"/"+jobsName, ""))
		return fmt.Sprint(crd["status"].(map[string]any)["storedVersions"])
	}
	stale := func() (n int) {
		for i := range objects {
			if text, _ := c.stored(fmt.Sprintf("job-%d", i)); strings.Contains(text, `"x"`) {
				n++
			}
		}
		return n
	}
	isWrite := func(r *http.Request) bool {
		return r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/jobs/job-")
	}
	complete := func(counts *migrate.Counts, err error) bool {
		return err == nil && counts.Objects == objects && counts.Of[migrate.Failed] == 0 && stale() == 0 && storedVersions() == "[v2]"
	}
	incomplete := func(counts *migrate.Counts, err error) bool { return stale() > 0 && storedVersions() == "[v1 v2]" }
	var requests atomic.Int64
	for _, tc := range []struct {
		name   string
		handle func(p *faultyProxy, w http.ResponseWriter, r *http.Request) bool
		want   func(*migrate.Counts, error) bool
	}{
		{"busy", func(_ *faultyProxy, w http.ResponseWriter, r *http.Request) bool {
			n := requests.Add(1)
			switch {
			case n%7 == 0:
				failRequest(w, http.StatusServiceUnavailable, "ServiceUnavailable", "starting")
			case n%11 == 0:
				w.Header().Set("Retry-After", "1")
				failRequest(w, http.StatusTooManyRequests, "TooManyRequests", "slow down")
			case n%13 == 0:
				http.Error(w, "<html>", http.StatusBadGateway)
			default:
				return false
			}
			return true
		}, complete},
		{"lost answers", func(p *faultyProxy, w http.ResponseWriter, r *http.Request) bool {
			if !isWrite(r) || requests.Add(1)%3 != 0 {
				return false
			}
			p.forward.ServeHTTP(httptest.NewRecorder(), r) // the server does it, but nobody learns of it
			panic(http.ErrAbortHandler)
		}, complete},
		{"server dies", func(_ *faultyProxy, w http.ResponseWriter, r *http.Request) bool {
			if requests.Add(1) > 10 {
				panic(http.ErrAbortHandler)
			}
			return false
		}, func(counts *migrate.Counts, err error) bool {
			unavailable := (*migrate.UnavailableError)(nil)
			return errors.As(err, &unavailable) && counts.Of[migrate.Rewritten] > 0 && incomplete(counts, err)
		}},
		{"all forbidden", func(_ *faultyProxy, w http.ResponseWriter, r *http.Request) bool {
			if isWrite(r) {
				failRequest(w, http.StatusForbidden, "Forbidden", "no")
			}
			return isWrite(r)
		}, func(counts *migrate.Counts, err error) bool {
			return apierrors.IsForbidden(err) && incomplete(counts, err)
		}},
		{"unauthorized", func(_ *faultyProxy, w http.ResponseWriter, r *http.Request) bool {
			if isWrite(r) && requests.Add(1) > 5 {
				failRequest(w, http.StatusUnauthorized, "Unauthorized", "expired")
				return true
			}
			return false
		}, func(counts *migrate.Counts, err error) bool {
			return apierrors.IsUnauthorized(err) && incomplete(counts, err)
		}},
		{"some rejected", func(_ *faultyProxy, w http.ResponseWriter, r *http.Request) bool {
			if isWrite(r) && strings.HasSuffix(r.URL.Path, "3") {
				failRequest(w, http.StatusUnprocessableEntity, "Invalid", "bad")
				return true
			}
			return false
		}, func(counts *migrate.Counts, err error) bool {
			return err == nil && counts.Of[migrate.Failed] == 2 && counts.Of[migrate.Rewritten] == objects-2 && stale() == 2 && incomplete(counts, err)
		}},
		{"conflict that is none", func(_ *faultyProxy, w http.ResponseWriter, r *http.Request) bool {
			if isWrite(r) && strings.HasSuffix(r.URL.Path, "3") {
				failRequest(w, http.StatusConflict, "Conflict", "a webhook says so")
				return true
			}
			return false
		}, func(counts *migrate.Counts, err error) bool {
			return err == nil && counts.Of[migrate.Failed] == 2 && incomplete(counts, err)
		}},
		{"deleted", func(_ *faultyProxy, w http.ResponseWriter, r *http.Request) bool {
			if isWrite(r) && strings.HasSuffix(r.URL.Path, "3") {
				c.must(http.MethodDelete, r.URL.Path, "")
			}
			return false
		}, func(counts *migrate.Counts, err error) bool {
			_, revision := c.stored("job-3")
			return err == nil && counts.Of[migrate.Deleted] == 2 && revision == 0 && storedVersions() == "[v2]"
		}},
		{"overtaken once", func(_ *faultyProxy, w http.ResponseWriter, r *http.Request) bool {
			if isWrite(r) && requests.Add(1) <= 5 {
				c.must(http.MethodPatch, r.URL.Path, fmt.Sprintf(`{"spec":{"n":%d}}`, 100+requests.Load()))
			}
			return false
		}, complete},
		{"overtaken again and again", func(_ *faultyProxy, w http.ResponseWriter, r *http.Request) bool {
			if isWrite(r) && strings.HasSuffix(r.URL.Path, "3") {
				c.must(http.MethodPatch, r.URL.Path, fmt.Sprintf(`{"spec":{"n":%d}}`, 100+requests.Add(1)))
			}
			return false
		}, func(counts *migrate.Counts, err error) bool {
			return counts.Of[migrate.Overtaken] == 2 && complete(counts, err)
		}},
		{"pages expire", func(p *faultyProxy, w http.ResponseWriter, r *http.Request) bool {
			query := r.URL.Query()
			if token := query.Get("continue"); token != "" && requests.Add(1)%2 == 1 {
				w.WriteHeader(http.StatusGone)
				fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","metadata":{"continue":%q},"status":"Failure","reason":"Expired","code":410}`, token)
				return true
			}
			if query.Has("limit") {
				query.Set("limit", "3")
				r.URL.RawQuery = query.Encode()
			}
			return false
		}, func(counts *migrate.Counts, err error) bool { return requests.Load() > 10 && complete(counts, err) }},
		{"CRD changed", func(_ *faultyProxy, w http.ResponseWriter, r *http.Request) bool {
			if isWrite(r) && requests.Add(1) == 5 {
				c.apply(versionedJobs(append(two, jobsVersion("v3", false, `"n":{"type":"integer"}`))...))
			}
			return false
		}, func(counts *migrate.Counts, err error) bool {
			changed := (*migrate.ChangedError)(nil)
			return errors.As(err, &changed) && storedVersions() == "[v1 v2]"
		}},
	} {
		requests.Store(0)
		fill()
		c.apply(versionedJobs(two...))
		c.must(http.MethodPatch, crdsPath+"/"+jobsName+"/status", `{"status":{"storedVersions":["v1","v2"]}}`)
		counts, err := newFaultyProxy(c, tc.handle).run(c, migrate.Migration{})
		if !tc.want(counts, err) {
			t.Errorf("%s: %+v, %v, %d objects are stale, storedVersions is %s", tc.name, counts, err, stale(), storedVersions())
		}
		if _, counts := c.migrate(migrate.Migration{}); stale() != 0 || storedVersions() != "[v2]" {
			t.Errorf("%s: after another run: %+v, %d objects are stale, storedVersions is %s", tc.name, counts, stale(), storedVersions())
		}
	}

	deleted := newFaultyProxy(c, func(_ *faultyProxy, w http.ResponseWriter, r *http.Request) bool {
		if isWrite(r) && requests.Add(1) == 5 {
			c.must(http.MethodDelete, crdsPath+"/"+jobsName, "")
		}
		return false
	})
	requests.Store(0)
	fill()
	_, err := deleted.run(c, migrate.Migration{})
	if changed := (*migrate.ChangedError)(nil); !errors.As(err, &changed) {
		t.Errorf("after the deletion of the CRD, the error is %v", err)
	}
}
