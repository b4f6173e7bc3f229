package kubectl

import (
	"bufio"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.created(t, "daily", "  target: home\n  copies: 7")
	s.created(t, "weekly", "  target: mail")
	s.ok(t, "patch", "backup", "daily", "--subresource=status", "--type=merge", "-p", `{"status":{"phase":"Running"}}`)
	s.ok(t, "label", "backup", "daily", "tier=gold")

	t.Run("table", func(t *testing.T) {
		out := s.ok(t, "get", "backups")
		contains(t, columns(out), "NAME TARGET COPIES AGE\n", "daily home 7 ", "weekly mail 1 ")
		lacks(t, out, "PHASE", "Running")
	})
	t.Run("wide", func(t *testing.T) {
		contains(t, columns(s.ok(t, "get", "bk", "-o", "wide")), "NAME TARGET COPIES PHASE AGE\n", "daily home 7 Running ")
	})
	t.Run("yaml", func(t *testing.T) {
		contains(t, s.ok(t, "get", "backup", "daily", "-o", "yaml"),
			"apiVersion: storage.example.com/v1\nkind: Backup\n", "  copies: 7\n  target: home\n", "  phase: Running\n", "  generation: 1\n", "  namespace: default\n")
	})
	t.Run("list", func(t *testing.T) {
		contains(t, s.ok(t, "get", "backups", "-o", "json"), `"kind": "List"`, `"name": "daily"`, `"name": "weekly"`)
	})
	t.Run("name", func(t *testing.T) {
		equal(t, s.ok(t, "get", "backups", "-o", "name"), "backup.storage.example.com/daily\nbackup.storage.example.com/weekly\n")
	})
	t.Run("several kinds", func(t *testing.T) {
		contains(t, s.ok(t, "get", "crd/backups.storage.example.com", "backup/daily", "-o", "name"),
			"customresourcedefinition.apiextensions.k8s.io/backups.storage.example.com\n", "backup.storage.example.com/daily\n")
	})
	t.Run("category", func(t *testing.T) {
		equal(t, s.ok(t, "get", "all", "-o", "name"), "service/kubernetes\nbackup.storage.example.com/daily\nbackup.storage.example.com/weekly\n")
	})
	t.Run("custom columns", func(t *testing.T) {
		equal(t, columns(s.ok(t, "get", "backup", "daily", "-o", "custom-columns=N:.metadata.name,C:.spec.copies")), "N C\ndaily 7")
	})
	t.Run("sorted", func(t *testing.T) {
		equal(t, s.ok(t, "get", "backups", "-o", "name", "--sort-by=.spec.copies"), "backup.storage.example.com/weekly\nbackup.storage.example.com/daily\n")
	})
	t.Run("label selector", func(t *testing.T) {
		equal(t, s.ok(t, "get", "backups", "-l", "tier=gold", "-o", "name"), "backup.storage.example.com/daily\n")
		equal(t, s.ok(t, "get", "backups", "-l", "!tier", "-o", "name"), "backup.storage.example.com/weekly\n")
	})
	t.Run("field selector", func(t *testing.T) {
		equal(t, s.ok(t, "get", "backups", "--field-selector=spec.target=mail", "-o", "name"), "backup.storage.example.com/weekly\n")
		equal(t, s.ok(t, "get", "backups", "--field-selector=metadata.name=daily", "-o", "name"), "backup.storage.example.com/daily\n")
		s.fails(t, "field label not supported: spec.copies", "get", "backups", "--field-selector=spec.copies=7")
	})
	t.Run("chunks", func(t *testing.T) {
		equal(t, s.ok(t, "get", "backups", "--chunk-size=1", "-o", "name"), "backup.storage.example.com/daily\nbackup.storage.example.com/weekly\n")
	})
	t.Run("namespaces", func(t *testing.T) {
		contains(t, columns(s.ok(t, "get", "backups", "-A")), "NAMESPACE NAME TARGET COPIES AGE\n", "default daily home 7 ")
		contains(t, s.ok(t, "get", "backups", "-n", "elsewhere"), "No resources found in elsewhere namespace.")
	})
	t.Run("status", func(t *testing.T) {
		equal(t, s.ok(t, "get", "backup", "daily", "--subresource=status", "-o", "jsonpath={.status}"), `{"phase":"Running"}`)
	})
	t.Run("scale", func(t *testing.T) {
		equal(t, s.ok(t, "get", "backup", "daily", "--subresource=scale", "-o", "jsonpath={.kind} {.spec.replicas}"), "Scale 7")
	})
	t.Run("not found", func(t *testing.T) {
		s.fails(t, `Error from server (NotFound): backups.storage.example.com "none" not found`, "get", "backup", "none")
		s.fails(t, `the server doesn't have a resource type "nothings"`, "get", "nothings")
		equal(t, s.ok(t, "get", "backup", "none", "--ignore-not-found"), "")
	})
	t.Run("describe", func(t *testing.T) {
		contains(t, columns(s.ok(t, "describe", "backup", "daily")), "Name: daily\n", "Labels: tier=gold\n", "API Version: storage.example.com/v1\n", "Kind: Backup\n", "Copies: 7\n", "Phase: Running\n")
		contains(t, columns(s.ok(t, "describe", "crd", "backups.storage.example.com")), "Kind: CustomResourceDefinition\n", "Type: Established\n")
	})
	t.Run("raw", func(t *testing.T) {
		contains(t, s.ok(t, "get", "--raw", "/apis/storage.example.com/v1/namespaces/default/backups/daily"), `"kind":"Backup"`)
		contains(t, s.ok(t, "get", "--raw", "/readyz?verbose"), "readyz check passed")
	})
}

