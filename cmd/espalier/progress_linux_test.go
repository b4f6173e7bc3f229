package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// openTerminal returns both ends of a pseudo-terminal.
func openTerminal(t *testing.T) (controller, terminal *os.File) {
	t.Helper()
	controller, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminal: %v", err)
	}
	t.Cleanup(func() { _ = controller.Close() })
	if err := unix.IoctlSetPointerInt(int(controller.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(controller.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminal: %v", err)
	}
	t.Cleanup(func() { _ = terminal.Close() })
	return controller, terminal
}

// TestProgress runs commands for more than a second on a terminal. They show how many objects
// they have processed, and erase that before they write anything else.
func TestProgress(t *testing.T) {
	if testing.Short() {
		t.Skip("runs commands for seconds")
	}
	t.Parallel()
	examples, err := filepath.Abs("testdata/examples")
	if err != nil {
		t.Fatal(err)
	}
	crd := filepath.Join(examples, "crontab-crd.yaml")
	const object = "apiVersion: stable.example.com/v1\nkind: CronTab\nmetadata: {name: a}\nspec: {cronSpec: '* * * * *', image: x}\n---\n"
	definition, err := os.ReadFile(crd)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, input string
		// want is what the terminal shows, or empty if it shows nothing.
		want      string
		args, env []string
	}{
		{name: "validate", input: object, want: " objects", args: []string{"validate", "--crd", crd, "-f", "-"}},
		{name: "prune", input: object, want: " objects", args: []string{"prune", "--crd", crd, "-f", "-"}},
		{name: "lint", input: string(definition) + "---\n", want: " CRDs read", args: []string{"lint", "-f", "-"}},
		{name: "diff", input: object, want: " objects tried", args: []string{"diff", crd, crd, "--objects", "-"}},
		{name: "quiet", input: object, args: []string{"prune", "--quiet", "--crd", crd, "-f", "-"}},
		{name: "CI", input: object, args: []string{"prune", "--crd", crd, "-f", "-"}, env: []string{"CI=true"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			controller, terminal := openTerminal(t)
			var stdout, stderr output
			cmd := programCommand(t, test.args...)
			cmd.Env = append(append(cmd.Env, "CI="), test.env...)
			cmd.Stdout, cmd.Stderr = &stdout, terminal
			feed, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			go io.Copy(&stderr, controller) // until the terminal is closed
			// wait sends more input, as much as a batch has, until a condition holds.
			wait := func(done func() bool) {
				for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(progressAfter / 10) {
					if _, err := io.WriteString(feed, strings.Repeat(test.input, 64)); err != nil {
						t.Fatalf("%v: %s", err, stderr.String())
					}
					if time.Now().After(deadline) {
						t.Fatalf("timeout: %q", stderr.String())
					}
				}
			}
			if test.want != "" {
				wait(func() bool { return strings.Contains(stderr.String(), test.want+"\x1b[K") })
			} else {
				wait(func() bool { return stdout.String() != "" })
				started := time.Now()
				wait(func() bool { return time.Since(started) > progressAfter+progressAfter/2 })
			}
			_ = feed.Close()
			if err := cmd.Wait(); err != nil {
				t.Errorf("%v: %s", err, stderr.String())
			}
			erased := func() bool { return strings.HasSuffix(stderr.String(), "\r\x1b[K") }
			for deadline := time.Now().Add(10 * time.Second); test.want != "" && !erased() && time.Now().Before(deadline); {
				time.Sleep(10 * time.Millisecond)
			}
			if got := stderr.String(); test.want == "" && got != "" || test.want != "" && !erased() {
				t.Errorf("the terminal shows %q", got)
			}
		})
	}
}

// TestMigrateProgress migrates objects slowly, and puts them back, on a terminal. It shows how many
// objects were processed.
func TestMigrateProgress(t *testing.T) {
	t.Parallel()
	t.Run("P-21-progress", func(t *testing.T) {
		const objects = 9
		c := newStoredCluster(t, preservingCRD())
		for i := range objects {
			if err := c.create(t.Context(), fmt.Sprintf("job-%d", i), map[string]any{"n": int64(i), "x": true}); err != nil {
				t.Fatal(err)
			}
		}
		c.InstallCRDs(t, migrationCRD("v1"))
		backup := filepath.Join(t.TempDir(), "backup.jsonl")
		migrate := func(args ...string) (stdout, terminal string) {
			t.Helper()
			controller, end := openTerminal(t)
			var out bytes.Buffer
			var shown output
			cmd := programCommand(t, append([]string{"migrate", "--kubeconfig", c.Kubeconfig(), "--rate", "6", "--concurrency", "1"}, args...)...)
			cmd.Env = append(cmd.Env, "CI=")
			cmd.Stdout, cmd.Stderr = &out, end
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = io.Copy(&shown, controller) // until the terminal is closed
			}()
			err := cmd.Run()
			_ = end.Close()
			<-done
			if err != nil {
				t.Fatalf("%v: %s%s", err, out.String(), shown.String())
			}
			return out.String(), shown.String()
		}
		for _, step := range []struct {
			args []string
			want string // the end of the output
		}{
			{[]string{"jobs.example.com"}, "9 would be accepted\n"},
			{[]string{"jobs.example.com", "--etcd-servers", c.endpoint, "--write", "--backup", backup}, "; 9 fields dropped from 9 objects; all are stored in version v1\n"},
			{[]string{"jobs.example.com", "--write", "--quiet"}, ""},
			{[]string{"--undo", backup, "--write"}, "9 put back\n"},
		} {
			if step.args[0] == "--undo" {
				c.InstallCRDs(t, preservingCRD())
			}
			stdout, terminal := migrate(step.args...)
			if !strings.HasSuffix(stdout, step.want) {
				t.Errorf("%v prints %s", step.args, stdout)
			}
			// Numbers that grow, each in place of the one before.
			last, shown := 0, 0
			for _, m := range regexp.MustCompile("\r([0-9]+) objects\x1b\\[K").FindAllStringSubmatch(terminal, -1) {
				n, err := strconv.Atoi(m[1])
				if err != nil || n <= last || n > objects {
					t.Errorf("%v shows %q", step.args, terminal)
				}
				last, shown = n, shown+1
			}
			if quiet := step.want == ""; quiet != (shown == 0) {
				t.Errorf("%v shows %q", step.args, terminal)
			}
		}
	})
}
