package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestInterrupt interrupts commands that wait for input.
func TestInterrupt(t *testing.T) {
	t.Parallel()
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
		a := newApp(&interruptible{ctx: ctx, in: never}, &stdout, &stderr)
		code := make(chan int)
		go func() { code <- a.run(ctx, args) }()
		cancel()
		if got := <-code; got != 130 || !strings.Contains(stderr.String(), "espalier: interrupted") {
			t.Errorf("%s exits with %d: %s%s", args[0], got, stdout.String(), stderr.String())
		}
	}
}

// TestSignals sends signals to commands that have reported findings and wait for more input.
// The exit code names the signal, and the report so far is complete.
func TestSignals(t *testing.T) {
	t.Parallel()
	const object = "apiVersion: stable.example.com/v1\nkind: CronTab\nmetadata: {name: a}\nspec: {image: 1}\n---\n"
	for _, test := range []struct {
		signal       syscall.Signal
		code         int
		message      string
		format, last string
	}{
		{syscall.SIGINT, 130, "espalier: interrupted\n", "text", "interrupted: "},
		{syscall.SIGTERM, 143, "espalier: terminated\n", "json", `"interrupted":true`},
	} {
		t.Run(test.format, func(t *testing.T) {
			in, feed, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			defer feed.Close()
			report := filepath.Join(t.TempDir(), "report")
			p := startProcess(t, in, "validate", "--crd", "testdata/examples/crontab-crd.yaml", "-f", "-", "-o", test.format, "-o", "github="+report)
			// More objects than a batch has, so that some are reported while the rest is read.
			if _, err := feed.WriteString(strings.Repeat(object, 1000)); err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
				if text, _ := os.ReadFile(report); len(text) > 0 {
					break
				}
				if time.Now().After(deadline) {
					t.Fatal("nothing is reported")
				}
			}
			if err := p.cmd.Process.Signal(test.signal); err != nil {
				t.Fatal(err)
			}
			if code := p.exit(t); code != test.code || p.stderr.String() != test.message {
				t.Errorf("exits with %d: %s", code, p.stderr.String())
			}
			out := p.stdout.String()
			lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
			if !strings.HasSuffix(out, "\n") || !strings.Contains(lines[len(lines)-1], test.last) || len(lines) < 10 {
				t.Errorf("the report ends with %q", lines[len(lines)-1])
			}
			if test.format == "json" && !json.Valid([]byte(out)) {
				t.Error("the report is not JSON")
			}
		})
	}
}

// TestTune makes sure that all commands except serve tune the process, for any arguments.
func TestTune(t *testing.T) {
	t.Parallel()
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
		a := newApp(strings.NewReader(""), &out, &out)
		a.tune = func() { tuned = true }
		a.run(context.Background(), c.args)
		if tuned != c.tuned {
			t.Errorf("%q: tuned is %t: %s", c.args, tuned, out.String())
		}
	}
}
