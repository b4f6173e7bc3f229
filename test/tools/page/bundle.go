package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// bundle returns the script with CodeMirror, and the licenses of what is in it.
func bundle(root string) (map[string][]byte, error) {
	dir, err := filepath.Abs(filepath.Join(root, "web", "page", "codemirror"))
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules")); err != nil {
		return nil, fmt.Errorf("CodeMirror is not installed: run npm ci in web/page/codemirror (%w)", err)
	}
	result := api.Build(api.BuildOptions{
		EntryPoints:       []string{"codemirror.ts"},
		AbsWorkingDir:     dir,
		Outdir:            dir,
		Bundle:            true,
		Format:            api.FormatIIFE,
		Target:            api.ES2022,
		Charset:           api.CharsetUTF8,
		MinifyWhitespace:  true,
		MinifyIdentifiers: true,
		MinifySyntax:      true,
		LegalComments:     api.LegalCommentsNone, // the licenses are in a file
		LogLevel:          api.LogLevelSilent,
		Metafile:          true,
	})
	if err := problems(result); err != nil {
		return nil, err
	}
	licenses, err := licenses(dir, result.Metafile)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{"codemirror.js": result.OutputFiles[0].Contents, "codemirror-licenses.txt": licenses}, nil
}

// licenses returns the licenses of the packages that esbuild has read.
func licenses(dir, metafile string) ([]byte, error) {
	var meta struct{ Inputs map[string]any }
	if err := json.Unmarshal([]byte(metafile), &meta); err != nil {
		return nil, err
	}
	packages := map[string]bool{}
	for input := range meta.Inputs {
		rest, ok := strings.CutPrefix(input, "node_modules/")
		if !ok {
			continue // it is ours
		}
		parts := strings.Split(rest, "/")
		name := parts[0]
		if strings.HasPrefix(name, "@") {
			name = path.Join(name, parts[1])
		}
		packages[name] = true
	}
	var out bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		at := filepath.Join(dir, "node_modules", filepath.FromSlash(name))
		var about struct{ Version, License string }
		text, err := os.ReadFile(filepath.Join(at, "package.json"))
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, &about); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		license, err := os.ReadFile(filepath.Join(at, "LICENSE"))
		if err != nil {
			return nil, fmt.Errorf("the license of %s is not known: %w", name, err)
		}
		fmt.Fprintf(&out, "%s %s (%s)\n\n%s\n\n", name, about.Version, about.License, bytes.TrimSpace(license))
	}
	return out.Bytes(), nil
}
