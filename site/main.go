// Program site builds the documentation as a static site: the pages below docs and what they link to, with
// Hugo and a theme of its own, and the web page with the engine as the playground. The site makes no request to
// other hosts. Pages and search also work from a directory of files. The playground needs a web server, because
// browsers start no worker from a file.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

func main() {
	root := flag.String("root", "..", "root `directory` of the repository")
	output := flag.String("output", "../dist/site", "`directory` of the site, which is replaced")
	playground := flag.String("playground", "../dist/web", "`directory` of the web page: make web writes it")
	hugo := flag.String("hugo", "", "`program` to use in place of the version of Hugo in hugo/go.mod")
	flag.Parse()
	if err := build(*root, *output, *playground, *hugo); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

// build builds the site, and checks it.
func build(root, output, playground, hugo string) (err error) {
	s, err := read(root)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "espalier-site")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if err := s.write(work); err != nil {
		return err
	}
	if output, err = filepath.Abs(output); err != nil {
		return err
	}
	if err := os.RemoveAll(output); err != nil {
		return err
	}
	theme, err := filepath.Abs(".")
	if err != nil {
		return err
	}
	command := []string{"go", "tool", "-modfile=" + filepath.Join(theme, "hugo", "go.mod"), "hugo"}
	if hugo != "" {
		command = []string{hugo}
	}
	command = append(command, "--source", theme, "--contentDir", filepath.Join(work, "content"), "--destination", output,
		"--cacheDir", filepath.Join(work, "cache"), "--noBuildLock", "--panicOnWarning")
	c := exec.Command(command[0], command[1:]...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s: %w", command[0], err)
	}
	if err := os.CopyFS(output, os.DirFS(filepath.Join(work, "static"))); err != nil {
		return err
	}
	if err := os.CopyFS(filepath.Join(output, "playground"), os.DirFS(playground)); err != nil {
		return fmt.Errorf("the playground: %w: run make web", err)
	}
	pages, links, err := check(output)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d pages, %d links\n", output, pages, links)
	return nil
}

// write writes what Hugo reads: pages with front matter, and files that stay as they are.
func (s *site) write(dir string) error {
	for i, p := range s.pages {
		head, err := json.MarshalIndent(map[string]any{
			"title": p.title, "url": p.url, "params": map[string]any{"section": p.section, "nav": s.nav, "file": p.name},
		}, "", " ")
		if err != nil {
			return err
		}
		// The names are numbers: Hugo would give a meaning to those of the repository, such as index.md.
		name := fmt.Sprintf("%04d.md", i)
		if p.url == home {
			name = "_index.md"
		}
		if err := writeFile(filepath.Join(dir, "content", name), append(append(head, '\n'), p.body...)); err != nil {
			return err
		}
	}
	for name, text := range s.files {
		if err := writeFile(filepath.Join(dir, "static", filepath.FromSlash(name)), text); err != nil {
			return err
		}
	}
	index, err := json.Marshal(s.index())
	if err != nil {
		return err
	}
	// A script and not JSON, because a page of a file system cannot fetch.
	return writeFile(filepath.Join(dir, "static", "search-index.js"), append(append([]byte("window.searchIndex = "), index...), ";\n"...))
}

func writeFile(name string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, text, 0o644)
}
