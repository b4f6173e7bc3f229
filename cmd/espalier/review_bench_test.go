package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// BenchmarkReview reviews a change of 20 manifests, of which two are CRDs, in a repository of 10,000.
// It reports the CPU time and the maximum memory of the process, including those of git.
func BenchmarkReview(b *testing.B) {
	dir := b.TempDir()
	writeRepository(b, dir, 10_000)
	var cpu, memory float64
	b.ResetTimer()
	for range b.N {
		c := programCommand(b, "review", "--base", "main", "--fail-on", "never")
		c.Dir = dir
		out, err := c.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "0 created, 20 updated, 0 removed") {
			b.Fatalf("%v: %s", err, out)
		}
		cpu += (c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Seconds()
		if usage, ok := c.ProcessState.SysUsage().(*syscall.Rusage); ok {
			memory = max(memory, float64(usage.Maxrss)/1024)
		}
	}
	b.ReportMetric(cpu/float64(b.N), "cpu-s/op")
	b.ReportMetric(memory, "max-rss-MiB")
}

// writeRepository writes a Git repository of n manifests, in directories of 100: 50 CRDs, 80 objects
// of each, and objects of built-in kinds. The branch main has them, and the working tree differs in
// 20 of them.
func writeRepository(b *testing.B, dir string, n int) {
	b.Helper()
	const kinds, each = 50, 80
	fields, variables := "", ""
	for i := range 20 {
		fields += fmt.Sprintf("  field%d: {value: some text}\n", i)
		variables += fmt.Sprintf("        - {name: VARIABLE_%d, value: some text}\n", i)
	}
	write := func(i int, text string) {
		name := filepath.Join(dir, fmt.Sprintf("team-%02d/app-%d.yaml", i/100, i))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	definition := func(i, most int) string {
		var text strings.Builder
		fmt.Fprintf(&text, `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: kind%[1]ds.example%[1]d.com}
spec:
  group: example%[1]d.com
  names: {plural: kind%[1]ds, singular: kind%[1]d, kind: Kind%[1]d, listKind: Kind%[1]dList}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              replicas: {type: integer, maximum: %[2]d}
`, i, most)
		for j := range 200 {
			fmt.Fprintf(&text, "              field%d:\n                description: A field with a description that is as long as others.\n                type: object\n                properties:\n                  value: {type: string, maxLength: 100}\n", j)
		}
		return text.String()
	}
	object := func(i, kind, replicas int) string {
		return fmt.Sprintf("apiVersion: example%[2]d.com/v1\nkind: Kind%[2]d\nmetadata: {name: object-%[1]d, namespace: team}\nspec:\n  replicas: %[3]d\n",
			i, kind, replicas) + fields
	}
	deployment := func(i, replicas int) string {
		return fmt.Sprintf("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: app-%[1]d, namespace: team}\nspec:\n  replicas: %[2]d\n  selector:\n    matchLabels: {app: app-%[1]d}\n  template:\n    metadata:\n      labels: {app: app-%[1]d}\n    spec:\n      containers:\n      - name: app\n        image: registry.example.com/app:v1\n        env:\n%[3]s",
			i, replicas, variables)
	}
	for i := range n {
		switch {
		case i < kinds:
			write(i, definition(i, 10))
		case i < kinds+kinds*each:
			write(i, object(i, i%kinds, 1+i%10))
		default:
			write(i, deployment(i, 1))
		}
	}
	for _, command := range []string{"init -q -b main", "add -A", "commit -q -m base", "checkout -q -b change"} {
		if code := runProgram(b, dir, strings.Fields("git "+command), nil, io.Discard, io.Discard); code != 0 {
			b.Fatalf("git %s exits with %d", command, code)
		}
	}
	for i := range 2 {
		write(i, definition(i, 9))
	}
	for i := kinds; i < kinds+9; i++ {
		write(i, object(i, i%kinds, 11))
	}
	for i := n - 9; i < n; i++ {
		write(i, deployment(i, 2))
	}
}
