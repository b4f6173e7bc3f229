package answers

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"espalier.dev/espaliertest"
	"espalier.dev/internal/process"
	"espalier.dev/internal/process/setup"
	"espalier.dev/schema"
)

var update = flag.Bool("update", false, "write the list of differences")

const (
	recordedFile    = "testdata/answers.jsonl.gz"
	differencesFile = "testdata/differences.txt"
	// realVariable names a directory with kube-apiserver and etcd: with it, their answers are recorded.
	realVariable = "ANSWERS_REAL"
	startTime    = 2 * time.Minute
)

// flags are those of both servers. No controller runs beside them, and objects are as requests leave them.
var flags = []string{"--disable-admission-plugins=ServiceAccount", "--authorization-mode=RBAC", "--service-cluster-ip-range=10.0.0.0/24",
	"--service-account-issuer=https://kubernetes.default.svc", "--profiling=true"}

// ours starts the server.
func ours(t *testing.T) *Client {
	s := espaliertest.Start(t, espaliertest.WithSemantics(schema.Kubernetes), espaliertest.WithoutControllers(), espaliertest.WithFlags(flags...))
	transport, err := rest.TransportFor(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	return &Client{URL: s.URL(), HTTP: &http.Client{Transport: transport, CheckRedirect: noRedirect}, Authorize: func(*http.Request) {}}
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// real starts kube-apiserver and etcd.
func real(t *testing.T, programs string) *Client {
	dir := t.TempDir()
	ports, err := setup.FreePorts(3)
	if err != nil {
		t.Fatal(err)
	}
	start := func(name string, args ...string) {
		p, err := process.Start(process.Program{Name: name, Path: filepath.Join(programs, name), Args: args, Log: filepath.Join(dir, name+".log")})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Stop(10 * time.Second) })
	}
	etcd := fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	peer := fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	start("etcd", "--data-dir="+filepath.Join(dir, "etcd"), "--listen-client-urls="+etcd, "--advertise-client-urls="+etcd, "--listen-peer-urls="+peer,
		"--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer, "--unsafe-no-fsync")
	key, tokens := filepath.Join(dir, "key"), filepath.Join(dir, "tokens.csv")
	if err := errors.Join(setup.WriteKey(key), os.WriteFile(tokens, []byte("secret,admin,admin,system:masters\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	start("kube-apiserver", append([]string{"--etcd-servers=" + etcd, "--secure-port=" + strconv.Itoa(ports[2]), "--bind-address=127.0.0.1", "--cert-dir=" + filepath.Join(dir, "certificates"),
		"--token-auth-file=" + tokens, "--service-account-key-file=" + key, "--service-account-signing-key-file=" + key}, flags...)...)
	c := &Client{URL: fmt.Sprintf("https://127.0.0.1:%d", ports[2]), Authorize: func(r *http.Request) { r.Header.Set("Authorization", "Bearer secret") },
		HTTP: &http.Client{CheckRedirect: noRedirect, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}}
	end := time.Now().Add(startTime)
	for {
		a, err := c.Do(t.Context(), Request{ID: "ready", Method: "GET", Path: "/readyz"})
		if err == nil && a.Status == http.StatusOK {
			return c
		}
		if time.Now().After(end) {
			t.Fatalf("kube-apiserver is not ready: %+v, %v", a, err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// ask makes all requests. A request that a server answers with a panic has an answer without a status.
func ask(t *testing.T, c *Client, mayPanic bool) (all []*Answer) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	if err := c.Setup(ctx); err != nil {
		t.Fatal(err)
	}
	requests, err := Requests()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range requests {
		a, err := c.Do(ctx, r)
		if err != nil {
			if !mayPanic || errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			a = &Answer{ID: r.ID}
		}
		all = append(all, a)
	}
	return all
}

func record(t *testing.T, all []*Answer) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		data, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(append(data, '\n')); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), os.WriteFile(recordedFile, out.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func recorded(t *testing.T) (all map[string]*Answer) {
	f, err := os.Open(recordedFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	all = map[string]*Answer{}
	decoder := json.NewDecoder(bufio.NewReader(r))
	for {
		a := &Answer{}
		err := decoder.Decode(a)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if a.Body != nil {
			a.Body = normalizeBody(a.Body, "") // which may do more than when they were recorded
		}
		all[a.ID] = a
	}
}

// TestAnswers compares the answers to all requests with those of kube-apiserver.
func TestAnswers(t *testing.T) {
	if programs := os.Getenv(realVariable); programs != "" {
		record(t, ask(t, real(t, programs), true))
	}
	want := recorded(t)
	listed, err := os.ReadFile(differencesFile)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for line := range strings.Lines(string(listed)) {
		if line = strings.TrimSuffix(line, "\n"); line != "" && !strings.HasPrefix(line, "#") {
			known[line] = !*update
		}
	}
	var different, ids []string
	shown, answers := 0, ask(t, ours(t), false)
	for _, a := range answers {
		if equal(a, want[a.ID]) {
			continue
		}
		if reasonOf(a.ID) == crdStatus && !differsInStatusManagers(a, want[a.ID]) {
			t.Errorf("%s has other differences than the status:\nwant %s\nhave %s", a.ID, text(want[a.ID]), text(a))
		}
		line := difference(a)
		different, ids = append(different, line), append(ids, a.ID)
		if !known[line] && !*update {
			if shown++; shown <= 20 {
				t.Errorf("%s:\nwant %s\nhave %s", a.ID, text(want[a.ID]), text(a))
			}
		}
		known[line] = false
	}
	for line, missing := range known {
		if missing {
			t.Errorf("%s: there is no such difference anymore: make answers writes the list", line)
		}
	}
	t.Logf("%d of %d answers differ", len(different), len(answers))
	if shown > 20 {
		t.Errorf("%d more answers differ", shown-20)
	}
	if len(answers) != len(want) {
		t.Errorf("%d requests, %d recorded answers: record them again", len(answers), len(want))
	}
	if out := os.Getenv("ANSWERS_OUTPUT"); out != "" {
		var b strings.Builder
		for _, a := range answers {
			if !equal(a, want[a.ID]) {
				fmt.Fprintf(&b, "%s\nwant %s\nhave %s\n\n", a.ID, text(want[a.ID]), text(a))
			}
		}
		if err := os.WriteFile(out, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if *update {
		if err := os.WriteFile(differencesFile, []byte(listing(different, ids)), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !t.Failed() && string(listed) != listing(different, ids) {
		t.Error("the list has other headings than the reasons: make answers writes it")
	}
}

// difference returns the line of the list for an answer that differs: with a checksum, so that another one is
// noticed, unless the answer varies.
func difference(a *Answer) string {
	if varies(a.ID) {
		return fmt.Sprintf("varies   %q", a.ID)
	}
	return fmt.Sprintf("%08x %q", crc32.ChecksumIEEE([]byte(text(a))), a.ID)
}

func equal(a, b *Answer) bool { return b != nil && text(a) == text(b) }
