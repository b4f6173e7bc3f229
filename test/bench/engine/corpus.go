package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"espalier.dev/internal/testcase"
	"sigs.k8s.io/yaml"
)

// corpusDir returns the directory of the corpus, relative to this module.
func corpusDir() string {
	if dir := os.Getenv("ESPALIER_CORPUS"); dir != "" {
		return dir
	}
	return filepath.Join("..", "..", "..", "shared", "corpus")
}

// corpusCases returns the n largest schemas of v1 CRDs that have objects, or none if there is
// no corpus.
func corpusCases(dir string, n int) ([]workCase, error) {
	objects, err := readIndex(filepath.Join(dir, "CR_INDEX.tsv"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	type crdFile struct {
		name string
		size int64
	}
	var files []crdFile
	for name := range objects {
		if !strings.HasPrefix(name, "v1/") {
			continue
		}
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		files = append(files, crdFile{name, info.Size()})
	}
	// A file also holds other versions and descriptions. The largest schemas are among the
	// three times as many largest files.
	slices.SortFunc(files, func(a, b crdFile) int {
		return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.name, b.name))
	})
	var cases []workCase
	for _, f := range files[:min(3*n, len(files))] {
		c, err := readCRD(dir, f.name, objects[f.name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		if c != nil {
			cases = append(cases, *c)
		}
	}
	slices.SortStableFunc(cases, func(a, b workCase) int { return cmp.Compare(b.properties, a.properties) })
	return cases[:min(n, len(cases))], nil
}

// indexed is a line of the index.
type indexed struct {
	file, apiVersion string
}

// readIndex returns the objects of each CRD.
func readIndex(file string) (map[string][]indexed, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	objects := map[string][]indexed{}
	lines := bufio.NewScanner(f)
	for header := true; lines.Scan(); header = false {
		columns := strings.Split(lines.Text(), "\t")
		if header || len(columns) < 3 {
			continue
		}
		objects[columns[1]] = append(objects[columns[1]], indexed{file: columns[0], apiVersion: columns[2]})
	}
	return objects, lines.Err()
}

// readCRD returns the largest version that has objects, or nil.
func readCRD(dir, file string, objects []indexed) (*workCase, error) {
	data, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return nil, err
	}
	var crd struct {
		Metadata struct{ Name string }
		Spec     struct {
			Group    string
			Versions []struct {
				Name   string
				Schema struct {
					OpenAPIV3Schema json.RawMessage `json:"openAPIV3Schema"`
				}
			}
		}
	}
	if err := yaml.Unmarshal(data, &crd); err != nil {
		return nil, err
	}
	var largest *workCase
	for _, v := range crd.Spec.Versions {
		if v.Schema.OpenAPIV3Schema == nil {
			continue
		}
		properties, err := testcase.Properties(v.Schema.OpenAPIV3Schema)
		if err != nil {
			return nil, err
		}
		if largest != nil && largest.properties >= properties {
			continue
		}
		c := workCase{
			name:       "corpus " + crd.Metadata.Name,
			title:      crd.Metadata.Name + " " + v.Name,
			schema:     v.Schema.OpenAPIV3Schema,
			properties: properties,
		}
		for _, o := range objects {
			if o.apiVersion != crd.Spec.Group+"/"+v.Name {
				continue
			}
			text, err := os.ReadFile(filepath.Join(dir, o.file))
			if err != nil {
				return nil, err
			}
			src, err := yaml.YAMLToJSON(text)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", o.file, err)
			}
			c.objects = append(c.objects, src)
		}
		if len(c.objects) > 0 {
			largest = &c
		}
	}
	return largest, nil
}
