package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"espalier.dev/internal/process"
)

// shownLines is the number of lines of output that are shown of a function that fails.
const shownLines = 40

// runner runs the functions.
type runner struct {
	real, race, update          bool
	semantics                   string
	focus                       *regexp.Regexp
	kill, timeout               time.Duration
	attempts                    int
	list, output, programs      string
	dir, scripts, bin, espalier string // below a temporary directory, unless they are given
	files                       *files
}

// result is the result of a function.
type result struct {
	function string
	passed   bool
	attempts int
	took     time.Duration
}

// run builds the programs, runs the functions, and compares the results with the list.
func (r *runner) run(ctx context.Context) (err error) {
	if err := checkTools(tools()); err != nil {
		return err
	}
	list, err := readList(r.list)
	if err != nil && (!r.update || !errors.Is(err, os.ErrNotExist)) {
		return err
	}
	if r.dir, err = os.MkdirTemp("", "kubectl-cmd-"); err != nil {
		return err
	}
	if r.output == "" {
		if r.output, err = os.MkdirTemp("", "kubectl-cmd-output-"); err != nil {
			return err
		}
		defer func() {
			if err == nil {
				err = os.RemoveAll(r.output)
			}
		}()
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.dir)) }()
	functions, err := r.prepare(ctx)
	if err != nil {
		return err
	}
	if r.files, err = startFiles(r.scripts, r.dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.files.stop()) }()
	if err := absent(list, functions); err != nil && !r.update {
		return err
	}
	results, err := r.runAll(ctx, functions)
	if err != nil {
		return err
	}
	summarize(results, list)
	if r.update {
		if !r.real || r.focus.String() != "" {
			return errors.New("-update needs -real, and all functions")
		}
		return writeList(r.list, list, results)
	}
	if err := compare(list, results, r.real); err != nil {
		return fmt.Errorf("%w\nthe output is in %s", err, r.output)
	}
	return nil
}

// prepare builds the programs and copies the scripts. It returns the functions of the scripts.
func (r *runner) prepare(ctx context.Context) ([]string, error) {
	r.scripts, r.bin = filepath.Join(r.dir, "kubernetes"), filepath.Join(r.dir, "bin")
	if r.programs != "" {
		var err error
		if r.bin, err = filepath.Abs(r.programs); err != nil {
			return nil, err
		}
	}
	for _, dir := range []string{r.bin, r.output} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	if err := r.build(ctx, r.bin); err != nil {
		return nil, err
	}
	if err := copyScripts(r.scripts, filepath.Join(r.bin, "kubectl"), filepath.Join(r.bin, "kubectl-convert")); err != nil {
		return nil, err
	}
	return listFunctions(r.scripts)
}

// runAll runs all functions with one cluster. A function that fails may leave objects behind, so
// the next one gets a new cluster.
func (r *runner) runAll(ctx context.Context, functions []string) (results []result, err error) {
	var c *cluster
	defer func() {
		if c != nil {
			err = errors.Join(err, c.stop())
		}
	}()
	if !slices.ContainsFunc(functions, r.focus.MatchString) {
		return nil, fmt.Errorf("no function matches %s", r.focus)
	}
	for _, function := range functions {
		if !r.focus.MatchString(function) {
			continue
		}
		one := result{function: function}
		for !one.passed && one.attempts < max(r.attempts, 1) {
			if c == nil {
				if c, err = r.startCluster(ctx); err != nil {
					return results, err
				}
			}
			one.attempts++
			begin := time.Now()
			out, failure := r.function(ctx, c, function)
			one.took, one.passed = time.Since(begin), failure == nil
			if err := errors.Join(ctx.Err(), c.check()); err != nil {
				return results, fmt.Errorf("%s: %w", function, err)
			}
			if failure == nil {
				fmt.Printf("pass %-50s %6.1f s\n", function, one.took.Seconds())
				continue
			}
			fmt.Printf("FAIL %-50s %6.1f s: %v\n", function, one.took.Seconds(), failure)
			if err := r.save(function, one.attempts, out); err != nil {
				return results, err
			}
			fmt.Println(indent(lastLines(out, shownLines)))
			err := c.stop()
			if c = nil; err != nil {
				return results, err
			}
		}
		results = append(results, one)
	}
	return results, nil
}

// function runs a function in a new shell, and returns its output.
func (r *runner) function(ctx context.Context, c *cluster, function string) ([]byte, error) {
	dir, err := os.MkdirTemp(r.dir, "function-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var out bytes.Buffer
	shell := process.Program{Name: function, Path: "bash", Args: []string{"function.sh"}, Dir: r.scripts, Stdout: &out, Stderr: &out}
	shell.Environment = []string{"FUNCTION=" + function, "SECURE_API_PORT=" + strconv.Itoa(c.port), "PATH=" + os.Getenv("PATH"),
		// The version of kubectl and that of the server may differ.
		"ALLOW_SKEW=true",
		"HTTPS_PROXY=" + r.files.url, "NO_PROXY=127.0.0.1,localhost", "SSL_CERT_FILE=" + r.files.certificate,
		// The scripts use colours, with or without a terminal.
		"TERM=xterm", "LANG=C", "USER=test"}
	for name, sub := range map[string]string{"HOME": "home", "KUBE_TEMP": "home", "TMPDIR": "tmp", "KUBE_JUNIT_REPORT_DIR": "junit"} {
		sub = filepath.Join(dir, sub)
		if err := os.MkdirAll(sub, 0o755); err != nil {
			return nil, err
		}
		shell.Environment = append(shell.Environment, name+"="+sub)
	}
	// Some functions read the server's certificate, as kube-apiserver writes it.
	if err := os.WriteFile(filepath.Join(dir, "tmp", "apiserver.crt"), c.certificate, 0o644); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, r.timeout, fmt.Errorf("it has not ended within %v", r.timeout))
	defer cancel()
	err = process.Run(ctx, shell, 0)
	return out.Bytes(), err
}

// log returns the path of the log of a program.
func (r *runner) log(name string) string { return filepath.Join(r.output, name+".log") }

// save writes the output of a function that fails.
func (r *runner) save(function string, attempt int, out []byte) error {
	return os.WriteFile(filepath.Join(r.output, fmt.Sprintf("%s-%d.txt", function, attempt)), out, 0o644)
}

// lastLines returns the last lines of an output, without colours.
func lastLines(out []byte, n int) []byte {
	colours := regexp.MustCompile(`\x1b(\[[0-9;]*m|\(B)`)
	lines := bytes.Split(bytes.TrimSpace(colours.ReplaceAll(out, nil)), []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-n):], []byte("\n"))
}

func indent(text []byte) string {
	return "    " + strings.ReplaceAll(string(text), "\n", "\n    ")
}

// summarize prints how many functions pass, how many of them not at once, and how many are listed
// in each class.
func summarize(results []result, list []entry) {
	passed, again := 0, 0
	for _, one := range results {
		if one.passed {
			passed++
			if one.attempts > 1 {
				again++
			}
		}
	}
	fmt.Printf("%d of %d functions pass, %d of them not at once\n", passed, len(results), again)
	counts := map[class]int{}
	for _, e := range list {
		counts[e.class]++
	}
	fmt.Printf("the list has %d functions: %d pass, %d differ, %d fail with the real server, too\n",
		len(list), counts[passes], counts[differs], counts[fails])
}
