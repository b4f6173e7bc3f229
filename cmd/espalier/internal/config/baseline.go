package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"espalier.dev/cmd/espalier/internal/workdir"
	"espalier.dev/internal/yamlx"
)

// The type of baselines.
const (
	baselineAPIVersion = "espalier.dev/v1"
	baselineKind       = "Baseline"
)

// Baseline holds the known findings of commands.
type Baseline struct {
	// Path is the file.
	Path string
	// Commands holds the findings by the name of the command that reports them.
	Commands map[string][]Known
	// current is the working directory of the command.
	current workdir.Dir
}

// Known is a finding that is known. It has no line, so that it stays known when lines move.
type Known struct {
	Rule string
	// Object is the object or CRD, Path the field. Either may be empty.
	Object, Path string
	// Count is the number of such findings.
	Count int
	// Line is the line in the file.
	Line int
}

// Key returns the finding without its count and line.
func (k Known) Key() Known { return Known{Rule: k.Rule, Object: k.Object, Path: k.Path} }

// LoadBaseline reads a baseline. Errors about its contents are of type *Error, possibly
// several joined. The error is fs.ErrNotExist if there is no such file.
func LoadBaseline(current workdir.Dir, path string) (*Baseline, error) {
	text, err := readFile(current, path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the baseline: %w", err)
	}
	b, err := parseBaseline(text, path)
	if err != nil {
		return nil, err
	}
	b.current = current
	return b, nil
}

func parseBaseline(text []byte, path string) (*Baseline, error) {
	b := &Baseline{Path: path, Commands: map[string][]Known{}}
	p := &parser{path: path}
	root, err := p.parse(text)
	if err != nil {
		return nil, err
	}
	if kind, ok := baselineType(root); !ok {
		return nil, &Error{File: path, Line: 1, Column: 1,
			Message: "not a baseline of espalier: must have apiVersion: " + baselineAPIVersion + " and kind: " + baselineKind + kind}
	}
	p.mapping(root, "", func(n *yamlx.Node) {
		switch n.Key {
		case "apiVersion", "kind":
		default:
			p.items(n, func(item *yamlx.Node) { b.Commands[n.Key] = append(b.Commands[n.Key], p.known(item)) })
		}
	})
	return b, p.err()
}

// baselineType reports whether a document has the type of a baseline. If not, it describes
// the document.
func baselineType(root *yamlx.Node) (string, bool) {
	if root == nil || root.Kind != yamlx.Mapping {
		return "", false
	}
	text := func(name string) string {
		if n := root.Entry(name); n != nil {
			s, _ := n.Text()
			return s
		}
		return ""
	}
	version, kind := text("apiVersion"), text("kind")
	if version == baselineAPIVersion && kind == baselineKind {
		return "", true
	}
	if version == "" && kind == "" {
		return "", false
	}
	return fmt.Sprintf(", got %q and %q", version, kind), false
}

// known reads a finding.
func (p *parser) known(n *yamlx.Node) (k Known) {
	k.Count = 1
	k.Line, _ = p.at(n.Start)
	p.mapping(n, "a finding", func(n *yamlx.Node) {
		to := map[string]*string{"rule": &k.Rule, "object": &k.Object, "path": &k.Path}[n.Key]
		switch {
		case to != nil:
			*to, _ = p.text(n)
		case n.Key != "count":
			p.unknown(n.KeyStart, "key", n.Key, []string{"rule", "object", "path", "count"})
		default:
			count, err := strconv.Atoi(string(n.JSON))
			if err != nil || count < 1 {
				p.fail(n.Start, "count must be a positive number")
			}
			k.Count = count
		}
	})
	if k.Rule == "" {
		p.fail(n.Start, "rule is required")
	}
	return k
}

// Write writes the baseline to its file. Findings are sorted, one per line.
func (b *Baseline) Write() error {
	var out bytes.Buffer
	fmt.Fprintf(&out, "# Known findings, which are not reported. Update them with --write-baseline.\napiVersion: %s\nkind: %s\n",
		baselineAPIVersion, baselineKind)
	for _, command := range slices.Sorted(maps.Keys(b.Commands)) {
		known := slices.Clone(b.Commands[command])
		slices.SortFunc(known, func(a, b Known) int {
			return cmp.Or(strings.Compare(a.Object, b.Object), strings.Compare(a.Path, b.Path), strings.Compare(a.Rule, b.Rule))
		})
		if len(known) == 0 {
			continue
		}
		fmt.Fprintf(&out, "%s:\n", command)
		for _, k := range known {
			fmt.Fprintf(&out, "- {rule: %s, object: %s, path: %s", quote(k.Rule), quote(k.Object), quote(k.Path))
			if k.Count > 1 {
				fmt.Fprintf(&out, ", count: %d", k.Count)
			}
			out.WriteString("}\n")
		}
	}
	return writeFile(b.current, b.Path, out.Bytes())
}

// quote returns a string as JSON, which is YAML too.
func quote(s string) string {
	text, _ := json.Marshal(s) // a string never fails
	return string(text)
}

// writeFile replaces a file at once, so that an error does not leave half of it.
func writeFile(current workdir.Dir, path string, text []byte) (err error) {
	if info, err := current.Stat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("cannot write the baseline: %s is not a regular file", path)
	}
	f, err := current.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("cannot write the baseline: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("cannot write the baseline: %w", err), os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return current.Rename(f.Name(), path)
}

// NewBaseline reads the baseline to update, which need not exist.
func NewBaseline(current workdir.Dir, path string) (*Baseline, error) {
	b, err := LoadBaseline(current, path)
	if errors.Is(err, fs.ErrNotExist) {
		return &Baseline{Path: path, Commands: map[string][]Known{}, current: current}, nil
	}
	return b, err
}
