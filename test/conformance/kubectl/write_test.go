package kubectl

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWrite(t *testing.T) {
	t.Parallel()
	s := newSession(t)

	t.Run("create", func(t *testing.T) {
		file := s.backup(t, "new", "  target: home")
		equal(t, s.ok(t, "create", "-f", file), "backup.storage.example.com/new created\n")
		equal(t, s.field(t, "new", "{.spec}"), `{"copies":1,"target":"home"}`)
		s.fails(t, `backups.storage.example.com "new" already exists`, "create", "-f", file)
	})
	t.Run("create invalid", func(t *testing.T) {
		s.fails(t, `The Backup "bad" is invalid: spec.target: Invalid value: "UPPER": spec.target in body should match '^[a-z]+$'`,
			"create", "-f", s.backup(t, "bad", "  target: UPPER"))
		s.fails(t, `spec.mode: Unsupported value: "Half": supported values: "Full", "Incremental"`,
			"create", "-f", s.backup(t, "bad", "  target: home\n  mode: Half"))
		s.fails(t, "spec.target: Required value", "create", "-f", s.backup(t, "bad", "  copies: 1"))
	})
	t.Run("create with a generated name", func(t *testing.T) {
		file := s.write(t, "generated.json", `{"apiVersion":"storage.example.com/v1","kind":"Backup","metadata":{"generateName":"auto-"},"spec":{"target":"home"}}`)
		contains(t, s.ok(t, "create", "-f", file), "backup.storage.example.com/auto-")
	})
	t.Run("create a list", func(t *testing.T) {
		file := s.write(t, "list.yaml", `apiVersion: v1
kind: List
items:
- {apiVersion: storage.example.com/v1, kind: Backup, metadata: {name: one}, spec: {target: home}}
- {apiVersion: storage.example.com/v1, kind: Backup, metadata: {name: two}, spec: {target: mail}}
`)
		equal(t, s.ok(t, "create", "-f", file), "backup.storage.example.com/one created\nbackup.storage.example.com/two created\n")
	})
	t.Run("dry run", func(t *testing.T) {
		file := s.backup(t, "dry", "  target: home")
		equal(t, s.ok(t, "create", "-f", file, "--dry-run=client", "-o", "jsonpath={.spec}"), `{"target":"home"}`)
		equal(t, s.ok(t, "create", "-f", file, "--dry-run=server", "-o", "jsonpath={.spec}"), `{"copies":1,"target":"home"}`)
		equal(t, s.ok(t, "apply", "-f", file, "--dry-run=server"), "backup.storage.example.com/dry created (server dry run)\n")
		s.fails(t, "not found", "get", "backup", "dry")
	})
	t.Run("apply", func(t *testing.T) {
		equal(t, s.ok(t, "apply", "-f", s.backup(t, "applied", "  target: home\n  mode: Full")), "backup.storage.example.com/applied created\n")
		equal(t, s.ok(t, "apply", "-f", filepath.Join(s.dir, "applied.yaml")), "backup.storage.example.com/applied unchanged\n")
		equal(t, s.ok(t, "apply", "-f", s.backup(t, "applied", "  target: mail")), "backup.storage.example.com/applied configured\n")
		equal(t, s.field(t, "applied", "{.spec} {.metadata.generation}"), `{"copies":1,"target":"mail"} 2`)
	})
	t.Run("apply and prune", func(t *testing.T) {
		dir := filepath.Join(s.dir, "prune")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"keep", "drop"} {
			s.write(t, "prune/"+name+".yaml", "{apiVersion: storage.example.com/v1, kind: Backup, metadata: {name: "+name+", labels: {set: mine}}, spec: {target: home}}\n")
		}
		args := []string{"apply", "-f", dir, "--prune", "-l", "set=mine", "--prune-allowlist=storage.example.com/v1/Backup"}
		s.ok(t, args...)
		if err := os.Remove(filepath.Join(dir, "drop.yaml")); err != nil {
			t.Fatal(err)
		}
		contains(t, s.ok(t, args...), "backup.storage.example.com/keep unchanged\n", "backup.storage.example.com/drop pruned\n")
	})
	t.Run("diff", func(t *testing.T) {
		s.ok(t, "apply", "-f", s.backup(t, "differs", "  target: home"))
		equal(t, s.ok(t, "diff", "-f", filepath.Join(s.dir, "differs.yaml")), "")
		file := s.backup(t, "differs", "  target: mail")
		for _, flags := range [][]string{nil, {"--server-side", "--force-conflicts"}} {
			out, code := s.run(t, append([]string{"diff", "-f", file}, flags...)...)
			if code != 1 {
				t.Errorf("kubectl diff %v exited with %d", flags, code)
			}
			contains(t, out, "-  target: home\n", "+  target: mail\n", "-  generation: 1\n", "+  generation: 2\n")
		}
		equal(t, s.field(t, "differs", "{.spec.target}"), "home")
	})
	t.Run("replace", func(t *testing.T) {
		s.created(t, "replaced", "  target: home\n  mode: Full\n  copies: 5")
		equal(t, s.ok(t, "replace", "-f", s.backup(t, "replaced", "  target: mail")), "backup.storage.example.com/replaced replaced\n")
		equal(t, s.field(t, "replaced", "{.spec}"), `{"copies":1,"target":"mail"}`)
		s.fails(t, "not found", "replace", "-f", s.backup(t, "absent", "  target: mail"))
	})
	t.Run("edit", func(t *testing.T) {
		s.created(t, "edited", "  target: home")
		editor := func(script string) *session { return s.editor(t, script) }
		equal(t, editor(`sed -i 's/copies: 1/copies: 4/' "$1"`).ok(t, "edit", "backup", "edited"), "backup.storage.example.com/edited edited\n")
		equal(t, s.field(t, "edited", "{.spec.copies}"), "4")
		equal(t, editor(`true`).ok(t, "edit", "backup", "edited"), "Edit cancelled, no changes made.\n")
		// A rejected edit is shown again, with the reason; saving it unchanged cancels the
		// edit.
		refused := `if grep -q 'copies: -1' "$1"; then grep '^#' "$1" >&2; exit 0; fi; sed -i 's/copies: 4/copies: -1/' "$1"`
		editor(refused).fails(t, "# * spec.copies: Invalid value: -1: spec.copies in body should be greater than or equal to 0", "edit", "backup", "edited")
		equal(t, editor(`sed -i 's/^status:.*/status: {phase: Done}/;$a status: {phase: Done}' "$1"`).ok(t, "edit", "backup", "edited", "--subresource=status"), "backup.storage.example.com/edited edited\n")
		equal(t, s.field(t, "edited", "{.spec.copies} {.status.phase}"), "4 Done")
		equal(t, editor(`sed -i 's/description: The volume to copy./description: The volume./' "$1"`).ok(t, "edit", "crd", "backups.storage.example.com"),
			"customresourcedefinition.apiextensions.k8s.io/backups.storage.example.com edited\n")
	})
	t.Run("patch", func(t *testing.T) {
		s.created(t, "patched", "  target: home\n  steps: [{name: stop}]")
		patch := func(kind, body string) []string {
			return []string{"patch", "backup", "patched", "--type=" + kind, "-p", body}
		}
		equal(t, s.ok(t, patch("merge", `{"spec":{"copies":2,"steps":[{"name":"flush"}]}}`)...), "backup.storage.example.com/patched patched\n")
		equal(t, s.field(t, "patched", "{.spec}"), `{"copies":2,"steps":[{"name":"flush"}],"target":"home"}`)
		equal(t, s.ok(t, patch("merge", `{"spec":{"copies":2}}`)...), "backup.storage.example.com/patched patched (no change)\n")
		s.ok(t, patch("json", `[{"op":"test","path":"/spec/copies","value":2},{"op":"replace","path":"/spec/copies","value":3},{"op":"remove","path":"/spec/steps"}]`)...)
		equal(t, s.field(t, "patched", "{.spec}"), `{"copies":3,"target":"home"}`)
		s.ok(t, patch("merge", `{"spec":{"copies":null}}`)...)
		equal(t, s.field(t, "patched", "{.spec.copies}"), "1")
		s.fails(t, "The request is invalid", patch("json", `[{"op":"test","path":"/spec/copies","value":9}]`)...)
		s.fails(t, "application/strategic-merge-patch+json is not supported by storage.example.com/v1, Kind=Backup", patch("strategic", `{"spec":{"copies":2}}`)...)
		s.fails(t, "spec.copies: Invalid value: -1", patch("merge", `{"spec":{"copies":-1}}`)...)
	})
	t.Run("label and annotate", func(t *testing.T) {
		s.created(t, "marked", "  target: home")
		equal(t, s.ok(t, "label", "backup", "marked", "tier=gold"), "backup.storage.example.com/marked labeled\n")
		s.fails(t, "'tier' already has a value (gold)", "label", "backup", "marked", "tier=tin")
		equal(t, s.ok(t, "label", "backup", "marked", "tier=tin", "--overwrite"), "backup.storage.example.com/marked labeled\n")
		equal(t, s.ok(t, "annotate", "backup", "marked", "note=a b"), "backup.storage.example.com/marked annotated\n")
		equal(t, s.field(t, "marked", "{.metadata.labels} {.metadata.annotations} {.metadata.generation}"), `{"tier":"tin"} {"note":"a b"} 1`)
		equal(t, s.ok(t, "label", "backup", "marked", "tier-"), "backup.storage.example.com/marked unlabeled\n")
	})
	t.Run("scale", func(t *testing.T) {
		s.created(t, "scaled", "  target: home")
		equal(t, s.ok(t, "scale", "backup", "scaled", "--replicas=5"), "backup.storage.example.com/scaled scaled\n")
		equal(t, s.field(t, "scaled", "{.spec.copies}"), "5")
		s.fails(t, "Expected replicas to be 2, was 5", "scale", "backup", "scaled", "--replicas=6", "--current-replicas=2")
		s.ok(t, "scale", "backup", "scaled", "--replicas=0", "--current-replicas=5")
		equal(t, s.field(t, "scaled", "{.spec.copies}"), "0")
		s.ok(t, "patch", "backup", "scaled", "--subresource=scale", "--type=merge", "-p", `{"spec":{"replicas":2}}`)
		equal(t, s.field(t, "scaled", "{.spec.copies}"), "2")
	})
	t.Run("status", func(t *testing.T) {
		s.created(t, "reported", "  target: home")
		s.ok(t, "patch", "backup", "reported", "--type=merge", "-p", `{"spec":{"copies":2},"status":{"phase":"Wrong"}}`)
		s.ok(t, "patch", "backup", "reported", "--subresource=status", "--type=merge", "-p", `{"spec":{"copies":9},"status":{"phase":"Right"}}`)
		equal(t, s.field(t, "reported", "{.spec.copies} {.status} {.metadata.generation}"), `2 {"phase":"Right"} 2`)
		file := s.write(t, "reported-status.yaml", "{apiVersion: storage.example.com/v1, kind: Backup, metadata: {name: reported}, spec: {target: mail}, status: {phase: Replaced}}\n")
		s.ok(t, "replace", "--subresource=status", "-f", file)
		equal(t, s.field(t, "reported", "{.spec.target} {.status.phase}"), "home Replaced")
		s.ok(t, "apply", "--server-side", "--force-conflicts", "--subresource=status", "-f", s.write(t, "applied-status.yaml",
			"{apiVersion: storage.example.com/v1, kind: Backup, metadata: {name: reported}, status: {phase: Applied}}\n"))
		equal(t, s.field(t, "reported", "{.spec.target} {.status.phase}"), "home Applied")
	})
}

