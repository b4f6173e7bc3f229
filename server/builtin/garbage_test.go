package builtin_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"espalier.dev/server/servertest"
)

func propagation(policy string) string { return fmt.Sprintf(`{"propagationPolicy":%q}`, policy) }

func owners(refs ...string) string { return `"ownerReferences":[` + strings.Join(refs, ",") + `]` }

func reference(apiVersion, kind, name, uid string, block bool) string {
	return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"name":%q,"uid":%q,"blockOwnerDeletion":%v}`, apiVersion, kind, name, uid, block)
}

// TestControllersOff checks what remains without controllers: the marks of deletions.
func TestControllersOff(t *testing.T) {
	t.Parallel()
	g := servertest.NewGarden(t, "*", "-garbagecollector", "-namespace", "-serviceaccount", "-root-ca-certificate-publisher")
	if _, body := servertest.Get(t, g.Server, g.Client, "/readyz?verbose"); strings.Contains(body, "controller/garbagecollector") || strings.Contains(body, "controller/namespace") {
		t.Error("a controller runs:", body)
	}
	g.Namespace("off")
	maps, custom := "/api/v1/namespaces/off/configmaps", fmt.Sprintf(servertest.Plots, "off")
	g.Create(maps, `{"metadata":{"name":"a"}}`)
	g.Create(custom, `{"apiVersion":"garbage.example.com/v1","kind":"Plot","metadata":{"name":"a"}}`)
	g.Create(custom, `{"apiVersion":"garbage.example.com/v1","kind":"Plot","metadata":{"name":"b"}}`)
	for path, policy := range map[string]string{maps + "/a": "Foreground", custom + "/a": "Foreground", custom + "/b": "Orphan"} {
		g.Do(http.MethodDelete, path, propagation(policy))
		obj, want := g.Do(http.MethodGet, path, ""), map[string]string{"Foreground": "foregroundDeletion", "Orphan": "orphan"}[policy]
		if obj.Metadata.DeletionTimestamp == nil || fmt.Sprint(obj.Metadata.Finalizers) != "["+want+"]" {
			t.Errorf("%s: %+v", path, obj)
		}
	}
	g.Do(http.MethodDelete, "/api/v1/namespaces/off", "")
	ns := g.Do(http.MethodGet, "/api/v1/namespaces/off", "")
	if ns.Status.Phase != "Terminating" || fmt.Sprint(ns.Spec.Finalizers) != "[kubernetes]" || ns.Metadata.DeletionTimestamp == nil {
		t.Errorf("the namespace: %+v", ns)
	}
	// What the controllers leave is what a client can do.
	for _, path := range []string{maps + "/a", custom + "/a", custom + "/b"} {
		g.Do(http.MethodPatch, path, `{"metadata":{"finalizers":null}}`)
		g.Gone(path)
	}
	g.Do(http.MethodPut, "/api/v1/namespaces/off/finalize", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"off"},"spec":{"finalizers":[]}}`)
	g.Gone("/api/v1/namespaces/off")
}

