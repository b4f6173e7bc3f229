package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// garbage is a server with custom resources in which objects own each other.
type garbage struct {
	testing.TB
	options *Options
	server  *Server
	url     string
	client  *http.Client
}

const plots, gardens = "/apis/garbage.example.com/v1/namespaces/%s/plots", "/apis/garbage.example.com/v1/gardens"

func newGarbage(t testing.TB, controllers ...string) *garbage {
	t.Helper()
	g := &garbage{TB: t, options: testOptions(t)}
	if len(controllers) > 0 {
		g.options.Controllers = controllers
	}
	g.start()
	t.Cleanup(func() {
		if err := g.server.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	g.define()
	return g
}

// define creates the CRDs.
func (g *garbage) define() {
	g.Helper()
	for kind, scope := range map[string]string{"Plot": "Namespaced", "Garden": "Cluster"} {
		singular := strings.ToLower(kind)
		g.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
			"metadata":{"name":"%[1]ss.garbage.example.com"},"spec":{"group":"garbage.example.com","scope":%[3]q,
			"names":{"kind":%[2]q,"plural":"%[1]ss","singular":%[1]q},
			"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`, singular, kind, scope))
	}
	eventually(g, func() error {
		for _, path := range []string{fmt.Sprintf(plots, "default"), gardens} {
			if code, _, err := g.try(http.MethodGet, path, ""); err != nil || code != http.StatusOK {
				return fmt.Errorf("%s: %d %w", path, code, err)
			}
		}
		return nil
	})
}

func (g *garbage) start() {
	g.Helper()
	var err error
	if g.server, err = start(g, g.options); err != nil {
		g.Fatal(err)
	}
	g.url, g.client = g.server.URL(), client(g, g.server, nil)
}

func (g *garbage) restart() {
	g.Helper()
	if err := g.server.Stop(); err != nil {
		g.Fatal(err)
	}
	g.start()
}

// stored is the part of an object that the tests look at.
type stored struct {
	Metadata struct {
		Name, UID         string
		Finalizers        []string
		DeletionTimestamp *string
		OwnerReferences   []any
	}
	Spec   struct{ Finalizers []string }
	Status struct {
		Phase      string
		Conditions []struct{ Type, Status, Reason, Message string }
	}
	Items []stored
	Data  map[string]string
}

func (g *garbage) try(method, path, body string) (int, *stored, error) {
	req, err := http.NewRequestWithContext(context.Background(), method, g.url+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := g.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	data, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return 0, nil, err
	}
	obj := &stored{}
	if resp.StatusCode < 300 {
		if bytes.Contains(data, []byte(`"kind":"Status"`)) {
			return resp.StatusCode, obj, nil // its status is a text
		}
		if err := json.Unmarshal(data, obj); err != nil {
			return 0, nil, fmt.Errorf("%s: %w", bytes.TrimSpace(data), err)
		}
		return resp.StatusCode, obj, nil
	}
	if resp.StatusCode != http.StatusNotFound && resp.StatusCode != http.StatusForbidden && resp.StatusCode != http.StatusConflict {
		err = fmt.Errorf("%s %s: %d %s", method, path, resp.StatusCode, data)
	}
	return resp.StatusCode, obj, err
}

func (g *garbage) do(method, path, body string, codes ...int) *stored {
	g.Helper()
	code, obj, err := g.try(method, path, body)
	if err != nil {
		g.Fatal(err)
	}
	for _, want := range append(codes, http.StatusOK, http.StatusCreated, http.StatusAccepted) {
		if code == want {
			return obj
		}
	}
	g.Fatalf("%s %s: %d", method, path, code)
	return nil
}

func (g *garbage) create(path, body string) *stored {
	g.Helper()
	return g.do(http.MethodPost, path, body)
}

func (g *garbage) namespace(name string) {
	g.Helper()
	g.create("/api/v1/namespaces", fmt.Sprintf(`{"metadata":{"name":%q}}`, name))
}

// gone waits until an object is gone.
func (g *garbage) gone(path string) {
	g.Helper()
	eventually(g, func() error {
		code, obj, err := g.try(http.MethodGet, path, "")
		if code == http.StatusNotFound {
			return nil
		}
		return fmt.Errorf("%s is there: %+v %w", path, obj, err)
	})
}

func propagation(policy string) string { return fmt.Sprintf(`{"propagationPolicy":%q}`, policy) }

func owners(refs ...string) string { return `"ownerReferences":[` + strings.Join(refs, ",") + `]` }

func reference(apiVersion, kind, name, uid string, block bool) string {
	return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"name":%q,"uid":%q,"blockOwnerDeletion":%v}`, apiVersion, kind, name, uid, block)
}

// TestControllersOff checks what remains without controllers: the marks of deletions.
func TestControllersOff(t *testing.T) {
	t.Parallel()
	g := newGarbage(t, "*", "-garbagecollector", "-namespace", "-serviceaccount", "-root-ca-certificate-publisher")
	if _, body := get(t, g.server, g.client, "/readyz?verbose"); strings.Contains(body, "controller/garbagecollector") || strings.Contains(body, "controller/namespace") {
		t.Error("a controller runs:", body)
	}
	g.namespace("off")
	maps, custom := "/api/v1/namespaces/off/configmaps", fmt.Sprintf(plots, "off")
	g.create(maps, `{"metadata":{"name":"a"}}`)
	g.create(custom, `{"apiVersion":"garbage.example.com/v1","kind":"Plot","metadata":{"name":"a"}}`)
	g.create(custom, `{"apiVersion":"garbage.example.com/v1","kind":"Plot","metadata":{"name":"b"}}`)
	for path, policy := range map[string]string{maps + "/a": "Foreground", custom + "/a": "Foreground", custom + "/b": "Orphan"} {
		g.do(http.MethodDelete, path, propagation(policy))
		obj, want := g.do(http.MethodGet, path, ""), map[string]string{"Foreground": "foregroundDeletion", "Orphan": "orphan"}[policy]
		if obj.Metadata.DeletionTimestamp == nil || fmt.Sprint(obj.Metadata.Finalizers) != "["+want+"]" {
			t.Errorf("%s: %+v", path, obj)
		}
	}
	g.do(http.MethodDelete, "/api/v1/namespaces/off", "")
	ns := g.do(http.MethodGet, "/api/v1/namespaces/off", "")
	if ns.Status.Phase != "Terminating" || fmt.Sprint(ns.Spec.Finalizers) != "[kubernetes]" || ns.Metadata.DeletionTimestamp == nil {
		t.Errorf("the namespace: %+v", ns)
	}
	// What the controllers leave is what a client can do.
	for _, path := range []string{maps + "/a", custom + "/a", custom + "/b"} {
		g.do(http.MethodPatch, path, `{"metadata":{"finalizers":null}}`)
		g.gone(path)
	}
	g.do(http.MethodPut, "/api/v1/namespaces/off/finalize", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"off"},"spec":{"finalizers":[]}}`)
	g.gone("/api/v1/namespaces/off")
}

// TestGarbage checks the policies of deletion.
func TestGarbage(t *testing.T) {
	t.Parallel()
	g := newGarbage(t)
	g.namespace("one")
	maps, custom := "/api/v1/namespaces/one/configmaps", fmt.Sprintf(plots, "one")
	family := func(name string, block bool) (parent, child string) {
		uid := g.create(custom, fmt.Sprintf(`{"apiVersion":"garbage.example.com/v1","kind":"Plot","metadata":{"name":%q}}`, name)).Metadata.UID
		g.create(maps, fmt.Sprintf(`{"metadata":{"name":%q,"finalizers":["example.com/hold"],%s}}`, name, owners(reference("garbage.example.com/v1", "Plot", name, uid, block))))
		return custom + "/" + name, maps + "/" + name
	}
	deleting := func(path string) {
		t.Helper()
		eventually(t, func() error {
			if _, obj, err := g.try(http.MethodGet, path, ""); err != nil || obj.Metadata.DeletionTimestamp == nil {
				return fmt.Errorf("%s is not being deleted: %w", path, err)
			}
			return nil
		})
	}
	release := func(path string) {
		t.Helper()
		g.do(http.MethodPatch, path, `{"metadata":{"finalizers":null}}`)
		g.gone(path)
	}

	parent, child := family("background", true)
	g.do(http.MethodDelete, parent, "")
	g.gone(parent)
	deleting(child)
	release(child)

	parent, child = family("foreground", true)
	g.do(http.MethodDelete, parent, propagation("Foreground"))
	deleting(child)
	if obj := g.do(http.MethodGet, parent, ""); fmt.Sprint(obj.Metadata.Finalizers) != "[foregroundDeletion]" {
		t.Errorf("the parent does not wait: %+v", obj)
	}
	release(child)
	g.gone(parent)

	parent, child = family("unblocked", false)
	g.do(http.MethodDelete, parent, propagation("Foreground"))
	g.gone(parent)
	deleting(child)
	release(child)

	parent, child = family("orphan", true)
	g.do(http.MethodDelete, parent, propagation("Orphan"))
	g.gone(parent)
	if obj := g.do(http.MethodGet, child, ""); len(obj.Metadata.OwnerReferences) != 0 || obj.Metadata.DeletionTimestamp != nil {
		t.Errorf("the child is not orphaned: %+v", obj)
	}

	// A kind that becomes known: nothing happens before, and the owner is absent after.
	g.create(maps, fmt.Sprintf(`{"metadata":{"name":"later",%s}}`, owners(reference("later.example.com/v1", "Later", "x", "1", false))))
	g.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
		"metadata":{"name":"laters.later.example.com"},"spec":{"group":"later.example.com","scope":"Namespaced","names":{"kind":"Later","plural":"laters"},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`)
	g.gone(maps + "/later")
}

// TestGarbageCycles deletes objects that own each other in the foreground: one of them, or all at
// the same time. Each blocks the next one, and none of them would ever go if it waited for that.
func TestGarbageCycles(t *testing.T) {
	t.Parallel()
	g := newGarbage(t)
	g.namespace("one")
	maps, custom := "/api/v1/namespaces/one/configmaps", fmt.Sprintf(plots, "one")
	// ring creates n objects that own the next one each, and the last the first.
	ring := func(name string, n int) (paths, uids []string) {
		for i := range n {
			one := fmt.Sprintf("%s-%d", name, i)
			uids = append(uids, g.create(custom, fmt.Sprintf(`{"apiVersion":"garbage.example.com/v1","kind":"Plot","metadata":{"name":%q}}`, one)).Metadata.UID)
			paths = append(paths, custom+"/"+one)
		}
		for i, path := range paths {
			of := (i + n - 1) % n
			g.do(http.MethodPatch, path, fmt.Sprintf(`{"metadata":{%s}}`, owners(reference("garbage.example.com/v1", "Plot", fmt.Sprintf("%s-%d", name, of), uids[of], true))))
		}
		return paths, uids
	}
	for n := 1; n <= 4; n++ {
		for _, all := range []bool{false, true} {
			paths, _ := ring(fmt.Sprintf("ring-%d-%v", n, all), n)
			for i, path := range paths {
				if i == 0 || all {
					// The collector may have deleted the others before.
					g.do(http.MethodDelete, path, propagation("Foreground"), http.StatusNotFound)
				}
			}
			for _, path := range paths {
				g.gone(path)
			}
		}
	}

	// A dependent outside of the cycle still blocks its owner, and with it the whole cycle.
	paths, uids := ring("blocked", 3)
	g.create(maps, fmt.Sprintf(`{"metadata":{"name":"outside","finalizers":["example.com/hold"],%s}}`, owners(reference("garbage.example.com/v1", "Plot", "blocked-1", uids[1], true))))
	for _, path := range paths {
		g.do(http.MethodDelete, path, propagation("Foreground"))
	}
	eventually(t, func() error {
		if _, obj, err := g.try(http.MethodGet, maps+"/outside", ""); err != nil || obj.Metadata.DeletionTimestamp == nil {
			return fmt.Errorf("the dependent is not being deleted: %w", err)
		}
		return nil
	})
	// This cycle was deleted later, so the collector has seen the other one.
	later, _ := ring("later", 2)
	g.do(http.MethodDelete, later[0], propagation("Foreground"))
	g.gone(later[0])
	for _, path := range paths {
		if obj := g.do(http.MethodGet, path, ""); fmt.Sprint(obj.Metadata.Finalizers) != "[foregroundDeletion]" {
			t.Errorf("%s does not wait: %+v", path, obj)
		}
	}
	g.do(http.MethodPatch, maps+"/outside", `{"metadata":{"finalizers":null}}`)
	for _, path := range paths {
		g.gone(path)
	}
}

// member is an object of the model.
type member struct {
	kind, apiVersion, namespace, name, uid string
	path                                   string
	owners                                 []*member
	// stray owners do not exist, unknown ones are of an unknown kind, and invalid ones are
	// namespaced owners of a cluster-scoped object.
	stray, unknown, invalid bool
	policy                  string // of its deletion
	fate                    fate
	judged                  bool
}

type fate int

const (
	lives fate = iota
	dies
	either // the order of events decides
)

// judge returns the fate of an object.
func (m *member) judge() fate {
	if m.judged {
		return m.fate
	}
	m.judged = true
	switch {
	case m.policy != "":
		m.fate = dies
	case m.unknown, m.invalid, len(m.owners) == 0 && !m.stray:
		m.fate = lives
	default:
		m.fate = dies
		orphaned, dead := 0, m.stray
		for _, o := range m.owners {
			switch {
			case o.policy == "Orphan":
				orphaned++
			case o.judge() == lives:
				m.fate = lives
				return lives
			case o.judge() == either:
				m.fate = either
			default:
				dead = true
			}
		}
		if orphaned > 0 && m.fate == dies {
			if m.fate = lives; dead {
				m.fate = either
			}
		}
	}
	return m.fate
}

// TestGarbageModel creates objects that own each other, deletes some of them with all policies
// while others are written, restarts the server, and compares what is left with a model. The
// environment variable GARBAGE_ROUNDS makes it longer, GARBAGE_SEED repeats it.
func TestGarbageModel(t *testing.T) {
	t.Parallel()
	rounds := 2
	if n, err := strconv.Atoi(os.Getenv("GARBAGE_ROUNDS")); err == nil {
		rounds = n
	}
	seed := rand.Uint64()
	if n, err := strconv.ParseUint(os.Getenv("GARBAGE_SEED"), 10, 64); err == nil {
		seed = n
	}
	t.Log("seed", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	g := newGarbage(t)
	g.namespace("one")
	g.namespace("two")
	var all []*member
	for round := range rounds {
		fresh := g.generate(rnd, round, all)
		all = append(all, fresh...)
		var deletions []*member
		for _, m := range fresh {
			if len(m.owners) == 0 && !m.stray && !m.unknown && !m.invalid && rnd.IntN(2) == 0 {
				m.policy = []string{"Background", "Foreground", "Orphan"}[rnd.IntN(3)]
				deletions = append(deletions, m)
			}
		}
		for _, m := range all {
			m.judged = false
		}
		var living []*member
		for _, m := range all {
			if m.judge() == lives {
				living = append(living, m)
			}
		}
		var wait sync.WaitGroup
		for i, m := range deletions {
			wait.Go(func() {
				if _, _, err := g.try(http.MethodDelete, m.path, propagation(m.policy)); err != nil {
					t.Error(err)
				}
			})
			if of := living[i%len(living)]; true {
				wait.Go(func() { // a write does not change the fate
					if code, _, err := g.try(http.MethodPatch, of.path, fmt.Sprintf(`{"metadata":{"labels":{"i":"%d"}}}`, i)); err != nil || code == http.StatusNotFound {
						t.Errorf("%s: %d %v", of.path, code, err)
					}
				})
			}
		}
		wait.Wait()
		g.restart()
		g.compare(all)
	}
}

// generate creates objects whose owners are among themselves, and among older ones that live.
func (g *garbage) generate(rnd *rand.Rand, round int, old []*member) (fresh []*member) {
	g.Helper()
	for i := range 40 {
		m := &member{name: fmt.Sprintf("m-%d-%d", round, i)}
		switch rnd.IntN(5) {
		case 0, 1:
			m.kind, m.apiVersion, m.namespace = "ConfigMap", "v1", []string{"one", "two"}[rnd.IntN(2)]
			m.path = "/api/v1/namespaces/" + m.namespace + "/configmaps"
		case 2, 3:
			m.kind, m.apiVersion, m.namespace = "Plot", "garbage.example.com/v1", []string{"one", "two"}[rnd.IntN(2)]
			m.path = fmt.Sprintf(plots, m.namespace)
		default:
			m.kind, m.apiVersion, m.path = "Garden", "garbage.example.com/v1", gardens
		}
		extra := rnd.IntN(12)
		m.stray, m.unknown = extra == 0, extra == 1
		var named []*member
		for range rnd.IntN(3) {
			candidates := append(fresh[:len(fresh):len(fresh)], old...)
			if len(candidates) == 0 {
				break
			}
			of := candidates[rnd.IntN(len(candidates))]
			named = append(named, of)
			// Owners of older rounds that are being deleted are absent owners.
			switch {
			case m.namespace == "" && of.namespace != "":
				m.invalid = true
			case of.namespace != "" && of.namespace != m.namespace:
				m.stray = true
			case of.policy != "":
				m.stray = true // it was deleted in an earlier round
			default:
				m.owners = append(m.owners, of)
			}
		}
		var refs []string
		for _, of := range named {
			// An object with an owner of an unknown kind or an invalid one stays, and would block its
			// other owners.
			blocks := !m.unknown && !m.invalid && rnd.IntN(2) == 0
			refs = append(refs, reference(of.apiVersion, of.kind, of.name, of.uid, blocks))
		}
		switch {
		case extra == 0:
			refs = append(refs, reference("v1", "Namespace", "one", "00000000-0000-0000-0000-000000000000", true))
		case m.unknown:
			refs = append(refs, reference("unknown.example.com/v1", "Unknown", "x", "1", true))
		}
		body := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,%s}}`, m.apiVersion, m.kind, m.name, owners(refs...))
		m.uid = g.create(m.path, body).Metadata.UID
		m.path += "/" + m.name
		fresh = append(fresh, m)
	}
	return fresh
}

// compare waits until all objects that must go are gone, and checks that the others are there.
func (g *garbage) compare(all []*member) {
	g.Helper()
	for _, m := range all {
		if m.judge() == dies {
			g.gone(m.path)
		}
	}
	for _, m := range all {
		if m.judge() != lives {
			continue
		}
		if code, obj, err := g.try(http.MethodGet, m.path, ""); err != nil || code != http.StatusOK || obj.Metadata.DeletionTimestamp != nil {
			g.Errorf("%s must live: %d %+v %v", m.path, code, obj, err)
		}
	}
}
