// Package manifest finds the CustomResourceDefinitions in YAML and JSON, in file
// systems and in Go values, and returns each of them as JSON.
package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/api"
	"espalier.dev/internal/yamlx"
)

// CRD is a CustomResourceDefinition of any version, as its author wrote it.
type CRD struct {
	// Source is the file and the line at which the document starts. It is empty for a
	// CRD that does not come from text.
	Source string
	// JSON is the CRD, with its apiVersion and kind.
	JSON []byte
	metav1.TypeMeta
	// Name is metadata.name.
	Name string
}

// String returns the name of the CRD and its source.
func (c CRD) String() string {
	name := c.Name
	if name == "" {
		name = "a CRD without a name"
	}
	if c.Source == "" {
		return name
	}
	return name + " in " + c.Source
}

// Contents are the objects in a manifest.
type Contents struct {
	CRDs []CRD
	// Others are the apiVersions and kinds of all other objects.
	Others []metav1.TypeMeta
}

// ErrNoCRD is returned where a CRD is expected and there is none.
var ErrNoCRD = errors.New("no CustomResourceDefinition found")

// Check returns an error that wraps [ErrNoCRD] if there is no CRD.
func (c Contents) Check() error {
	if len(c.CRDs) > 0 {
		return nil
	}
	var kinds []string
	for _, o := range c.Others {
		if o.Kind == "" || o.APIVersion == "" {
			kinds = append(kinds, "an object without apiVersion and kind")
		} else {
			kinds = append(kinds, o.APIVersion+" "+o.Kind)
		}
	}
	slices.Sort(kinds)
	kinds = slices.Compact(kinds)
	const shown = 5
	switch more := len(kinds) - shown; {
	case len(kinds) == 0:
		return ErrNoCRD
	case more > 0:
		kinds = append(kinds[:shown], fmt.Sprintf("%d more kinds", more))
	}
	return fmt.Errorf("%w, only %s", ErrNoCRD, strings.Join(kinds, ", "))
}

// Parse reads a stream of YAML or JSON documents. It expands lists. The name of the
// file, which may be empty, becomes part of sources and errors.
func Parse(file string, data []byte) (c Contents, err error) {
	r := yamlx.NewReader(bytes.NewReader(data), yamlx.Options{})
	for {
		d, err := r.Next()
		if errors.Is(err, io.EOF) {
			return c, nil
		}
		var src []byte
		if err == nil {
			if d.Empty() {
				continue
			}
			src, err = d.JSON()
		}
		if err != nil {
			return Contents{}, at(file, err)
		}
		source := fmt.Sprintf("line %d", d.Line())
		if file != "" {
			source = fmt.Sprintf("%s:%d", file, d.Line())
		}
		if err := c.add(source, src, 0); err != nil {
			return Contents{}, fmt.Errorf("%s: %w", source, err)
		}
	}
}

// at adds the name of a file to an error that starts with a line and a column.
func at(file string, err error) error {
	if file == "" {
		return fmt.Errorf("line %w", err)
	}
	return fmt.Errorf("%s:%w", file, err)
}

// add adds an object or, if it is a list, its items.
func (c *Contents) add(source string, src []byte, depth int) error {
	id, err := api.Identify(src)
	if err != nil {
		return err
	}
	if api.IsDefinition(id) {
		found, err := newCRD(source, src)
		c.CRDs = append(c.CRDs, found)
		return err
	}
	var items [][]byte
	ok := false
	if id.Kind == "List" || id.Kind == api.Kind+"List" {
		if items, ok, err = Items(src, id); err != nil {
			return err
		}
	}
	if !ok {
		c.Others = append(c.Others, id)
		return nil
	}
	if depth == MaxNesting {
		return ErrNesting
	}
	for _, item := range items {
		if string(item) == "null" {
			return errors.New("an item of a list is null")
		}
		if err := c.add(source, item, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func newCRD(source string, src []byte) (CRD, error) {
	var id metav1.PartialObjectMetadata
	if err := api.Unmarshal(src, &id); err != nil {
		return CRD{}, err
	}
	return CRD{Source: source, JSON: src, TypeMeta: id.TypeMeta, Name: id.Name}, nil
}

// ReadFS reads all files of a file system whose names end in .yaml, .yml or .json. It
// skips directories whose names start with a dot.
func ReadFS(fsys fs.FS) (c Contents, err error) {
	err = fs.WalkDir(fsys, ".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != "." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(path.Ext(file))):
			return nil
		}
		data, err := fs.ReadFile(fsys, file)
		if err != nil {
			return err
		}
		found, err := Parse(file, data)
		c.CRDs = append(c.CRDs, found.CRDs...)
		c.Others = append(c.Others, found.Others...)
		return err
	})
	return c, err
}
