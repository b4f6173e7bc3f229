package kubectl

import (
	"testing"

	"espalier.dev/espaliertest"
	"espalier.dev/schema"
)

// TestFeedback checks that the commands of the table in the document on validation show what is
// wrong with an object, for each field, and store nothing.
func TestFeedback(t *testing.T) {
	t.Parallel()
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		t.Run("V-20 "+sem.String(), func(t *testing.T) {
			t.Parallel()
			s := newSession(t, espaliertest.WithSemantics(sem))
			s.created(t, "old", "  target: home")
			unchanged := s.field(t, "old", "{.metadata.resourceVersion} {.spec}")
			const (
				target = `spec.target: Invalid value: "UPPER": spec.target in body should match '^[a-z]+$'`
				copies = "spec.copies: Invalid value: -1: spec.copies in body should be greater than or equal to 0"
			)
			invalid := "  target: UPPER\n  copies: -1"
			shows := func(t *testing.T, args ...string) {
				t.Helper()
				s.fails(t, target, args...)
				s.fails(t, copies, args...)
			}
			stored := func(t *testing.T) {
				t.Helper()
				equal(t, s.field(t, "old", "{.metadata.resourceVersion} {.spec}"), unchanged)
				equal(t, s.ok(t, "get", "backups", "-o", "name"), "backup.storage.example.com/old\n")
			}

			t.Run("create", func(t *testing.T) {
				shows(t, "create", "-f", s.backup(t, "new", invalid))
				stored(t)
			})
			t.Run("apply", func(t *testing.T) {
				for _, name := range []string{"new", "old"} {
					file := s.backup(t, name, invalid)
					shows(t, "apply", "-f", file)
					shows(t, "apply", "--server-side", "--force-conflicts", "-f", file)
				}
				stored(t)
			})
			t.Run("replace", func(t *testing.T) {
				shows(t, "replace", "-f", s.backup(t, "old", invalid))
				stored(t)
			})
			t.Run("edit", func(t *testing.T) {
				// kubectl opens the editor again, with the errors as comments. Saving that
				// unchanged ends it.
				editor := s.editor(t, `if grep -q UPPER "$1"; then grep '^#' "$1" >&2; exit 0; fi; sed -i 's/target: home/target: UPPER/; s/copies: 1/copies: -1/' "$1"`)
				for _, want := range []string{"# * " + target, "# * " + copies} {
					editor.fails(t, want, "edit", "backup", "old")
				}
				stored(t)
			})
		})
	}
}

// TestFirstUse applies a CRD and an object immediately after each other, as users do.
func TestFirstUse(t *testing.T) {
	t.Parallel()
	s := sessionOf(t, espaliertest.Start(t))
	s.ok(t, "apply", "-f", s.testdata(t, "crd.yaml"))
	s.ok(t, "apply", "-f", s.backup(t, "daily", "  target: home"))
	equal(t, s.ok(t, "get", "backups", "-o", "name"), "backup.storage.example.com/daily\n")
}
