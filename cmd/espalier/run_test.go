package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"espalier.dev/cmd/espalier/internal/workdir"
)

// newApp returns the program without environment variables.
func newApp(stdin io.Reader, stdout, stderr io.Writer) *app {
	return &app{program: "espalier", stdin: stdin, stdout: stdout, stderr: stderr, environ: func(string) (string, bool) { return "", false }}
}

// runWith runs a command line.
func runWith(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = newApp(strings.NewReader(""), &out, &errs).run(ctx, args)
	return code, out.String(), errs.String()
}

// runApp runs the program and returns its output and exit code.
func runApp(t testing.TB, args ...string) (string, int) {
	t.Helper()
	return place{t, ""}.run(args...)
}

// place is a working directory in which a test runs commands.
type place struct {
	t   testing.TB
	dir string
}

// newPlace returns an empty directory.
func newPlace(t testing.TB) place { return place{t, t.TempDir()} }

// path returns the path of a file for the test.
func (p place) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(p.dir, name)
}

// write writes a file.
func (p place) write(name, text string) {
	p.t.Helper()
	writeFile(p.t, p.path(name), []byte(text))
}

// read returns the content of a file.
func (p place) read(name string) string {
	p.t.Helper()
	text, err := os.ReadFile(p.path(name))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}

// app returns the program with this working directory.
func (p place) app(stdin io.Reader, stdout, stderr io.Writer) *app {
	a := newApp(stdin, stdout, stderr)
	a.dir = workdir.Dir(p.dir)
	return a
}

// run runs the program and returns its output and exit code.
func (p place) run(args ...string) (string, int) {
	p.t.Helper()
	var out bytes.Buffer
	code := p.app(strings.NewReader(""), &out, &out).run(context.Background(), args)
	return out.String(), code
}

// runBoth runs the program and returns both outputs and its exit code.
func (p place) runBoth(ctx context.Context, args ...string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	code = p.app(strings.NewReader(""), &out, &errs).run(ctx, args)
	return out.String(), errs.String(), code
}

// git runs commands of git.
func (p place) git(commands ...string) {
	p.t.Helper()
	for _, command := range commands {
		var out bytes.Buffer
		if code := runProgram(p.t, p.dir, strings.Fields("git "+command), nil, &out, &out); code != 0 {
			p.t.Fatalf("git %s exits with %d: %s", command, code, &out)
		}
	}
}

// output is what a program writes. It is safe for concurrent use.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	// written is closed by the next write.
	written chan struct{}
}

// Write adds to the output.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.written != nil {
		close(o.written)
		o.written = nil
	}
	return o.text.Write(p)
}

// String returns the output so far.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// await waits until a condition holds for the output. It fails if ended is closed before that.
func (o *output) await(t testing.TB, ended <-chan struct{}, done func(text string) bool) {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		o.mu.Lock()
		if done(o.text.String()) {
			o.mu.Unlock()
			return
		}
		if o.written == nil {
			o.written = make(chan struct{})
		}
		written := o.written
		o.mu.Unlock()
		select {
		case <-written:
			continue
		case <-ended:
			if done(o.String()) {
				return
			}
			t.Fatalf("the program has ended, and written %q", o)
		case <-timeout:
			t.Fatalf("the program has written only %q", o)
		}
	}
}
