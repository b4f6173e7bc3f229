package gc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"espalier.dev/server"
	"espalier.dev/server/servertest"
)

// killedServer is the environment variable with the data directory of the server that
// TestGarbageKilled kills. If it is set, the test binary runs that server.
const killedServer = "ESPALIER_TEST_KILLED_SERVER"

// kills are objects that own each other and namespaces, on a server that is killed while clients
// write them, and what the clients know about them.
type kills struct {
	*servertest.Garden
	dir string
	cmd *exec.Cmd
	log bytes.Buffer
	rnd *rand.Rand

	mu    sync.Mutex
	clock int // orders requests and responses
	all   []*relative
	// volatile are the namespaces that are deleted and created again.
	volatile []*volatile
	answered int
}

// relative is an object with owners. Its fields belong to the mutex of kills once it is in the
// list.
type relative struct {
	kind, apiVersion, namespace, name, uid string
	path                                   string
	owners                                 []*relative
	// stray owners do not exist, unknown ones are of an unknown kind.
	stray, unknown bool
	// created is when its creation was acknowledged, deleted when its deletion was sent.
	created, deleted int
	policy           string // of its deletion
	// unsure is set if the last request was not answered.
	unsure bool
	fate   fate
	judged bool
}

// judge returns the fate of an object.
func (m *relative) judge() fate {
	if m.judged {
		return m.fate
	}
	m.judged, m.fate = true, dies
	switch {
	case m.policy != "":
		return m.fate
	case m.unknown, len(m.owners) == 0 && !m.stray:
		m.fate = lives
		return m.fate
	}
	orphaned, dead, unsure := false, m.stray, false
	for _, o := range m.owners {
		switch {
		case o.policy == "Orphan" && m.created < o.deleted:
			orphaned = true
		case o.policy == "Orphan":
			unsure = true // the owner may have been gone when the object was created
		case o.judge() == lives:
			m.fate = lives
			return m.fate
		case o.judge() == either:
			unsure = true
		default:
			dead = true
		}
	}
	switch {
	case unsure, orphaned && dead:
		m.fate = either
	case orphaned:
		m.fate = lives
	}
	return m.fate
}

// volatile is a namespace that is deleted and created again. A client of its own writes it.
type volatile struct {
	name       string
	generation int
	sent       int // objects, also those whose creation was not answered
	exists     bool
	deleted    bool // a deletion was sent
	unsure     bool // the last request for the namespace was not answered
	// objects are those whose creation was acknowledged, by path, with their UIDs.
	objects map[string]string
}

