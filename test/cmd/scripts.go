package main

import (
	_ "embed" // the script that runs a function
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"espalier.dev/internal/gomod"
)

const (
	// kubernetesVersion is the version of the scripts and of the real programs, whose versions
	// are in ../envtest/testdata/real/go.mod.
	kubernetesVersion = "v1.36.3"
	// betweenFunctions names the commands that runTests runs between the functions.
	betweenFunctions = "runTests"
)

//go:embed function.sh
var functionScript string

// tools returns the programs that the scripts run, apart from those that every system has.
func tools() []string {
	return []string{"awk", "base64", "bash", "curl", "diff", "grep", "jq", "openssl", "script", "sed", "tput", "xargs"}
}

// checkTools returns an error that names all tools that are missing.
func checkTools(names []string) error {
	var missing []string
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the scripts need these programs, which are not installed: %s", strings.Join(missing, ", "))
	}
	return nil
}

// copyScripts copies the scripts and their data from the module cache, which is read-only, to a
// new directory. The scripts expect their programs below it.
func copyScripts(to, kubectl, convert string) error {
	from, err := gomod.Dir("", "k8s.io/kubernetes@"+kubernetesVersion)
	if err != nil {
		return err
	}
	for _, dir := range []string{"hack", "test/cmd", "test/fixtures", "test/e2e/testing-manifests", "third_party/forked/shell2junit"} {
		if err := copyTree(filepath.Join(to, dir), filepath.Join(from, dir)); err != nil {
			return err
		}
	}
	bin := filepath.Join(to, "_output", "bin")
	return errors.Join(
		os.MkdirAll(bin, 0o755),
		os.Symlink(kubectl, filepath.Join(bin, "kubectl")),
		os.Symlink(convert, filepath.Join(bin, "kubectl-convert")),
		os.WriteFile(filepath.Join(to, "function.sh"), []byte(functionScript), 0o644))
}

// copyTree copies a directory. Modules have no modes: all files become writable and executable.
func copyTree(to, from string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), data, 0o755)
	})
}

// listFunctions returns the functions that the scripts run, in their order.
func listFunctions(root string) ([]string, error) {
	data, err := os.ReadFile(filepath.Join(root, "test", "cmd", "legacy-script.sh"))
	if err != nil {
		return nil, err
	}
	functions := functionsOf(string(data))
	if len(functions) == 0 {
		return nil, errors.New("the scripts run no functions")
	}
	return append(functions, betweenFunctions), nil
}

// functionsOf returns the functions that a script runs.
func functionsOf(script string) []string {
	var functions []string
	for _, match := range regexp.MustCompile(`(?m)^ *record_command (run_\w+)$`).FindAllStringSubmatch(script, -1) {
		if !slices.Contains(functions, match[1]) {
			functions = append(functions, match[1])
		}
	}
	return functions
}
