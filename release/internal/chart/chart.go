// Package chart packages a Helm chart.
package chart

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"espalier.dev/release/internal/archive"
)

// Write packages the chart in dir with the version, without v, as that of the chart and of the
// program. Helm expects all files below a directory with the name of the chart.
func Write(name, dir, version string, date time.Time) error {
	files, err := archive.FromDir(dir, "espalier")
	if err != nil {
		return err
	}
	for i, f := range files {
		files[i].Mode = 0o644
		if f.Name != "espalier/Chart.yaml" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, "Chart.yaml"))
		if err != nil {
			return err
		}
		for _, field := range []string{"version", "appVersion"} {
			line := regexp.MustCompile(`(?m)^` + field + `:.*$`)
			if n := len(line.FindAll(text, -1)); n != 1 {
				return fmt.Errorf("%s has %d lines with %s: there must be one", filepath.Join(dir, "Chart.yaml"), n, field)
			}
			text = line.ReplaceAll(text, fmt.Appendf(nil, "%s: %q", field, version))
		}
		files[i].Path, files[i].Data = "", text
	}
	return archive.WriteTarGz(name, files, date)
}
