package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/net/html"
)

// A document is a page as a browser reads it.
type document struct {
	anchors map[string]bool
	// links are the values of href and src, and loaded those that a browser loads with the page.
	links, loaded []string
}

// check reports links of the site that lead nowhere, and whether a page loads something from another host. It
// returns the number of pages and links.
func check(dir string) (pages, links int, err error) {
	documents := map[string]*document{}
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		below, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		below = filepath.ToSlash(below)
		documents[below] = nil
		if path.Ext(below) != ".html" {
			return nil
		}
		documents[below], err = parse(name)
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	var errs []error
	for name, d := range documents {
		if d == nil {
			continue
		}
		pages++
		links += len(d.links)
		for _, l := range d.links {
			if err := resolve(documents, name, l); err != nil {
				errs = append(errs, fmt.Errorf("%s: %s: %w", name, l, err))
			}
		}
		for _, l := range d.loaded {
			if u, err := url.Parse(l); err != nil || u.Host != "" {
				errs = append(errs, fmt.Errorf("%s loads %s from another host", name, l))
			}
		}
	}
	return pages, links, errors.Join(errs...)
}

// resolve reports why a link of a page leads nowhere. Links to other hosts are not followed.
func resolve(documents map[string]*document, from, link string) error {
	u, err := url.Parse(link)
	if err != nil || u.Scheme != "" || u.Host != "" {
		return err
	}
	to := from
	if u.Path != "" {
		to = path.Join(path.Dir(from), u.Path)
	}
	d, ok := documents[to]
	switch {
	case strings.HasPrefix(u.Path, "/"):
		return errors.New("the link is not relative")
	case !ok:
		return errors.New("there is no such file")
	case u.Fragment != "" && (d == nil || !d.anchors[u.Fragment]):
		return errors.New("there is no such heading")
	}
	return nil
}

func parse(name string) (*document, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	node, err := html.Parse(f)
	if err != nil {
		return nil, err
	}
	d := &document{anchors: map[string]bool{}}
	for n := range node.Descendants() {
		for _, a := range n.Attr {
			switch a.Key {
			case "id":
				d.anchors[a.Val] = true
			case "href", "src":
				d.links = append(d.links, a.Val)
				if n.Data != "a" {
					d.loaded = append(d.loaded, a.Val)
				}
			}
		}
	}
	return d, nil
}
