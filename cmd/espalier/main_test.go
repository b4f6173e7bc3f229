package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestInterrupt interrupts commands that wait for input.
func TestInterrupt(t *testing.T) {
	for _, args := range [][]string{
		{"validate", "--crd", "testdata/examples/crontab-crd.yaml", "-f", "-"},
		{"prune", "--crd", "testdata/examples/crontab-crd.yaml", "-f", "-"},
		{"lint", "-f", "-"},
		{"show", "core", "-f", "-"},
	} {
		ctx, cancel := context.WithCancel(context.Background())
		never, writer := io.Pipe()
		defer writer.Close()
		var stdout, stderr bytes.Buffer
		a := &app{program: "espalier", stdin: &interruptible{ctx: ctx, in: never}, stdout: &stdout, stderr: &stderr, environ: func(string) (string, bool) { return "", false }}
		code := make(chan int)
		go func() { code <- a.run(ctx, args) }()
		cancel()
		if got := <-code; got != 2 || !strings.Contains(stderr.String(), "espalier: interrupted") {
			t.Errorf("%s exits with %d: %s%s", args[0], got, stdout.String(), stderr.String())
		}
	}
}

// TestInterruptible reads all input if the context is not done.
func TestInterruptible(t *testing.T) {
	text := strings.Repeat("abc", 100_000)
	got, err := io.ReadAll(&interruptible{ctx: context.Background(), in: strings.NewReader(text)})
	if err != nil || string(got) != text {
		t.Errorf("got %d bytes of %d, %v", len(got), len(text), err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	never, writer := io.Pipe()
	defer writer.Close()
	if _, err := io.ReadAll(&interruptible{ctx: ctx, in: never}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestTune makes sure that all commands except serve tune the process, for any arguments.
func TestTune(t *testing.T) {
	for _, c := range []struct {
		args  []string
		tuned bool
	}{
		{[]string{"version"}, true},
		{[]string{"lint", "-f", "serve"}, true},
		{[]string{"--color", "never", "show", "core", "-f", "serve"}, true},
		{[]string{"serve", "--log-format", "none"}, false},
		{[]string{"--semantics", "kubernetes", "serve", "--log-format", "none"}, false},
	} {
		tuned := false
		var out bytes.Buffer
		a := &app{program: "espalier", stdin: strings.NewReader(""), stdout: &out, stderr: &out, environ: func(string) (string, bool) { return "", false }}
		a.tune = func() { tuned = true }
		a.run(context.Background(), c.args)
		if tuned != c.tuned {
			t.Errorf("%q: tuned is %t: %s", c.args, tuned, out.String())
		}
	}
}
