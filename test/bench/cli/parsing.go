package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/internal/yamlx"
	"espalier.dev/schema"
	"sigs.k8s.io/yaml"
)

// parsing splits the time of validation into reading files, parsing and the rest,
// sequentially on one CPU.
func parsing(ctx context.Context, in *inputs) error {
	versions, err := in.compile()
	if err != nil {
		return err
	}
	fmt.Printf("share of parsing, on one CPU\n  %-8s %10s %10s %10s %10s\n", "", "reading", "parsing", "the rest", "share")
	for _, form := range []string{"json", "yaml"} {
		files, err := filepath.Glob(filepath.Join(in.dir, form, "*"))
		if err != nil {
			return err
		}
		var reading, parsing, rest time.Duration
		for _, file := range files {
			start := time.Now()
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			read := time.Now()
			doc, err := yamlx.NewBytesReader(text, yamlx.Options{}).Next()
			if err != nil {
				return err
			}
			src, err := doc.JSON()
			if err != nil {
				return err
			}
			parsed := time.Now()
			program, err := find(versions, src)
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			found := time.Now()
			if err := admit(ctx, program, src); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			done := time.Now()
			reading, parsing, rest = reading+read.Sub(start), parsing+parsed.Sub(read), rest+done.Sub(found)
		}
		fmt.Printf("  %-8s %10s %10s %10s %9.0f%%\n", form, reading.Round(time.Millisecond), parsing.Round(time.Millisecond), rest.Round(time.Millisecond),
			100*parsing.Seconds()/(parsing+rest).Seconds())
	}
	fmt.Println()
	return nil
}

// compile compiles the versions of all CRDs, by apiVersion and kind.
func (in *inputs) compile() (map[string]*crd.Version, error) {
	files, err := filepath.Glob(filepath.Join(in.crds, "*.yaml"))
	if err != nil {
		return nil, err
	}
	versions := map[string]*crd.Version{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		src, err := yaml.YAMLToJSON(text)
		if err != nil {
			return nil, err
		}
		hub, err := codec.DecodeLenient(src)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		hub.Status = api.CustomResourceDefinitionStatus{}
		d, err := crd.New(hub, crd.Options{Semantics: schema.Kubernetes, Rules: cel.Checker{}})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, v := range d.Versions() {
			gvk := v.GroupVersionKind()
			versions[gvk.GroupVersion().String()+" "+gvk.Kind] = v
		}
	}
	return versions, nil
}

// find returns the version of an object, with its program compiled.
func find(versions map[string]*crd.Version, src []byte) (*crd.Version, error) {
	var head struct{ APIVersion, Kind string }
	if err := json.Unmarshal(src, &head); err != nil {
		return nil, err
	}
	v := versions[head.APIVersion+" "+head.Kind]
	if v == nil {
		return nil, fmt.Errorf("no CRD found for %s %s", head.APIVersion, head.Kind)
	}
	_, err := v.Program()
	return v, err
}

// admit does to an object what validate does after parsing.
func admit(ctx context.Context, v *crd.Version, src []byte) error {
	p, err := v.Program()
	if err != nil {
		return err
	}
	obj, _, err := p.Decode(src, schema.DecodeOptions{Report: true})
	if err != nil {
		return err
	}
	v.PrepareCreate(obj)
	_, err = v.Validate(ctx, obj, nil)
	return err
}
