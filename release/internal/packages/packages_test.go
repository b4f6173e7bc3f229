package packages

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"espalier.dev/release/internal/archive"
)

func TestWrite(t *testing.T) {
	t.Parallel()
	first, second := t.TempDir(), t.TempDir()
	for _, dir := range []string{first, second} {
		writePackage(t, dir, "espalier", "amd64", "1.2.3")
		writePackage(t, dir, "espalier-cli", "amd64", "1.2.3")
		writePackage(t, dir, "espalier", "arm64", "1.2.3-rc.1")
	}
	for _, name := range []string{
		"espalier_1.2.3_amd64.deb", "espalier-1.2.3-1.x86_64.rpm",
		"espalier-cli_1.2.3_amd64.deb", "espalier-cli-1.2.3-1.x86_64.rpm",
		"espalier_1.2.3-rc.1_arm64.deb", "espalier-1.2.3-rc.1-1.aarch64.rpm",
	} {
		a, err := os.ReadFile(filepath.Join(first, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if b, err := os.ReadFile(filepath.Join(second, name)); err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s differs: %v", name, err)
		}
		if host, _ := os.Hostname(); strings.HasSuffix(name, ".rpm") && host != "localhost" && bytes.Contains(a, []byte(host)) {
			t.Errorf("%s contains the name of this machine, %s", name, host)
		}
	}

	t.Run("dpkg", func(t *testing.T) {
		deb := filepath.Join(first, "espalier_1.2.3_amd64.deb")
		control := tool(t, "dpkg-deb", "--field", deb)
		for _, line := range []string{"Package: espalier", "Version: 1.2.3", "Architecture: amd64", "Conflicts: espalier-cli",
			"Replaces: espalier-cli", "Provides: espalier-cli"} {
			if !strings.Contains("\n"+control, "\n"+line+"\n") {
				t.Errorf("no line %q in\n%s", line, control)
			}
		}
		contents := tool(t, "dpkg-deb", "--contents", deb)
		for _, want := range []string{"-rwxr-xr-x root/root", "./usr/bin/espalier\n", "./usr/lib/systemd/system/espalier.service\n",
			"./usr/lib/sysusers.d/espalier.conf\n", "./etc/default/espalier\n", "./usr/share/man/man1/espalier.1.gz\n",
			"./usr/share/bash-completion/completions/espalier\n", "./usr/share/doc/espalier/copyright\n", "2026-03-04"} {
			if !strings.Contains(contents, want) {
				t.Errorf("no %q in\n%s", want, contents)
			}
		}
		if strings.Contains(contents, "powershell") || strings.Contains(contents, "espalier.ps1") {
			t.Errorf("the completion of PowerShell is installed:\n%s", contents)
		}
		if got := tool(t, "dpkg-deb", "--info", deb, "conffiles"); got != "/etc/default/espalier\n" {
			t.Errorf("conffiles %q", got)
		}
		// A prerelease sorts before the release.
		prerelease := filepath.Join(first, "espalier_1.2.3-rc.1_arm64.deb")
		if got := tool(t, "dpkg-deb", "--field", prerelease, "Version"); got != "1.2.3~rc.1\n" {
			t.Errorf("version of the prerelease %q", got)
		}
		cli := filepath.Join(first, "espalier-cli_1.2.3_amd64.deb")
		if got := tool(t, "dpkg-deb", "--field", cli, "Conflicts", "Provides", "Replaces"); got != "Conflicts: espalier\n" {
			t.Errorf("espalier-cli: %q", got)
		}
		if contents := tool(t, "dpkg-deb", "--contents", cli); strings.Contains(contents, "systemd") {
			t.Errorf("espalier-cli has a service:\n%s", contents)
		}
	})
	t.Run("rpm", func(t *testing.T) {
		rpm := filepath.Join(first, "espalier-1.2.3-1.x86_64.rpm")
		if got := tool(t, "rpm", "--query", "--package", "--conflicts", rpm); strings.TrimSpace(got) != "espalier-cli" {
			t.Errorf("conflicts %q", got)
		}
		if got := tool(t, "rpm", "--query", "--package", "--obsoletes", rpm); strings.TrimSpace(got) != "" {
			t.Errorf("obsoletes %q: an upgrade of espalier-cli would install espalier", got)
		}
		if got := tool(t, "rpm", "--query", "--package", "--configfiles", rpm); strings.TrimSpace(got) != "/etc/default/espalier" {
			t.Errorf("configuration files %q", got)
		}
		prerelease := filepath.Join(first, "espalier-1.2.3-rc.1-1.aarch64.rpm")
		if got := tool(t, "rpm", "--query", "--package", "--queryformat", "%{VERSION}", prerelease); got != "1.2.3~rc.1" {
			t.Errorf("version of the prerelease %q", got)
		}
		if got := tool(t, "rpm", "--query", "--package", "--queryformat", "%{BUILDHOST} %{BUILDTIME}", rpm); got != "localhost 1772600767" {
			t.Errorf("build host and time %q", got)
		}
	})
}

// tool runs a program that may not be installed.
func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skip(name + " is not installed")
	}
	c := exec.Command(name, args...)
	c.Env = append(os.Environ(), "LC_ALL=C", "TZ=UTC")
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

func writePackage(t *testing.T, dir, name, arch, version string) {
	t.Helper()
	work := t.TempDir()
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, bytes.Repeat([]byte("program "), 1<<18), 0o700); err != nil {
		t.Fatal(err)
	}
	p := &Package{
		Name: name, Version: version, Arch: arch, Time: time.Unix(1772600767, 0).UTC(), Program: program, Work: work,
		Docs: []archive.File{{Name: "LICENSE", Data: []byte("l")}, {Name: "man/man1/espalier.1", Data: []byte("m")},
			{Name: "completions/espalier.bash", Data: []byte("b")}, {Name: "completions/espalier.ps1", Data: []byte("p")},
			{Name: "examples/crontab/crd.yaml", Data: []byte("e")}},
	}
	if name == "espalier" {
		p.Service = "../../../deploy/systemd"
	}
	if err := p.Write(dir); err != nil {
		t.Fatal(err)
	}
}