func TestWatch(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.created(t, "first", "  target: home")
	cmd := s.command(t, "get", "backups", "-w", "--output-watch-events")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	}()
	lines := bufio.NewScanner(stdout) // ends with kubectl, which has a time limit
	next := func(want string) {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("kubectl exited before it printed %q", want)
		}
		if got := columns(lines.Text()); !strings.HasPrefix(got+" ", want+" ") {
			t.Fatalf("kubectl printed %q, want %q", got, want)
		}
	}
	next("EVENT NAME TARGET COPIES AGE")
	next("ADDED first home 1")
	s.created(t, "second", "  target: mail")
	next("ADDED second mail 1")
	s.ok(t, "scale", "backup", "second", "--replicas=3")
	next("MODIFIED second mail 3")
	s.ok(t, "delete", "backup", "first")
	next("DELETED first home 1")
}

func TestWait(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.created(t, "daily", "  target: home")

	t.Run("condition", func(t *testing.T) {
		s.fails(t, "timed out waiting for the condition", "wait", "backup/daily", "--for=condition=Ready", "--timeout=1s")
		finished := s.start(t, "wait", "backup/daily", "--for=condition=Ready", "--timeout=30s")
		s.ok(t, "patch", "backup", "daily", "--subresource=status", "--type=merge", "-p", `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)
		equal(t, finished(), "backup.storage.example.com/daily condition met\n")
	})
	t.Run("jsonpath", func(t *testing.T) {
		equal(t, s.ok(t, "wait", "backup/daily", "--for=jsonpath={.spec.target}=home", "--timeout=30s"), "backup.storage.example.com/daily condition met\n")
		s.fails(t, "timed out waiting for the condition", "wait", "backup/daily", "--for=jsonpath={.status.phase}=Done", "--timeout=1s")
	})
	t.Run("delete", func(t *testing.T) {
		finished := s.start(t, "wait", "backup/daily", "--for=delete", "--timeout=30s")
		s.ok(t, "delete", "backup", "daily")
		// If kubectl starts too late, it reports that the object does not exist.
		if out := finished(); out != "backup.storage.example.com/daily condition met\n" && out != "" {
			contains(t, out, `"daily" not found`)
		}
	})
}