// TestGarbageKilled kills a server repeatedly while clients create and delete objects that own
// each other, and namespaces, and compares what is left with a model: nothing is orphaned, and
// nothing is deleted that should live. ESPALIER_GARBAGE_KILLS is the number of kills.
func TestGarbageKilled(t *testing.T) {
	if dir := os.Getenv(killedServer); dir != "" {
		serveKilled(t, dir)
		return
	}
	if testing.Short() {
		t.Skip("kills servers")
	}
	rounds := 3
	if text := os.Getenv("ESPALIER_GARBAGE_KILLS"); text != "" {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	seed := rand.Uint64()
	t.Log("seed", seed)
	k := &kills{Garden: &servertest.Garden{TB: t}, dir: t.TempDir(), rnd: rand.New(rand.NewPCG(seed, 1))}
	for i := range 2 {
		k.volatile = append(k.volatile, &volatile{name: fmt.Sprintf("volatile-%d", i)})
	}
	k.startProcess()
	k.Define()
	k.Namespace("one")
	k.Namespace("two")
	for i := range 20 { // they take time to load at a start
		k.Create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
			"metadata":{"name":"a%[1]ds.a.example.com"},"spec":{"group":"a.example.com","scope":"Namespaced","names":{"kind":"A%[1]d","plural":"a%[1]ds"},
			"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`, i))
	}
	for round := range rounds {
		k.writeUntilKilled(round)
		k.startProcess()
		k.resolve()
		k.check()
	}
	k.kill()
	count := map[fate]int{}
	for _, m := range k.all {
		count[m.fate]++
	}
	t.Logf("%d kills, %d answers; %d objects live, %d are gone, %d may be either", rounds, k.answered, count[lives], count[dies], count[either])
	if k.answered < 10*rounds {
		t.Error("too few writes to prove anything")
	}
}

// serveKilled runs the server.
func serveKilled(t *testing.T, dir string) {
	o := server.NewOptions()
	o.DataDir, o.SecurePort = dir, 0
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	s, err := server.Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
}

// startProcess starts the server as a process.
func (k *kills) startProcess() {
	k.Helper()
	kubeconfig := filepath.Join(k.dir, "kubeconfig")
	if err := os.RemoveAll(kubeconfig); err != nil {
		k.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		k.Fatal(err)
	}
	k.log.Reset()
	cmd := exec.Command(self, "-test.run=^TestGarbageKilled$")
	cmd.Env = append(os.Environ(), killedServer+"="+k.dir)
	cmd.Stdout, cmd.Stderr = &k.log, &k.log
	if err := cmd.Start(); err != nil {
		k.Fatal(err)
	}
	k.cmd = cmd
	k.Cleanup(func() { _ = cmd.Process.Kill() }) // usually dead already
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(kubeconfig); err == nil {
			break
		}
		if time.Now().After(deadline) {
			k.kill()
			k.Fatalf("it does not start: %s", &k.log)
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		k.Fatal(err)
	}
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		k.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: tlsConfig, ForceAttemptHTTP2: true}
	k.URL, k.Client = config.Host, &http.Client{Transport: transport, Timeout: time.Minute}
}

// kill kills the process, and waits for its end.
func (k *kills) kill() {
	_ = k.cmd.Process.Kill()
	_ = k.cmd.Wait() // it was killed
	if k.Client != nil {
		k.Client.CloseIdleConnections()
	}
}

// send sends a request of a client. It returns false if there was no response, because the
// server is dead.
func (k *kills) send(method, path, body string, codes ...int) (int, *servertest.Object, bool) {
	code, obj, err := k.Try(method, path, body)
	if code == 0 {
		return 0, nil, false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.answered++
	for _, want := range append(codes, http.StatusOK, http.StatusCreated, http.StatusAccepted) {
		if code == want {
			return code, obj, true
		}
	}
	k.Errorf("%s %s: %d %v", method, path, code, err)
	return code, obj, true
}

// writeUntilKilled runs the clients, and kills the server after a random time.
func (k *kills) writeUntilKilled(round int) {
	var wait sync.WaitGroup
	// Every client has random numbers of its own.
	client := func(f func(rnd *rand.Rand)) {
		rnd := rand.New(rand.NewPCG(k.rnd.Uint64(), 2))
		wait.Go(func() { f(rnd) })
	}
	for writer := range 3 {
		client(func(rnd *rand.Rand) {
			for i := 0; k.relate(rnd, fmt.Sprintf("r%d-%d-%d", round, writer, i)); i++ {
			}
		})
	}
	client(func(rnd *rand.Rand) {
		for k.remove(rnd) {
			time.Sleep(time.Duration(rnd.IntN(20)) * time.Millisecond)
		}
	})
	client(func(rnd *rand.Rand) {
		for k.touch(rnd) {
		}
	})
	for _, v := range k.volatile {
		client(func(rnd *rand.Rand) {
			for k.cycle(rnd, v) {
			}
		})
	}
	time.Sleep(time.Duration(100+k.rnd.IntN(500)) * time.Millisecond)
	k.kill()
	wait.Wait()
}

// relate creates an object, mostly with owners. It reports whether the server lives.
func (k *kills) relate(rnd *rand.Rand, name string) bool {
	m := &relative{name: name}
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
	var refs []string
	// An object with an owner of an unknown kind stays, and would block its other owners.
	extra := rnd.IntN(12)
	m.stray, m.unknown = extra == 0, extra == 1
	k.mu.Lock()
	for range rnd.IntN(3) {
		if len(k.all) == 0 {
			break
		}
		of := k.all[rnd.IntN(len(k.all))]
		if m.namespace == "" && of.namespace != "" || of.unsure {
			continue // such a reference is invalid
		}
		refs = append(refs, reference(of.apiVersion, of.kind, of.name, of.uid, !m.unknown && rnd.IntN(2) == 0))
		if of.namespace != "" && of.namespace != m.namespace {
			m.stray = true // there is no such owner in the namespace of the object
		} else {
			m.owners = append(m.owners, of)
		}
	}
	k.mu.Unlock()
	switch extra {
	case 0:
		refs = append(refs, reference("v1", "Namespace", "one", "00000000-0000-0000-0000-000000000000", true))
	case 1:
		refs = append(refs, reference("unknown.example.com/v1", "Unknown", "x", "00000000-0000-0000-0000-000000000001", false))
	}
	collection := m.path
	m.path += "/" + name
	_, obj, ok := k.send(http.MethodPost, collection, fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,%s}}`, m.apiVersion, m.kind, name, owners(refs...)))
	k.mu.Lock()
	defer k.mu.Unlock()
	k.clock++
	m.created, m.unsure = k.clock, !ok
	if ok {
		m.uid = obj.Metadata.UID
	}
	k.all = append(k.all, m)
	return ok
}

// remove deletes an object without owners, if there is one.
func (k *kills) remove(rnd *rand.Rand) bool {
	k.mu.Lock()
	var m *relative
	if len(k.all) > 0 {
		m = k.all[rnd.IntN(len(k.all))]
	}
	if m == nil || m.policy != "" || m.unsure || m.unknown || m.stray || len(m.owners) > 0 {
		k.mu.Unlock()
		return k.alive()
	}
	k.clock++
	m.deleted, m.policy = k.clock, []string{"Background", "Foreground", "Orphan"}[rnd.IntN(3)]
	k.mu.Unlock()
	_, _, ok := k.send(http.MethodDelete, m.path, propagation(m.policy))
	k.mu.Lock()
	defer k.mu.Unlock()
	m.unsure = !ok
	return ok
}

// touch changes an object, which does not change its fate.
func (k *kills) touch(rnd *rand.Rand) bool {
	k.mu.Lock()
	path := ""
	if len(k.all) > 0 {
		if m := k.all[rnd.IntN(len(k.all))]; !m.unsure {
			path = m.path
		}
	}
	k.mu.Unlock()
	if path == "" {
		return k.alive()
	}
	_, _, ok := k.send(http.MethodPatch, path, fmt.Sprintf(`{"metadata":{"labels":{"i":"%d"}}}`, rnd.IntN(1000)), http.StatusNotFound, http.StatusConflict)
	return ok
}

// alive reports whether the server answers.
func (k *kills) alive() bool {
	code, _, _ := k.Try(http.MethodGet, "/api/v1/namespaces/default", "")
	return code != 0
}

// cycle takes a step in the life of a namespace: it is created, filled, and deleted while objects
// are created in it.
func (k *kills) cycle(rnd *rand.Rand, v *volatile) bool {
	path := "/api/v1/namespaces/" + v.name
	if !v.exists {
		v.generation++
		v.exists, v.deleted, v.objects = true, false, map[string]string{}
		code, _, ok := k.send(http.MethodPost, "/api/v1/namespaces", fmt.Sprintf(`{"metadata":{"name":%q}}`, v.name), http.StatusConflict)
		if v.unsure = !ok; code == http.StatusConflict {
			k.Errorf("%s exists: it was seen to be gone", v.name)
		}
		return ok
	}
	for range 2 + rnd.IntN(8) {
		v.sent++
		name := fmt.Sprintf("g%d-%d", v.generation, v.sent)
		collection, head := path+"/configmaps", ""
		if rnd.IntN(2) == 0 {
			collection, head = fmt.Sprintf(servertest.Plots, v.name), `"apiVersion":"garbage.example.com/v1","kind":"Plot",`
		}
		// The CRD fences and the namespace fence reject what comes too late.
		code, obj, ok := k.send(http.MethodPost, collection, fmt.Sprintf(`{%s"metadata":{"name":%q}}`, head, name), http.StatusForbidden, http.StatusNotFound)
		switch {
		case !ok:
			return false
		case code == http.StatusCreated:
			v.objects[collection+"/"+name] = obj.Metadata.UID
		case !v.deleted:
			k.Errorf("%s: %d, but nobody has deleted the namespace", collection, code)
		case code == http.StatusNotFound:
			v.exists = false
			return true
		}
	}
	if v.deleted || rnd.IntN(2) == 0 {
		return true
	}
	v.deleted = true
	_, _, ok := k.send(http.MethodDelete, path, "")
	v.unsure = !ok
	return ok
}

// resolve finds out what has become of the requests that were not answered.
func (k *kills) resolve() {
	k.Helper()
	var all []*relative
	for _, m := range k.all {
		if m.unsure {
			code, obj, err := k.Try(http.MethodGet, m.path, "")
			switch {
			case err != nil:
				k.Fatal(err)
			case m.policy != "": // it was being deleted
				if code == http.StatusOK && obj.Metadata.DeletionTimestamp == nil {
					m.policy, m.deleted = "", 0
				}
			case code == http.StatusNotFound:
				continue // it was not created, or has been collected
			default:
				m.uid = obj.Metadata.UID
			}
			m.unsure = false
		}
		all = append(all, m)
	}
	k.all = all
	for _, v := range k.volatile {
		code, ns, err := k.Try(http.MethodGet, "/api/v1/namespaces/"+v.name, "")
		switch {
		case err != nil:
			k.Fatal(err)
		case code == http.StatusNotFound:
			if v.exists && !v.deleted && !v.unsure {
				k.Errorf("the namespace %s is gone, and nobody has deleted it", v.name)
			}
			v.exists = false
		case ns.Metadata.DeletionTimestamp != nil:
			if !v.deleted {
				k.Errorf("the namespace %s is being deleted, and nobody has deleted it", v.name)
			}
			k.Gone("/api/v1/namespaces/" + v.name)
			v.exists = false
		case v.deleted && !v.unsure:
			k.Errorf("the deletion of the namespace %s is lost", v.name)
		default:
			v.exists, v.deleted = true, false
		}
		v.unsure = false
	}
}

// check waits until all objects that must go are gone, and checks that all others are there.
func (k *kills) check() {
	k.Helper()
	for _, m := range k.all {
		m.judged = false
	}
	for _, m := range k.all {
		if m.judge() == dies {
			k.Gone(m.path)
		}
	}
	same := func(path, uid string) {
		k.Helper()
		code, obj, err := k.Try(http.MethodGet, path, "")
		if err != nil || code != http.StatusOK || obj.Metadata.DeletionTimestamp != nil || obj.Metadata.UID != uid {
			k.Errorf("%s must live, with the UID %s: %d %+v %v", path, uid, code, obj, err)
		}
	}
	for _, m := range k.all {
		if m.judge() == lives {
			same(m.path, m.uid)
		}
	}
	for _, v := range k.volatile {
		if v.exists {
			for path, uid := range v.objects {
				same(path, uid)
			}
		}
		// What is left of a namespace that was deleted would be in the next one.
		for _, collection := range []string{"/api/v1/namespaces/" + v.name + "/configmaps", fmt.Sprintf(servertest.Plots, v.name)} {
			for _, item := range k.Do(http.MethodGet, collection, "").Items {
				if name := item.Metadata.Name; name != "kube-root-ca.crt" && (!v.exists || !strings.HasPrefix(name, fmt.Sprintf("g%d-", v.generation))) {
					k.Errorf("%s/%s is orphaned", collection, name)
				}
			}
		}
	}
	if k.Failed() {
		k.kill()
		_, _ = io.Copy(os.Stderr, &k.log)
		k.Fatal(errors.New("the log of the server is above"))
	}
}
