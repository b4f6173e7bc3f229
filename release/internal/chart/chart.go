// Package chart writes what installs the server in a cluster: the Helm chart, and its objects as
// manifests.
package chart

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"espalier.dev/release/internal/archive"
)

// A Chart is the chart in the source, for a release.
type Chart struct {
	// Dir is the directory deploy, with chart and kubernetes.
	Dir     string
	Version string // of the chart and of the program, without v
	Image   string // without a tag
}

// Write packages the chart. Helm expects all files below a directory with the name of the chart.
func (c Chart) Write(name string, date time.Time) error {
	dir := filepath.Join(c.Dir, "chart")
	files, err := archive.FromDir(dir, "espalier")
	if err != nil {
		return err
	}
	for i, f := range files {
		files[i].Mode = 0o644
		var fields map[string]string
		switch f.Name {
		case "espalier/Chart.yaml":
			fields = map[string]string{"version": c.Version, "appVersion": c.Version}
		case "espalier/values.yaml":
			fields = map[string]string{"  repository": c.Image}
		default:
			continue
		}
		text, err := os.ReadFile(f.Path)
		if err != nil {
			return err
		}
		for field, value := range fields {
			if _, err := scalar(f.Path, text, field); err != nil {
				return err
			}
			text = line(field).ReplaceAllLiteral(text, fmt.Appendf(nil, "%s: %q", field, value))
		}
		files[i].Path, files[i].Data = "", text
	}
	return archive.WriteTarGz(name, files, date)
}

// Manifests returns the manifests in deploy/kubernetes, the namespace first. They differ from those
// in the source only in the image and in the version in labels.
func (c Chart) Manifests() ([]byte, error) {
	version, err := c.scalar("Chart.yaml", "appVersion")
	if err != nil {
		return nil, err
	}
	image, err := c.scalar("values.yaml", "  repository")
	if err != nil {
		return nil, err
	}
	replaced := map[string]string{
		"image: " + image + ":" + version:              "image: " + c.Image + ":" + c.Version,
		`app.kubernetes.io/version: "` + version + `"`: `app.kubernetes.io/version: "` + c.Version + `"`,
	}
	name := filepath.Join(c.Dir, "kubernetes", "espalier.yaml")
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	var out bytes.Buffer
	for l := range strings.Lines(string(text)) {
		old := strings.TrimSpace(l)
		if value, ok := replaced[old]; ok {
			found[old] = true
			l = strings.Replace(l, old, value, 1)
		} else if strings.Contains(l, image) || strings.Contains(l, version) {
			return nil, fmt.Errorf("%s: unexpected line with the image or version of the chart: %q", name, old)
		}
		out.WriteString(l)
	}
	for old := range replaced {
		if !found[old] {
			return nil, fmt.Errorf("%s has no line %q: render it from the chart again", name, old)
		}
	}
	namespace, err := os.ReadFile(filepath.Join(c.Dir, "kubernetes", "namespace.yaml"))
	if err != nil {
		return nil, err
	}
	return append(append(namespace, "---\n"...), out.Bytes()...), nil
}

// scalar returns the value of a field in a file of the chart.
func (c Chart) scalar(file, field string) (string, error) {
	name := filepath.Join(c.Dir, "chart", file)
	text, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	return scalar(name, text, field)
}

// scalar returns the value of a field, of which there must be one.
func scalar(name string, text []byte, field string) (string, error) {
	all := line(field).FindAllSubmatch(text, -1)
	if len(all) != 1 {
		return "", fmt.Errorf("%s has %d lines with %s: there must be one", name, len(all), strings.TrimSpace(field))
	}
	return string(all[0][1]), nil
}

// line matches the line of a field with a plain scalar. The field has its indentation.
func line(field string) *regexp.Regexp {
	return regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(field) + `: *([^\s'"#]+)$`)
}
