// Command page compiles the sources of the web page, web/page/src, to web/page/static.
//
// It uses esbuild as a library: its version is in go.mod like that of every other tool, it needs no
// Node, and what it writes is our code only.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/evanw/esbuild/pkg/api"
)

func main() {
	root := "../.."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	if err := write(root); err != nil {
		fmt.Fprintln(os.Stderr, "page:", err)
		os.Exit(1)
	}
}

// write compiles the page.
func write(root string) error {
	files, err := build(root)
	if err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(root, "web", "page", "static", name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// build returns the files of the page.
func build(root string) (map[string][]byte, error) {
	dir, err := filepath.Abs(filepath.Join(root, "web", "page", "src"))
	if err != nil {
		return nil, err
	}
	result := api.Build(api.BuildOptions{
		EntryPointsAdvanced: []api.EntryPoint{
			{InputPath: "main.ts", OutputPath: "page"},
			{InputPath: "worker.ts", OutputPath: "worker"},
			{InputPath: "page.css", OutputPath: "page"},
		},
		AbsWorkingDir: dir,
		Outdir:        dir,
		Bundle:        true,
		Format:        api.FormatIIFE,
		Target:        api.ES2022,
		Charset:       api.CharsetUTF8,
		LegalComments: api.LegalCommentsNone,
		LogLevel:      api.LogLevelSilent,
	})
	if len(result.Errors) > 0 {
		var all []error
		for _, e := range result.Errors {
			where := ""
			if e.Location != nil {
				where = fmt.Sprintf("%s:%d: ", e.Location.File, e.Location.Line)
			}
			all = append(all, errors.New(where+e.Text))
		}
		return nil, errors.Join(all...)
	}
	files := map[string][]byte{}
	for _, f := range result.OutputFiles {
		files[filepath.Base(f.Path)] = f.Contents
	}
	for _, name := range []string{"index.html", "icon.svg"} {
		if files[name], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	return files, nil
}