// TestGarbage checks the policies of deletion.
func TestGarbage(t *testing.T) {
	t.Parallel()
	g := servertest.NewGarden(t)
	g.Namespace("one")
	maps, custom := "/api/v1/namespaces/one/configmaps", fmt.Sprintf(servertest.Plots, "one")
	family := func(name string, block bool) (parent, child string) {
		uid := g.Create(custom, fmt.Sprintf(`{"apiVersion":"garbage.example.com/v1","kind":"Plot","metadata":{"name":%q}}`, name)).Metadata.UID
		g.Create(maps, fmt.Sprintf(`{"metadata":{"name":%q,"finalizers":["example.com/hold"],%s}}`, name, owners(reference("garbage.example.com/v1", "Plot", name, uid, block))))
		return custom + "/" + name, maps + "/" + name
	}
	deleting := func(path string) {
		t.Helper()
		servertest.Eventually(t, func() error {
			if _, obj, err := g.Try(http.MethodGet, path, ""); err != nil || obj.Metadata.DeletionTimestamp == nil {
				return fmt.Errorf("%s is not being deleted: %w", path, err)
			}
			return nil
		})
	}
	release := func(path string) {
		t.Helper()
		g.Do(http.MethodPatch, path, `{"metadata":{"finalizers":null}}`)
		g.Gone(path)
	}

	parent, child := family("background", true)
	g.Do(http.MethodDelete, parent, "")
	g.Gone(parent)
	deleting(child)
	release(child)

	parent, child = family("foreground", true)
	g.Do(http.MethodDelete, parent, propagation("Foreground"))
	deleting(child)
	if obj := g.Do(http.MethodGet, parent, ""); fmt.Sprint(obj.Metadata.Finalizers) != "[foregroundDeletion]" {
		t.Errorf("the parent does not wait: %+v", obj)
	}
	release(child)
	g.Gone(parent)

	parent, child = family("unblocked", false)
	g.Do(http.MethodDelete, parent, propagation("Foreground"))
	g.Gone(parent)
	deleting(child)
	release(child)

	parent, child = family("orphan", true)
	g.Do(http.MethodDelete, parent, propagation("Orphan"))
	g.Gone(parent)
	if obj := g.Do(http.MethodGet, child, ""); len(obj.Metadata.OwnerReferences) != 0 || obj.Metadata.DeletionTimestamp != nil {
		t.Errorf("the child is not orphaned: %+v", obj)
	}

	// A kind that becomes known: nothing happens before, and the owner is absent after.
	g.Create(maps, fmt.Sprintf(`{"metadata":{"name":"later",%s}}`, owners(reference("later.example.com/v1", "Later", "x", "1", false))))
	g.Create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
		"metadata":{"name":"laters.later.example.com"},"spec":{"group":"later.example.com","scope":"Namespaced","names":{"kind":"Later","plural":"laters"},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`)
	g.Gone(maps + "/later")
}

// TestGarbageCycles deletes objects that own each other in the foreground: one of them, or all at
// the same time. Each blocks the next one, and none of them would ever go if it waited for that.
func TestGarbageCycles(t *testing.T) {
	t.Parallel()
	g := servertest.NewGarden(t)
	g.Namespace("one")
	maps, custom := "/api/v1/namespaces/one/configmaps", fmt.Sprintf(servertest.Plots, "one")
	// ring creates n objects that own the next one each, and the last the first.
	ring := func(name string, n int) (paths, uids []string) {
		for i := range n {
			one := fmt.Sprintf("%s-%d", name, i)
			uids = append(uids, g.Create(custom, fmt.Sprintf(`{"apiVersion":"garbage.example.com/v1","kind":"Plot","metadata":{"name":%q}}`, one)).Metadata.UID)
			paths = append(paths, custom+"/"+one)
		}
		for i, path := range paths {
			of := (i + n - 1) % n
			g.Do(http.MethodPatch, path, fmt.Sprintf(`{"metadata":{%s}}`, owners(reference("garbage.example.com/v1", "Plot", fmt.Sprintf("%s-%d", name, of), uids[of], true))))
		}
		return paths, uids
	}
	for n := 1; n <= 4; n++ {
		for _, all := range []bool{false, true} {
			paths, _ := ring(fmt.Sprintf("ring-%d-%v", n, all), n)
			for i, path := range paths {
				if i == 0 || all {
					// The collector may have deleted the others before.
					g.Do(http.MethodDelete, path, propagation("Foreground"), http.StatusNotFound)
				}
			}
			for _, path := range paths {
				g.Gone(path)
			}
		}
	}

	// A dependent outside of the cycle still blocks its owner, and with it the whole cycle.
	paths, uids := ring("blocked", 3)
	g.Create(maps, fmt.Sprintf(`{"metadata":{"name":"outside","finalizers":["example.com/hold"],%s}}`, owners(reference("garbage.example.com/v1", "Plot", "blocked-1", uids[1], true))))
	for _, path := range paths {
		g.Do(http.MethodDelete, path, propagation("Foreground"))
	}
	servertest.Eventually(t, func() error {
		if _, obj, err := g.Try(http.MethodGet, maps+"/outside", ""); err != nil || obj.Metadata.DeletionTimestamp == nil {
			return fmt.Errorf("the dependent is not being deleted: %w", err)
		}
		return nil
	})
	// This cycle was deleted later, so the collector has seen the other one.
	later, _ := ring("later", 2)
	g.Do(http.MethodDelete, later[0], propagation("Foreground"))
	g.Gone(later[0])
	for _, path := range paths {
		if obj := g.Do(http.MethodGet, path, ""); fmt.Sprint(obj.Metadata.Finalizers) != "[foregroundDeletion]" {
			t.Errorf("%s does not wait: %+v", path, obj)
		}
	}
	g.Do(http.MethodPatch, maps+"/outside", `{"metadata":{"finalizers":null}}`)
	for _, path := range paths {
		g.Gone(path)
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
	unsure                  bool   // the request that created or deleted it has no response
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
	m := newModel(t, servertest.NewGarden(t))
	for round := range number(t, "GARBAGE_ROUNDS", 2) {
		deleted, late := m.write(round, func() {})
		m.all = append(m.all, late...)
		m.Restart()
		for _, one := range deleted {
			if one.unsure {
				t.Errorf("there is no response to the deletion of %s", one.path)
			}
		}
		m.compare()
	}
}

// TestGarbageKilled is TestGarbageModel with a server that is killed while clients write, and while
// a namespace is deleted. ESPALIER_GARBAGE_KILLS is the number of kills.
func TestGarbageKilled(t *testing.T) {
	if servertest.ServeProcess(t, nil) {
		return
	}
	if testing.Short() {
		t.Skip("kills servers")
	}
	p := servertest.StartProcess(t)
	defer p.Kill()
	g := &servertest.Garden{TB: t, URL: p.URL, Client: p.Client}
	g.Define()
	m := newModel(t, g)
	unanswered := 0
	for round := range number(t, "ESPALIER_GARBAGE_KILLS", 3) {
		const volatile = "/api/v1/namespaces/volatile"
		g.Namespace("volatile")
		g.Create(volatile+"/configmaps", `{"metadata":{"name":"before"}}`)
		var namespace sync.WaitGroup
		namespace.Go(func() {
			for i := 0; ; i++ { // objects that are created before and after the deletion
				if i == 5 {
					_, _, _ = g.Try(http.MethodDelete, volatile, "")
				}
				if code, _, _ := g.Try(http.MethodPost, volatile+"/configmaps", fmt.Sprintf(`{"metadata":{"name":"m%d"}}`, i)); code == 0 {
					return
				}
			}
		})
		deleted, late := m.write(round, func() {
			time.Sleep(time.Duration(m.rnd.IntN(300)) * time.Millisecond)
			p.Kill()
		})
		namespace.Wait()
		p.Start()
		g.URL, g.Client = p.URL, p.Client
		for _, one := range deleted {
			if !one.unsure {
				continue
			}
			unanswered++
			if code, obj, err := g.Try(http.MethodGet, one.path, ""); err != nil {
				t.Fatal(err)
			} else if code == http.StatusOK && obj.Metadata.DeletionTimestamp == nil {
				one.policy = "" // it was not deleted
			}
		}
		for _, one := range late {
			code, _, err := g.Try(http.MethodGet, one.path, "")
			if err != nil {
				t.Fatal(err)
			}
			if one.unsure && code == http.StatusNotFound {
				one.policy = "Background" // it was not created, or has been collected
			}
			m.all = append(m.all, one)
		}
		m.compare()
		// What is left of a namespace would be in the next one.
		g.Do(http.MethodDelete, volatile, "", http.StatusNotFound, http.StatusConflict)
		g.Gone(volatile)
		for _, item := range g.Do(http.MethodGet, volatile+"/configmaps", "").Items {
			t.Errorf("the config map %s is orphaned", item.Metadata.Name)
		}
		if t.Failed() {
			t.Fatalf("the log of the server is\n%s", &p.Log)
		}
	}
	t.Logf("%d objects, %d deletions without a response", len(m.all), unanswered)
}

// number returns a number from the environment.
func number(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// model is a server with objects that own each other, and what must become of them.
type model struct {
	*servertest.Garden
	rnd *rand.Rand
	all []*member
}

func newModel(t *testing.T, g *servertest.Garden) *model {
	t.Helper()
	seed := rand.Uint64()
	if n, err := strconv.ParseUint(os.Getenv("GARBAGE_SEED"), 10, 64); err == nil {
		seed = n
	}
	t.Log("seed", seed)
	g.Namespace("one")
	g.Namespace("two")
	return &model{Garden: g, rnd: rand.New(rand.NewPCG(seed, 1))}
}

// write creates objects, and deletes some of them while others are written, until all requests have a
// response or the server is dead. It returns what was deleted, and objects whose owners were being
// deleted when they were created.
func (g *model) write(round int, meanwhile func()) (deleted, late []*member) {
	g.Helper()
	fresh := g.generate(round)
	g.all = append(g.all, fresh...)
	for _, one := range fresh {
		if len(one.owners) == 0 && !one.stray && !one.unknown && !one.invalid && g.rnd.IntN(2) == 0 {
			one.policy = []string{"Background", "Foreground", "Orphan"}[g.rnd.IntN(3)]
			deleted = append(deleted, one)
		}
	}
	g.judge()
	var living []*member
	for _, one := range g.all {
		if one.judge() == lives {
			living = append(living, one)
		}
	}
	var wait sync.WaitGroup
	for i, one := range deleted {
		wait.Go(func() {
			code, _, err := g.Try(http.MethodDelete, one.path, propagation(one.policy))
			if one.unsure = code == 0; err != nil && code != 0 {
				g.Error(err)
			}
		})
		of := living[i%len(living)]
		wait.Go(func() { // a write does not change the fate
			if code, _, err := g.Try(http.MethodPatch, of.path, fmt.Sprintf(`{"metadata":{"labels":{"i":"%d"}}}`, i)); code != 0 && err != nil || code == http.StatusNotFound {
				g.Errorf("%s: %d %v", of.path, code, err)
			}
		})
		if one.policy == "Orphan" {
			continue // it may be gone before
		}
		name, namespace := fmt.Sprintf("late-%d-%d", round, i), one.namespace
		if namespace == "" {
			namespace = "one"
		}
		collection := "/api/v1/namespaces/" + namespace + "/configmaps"
		child := &member{namespace: namespace, path: collection + "/" + name, owners: []*member{one}}
		late = append(late, child)
		wait.Go(func() {
			code, _, err := g.Try(http.MethodPost, collection, fmt.Sprintf(`{"metadata":{"name":%q,%s}}`, name, owners(reference(one.apiVersion, one.kind, one.name, one.uid, false))))
			if child.unsure = code == 0; err != nil && code != 0 {
				g.Error(err)
			}
		})
	}
	meanwhile()
	wait.Wait()
	return deleted, late
}

// judge forgets the fates of all objects, which may have changed.
func (g *model) judge() {
	for _, one := range g.all {
		one.judged = false
	}
}

// generate creates objects whose owners are among themselves, and among older ones that live.
func (g *model) generate(round int) (fresh []*member) {
	g.Helper()
	rnd, old := g.rnd, g.all
	for i := range 40 {
		m := &member{name: fmt.Sprintf("m-%d-%d", round, i)}
		switch rnd.IntN(5) {
		case 0, 1:
			m.kind, m.apiVersion, m.namespace = "ConfigMap", "v1", []string{"one", "two"}[rnd.IntN(2)]
			m.path = "/api/v1/namespaces/" + m.namespace + "/configmaps"
		case 2, 3:
			m.kind, m.apiVersion, m.namespace = "Plot", "garbage.example.com/v1", []string{"one", "two"}[rnd.IntN(2)]
			m.path = fmt.Sprintf(servertest.Plots, m.namespace)
		default:
			m.kind, m.apiVersion, m.path = "Garden", "garbage.example.com/v1", servertest.Gardens
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
			if of.uid == "" {
				continue // it was created while its owner was deleted
			}
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
		m.uid = g.Create(m.path, body).Metadata.UID
		m.path += "/" + m.name
		fresh = append(fresh, m)
	}
	return fresh
}

// compare waits until all objects that must go are gone, and checks that the others are there.
func (g *model) compare() {
	g.Helper()
	g.judge()
	for _, m := range g.all {
		if m.judge() == dies {
			g.Gone(m.path)
		}
	}
	for _, m := range g.all {
		if m.judge() != lives {
			continue
		}
		if code, obj, err := g.Try(http.MethodGet, m.path, ""); err != nil || code != http.StatusOK || obj.Metadata.DeletionTimestamp != nil {
			g.Errorf("%s must live: %d %+v %v", m.path, code, obj, err)
		}
	}
}
