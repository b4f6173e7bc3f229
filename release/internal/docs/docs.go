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
	"time"

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
// and its completions as completions/FILE. It fails if the program does not report the stamp and
// its flavor: the linker ignores variables that do not exist, and the compiler unknown tags.
func Generate(ctx context.Context, b gobuild.Binary, stamp gobuild.Stamp, dir string) ([]archive.File, error) {
	p := runner{ctx, b.Path, b.Flavor, dir, stamp}
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
		return nil, fmt.Errorf("%s man has written no manual pages", b.Path)
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
	flavor  gobuild.Flavor
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
	var v struct {
		Version, Commit, Date string
		Server                bool
	}
	if err := json.Unmarshal(out, &v); err != nil {
		return fmt.Errorf("espalier version -o json: %w", err)
	}
	if date := r.stamp.Time.UTC().Format(time.RFC3339); v.Version != r.stamp.Version || v.Commit != r.stamp.Revision || v.Date != date {
		return fmt.Errorf("the program reports version %q, commit %q and date %q, not %s, %s and %s: main.version, main.revision and main.date must be string variables that it prints",
			v.Version, v.Commit, v.Date, r.stamp.Version, r.stamp.Revision, date)
	}
	if want := r.flavor.Tags == ""; v.Server != want {
		return fmt.Errorf("%s: the program reports server: %t, expected %t: the build tag %q has no effect", r.flavor.Name, v.Server, want, r.flavor.Tags)
	}
	return nil
}
