// Package helm renders Helm charts with the helm program, and reads what other commands need to
// know about a chart without it: its type, its dependencies, and where a rendered object comes from.
package helm

import (
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	// ChartFile is the name of the file that makes a directory a chart.
	ChartFile = "Chart.yaml"
	// RequirementsFile has the dependencies of charts whose apiVersion is v1.
	RequirementsFile = "requirements.yaml"
)

// Chart is what Chart.yaml says.
type Chart struct {
	APIVersion   string       `json:"apiVersion"`
	Name         string       `json:"name"`
	Type         string       `json:"type"`
	Dependencies []Dependency `json:"dependencies"`
}

// Dependency is a chart that a chart needs in its directory charts.
type Dependency struct {
	Name       string `json:"name"`
	Version    string `json:"version"`
	Repository string `json:"repository"`
	Alias      string `json:"alias"`
}

// String returns the name with the version and the repository.
func (d Dependency) String() string {
	s := strings.TrimSpace(d.Name + " " + d.Version)
	if d.Repository != "" {
		s += " (" + d.Repository + ")"
	}
	return s
}

// Local returns the directory of a dependency in the same file system, relative to that of the
// chart, or "".
func (d Dependency) Local() string {
	if dir, ok := strings.CutPrefix(d.Repository, "file://"); ok {
		return dir
	}
	return ""
}

// Parse parses Chart.yaml.
func Parse(data []byte) (*Chart, error) {
	c := new(Chart)
	if err := yaml.Unmarshal(data, c); err != nil {
		return nil, err
	}
	return c, nil
}

// IsChart reports whether the text of a file named Chart.yaml is that of a chart. Other programs have
// files of this name too.
func IsChart(data []byte) bool {
	c, err := Parse(data)
	return err == nil && c.Name != ""
}

// IsLibrary reports whether the chart has only templates that other charts use.
func (c *Chart) IsLibrary() bool { return c.Type == "library" }

// isArchive reports whether a file name is that of a packaged chart.
func isArchive(name string) bool {
	return strings.HasSuffix(name, ".tgz") || strings.HasSuffix(name, ".tar.gz")
}

// IsArchive reports whether a file name can be that of a packaged chart.
func IsArchive(name string) bool { return isArchive(strings.ToLower(name)) }

// archiveOf returns the packaged chart with a name among the files of a directory charts, or "".
func archiveOf(name string, files []string) string {
	i := slices.IndexFunc(files, func(file string) bool {
		version, ok := strings.CutPrefix(path.Base(file), name+"-")
		return ok && isArchive(file) && len(version) > 0 && (version[0] == 'v' || version[0] >= '0' && version[0] <= '9')
	})
	if i < 0 {
		return ""
	}
	return files[i]
}
