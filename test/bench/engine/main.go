// The engine command benchmarks the engine side by side with the reference, Kubernetes' own
// packages, on the same schemas and objects in one run.
//
// The cases are a medium and a big one from package testcase, and the ten largest CRDs of the
// corpus that have objects. Before a case is measured, both sides must agree on every
// resulting object and every validation error; otherwise the command fails. It never fails
// because of a time: the targets are printed next to the ratios.
//
// ESPALIER_CORPUS names the directory of the corpus. BENCH_JSON names a file for the same
// numbers as JSON.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"espalier.dev/internal/testcase"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// side is one implementation with one schema.
type side interface {
	// compile compiles the schema, starting with the API type.
	compile() error
	// decode parses, coerces metadata, prunes, drops nulls and applies defaults.
	decode(src []byte) (map[string]any, error)
	// validate checks values, embedded metadata and list types.
	validate(ctx context.Context, obj map[string]any) field.ErrorList
	// prune removes unknown fields from a tree, in place.
	prune(obj map[string]any) error
	// create does everything to a copy of a tree, including the metadata.
	create(ctx context.Context, obj map[string]any) (map[string]any, field.ErrorList, error)
}

// workCase is a schema and its objects.
type workCase struct {
	name       string
	title      string
	schema     []byte
	properties int
	objects    [][]byte
}

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(out io.Writer) error {
	m := meter{rounds: 15, round: 20 * time.Millisecond}
	cases, err := generatedCases()
	if err != nil {
		return err
	}
	fromCorpus, err := corpusCases(corpusDir(), 10)
	if err != nil {
		return err
	}
	if fromCorpus == nil {
		fmt.Fprintln(out, "skipped: no corpus found (set ESPALIER_CORPUS)")
	}
	res := result{Go: runtime.Version(), CPUs: runtime.GOMAXPROCS(0)}
	fmt.Fprintf(out, "%s, %d processors, medians of %d rounds of %s\n", res.Go, res.CPUs, m.rounds, m.round)
	for _, c := range append(cases, fromCorpus...) {
		in, err := prepare(c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		rows := measureCase(m, in)
		if err := printRows(out, in, rows); err != nil {
			return err
		}
		res.Rows = append(res.Rows, rows...)
	}
	return res.write(os.Getenv("BENCH_JSON"))
}

func generatedCases() ([]workCase, error) {
	var cases []workCase
	for _, c := range []testcase.Case{testcase.Medium(), testcase.Big()} {
		n, err := testcase.Properties(c.Schema)
		if err != nil {
			return nil, err
		}
		cases = append(cases, workCase{name: c.Name, title: c.Name, schema: c.Schema, properties: n, objects: [][]byte{c.Object}})
	}
	return cases, nil
}

// result is written to BENCH_JSON.
type result struct {
	Go   string `json:"go"`
	CPUs int    `json:"cpus"`
	Rows []row  `json:"rows"`
}

func (r result) write(file string) error {
	if file == "" {
		return nil
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}
