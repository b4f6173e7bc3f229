// Command release builds, signs and verifies a release of Espalier. `make release` runs it.
//
//	release build --version v1.0.0 --output DIR --key FILE
//	release verify --key FILE --version v1.0.0 DIR
//
// The commit, the flags of build, SOURCE_DATE_EPOCH, the key and the version of Go determine the
// output: two machines produce the same bytes. The provenance has all of them except for the key.
// Only signatures of cosign are different each time.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

// A usageError is an error of the caller that is found before anything is built: a wrong flag, a
// tree that is not clean, an output that exists.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// A program is a run of this command.
type program struct {
	getenv         func(string) string
	stdout, stderr io.Writer
}

const usage = `Build, sign and verify releases of Espalier.

Usage:
  release build --version v1.0.0 --output DIR (--key FILE | --unsigned)
  release verify (--key FILE | --unsigned) [--version v1.0.0] DIR

Run "release build -help" or "release verify -help" for the flags.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	p := program{os.Getenv, os.Stdout, os.Stderr}
	code := p.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// run runs a command and returns the exit code.
func (p program) run(ctx context.Context, args []string) int {
	err := p.dispatch(ctx, args)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, flag.ErrHelp):
		return 0
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		fmt.Fprintln(p.stderr, "error: interrupted, nothing was written")
		return exitFailed
	}
	fmt.Fprintln(p.stderr, "error:", err)
	var usage usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailed
}

func (p program) dispatch(ctx context.Context, args []string) error {
	command := ""
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	switch command {
	case "build":
		o, err := p.parseBuild(args)
		if err != nil {
			return err
		}
		return p.build(ctx, o)
	case "verify":
		return p.verify(args)
	case "help", "-h", "-help", "--help":
		_, err := io.WriteString(p.stdout, usage)
		return err
	case "":
		return usagef("a command is required: build or verify")
	}
	return usagef("unknown command %q: use build or verify", command)
}

// flags returns a flag set whose errors are returned, not printed.
func (p program) flags(name, arguments string) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {
		fs.SetOutput(p.stdout)
		fmt.Fprintf(p.stdout, "Usage: release %s [flags]%s\n\n", name, arguments)
		fs.PrintDefaults()
		fs.SetOutput(io.Discard)
	}
	return fs
}

func parse(fs *flag.FlagSet, args []string) error {
	err := fs.Parse(args)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		return usageError{err}
	}
	return err
}
