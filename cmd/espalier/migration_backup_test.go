package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"espalier.dev/cmd/espalier/internal/migrate"
	"espalier.dev/schema"
	"espalier.dev/server/servertest"
)

// storedJob returns a job as it is stored.
func storedJob(name, version, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"example.com/%s","kind":"Job","metadata":{"creationTimestamp":"2026-01-01T00:00:00Z","generation":1,"name":%q,"namespace":"default","uid":"uid-%s"},"spec":{%s}}`, version, name, name, spec) + "\n"
}

// openBackup opens a backup that is closed at the end of the test, at the latest. A process that another test starts has the
// open files of this one, and so the lock of a closed backup, until it runs its program.
func openBackup(t *testing.T, path string) *migrate.Backup {
	t.Helper()
	var b *migrate.Backup
	servertest.Eventually(t, func() (err error) {
		b, err = migrate.OpenBackup("", path, "https://example.com")
		return err
	})
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// TestMigrationBackup interrupts a migration by damaging its backup, and runs it again.
func TestMigrationBackup(t *testing.T) {
	t.Parallel()
	c := newJobsCluster(t, schema.KEP)
	c.apply(versionedJobs(jobsVersion("v1", true, `"n":{"type":"integer"}`)))
	for i := range 5 {
		c.store(fmt.Sprintf("job-%d", i), storedJob(fmt.Sprintf("job-%d", i), "v1", fmt.Sprintf(`"n":%d,"x":true`, i)))
	}
	path := filepath.Join(t.TempDir(), "backup")
	b := openBackup(t, path)
	if _, err := migrate.OpenBackup("", path, ""); err == nil {
		t.Error("a backup can be opened twice")
	}
	_, counts := c.migrate(migrate.Migration{Backup: b, Stored: c.source()})
	if counts.Of[migrate.Rewritten] != 5 || counts.DroppedFields != 5 || counts.DroppedFrom != 5 {
		t.Errorf("the first run has %+v", counts)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := migrate.OpenBackup("", path, "https://other.example.com"); !errors.As(err, new(*migrate.BackupError)) || !strings.Contains(err.Error(), "is of the server https://example.com, not of https://other.example.com") {
		t.Errorf("for another server, the error is %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup has the mode %v, %v", info.Mode(), err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if want := fmt.Sprintf(`"stored":{"apiVersion":"example.com/v1","kind":"Job","metadata":{"creationTimestamp":"2026-01-01T00:00:00Z","generation":1,"name":"job-%d","namespace":"default","uid":"uid-job-%d"},"spec":{"n":%d,"x":true}}`, i, i, i); !bytes.Contains(text, []byte(want)) {
			t.Errorf("the backup does not have %s", want)
		}
	}

	// A run that was interrupted has no results for the last objects, and perhaps a part of a
	// line. The objects that have a result are skipped, and the number of drops is the same.
	lines := strings.SplitAfter(strings.TrimSuffix(string(text), "\n"), "\n")
	after := func(line string) bool { return strings.Contains(line, `"record":{"type":"after"`) }
	for cut := 1; cut < len(lines); cut++ {
		for _, torn := range []int{0, 1, len(lines[cut]) / 2, len(lines[cut]) - 1} {
			kept := strings.Join(lines[:cut], "")
			if err := os.WriteFile(path, []byte(kept+lines[cut][:torn]), 0o600); err != nil {
				t.Fatal(err)
			}
			written := 0
			for _, line := range lines[:cut] {
				if after(line) {
					written++
				}
			}
			b := openBackup(t, path)
			_, counts := c.migrate(migrate.Migration{Backup: b, Stored: c.source()})
			if counts.Of[migrate.Skipped] != int64(written) || counts.Of[migrate.Unchanged] != int64(5-written) {
				t.Errorf("with %d lines and %d bytes, a run has %+v, want %d skipped", cut, torn, counts, written)
			}
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
			now, err := os.ReadFile(path)
			if err != nil || !strings.HasPrefix(string(now), kept) {
				t.Errorf("with %d lines and %d bytes, the backup was changed: %v", cut, torn, err)
			}
			again := openBackup(t, path) // the torn line is gone
			if err := again.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}

	// Anything but an incomplete last line is an error, and nothing is lost.
	for name, damaged := range map[string]string{
		"altered":      strings.Replace(string(text), `"x":true`, `"x":null`, 1),
		"line removed": lines[0] + "\n" + strings.Join(lines[1:], ""),
		"cut inside":   lines[0] + lines[1][:10] + "\n" + strings.Join(lines[2:], ""),
		"other file":   "apiVersion: v1\nkind: List\n",
		"one line":     "apiVersion: v1",
		"other format": strings.Replace(string(text), "migration-backup/v1", "migration-backup/v2", 1),
	} {
		if err := os.WriteFile(path, []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := migrate.OpenBackup("", path, "")
		if backup := (*migrate.BackupError)(nil); !errors.As(err, &backup) {
			t.Errorf("%s: the error is %v", name, err)
		}
		if now, err := os.ReadFile(path); err != nil || string(now) != damaged {
			t.Errorf("%s: the file was changed: %v", name, err)
		}
	}

	// A new state of the CRD makes the results worthless.
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	c.apply(versionedJobs(jobsVersion("v1", true, `"m":{"type":"integer"}`)))
	b = openBackup(t, path)
	if _, counts := c.migrate(migrate.Migration{Backup: b, Stored: c.source()}); counts.Of[migrate.Rewritten] != 5 {
		t.Errorf("after a change of the CRD, a run has %+v", counts)
	}
}
