package main

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"espalier.dev/cmd/espalier/internal/migrate"
	"espalier.dev/schema"
)

// undo puts the objects of a backup back, and returns the results by name.
func (c *jobsCluster) undo(path string, u migrate.Undo) map[string]*migrate.Restored {
	c.Helper()
	u.Client = c.client()
	results := map[string]*migrate.Restored{}
	u.Report = func(r *migrate.Restored) error {
		results[r.Name] = r
		return nil
	}
	if err := u.Run(c.Context(), "", path); err != nil {
		c.Fatal(err)
	}
	return results
}

// TestMigrationUndo puts objects back that were migrated, unless others have written or deleted them.
func TestMigrationUndo(t *testing.T) {
	t.Parallel()
	c := newJobsCluster(t, schema.Kubernetes)
	pruning := versionedJobs(jobsVersion("v1", true, `"n":{"type":"integer"}`))
	specifying := strings.Replace(versionedJobs(jobsVersion("v1", true, `"n":{"type":"integer"},"x":{"type":"boolean"}`)), `"phase":`, `"secret":{"type":"integer"},"phase":`, 1)
	c.apply(pruning)
	names := []string{"again", "changed", "deleted", "normal", "status"}
	for _, name := range names {
		text := storedJob(name, "v1", `"n":1,"x":true`)
		switch name {
		case "normal":
			text = storedJob(name, "v1", `"n":1`)
		case "status":
			text = strings.TrimSuffix(text, "}\n") + `,"status":{"phase":"Done","secret":1}}` + "\n"
		}
		c.store(name, text)
	}
	path := filepath.Join(t.TempDir(), "backup")
	b := openBackup(t, path)
	c.migrate(migrate.Migration{Backup: b, Stored: c.source()})
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	c.must(http.MethodPatch, jobsPath+"/changed", `{"spec":{"n":2}}`)
	c.must(http.MethodDelete, jobsPath+"/deleted", "")
	check := func(name string, got *migrate.Restored, want migrate.Undone, missing ...string) {
		t.Helper()
		if got == nil || got.Result != want || !slices.Equal(got.Missing, missing) || got.ServedOnly {
			t.Errorf("%s: the result is %+v, want %s and %v", name, got, want, missing)
		}
	}

	// The CRD still prunes.
	dry := c.undo(path, migrate.Undo{DryRun: true})
	check("again", dry["again"], migrate.PutBack, "spec.x")
	check("changed", dry["changed"], migrate.Changed)
	check("deleted", dry["deleted"], migrate.Gone)
	if dry["normal"] != nil {
		t.Errorf("an object that the migration did not change has the result %+v", dry["normal"])
	}

	// The CRD specifies the fields.
	c.apply(specifying)
	got := c.undo(path, migrate.Undo{})
	check("again", got["again"], migrate.PutBack)
	check("status", got["status"], migrate.PutBack)
	check("changed", got["changed"], migrate.Changed)
	check("deleted", got["deleted"], migrate.Gone)
	for name, want := range map[string][]string{"again": {`"n":1,"x":true`}, "status": {`"x":true`, `"secret":1`}, "changed": {`"spec":{"n":2}`}, "normal": {`"spec":{"n":1}`}} {
		text, _ := c.stored(name)
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("%s is stored as %s", name, text)
			}
		}
	}
	if code, _ := c.request(http.MethodGet, jobsPath+"/deleted", ""); code != http.StatusNotFound {
		t.Errorf("a deleted object was put back: %d", code)
	}

	// Objects that were put back are not touched again. Deleted ones are created on request.
	c.must(http.MethodPatch, jobsPath+"/again", `{"spec":{"n":3}}`)
	second := c.undo(path, migrate.Undo{Recreate: true})
	if second["again"] != nil || second["status"] != nil {
		t.Errorf("objects are put back twice: %+v, %+v", second["again"], second["status"])
	}
	check("deleted", second["deleted"], migrate.Recreated)
	if text, _ := c.stored("deleted"); !strings.Contains(text, `"x":true`) || strings.Contains(text, "uid-deleted") {
		t.Errorf("the new object is %s", text)
	}
	if text, _ := c.stored("again"); !strings.Contains(text, `"n":3`) {
		t.Errorf("a write after the undo is lost: %s", text)
	}
}

