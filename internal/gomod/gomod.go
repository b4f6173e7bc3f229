// Package gomod finds the sources of Go modules for tests and tools.
package gomod

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// Dir returns the directory of a Go module in the module cache, and downloads it if it is not there. The module
// is a path, of which the go.mod in dir selects the version, or path@version. An empty dir is the working directory.
// "go list -m" prints no directory for a module that is not downloaded yet.
func Dir(dir, module string) (string, error) {
	cmd := exec.Command("go", "mod", "download", "-json", module)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	var found struct{ Dir, Error string }
	err = errors.Join(err, json.Unmarshal(out, &found))
	if found.Dir == "" {
		return "", fmt.Errorf("download %s: %w: %s", module, err, found.Error)
	}
	return found.Dir, nil
}
