package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// inputs are the files that all programs read.
type inputs struct {
	// dir holds the objects: json and yaml with one object per file.
	dir string
	// crds is the directory of the CRDs, schemas that of the schemas for kubeconform.
	crds, schemas      string
	seeds, definitions int
	objects            int
}

func corpusDir() string {
	if dir := os.Getenv("ESPALIER_CORPUS"); dir != "" {
		return dir
	}
	return filepath.Join("..", "..", "..", "shared", "corpus")
}

// prepare writes the files. It returns nil if there is no corpus.
func prepare(ctx context.Context, dir string, programs []program, objects int) (*inputs, error) {
	in := &inputs{dir: filepath.Join(dir, "objects"), crds: filepath.Join(dir, "crds"), schemas: filepath.Join(dir, "schemas"), objects: objects}
	for _, d := range []string{in.dir, in.crds, in.schemas} {
		if err := os.RemoveAll(d); err != nil {
			return nil, err
		}
	}
	kinds, err := in.writeDefinitions(corpusDir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	seeds, err := readSeeds(corpusDir(), kinds)
	if err != nil {
		return nil, err
	}
	if seeds, err = in.acceptable(ctx, dir, programs, seeds); err != nil {
		return nil, err
	}
	if len(seeds) == 0 {
		return nil, errors.New("no object is accepted by all programs")
	}
	in.seeds = len(seeds)
	return in, in.writeObjects(seeds)
}

// definition holds the fields of a CRD that are needed here.
type definition struct {
	Metadata struct{ Name string }
	Spec     struct {
		Group    string
		Names    struct{ Kind string }
		Versions []struct {
			Name   string
			Schema struct {
				OpenAPIV3Schema map[string]any `json:"openAPIV3Schema"`
			}
		}
	}
}

// writeDefinitions writes the v1 CRDs of the corpus, one of each name, and their schemas. It
// returns the files that they come from.
func (in *inputs) writeDefinitions(corpus string) (map[string]bool, error) {
	files, err := filepath.Glob(filepath.Join(corpus, "v1", "*", "*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fs.ErrNotExist
	}
	taken, used := map[string]bool{}, map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var d definition
		if err := yaml.Unmarshal(text, &d); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if taken[d.Metadata.Name] {
			continue
		}
		taken[d.Metadata.Name] = true
		relative, err := filepath.Rel(corpus, file)
		if err != nil {
			return nil, err
		}
		used[filepath.ToSlash(relative)] = true
		if err := write(filepath.Join(in.crds, d.Metadata.Name+".yaml"), text); err != nil {
			return nil, err
		}
		for _, v := range d.Spec.Versions {
			name := fmt.Sprintf("%s_%s_%s.json", d.Spec.Group, strings.ToLower(d.Spec.Names.Kind), v.Name)
			converted, err := json.Marshal(convert(v.Schema.OpenAPIV3Schema))
			if err != nil {
				return nil, err
			}
			if err := write(filepath.Join(in.schemas, name), converted); err != nil {
				return nil, err
			}
		}
	}
	in.definitions = len(taken)
	return used, nil
}

// convert converts an OpenAPI schema to JSON Schema: null becomes a type, and int-or-string
// two types. It changes the schema in place.
func convert(s map[string]any) map[string]any {
	if s == nil {
		return map[string]any{}
	}
	s["$schema"] = "http://json-schema.org/draft-04/schema#"
	convertBelow(s)
	return s
}

func convertBelow(s map[string]any) {
	if s["x-kubernetes-int-or-string"] == true {
		s["type"] = []any{"integer", "string"}
	}
	if s["nullable"] == true {
		switch t := s["type"].(type) {
		case string:
			s["type"] = []any{t, "null"}
		case []any:
			s["type"] = append(t, "null")
		}
	}
	for k, v := range s {
		switch v := v.(type) {
		case nil:
			// The server ignores keywords that are null.
			delete(s, k)
		case map[string]any:
			switch k {
			case "properties":
				for _, p := range v {
					if p, ok := p.(map[string]any); ok {
						convertBelow(p)
					}
				}
			case "items", "additionalProperties", "not":
				convertBelow(v)
			}
		case []any:
			if k != "allOf" && k != "anyOf" && k != "oneOf" {
				continue
			}
			for _, branch := range v {
				if branch, ok := branch.(map[string]any); ok {
					convertBelow(branch)
				}
			}
		}
	}
}

// readSeeds returns the objects of the corpus for the given CRDs.
func readSeeds(corpus string, definitions map[string]bool) (seeds []map[string]any, err error) {
	f, err := os.Open(filepath.Join(corpus, "CR_INDEX.tsv"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		columns := strings.Split(lines.Text(), "\t")
		if len(columns) < 2 || !strings.HasPrefix(columns[0], "cr/") || !definitions[columns[1]] {
			continue
		}
		text, err := os.ReadFile(filepath.Join(corpus, columns[0]))
		if err != nil {
			return nil, err
		}
		var obj map[string]any
		if yaml.Unmarshal(text, &obj) != nil {
			continue
		}
		// An object without a name cannot be stored.
		if meta, ok := obj["metadata"].(map[string]any); ok && meta["name"] != nil {
			delete(meta, "creationTimestamp")
			seeds = append(seeds, obj)
		}
	}
	return seeds, lines.Err()
}

// acceptable returns the objects that all programs accept: reporting an error is different
// work.
func (in *inputs) acceptable(ctx context.Context, dir string, programs []program, seeds []map[string]any) (kept []map[string]any, err error) {
	probe := filepath.Join(dir, "probe")
	if err := os.RemoveAll(probe); err != nil {
		return nil, err
	}
	for i, seed := range seeds {
		// Some CRDs restrict the name.
		seed["metadata"].(map[string]any)["name"] = "copy-0"
		text, err := json.Marshal(seed)
		if err != nil {
			return nil, err
		}
		if err := write(filepath.Join(probe, fmt.Sprintf("seed-%05d.json", i)), text); err != nil {
			return nil, err
		}
	}
	refused := map[string]bool{}
	for _, p := range programs {
		args := p.args(in, probe)
		switch p.name {
		case "espalier":
			args = append(args, "-o", "github")
		case "kubeconform":
			args = append([]string{"-output", "text"}, args...)
		}
		text, err := output(ctx, p.path, args...)
		if err != nil {
			return nil, err
		}
		before := len(refused)
		for line := range strings.Lines(text) {
			// Any output about an object counts as an error, except that it is valid.
			i := strings.Index(line, "seed-")
			if i < 0 || strings.Contains(line, "OK") {
				continue
			}
			refused[line[i:min(i+len("seed-00000"), len(line))]] = true
		}
		fmt.Fprintf(os.Stderr, "%s rejects %d more of %d objects\n", p.name, len(refused)-before, len(seeds))
	}
	for i, seed := range seeds {
		if !refused[fmt.Sprintf("seed-%05d", i)] {
			kept = append(kept, seed)
		}
	}
	return kept, os.RemoveAll(probe)
}

// writeObjects writes copies of the seeds.
func (in *inputs) writeObjects(seeds []map[string]any) error {
	for i := range in.objects {
		seed := seeds[i%len(seeds)]
		meta := seed["metadata"].(map[string]any)
		meta["name"] = fmt.Sprintf("copy-%d", i)
		asJSON, err := json.Marshal(seed)
		if err != nil {
			return err
		}
		asYAML, err := yaml.Marshal(seed)
		if err != nil {
			return err
		}
		file := fmt.Sprintf("copy-%06d", i)
		if err := write(filepath.Join(in.dir, "json", file+".json"), asJSON); err != nil {
			return err
		}
		if err := write(filepath.Join(in.dir, "yaml", file+".yaml"), asYAML); err != nil {
			return err
		}
	}
	return nil
}

func write(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}