func TestDelete(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	gone := func(t *testing.T, name string) {
		t.Helper()
		equal(t, s.ok(t, "get", "backup", name, "--ignore-not-found", "-o", "name"), "")
	}

	t.Run("by name", func(t *testing.T) {
		s.created(t, "named", "  target: home")
		contains(t, s.ok(t, "delete", "backup", "named"), `backup.storage.example.com "named" deleted`)
		gone(t, "named")
		s.fails(t, "not found", "delete", "backup", "named")
	})
	t.Run("by file", func(t *testing.T) {
		s.created(t, "filed", "  target: home")
		s.ok(t, "delete", "-f", filepath.Join(s.dir, "filed.yaml"))
		gone(t, "filed")
	})
	t.Run("dry run", func(t *testing.T) {
		s.created(t, "stays", "  target: home")
		contains(t, s.ok(t, "delete", "backup", "stays", "--dry-run=server"), "deleted", "(server dry run)")
		equal(t, s.field(t, "stays", "{.metadata.name}"), "stays")
	})
	t.Run("background", func(t *testing.T) {
		s.created(t, "behind", "  target: home")
		s.ok(t, "delete", "backup", "behind", "--cascade=background")
		gone(t, "behind")
	})
	t.Run("foreground", func(t *testing.T) {
		// The object stays until the garbage collector removes the finalizer.
		s.created(t, "front", "  target: home")
		s.ok(t, "delete", "backup", "front", "--cascade=foreground", "--wait=false")
		out := s.ok(t, "get", "backup", "front", "--ignore-not-found", "-o", "jsonpath={.metadata.finalizers} {.metadata.deletionTimestamp}")
		if out != "" && !strings.HasPrefix(out, `["foregroundDeletion"] 2`) {
			t.Errorf("the object is neither deleted nor pending foreground deletion: %s", out)
		}
		if out != "" {
			// It fails if a garbage collector was faster.
			s.run(t, "patch", "backup", "front", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
		}
		gone(t, "front")
	})
	t.Run("orphan", func(t *testing.T) {
		s.created(t, "parent", "  target: home")
		s.ok(t, "delete", "backup", "parent", "--cascade=orphan", "--wait=false")
		out := s.ok(t, "get", "backup", "parent", "--ignore-not-found", "-o", "jsonpath={.metadata.finalizers}")
		if out != "" && out != `["orphan"]` {
			t.Errorf("the object is neither deleted nor pending deletion without its dependents: %s", out)
		}
		if out != "" {
			// It fails if a garbage collector was faster.
			s.run(t, "patch", "backup", "parent", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
		}
		gone(t, "parent")
	})
	t.Run("finalizer", func(t *testing.T) {
		s.ok(t, "create", "-f", s.write(t, "held.yaml", "{apiVersion: storage.example.com/v1, kind: Backup, metadata: {name: held, finalizers: [example.com/hold]}, spec: {target: home}}\n"))
		finished := s.start(t, "delete", "backup", "held", "--timeout=30s")
		s.ok(t, "wait", "backup/held", "--for=jsonpath={.metadata.deletionTimestamp}", "--timeout=30s")
		s.ok(t, "patch", "backup", "held", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
		contains(t, finished(), `"held" deleted`)
		gone(t, "held")
	})
	t.Run("collection", func(t *testing.T) {
		for _, name := range []string{"a", "b", "c"} {
			s.created(t, name, "  target: "+name)
		}
		s.ok(t, "label", "backup", "a", "b", "doomed=yes")
		s.ok(t, "delete", "backups", "-l", "doomed=yes")
		gone(t, "a")
		equal(t, s.field(t, "c", "{.metadata.name}"), "c")
		s.ok(t, "delete", "backups", "--field-selector=spec.target=c")
		gone(t, "c")
		s.ok(t, "delete", "backups", "--all")
		equal(t, s.ok(t, "get", "backups", "-o", "name"), "")
	})
}

func TestServerSideApply(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	mine := s.backup(t, "shared", "  target: home\n  copies: 2")

	t.Run("create", func(t *testing.T) {
		equal(t, s.ok(t, "apply", "--server-side", "-f", mine), "backup.storage.example.com/shared serverside-applied\n")
		contains(t, s.ok(t, "get", "backup", "shared", "--show-managed-fields", "-o", "yaml"), "manager: kubectl\n", "operation: Apply\n", "f:copies: {}\n")
		lacks(t, s.ok(t, "get", "backup", "shared", "-o", "yaml"), "last-applied-configuration")
	})
	t.Run("conflict", func(t *testing.T) {
		theirs := s.backup(t, "shared", "  target: home\n  copies: 3")
		args := []string{"apply", "--server-side", "--field-manager=other", "-f", theirs}
		s.fails(t, `Apply failed with 1 conflict: conflict with "kubectl": .spec.copies`, args...)
		equal(t, s.field(t, "shared", "{.spec.copies}"), "2")
		s.ok(t, append(args, "--force-conflicts")...)
		equal(t, s.field(t, "shared", "{.spec.copies}"), "3")
	})
	t.Run("lists by key", func(t *testing.T) {
		s.ok(t, "apply", "--server-side", "--field-manager=one", "-f", s.backup(t, "keyed", "  target: home\n  steps: [{name: stop, command: a}]"))
		s.ok(t, "apply", "--server-side", "--field-manager=two", "-f", s.backup(t, "keyed", "  target: home\n  steps: [{name: flush, command: b}]"))
		equal(t, s.field(t, "keyed", "{.spec.steps[*].name}"), "stop flush")
		s.fails(t, `.spec.steps[name="stop"].command`, "apply", "--server-side", "--field-manager=two", "-f", s.backup(t, "keyed", "  target: home\n  steps: [{name: stop, command: c}]"))
		s.ok(t, "apply", "--server-side", "--field-manager=two", "-f", s.backup(t, "keyed", "  target: home"))
		equal(t, s.field(t, "keyed", "{.spec.steps[*].name}"), "stop")
	})
	t.Run("from client side", func(t *testing.T) {
		file := s.backup(t, "migrated", "  target: home\n  mode: Full")
		s.ok(t, "apply", "-f", file)
		s.ok(t, "apply", "--server-side", "-f", file)
		s.ok(t, "apply", "--server-side", "-f", s.backup(t, "migrated", "  target: mail"))
		equal(t, s.field(t, "migrated", "{.spec}"), `{"copies":1,"target":"mail"}`)
	})
	t.Run("last applied", func(t *testing.T) {
		s.ok(t, "apply", "-f", s.backup(t, "remembered", "  target: home"))
		contains(t, s.ok(t, "apply", "view-last-applied", "backup", "remembered"), "target: home")
	})
	t.Run("unknown field", func(t *testing.T) {
		s.fails(t, ".spec.tarjet: field not declared in schema", "apply", "--server-side", "-f", s.backup(t, "typo", "  target: home\n  tarjet: home"))
	})
	t.Run("definition", func(t *testing.T) {
		out := s.ok(t, "apply", "--server-side", "--field-manager=owner", "--force-conflicts", "-f", s.testdata(t, "crd.yaml"))
		equal(t, out, "customresourcedefinition.apiextensions.k8s.io/backups.storage.example.com serverside-applied\n")
	})
}
