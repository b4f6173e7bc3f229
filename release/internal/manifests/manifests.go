// Package manifests writes the files that package managers need to install a release: a manifest
// of Krew, a formula of Homebrew and a manifest of Scoop.
package manifests

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"text/template"

	"espalier.dev/release/internal/gobuild"
)

const (
	homepage    = "https://espalier.dev"
	description = "Kubernetes CustomResourceDefinitions without a cluster"
)

// An Archive is an archive of the release.
type Archive struct {
	Flavor   string
	Platform gobuild.Platform
	URL      string
	SHA256   string // in hexadecimal
}

// A Release is what the manifests describe.
type Release struct {
	Version  string // without v
	Archives []Archive
}

// A File is a manifest.
type File struct {
	Name string
	Data []byte
}

// Write returns the manifests for which the release has archives. Each manager requires that the file
// has the name of the plugin, formula or app.
//
// Krew installs plugins for kubectl users, who have an API server: it gets espalier-cli, which is
// much smaller. Homebrew and Scoop are how developers install the whole program, with the server
// for their tests: they get espalier.
func Write(r Release) (files []File, err error) {
	for _, m := range []struct {
		name   string
		flavor string
		os     []string
		write  func(Release) ([]byte, error)
	}{
		{"espalier.yaml", "espalier-cli", []string{"linux", "darwin", "windows"}, krew},
		{"espalier.rb", "espalier", []string{"darwin", "linux"}, homebrew},
		{"espalier.json", "espalier", []string{"windows"}, scoop},
	} {
		some := Release{Version: r.Version}
		for _, system := range m.os {
			for _, a := range r.Archives {
				if a.Flavor == m.flavor && a.Platform.OS == system {
					some.Archives = append(some.Archives, a)
				}
			}
		}
		if len(some.Archives) == 0 {
			continue
		}
		data, err := m.write(some)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		files = append(files, File{m.name, data})
	}
	return files, nil
}

//go:embed krew.yaml.tmpl
var krewTemplate string

//go:embed homebrew.rb.tmpl
var homebrewTemplate string

func krew(r Release) ([]byte, error) { return execute(krewTemplate, r) }

// homebrew groups the archives by operating system.
func homebrew(r Release) ([]byte, error) {
	type group struct {
		Block    string
		Archives []Archive
	}
	var groups []group
	for _, a := range r.Archives {
		block := map[string]string{"darwin": "on_macos", "linux": "on_linux"}[a.Platform.OS]
		if n := len(groups); n == 0 || groups[n-1].Block != block {
			groups = append(groups, group{Block: block})
		}
		g := &groups[len(groups)-1]
		g.Archives = append(g.Archives, a)
	}
	return execute(homebrewTemplate, struct {
		Version string
		Groups  []group
	}{r.Version, groups})
}

func execute(text string, data any) ([]byte, error) {
	t, err := template.New("").Funcs(template.FuncMap{
		"homepage":    func() string { return homepage },
		"description": func() string { return description },
		"quote":       quote,
	}).Parse(text)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// quote quotes a string for YAML and Ruby, in which #{ would start an expression.
func quote(s string) (string, error) {
	q, err := json.Marshal(s)
	return strings.ReplaceAll(string(q), "#", `\u0023`), err
}

// scoopManifest is a manifest of Scoop.
type scoopManifest struct {
	Version      string                       `json:"version"`
	Description  string                       `json:"description"`
	Homepage     string                       `json:"homepage"`
	License      string                       `json:"license"`
	Architecture map[string]scoopArchitecture `json:"architecture"`
	Bin          string                       `json:"bin"`
}

type scoopArchitecture struct {
	URL  string `json:"url"`
	Hash string `json:"hash"`
}

func scoop(r Release) ([]byte, error) {
	m := scoopManifest{r.Version, description, homepage, "Apache-2.0", map[string]scoopArchitecture{}, "espalier.exe"}
	for _, a := range r.Archives {
		arch := map[string]string{"amd64": "64bit", "arm64": "arm64"}[a.Platform.Arch]
		m.Architecture[arch] = scoopArchitecture{a.URL, a.SHA256}
	}
	text, err := json.MarshalIndent(m, "", "    ")
	return append(text, '\n'), err
}
