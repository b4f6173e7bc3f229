package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// timeout is the time that a test has. A mutation that makes a test hang is killed.
const timeout = 5 * time.Minute

// A lab tests mutations.
type lab struct {
	root string // the repository
	dir  string // a directory for temporary files

	mu sync.Mutex
	// sound has a result for each test of each package: whether the test passes without a
	// mutation.
	sound map[string]func() error
	// binaries has the test binaries of packages without a mutation.
	binaries map[string]func() (string, error)
}

// test returns an error if the test of a mutation passes with it, or cannot tell: because the
// mutation does not compile, or because the test fails without it, too.
func (l *lab) test(ctx context.Context, i int, m mutation) error {
	text, err := m.apply(l.root)
	if err != nil {
		return err
	}
	if err := l.passes(ctx, m.pkg, m.test); err != nil {
		return fmt.Errorf("without the mutation, the test fails: %w", err)
	}
	base := filepath.Join(l.dir, fmt.Sprintf("mutant-%d", i))
	if err := os.WriteFile(base+".go", []byte(text), 0o644); err != nil {
		return err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(l.root, filepath.FromSlash(m.file)): base + ".go"}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(base+".json", overlay, 0o644); err != nil {
		return err
	}
	defer os.Remove(base + ".test")
	if err := l.compile(ctx, m.pkg, base+".test", "-overlay="+base+".json"); err != nil {
		return fmt.Errorf("the mutant does not compile: %w", err)
	}
	switch err := l.run(ctx, m.pkg, base+".test", m.test); {
	case err == nil:
		return errors.New("the mutant survived: the test passes")
	case errors.Is(err, errFailed):
		return nil
	default:
		return err
	}
}

// errFailed is returned by run if the test fails.
var errFailed = errors.New("the test fails")

// passes returns an error if a test does not pass without a mutation.
func (l *lab) passes(ctx context.Context, pkg, test string) error {
	l.mu.Lock()
	if l.sound == nil {
		l.sound, l.binaries = map[string]func() error{}, map[string]func() (string, error){}
	}
	binary := l.binaries[pkg]
	if binary == nil {
		out := filepath.Join(l.dir, fmt.Sprintf("package-%d.test", len(l.binaries)))
		binary = sync.OnceValues(func() (string, error) { return out, l.compile(ctx, pkg, out) })
		l.binaries[pkg] = binary
	}
	sound := l.sound[pkg+" "+test]
	if sound == nil {
		sound = sync.OnceValue(func() error {
			bin, err := binary()
			if err != nil {
				return err
			}
			return l.run(ctx, pkg, bin, test)
		})
		l.sound[pkg+" "+test] = sound
	}
	l.mu.Unlock()
	return sound()
}

// compile compiles the test binary of a package. It is faster without debug
// information, and vet has no say in what a mutant is.
func (l *lab) compile(ctx context.Context, pkg, out string, flags ...string) error {
	cmd := exec.CommandContext(ctx, "go", append(append([]string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", out}, flags...), ".")...)
	cmd.Dir = filepath.Join(l.root, filepath.FromSlash(pkg))
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, text)
	}
	return nil
}

// run runs a subtest. It returns nil if it passes, and errFailed if it fails, which includes
// a panic and a timeout.
func (l *lab) run(ctx context.Context, pkg, binary, test string) error {
	cmd := exec.CommandContext(ctx, binary, "-test.v", "-test.failfast", "-test.count=1", "-test.timeout="+timeout.String(), "-test.run="+pattern(test))
	cmd.Dir = filepath.Join(l.root, filepath.FromSlash(pkg))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return fmt.Errorf("%w\n%s", errFailed, tail(out.String()))
	}
	if err != nil {
		return err
	}
	// A skipped test, and one that does not exist, proves nothing.
	passed := regexp.MustCompile(`(?m)^ *--- PASS: ` + regexp.QuoteMeta(strings.ReplaceAll(test, "_", " ")))
	if !passed.MatchString(strings.ReplaceAll(out.String(), "_", " ")) {
		return fmt.Errorf("%s %s: no such test passed\n%s", pkg, test, tail(out.String()))
	}
	return nil
}

// pattern returns the pattern for -test.run of a subtest. The names of subtests may continue,
// as in P-07-lists.
func pattern(test string) string {
	names := strings.Split(test, "/")
	for i, name := range names {
		names[i] = "^" + regexp.QuoteMeta(name)
		if i != 1 {
			names[i] += "$"
		}
	}
	return strings.Join(names, "/")
}

// tail returns the end of an output.
func tail(s string) string {
	const limit = 2000
	if len(s) > limit {
		return "…" + s[len(s)-limit:]
	}
	return s
}
