// Package docs generates what the program documents about itself: manual pages and completions.
package docs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"espalier.dev/release/internal/archive"
	"espalier.dev/release/internal/gobuild"
)

// A Completion is a completion script of a shell.
type Completion struct {
	// Shell is the argument of espalier completion.
	Shell string
	// File is its name in archives, as the shell expects it.
	File string
	// Installed is its path in packages, or "" if they do not contain it.
	Installed string
}

// Completions returns the completion scripts of a release.
func Completions() []Completion {
	return []Completion{
		{"bash", "espalier.bash", "/usr/share/bash-completion/completions/espalier"},
		{"zsh", "_espalier", "/usr/share/zsh/site-functions/_espalier"},
		{"fish", "espalier.fish", "/usr/share/fish/vendor_completions.d/espalier.fish"},
		{"powershell", "espalier.ps1", ""},
	}
}

// Generate runs a program that this machine can execute, and returns its manual pages as man1/NAME
// and its completions as completions/FILE. It fails if the program does not report the version and
// the revision of the stamp: the linker ignores variables that do not exist.
func Generate(ctx context.Context, program string, stamp gobuild.Stamp, dir string) ([]archive.File, error) {
	p := runner{ctx, program, dir, stamp}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if err := p.checkVersion(); err != nil {
		return nil, err
	}
	pages := filepath.Join(dir, "man1")
	if _, err := p.run("man", pages); err != nil {
		return nil, err
	}
	files, err := archive.FromDir(pages, "man/man1")
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s man has written no manual pages", program)
	}
	for _, c := range Completions() {
		script, err := p.run("completion", c.Shell)
		if err != nil {
			return nil, err
		}
		files = append(files, archive.File{Name: "completions/" + c.File, Mode: 0o644, Data: script})
	}
	return files, nil
}

type runner struct {
	ctx     context.Context
	program string
	dir     string
	stamp   gobuild.Stamp
}

// run runs the program in an environment that is the same on every machine. SOURCE_DATE_EPOCH is
// the date in manual pages.
func (r runner) run(args ...string) ([]byte, error) {
	c := exec.CommandContext(r.ctx, r.program, args...)
	c.Dir = r.dir
	c.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + r.dir, "LC_ALL=C", "TZ=UTC",
		"SOURCE_DATE_EPOCH=" + strconv.FormatInt(r.stamp.Time.Unix(), 10)}
	gobuild.Interruptible(c)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("espalier %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}

func (r runner) checkVersion() error {
	out, err := r.run("version", "-o", "json")
	if err != nil {
		return err
	}
	var v struct{ Version, Revision string }
	if err := json.Unmarshal(out, &v); err != nil {
		return fmt.Errorf("espalier version -o json: %w", err)
	}
	if v.Version != r.stamp.Version || v.Revision != r.stamp.Revision {
		return fmt.Errorf("the program reports version %q of revision %q, not %s of %s: main.version and main.revision must be string variables that it prints",
			v.Version, v.Revision, r.stamp.Version, r.stamp.Revision)
	}
	return nil
}
