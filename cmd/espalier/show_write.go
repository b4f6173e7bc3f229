package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/analysis/forms"
	"espalier.dev/analysis/jsonschema"
	"espalier.dev/analysis/object"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/crd"
)

// showOptions are the flags of show.
type showOptions struct {
	input           input.Flags
	source          sourceFlags
	version, output string
	builtin, strict bool
	singleTypes     bool
	directory       string
	// names are the resources to show; if there are none, all CRDs in the input.
	names []string
}

// shownDefinition is a resource to show.
type shownDefinition struct {
	*crd.Definition
	// given is nil for a built-in kind.
	given *definition
	// version is the version to show, or "" for all.
	version string
}

// schemaWriter writes the schemas that show derives.
type schemaWriter struct {
	printer
	form    forms.Form
	options showOptions
	// written counts schemas; kinds are those of the files.
	written int
	kinds   []runtimeschema.GroupVersionKind
}

// definition writes the schemas of a resource.
func (w *schemaWriter) definition(d shownDefinition, r *report.Reporter) error {
	if d.given != nil && w.form.Structural {
		checker := object.New(d.Definition, d.given.text())
		for _, v := range d.Versions() {
			if d.version != "" && v.Name() != d.version {
				continue
			}
			for _, finding := range checker.NotStructural(v) {
				r.Report(d.given.item(), finding)
			}
		}
	}
	for _, v := range d.Versions() {
		if d.version != "" && v.Name() != d.version {
			continue
		}
		w.written++
		title := fmt.Sprintf("%s of %s, version %s", w.form.Name, d.Name(), v.Name())
		derived, err := w.form.Derive(v, jsonschema.Options{Strict: w.options.strict, GoTypes: d.given == nil, SingleTypes: w.options.singleTypes})
		if err != nil {
			return err
		}
		if s, ok := derived.(jsonschema.Schema); ok {
			err = w.jsonSchema(v, title, s)
		} else {
			err = w.print(title, derived)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// jsonSchema writes a JSON Schema to its file, or to standard output.
func (w *schemaWriter) jsonSchema(v *crd.Version, title string, s jsonschema.Schema) error {
	if w.options.directory == "" {
		return w.print(title, s)
	}
	gvk := v.GroupVersionKind()
	w.kinds = slices.DeleteFunc(w.kinds, func(other runtimeschema.GroupVersionKind) bool { return other == gvk })
	w.kinds = append(w.kinds, gvk)
	return w.file(jsonschema.File(gvk), s)
}

// finish writes the file that refers to all others.
func (w *schemaWriter) finish() error {
	if w.options.directory == "" || len(w.kinds) == 0 {
		return nil
	}
	return w.file("all.json", jsonschema.Any(w.kinds))
}

// file writes a file below the output directory.
func (w *schemaWriter) file(name string, s jsonschema.Schema) error {
	text, err := indentedJSON(s)
	if err != nil {
		return err
	}
	path := filepath.Join(w.options.directory, filepath.FromSlash(name))
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return fmt.Errorf("cannot write the schema to %s: the CRD has an invalid group, version or kind", strings.TrimSpace(name))
	}
	if err := w.a.dir.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	return writeAtomically(w.a.dir, path, text, 0o644)
}