// TestMigrationUndoAgain puts objects back twice: while the CRD does not specify all of their fields, and
// when it does. Writes between the two are kept.
func TestMigrationUndoAgain(t *testing.T) {
	t.Parallel()
	c := newJobsCluster(t, schema.KEP)
	c.apply(versionedJobs(jobsVersion("v1", true, `"n":{"type":"integer"}`)))
	for _, name := range []string{"changed", "deleted", "normal", "partial"} {
		text := storedJob(name, "v1", `"n":1,"x":true`)
		if name == "partial" {
			text = storedJob(name, "v1", `"n":1,"x":true,"y":1`)
		}
		c.store(name, text)
	}
	path := filepath.Join(t.TempDir(), "backup")
	b := openBackup(t, path)
	c.migrate(migrate.Migration{Backup: b, Stored: c.source()})
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	c.must(http.MethodDelete, jobsPath+"/deleted", "")
	// This writes "partial", with one of its two fields.
	c.apply(versionedJobs(jobsVersion("v1", true, `"n":{"type":"integer"},"y":{"type":"integer"}`)))
	first := c.undo(path, migrate.Undo{Recreate: true})
	for name, want := range map[string]migrate.Undone{"changed": migrate.Same, "deleted": migrate.Recreated, "normal": migrate.Same, "partial": migrate.PutBack} {
		if got := first[name]; got == nil || got.Result != want || !slices.Equal(got.Missing, []string{"spec.x"}) {
			t.Errorf("%s: the first result is %+v, want %s without spec.x", name, got, want)
		}
	}
	c.must(http.MethodPatch, jobsPath+"/changed", `{"spec":{"n":2}}`)

	c.apply(versionedJobs(jobsVersion("v1", true, `"n":{"type":"integer"},"x":{"type":"boolean"},"y":{"type":"integer"}`)))
	second := c.undo(path, migrate.Undo{})
	for name, want := range map[string]migrate.Undone{"changed": migrate.Changed, "deleted": migrate.PutBack, "normal": migrate.PutBack, "partial": migrate.PutBack} {
		if got := second[name]; got == nil || got.Result != want || len(got.Missing) > 0 {
			t.Errorf("%s: the second result is %+v, want %s", name, got, want)
		}
		if stored, _ := c.stored(name); strings.Contains(stored, `"x":true`) != (want == migrate.PutBack) {
			t.Errorf("%s is stored as %s", name, stored)
		}
	}
	if third := c.undo(path, migrate.Undo{}); len(third) != 1 || third["changed"] == nil {
		t.Errorf("the third results are %v", third)
	}
}

// TestMigrationUndoInterrupted puts objects back whose migration has no result in the backup.
func TestMigrationUndoInterrupted(t *testing.T) {
	t.Parallel()
	c := newJobsCluster(t, schema.KEP)
	c.apply(versionedJobs(jobsVersion("v1", true, `"n":{"type":"integer"}`)))
	for _, name := range []string{"changed", "first", "second", "third"} {
		c.store(name, storedJob(name, "v1", `"n":1,"x":true`))
	}
	path := filepath.Join(t.TempDir(), "backup")
	b := openBackup(t, path)
	c.migrate(migrate.Migration{Backup: b, Stored: c.source()})
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	// Forget the results of all writes, as after a crash.
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for line := range strings.Lines(string(text)) {
		if !strings.Contains(line, `"type":"after"`) && !strings.Contains(line, `"type":"done"`) {
			kept = append(kept, line)
		}
	}
	if err := os.WriteFile(path, []byte(strings.Join(kept, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	c.must(http.MethodPatch, jobsPath+"/changed", `{"spec":{"n":2}}`)
	// A second run records the objects again, as they are now.
	b = openBackup(t, path)
	outcomes, _ := c.migrate(migrate.Migration{Backup: b, Stored: c.source()})
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for name, o := range outcomes {
		if o.Result != migrate.Unchanged {
			t.Errorf("%s: the second run has the result %s", name, o.Result)
		}
	}
	c.apply(versionedJobs(jobsVersion("v1", true, `"n":{"type":"integer"},"x":{"type":"boolean"}`)))
	got := c.undo(path, migrate.Undo{})
	if len(got) != 3 || got["changed"] != nil {
		t.Errorf("the results are %v", got)
	}
	for _, name := range []string{"first", "second", "third"} {
		if stored, _ := c.stored(name); got[name] == nil || got[name].Result != migrate.PutBack || !strings.Contains(stored, `"n":1,"x":true`) {
			t.Errorf("%s: the result is %+v, stored is %s", name, got[name], stored)
		}
	}
	if stored, _ := c.stored("changed"); !strings.Contains(stored, `"n":2`) || strings.Contains(stored, `"x"`) {
		t.Errorf("another write was undone: %s", stored)
	}
}

// TestMigrationUndoServedOnly puts objects back of a backup that was made through the API alone.
func TestMigrationUndoServedOnly(t *testing.T) {
	t.Parallel()
	c := newJobsCluster(t, schema.KEP)
	c.apply(versionedJobs(jobsVersion("v1", true, `"n":{"type":"integer"}`)))
	c.store("a", storedJob("a", "v1", `"n":1,"x":true`))
	path := filepath.Join(t.TempDir(), "backup")
	b := openBackup(t, path)
	if _, counts := c.migrate(migrate.Migration{Backup: b}); counts.Of[migrate.Rewritten] != 1 || counts.DroppedFields != 0 {
		t.Errorf("the migration has %+v", counts)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if got := c.undo(path, migrate.Undo{})["a"]; got == nil || got.Result != migrate.Same || !got.ServedOnly {
		t.Errorf("the result is %+v", got)
	}
	if err := (&migrate.Undo{Client: c.client()}).Run(t.Context(), "", filepath.Join(t.TempDir(), "none")); !os.IsNotExist(err) {
		t.Errorf("without a backup, the error is %v", err)
	}
}
