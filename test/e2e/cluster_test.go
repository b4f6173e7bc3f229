package main

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"espalier.dev/internal/process"
	"espalier.dev/server/pki"
)

func TestRecord(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		record record
		value  int
		want   string
	}{
		{record{acknowledged: 3, tried: 3}, 3, ""},
		{record{acknowledged: 3, tried: 4}, 4, ""},
		{record{acknowledged: 3, tried: 4}, 3, ""},
		{record{acknowledged: 3, tried: 4}, 2, "3 was acknowledged"},
		{record{acknowledged: 3, tried: 4}, 5, "at most 4 was sent"},
		{record{acknowledged: 3, tried: 4}, 0, "lost"},
		{record{tried: 1}, 0, ""},
		{record{tried: 1}, 1, ""},
		{record{acknowledged: 3, tried: 3, deleting: true}, 0, ""},
		{record{acknowledged: 3, tried: 3, deleting: true}, 3, ""},
		{record{acknowledged: 3, tried: 3, deleting: true, deleted: true}, 0, ""},
		{record{acknowledged: 3, tried: 3, deleting: true, deleted: true}, 3, "its deletion was acknowledged"},
		{record{tried: 1}, -1, "has value -1"},
	} {
		err := c.record.allows(c.value)
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v, value %d: got error %v, want %q", c.record, c.value, err, c.want)
		}
	}
	err := compare(map[string]record{"a": {acknowledged: 1, tried: 1}}, map[string]int{"b": 1})
	if err == nil || !strings.Contains(err.Error(), "a lost") || !strings.Contains(err.Error(), "b was never created") {
		t.Errorf("got error %v", err)
	}
}

// TestAdd checks that a program that ends is a failure, or is started again if it is supervised.
func TestAdd(t *testing.T) {
	t.Parallel()
	for _, supervised := range []bool{false, true} {
		ctx, fail := context.WithCancelCause(t.Context())
		c := &cluster{logs: t.TempDir(), fail: fail, supervised: supervised, others: map[string]*process.Process{}, restarts: map[string]int{}}
		runs := filepath.Join(c.logs, "runs")
		if err := errors.Join(c.add("waits", "sleep", "1000"), c.add("ends", "/bin/sh", "-c", "echo >>"+runs+"; exit 3")); err != nil {
			t.Fatal(err)
		}
		started := func() int {
			data, _ := os.ReadFile(runs) // it may not be there yet
			return len(data)
		}
		for deadline := time.Now().Add(time.Minute); started() < 2 && ctx.Err() == nil && time.Now().Before(deadline); {
			time.Sleep(10 * time.Millisecond)
		}
		c.stop()
		switch cause := context.Cause(ctx); {
		case supervised && (cause != nil || started() < 2 || c.restarts["ends"] == 0 || c.restarts["waits"] != 0):
			t.Errorf("supervised programs: %d starts, %v, restarts %v", started(), cause, c.restarts)
		case !supervised && (cause == nil || !strings.HasPrefix(cause.Error(), "ends has exited: exit status 3; its log is ")):
			t.Errorf("programs: %v", cause)
		}
		if c.others["waits"].Check() == nil {
			t.Error("a program runs after stop")
		}
		fail(nil)
	}
}

func TestCheckLogs(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "server.log")
	for text, bad := range map[string]bool{
		"I1118 ready\n": false,
		"E1118 \"[SHOULD NOT HAPPEN] failed to update managedFields\"\n": true,
		"WARNING: DATA RACE\n":                true,
		"E1118 Observed a panic\n":            true,
		"panic: assignment to nil map\n":      true,
		"I1118 configmap panics is created\n": false,
	} {
		if err := os.WriteFile(path, []byte("I1118 first\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := checkLogs(path)
		if (err != nil) != bad || bad && !strings.Contains(err.Error(), "server.log:2: "+strings.TrimSpace(text)) {
			t.Errorf("%q: got error %v", text, err)
		}
	}
}

func TestClientPair(t *testing.T) {
	t.Parallel()
	bundle, err := pki.Ensure(pki.Config{Dir: t.TempDir(), Hosts: []string{"127.0.0.1"}, UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := clientPair(bundle.CA, "system:kube-scheduler", time.Now().Add(-time.Minute), time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(pair.Cert)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle.CA.Cert)
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}
	if cert.Subject.CommonName != "system:kube-scheduler" {
		t.Errorf("got %s", cert.Subject)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"":                 "",
		"-kill 30s -race":  "",
		"-real -update":    "",
		"-update":          "-update needs -real",
		"-faults -real":    "",
		"-faults -kill 3s": "exclude each other",
		"-race -real":      "exclude each other",
		"-skip (":          "-skip",
		"-focus (":         "-focus",
		"more":             "unexpected arguments: more",
	} {
		_, err := parse(strings.Fields(args))
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want %q", args, err, want)
		}
	}
	o, err := parse([]string{"-kill", "30s"})
	if err != nil || len(o.classes) != 1 || o.classes[0] != classPasses {
		t.Errorf("got %+v, %v: with -kill only specs that tolerate it run", o, err)
	}
}
