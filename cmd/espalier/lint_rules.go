package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"espalier.dev/analysis"
	"espalier.dev/analysis/lint"
)

// configName is the name of the file that configures the tools.
const configName = ".espalier.yaml"

// lintRules describe what lint finds.
func lintRules() []analysis.Rule {
	rules := inputRules()
	for _, r := range lint.Rules() {
		rules = append(rules, analysis.Rule{ID: r.ID, Severity: r.Severity, Summary: r.Title, Help: r.Doc})
	}
	return rules
}

func ruleIDs() (ids []string) {
	for _, r := range lint.Rules() {
		ids = append(ids, r.ID+"\t"+r.Title)
	}
	return ids
}

// lintConfigs returns what a file, by default the one that findConfig finds, and flags say
// about the rules of lint.
func lintConfigs(file string, flags lint.Config) ([]lint.Config, error) {
	if file == "" {
		var err error
		if file, err = findConfig(); err != nil {
			return nil, err
		}
	}
	if file == "" {
		return []lint.Config{flags}, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	data, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	config, err := lint.ParseConfig(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return []lint.Config{config, flags}, nil
}

// findConfig looks for the configuration in the working directory and above. It
// returns "" if there is none.
func findConfig() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		file := filepath.Join(dir, configName)
		switch _, err := os.Stat(file); {
		case err == nil:
			return file, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("looking for the configuration: %w", err)
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", nil
		}
		dir = parent
	}
}
