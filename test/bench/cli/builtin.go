package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"sigs.k8s.io/yaml"
)

// seedsDir has manifests of Kubernetes' own kinds, which the oracle uses too.
var seedsDir = filepath.Join("..", "oracle", "builtin", "seeds")

// builtin compares the programs on objects of Kubernetes' own kinds. kubeconform uses the schemas
// that `espalier show json-schema` writes, which are on the disk; ours needs none.
func builtin(ctx context.Context, dir string, programs []program, objects, rounds int) error {
	in := &inputs{dir: filepath.Join(dir, "builtin-objects"), schemas: filepath.Join(dir, "builtin-schemas")}
	for _, d := range []string{in.dir, in.schemas} {
		if err := os.RemoveAll(d); err != nil {
			return err
		}
	}
	if _, err := output(ctx, programs[0].path, "show", "json-schema", "--builtin", "--output-dir", in.schemas); err != nil {
		return err
	}
	seeds, err := builtinSeeds(ctx, in, programs)
	if err != nil {
		return err
	}
	for i := range objects {
		seed := seeds[i%len(seeds)]
		seed["metadata"].(map[string]any)["name"] = fmt.Sprintf("copy-%d", i)
		text, err := yaml.Marshal(seed)
		if err != nil {
			return err
		}
		if err := write(filepath.Join(in.dir, "yaml", fmt.Sprintf("copy-%06d.yaml", i)), text); err != nil {
			return err
		}
	}
	fmt.Printf("built-in kinds: %d objects, copies of %d\n\n", objects, len(seeds))
	return sideBySide(ctx, builtinPrograms(programs), in, "yaml", rounds)
}

// builtinPrograms returns the programs with the arguments for built-in kinds.
func builtinPrograms(programs []program) (out []program) {
	for _, p := range programs {
		p.args = p.builtin
		out = append(out, p)
	}
	return out
}

// builtinSeeds returns the objects that all programs accept and whose names are free.
func builtinSeeds(ctx context.Context, in *inputs, programs []program) (seeds []map[string]any, _ error) {
	files, err := filepath.Glob(filepath.Join(seedsDir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	probe := filepath.Join(in.dir, "probe.yaml")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, document := range regexp.MustCompile(`(?m)^---.*$`).Split(string(text), -1) {
			var seed map[string]any
			if err := yaml.Unmarshal([]byte(document), &seed); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			meta, ok := seed["metadata"].(map[string]any)
			if !ok {
				continue
			}
			meta["name"] = "probe"
			if document, err := yaml.Marshal(seed); err != nil {
				return nil, err
			} else if err := write(probe, document); err != nil {
				return nil, err
			}
			if accepted(ctx, in, builtinPrograms(programs), probe) {
				seeds = append(seeds, seed)
			}
		}
	}
	if len(seeds) == 0 {
		return nil, errors.New("no object of a built-in kind is accepted by all programs")
	}
	return seeds, os.Remove(probe)
}

// accepted reports whether all programs accept an object.
func accepted(ctx context.Context, in *inputs, programs []program, file string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, p := range programs {
		if _, err := p.measure(ctx, in, file); err != nil {
			return false
		}
	}
	return true
}
