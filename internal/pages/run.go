package pages

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A Command is a command line in a block, and the output that the page shows.
type Command struct {
	Line, Output string
}

// IsSession reports whether a block is a session in a shell: commands after "$ ", each with its output.
func (b Block) IsSession() bool {
	return (b.Language == "" || b.Language == "console") && strings.HasPrefix(b.Text, "$ ")
}

// Commands returns the commands of a session.
func (b Block) Commands() (commands []Command) {
	for line := range strings.Lines(b.Text) {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			commands = append(commands, Command{Line: strings.TrimSuffix(command, "\n")})
		} else {
			commands[len(commands)-1].Output += line
		}
	}
	return commands
}

// NeedsServer reports whether the commands of a page start a server or use kubectl.
func (p Page) NeedsServer() bool {
	return slices.ContainsFunc(p.Blocks, func(b Block) bool {
		return b.IsSession() && (b.Attributes["wait"] != "" || strings.Contains(b.Text, "\n$ kubectl ") || strings.HasPrefix(b.Text, "$ kubectl "))
	})
}

// directory matches the comment that names the directory in which the commands of a page run.
var directory = regexp.MustCompile(`(?m)^<!-- directory: (\S+) -->$`)

// Prepare copies the directory in which the commands of a page run, if it names one, to dir. Without one
// they begin in an empty directory.
func (p Page) Prepare(root, dir string) error {
	m := directory.FindStringSubmatch(p.Text)
	if m == nil {
		return nil
	}
	return os.CopyFS(dir, os.DirFS(filepath.Join(root, filepath.FromSlash(m[1]))))
}

// A Runner runs what a page shows.
type Runner struct {
	// Dir is the directory of the files that the page shows.
	Dir string
	// Run runs a command line, and returns all of its output.
	Run func(t *testing.T, line string) string
	// Start starts a program that keeps running, and returns when a file exists.
	Start func(t *testing.T, line, file string)
	// Update writes outputs that differ into the page at Path.
	Update bool
	Path   string
}

// Run follows a page from top to bottom: it writes the files that the page shows, runs the commands, and
// compares their output. Blocks that cannot be run become skipped subtests with the reason.
func (p Page) Run(t *testing.T, r Runner) {
	t.Helper()
	text := p.Text
	for _, b := range p.Blocks {
		switch {
		case b.Attributes["skip"] != "":
			t.Run(p.position(b), func(t *testing.T) { t.Skip(b.Attributes["skip"]) })
		case b.Attributes["file"] != "":
			if err := b.write(r.Dir); err != nil {
				t.Fatal(err)
			}
		case b.Attributes["wait"] != "":
			for _, c := range b.Commands() {
				r.Start(t, c.Line, b.Attributes["wait"])
			}
		case b.IsSession():
			for _, c := range b.Commands() {
				got := strings.TrimRight(r.Run(t, c.Line), "\n")
				if got != "" {
					got += "\n"
				}
				if Matches(c.Output, got) {
					continue
				}
				if r.Update {
					text = strings.Replace(text, "$ "+c.Line+"\n"+c.Output, "$ "+c.Line+"\n"+got, 1)
					continue
				}
				t.Errorf("%s: $ %s\nprints\n%s\nand the page has\n%s", p.position(b), c.Line, got, c.Output)
			}
		}
	}
	if text != p.Text {
		if err := os.WriteFile(r.Path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// write writes the file that a block shows. append="true" adds to a file that exists.
func (b Block) write(dir string) error {
	name := filepath.Join(dir, filepath.FromSlash(b.Attributes["file"]))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	text := []byte(b.Text)
	if b.Attributes["append"] != "" {
		old, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		text = append(old, text...)
	}
	return os.WriteFile(name, text, 0o644)
}

// Matches reports whether an output is as expected. In what is expected, "…" stands for any text in a
// line, and a line that has nothing else for any number of lines.
func Matches(want, got string) bool {
	var pattern strings.Builder
	for line := range strings.Lines(want) {
		if strings.TrimSpace(line) == "…" {
			pattern.WriteString(`(?:.*\n)*`)
			continue
		}
		parts := strings.Split(line, "…")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		pattern.WriteString(strings.Join(parts, ".*"))
	}
	return regexp.MustCompile(`^` + pattern.String() + `$`).MatchString(got)
}

// position names a block in the output of tests.
func (p Page) position(b Block) string { return p.Name + ":" + strconv.Itoa(b.Line) }
