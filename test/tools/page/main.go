// Command page compiles the sources of the web page, web/page/src, to web/page/static. With -editor, it
// bundles CodeMirror, which npm has installed in web/page/codemirror, to web/page/bundle.
//
// It uses esbuild as a library: its version is in go.mod like that of every other tool, and it needs no
// Node. What it writes to static is our code only, and committed; the bundle is not.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/evanw/esbuild/pkg/api"
)

func main() {
	editor := flag.Bool("editor", false, "bundle CodeMirror")
	flag.Parse()
	root := "../.."
	if flag.NArg() > 0 {
		root = flag.Arg(0)
	}
	dir, build := "static", build
	if *editor {
		dir, build = "bundle", bundle
	}
	if err := write(root, dir, build); err != nil {
		fmt.Fprintln(os.Stderr, "page:", err)
		os.Exit(1)
	}
}

// write writes files to a directory of the page.
func write(root, dir string, build func(root string) (map[string][]byte, error)) error {
	files, err := build(root)
	if err != nil {
		return err
	}
	dir = filepath.Join(root, "web", "page", dir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
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
	if err := problems(result); err != nil {
		return nil, err
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

// problems returns the errors of a build.
func problems(result api.BuildResult) error {
	var all []error
	for _, e := range result.Errors {
		where := ""
		if e.Location != nil {
			where = fmt.Sprintf("%s:%d: ", e.Location.File, e.Location.Line)
		}
		all = append(all, errors.New(where+e.Text))
	}
	return errors.Join(all...)
}
