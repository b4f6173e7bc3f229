package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"espalier.dev/analysis/lint"
)

// configName is the name of the configuration file.
const configName = ".espalier.yaml"

// lintConfigs returns the configuration of lint rules by file and by flags. If file is
// empty, it reads the file that findConfig finds.
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
		return nil, fmt.Errorf("cannot read the configuration: %w", err)
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

// findConfig returns the configuration file in the working directory or the closest parent
// directory that has one, or "".
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
			return "", fmt.Errorf("cannot look for the configuration: %w", err)
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", nil
		}
		dir = parent
	}
}
