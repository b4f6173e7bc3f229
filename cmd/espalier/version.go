package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"espalier.dev/internal/yamlx"
	"espalier.dev/schema"
)

// versionInfo is the output of the command version.
type versionInfo struct {
	Version    string   `json:"version"`
	Commit     string   `json:"commit,omitempty"`
	Date       string   `json:"date,omitempty"`
	Modified   bool     `json:"modified,omitempty"`
	Go         string   `json:"go"`
	Platform   string   `json:"platform"`
	Kubernetes string   `json:"kubernetes"`
	Semantics  []string `json:"semantics"`
	Default    string   `json:"defaultSemantics"`
	Server     bool     `json:"server"`
}

func newVersionCommand(a *app) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of espalier and of the Kubernetes behavior that it implements",
		Example: `  espalier version
  espalier version -o json`,
		Args: noArgs(""),
		RunE: func(*cobra.Command, []string) error { return a.version(buildVersion(), output) },
	}
	addTextOutputFlag(c, &output)
	return c
}

func (a *app) version(b build, output string) error {
	v := versionInfo{
		Version:    b.version,
		Commit:     b.revision,
		Date:       b.time,
		Modified:   b.modified,
		Go:         runtime.Version(),
		Platform:   runtime.GOOS + "/" + runtime.GOARCH,
		Kubernetes: kubernetesLevel,
		Semantics:  []string{schema.KEP.String(), schema.Kubernetes.String()},
		Default:    schema.KEP.String(),
		Server:     hasServer,
	}
	err := checkTextOutput(output)
	if err != nil {
		return err
	}
	var text []byte
	switch output {
	case "text":
		fmt.Fprintf(a.stdout, "espalier %s\n", v.Version)
		if v.Commit != "" {
			var about []string
			if v.Date != "" {
				about = append(about, v.Date)
			}
			if v.Modified {
				about = append(about, "with changes")
			}
			commit := v.Commit
			if len(about) > 0 {
				commit += " (" + strings.Join(about, ", ") + ")"
			}
			fmt.Fprintf(a.stdout, "  commit      %s\n", commit)
		}
		fmt.Fprintf(a.stdout, "  go          %s %s\n", v.Go, v.Platform)
		fmt.Fprintf(a.stdout, "  kubernetes  %s\n", v.Kubernetes)
		fmt.Fprintf(a.stdout, "  semantics   %s (default), %s\n", schema.KEP, schema.Kubernetes)
		fmt.Fprintf(a.stdout, "  server      %s\n", map[bool]string{true: "yes", false: "no"}[v.Server])
		return nil
	case "json":
		text, err = json.MarshalIndent(v, "", "  ")
		text = append(text, '\n')
	case "yaml":
		text, err = yamlx.Marshal(v)
	}
	if err != nil {
		return err
	}
	_, err = a.stdout.Write(text)
	return err
}
