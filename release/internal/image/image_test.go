package image

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"espalier.dev/release/internal/archive"
)

func TestWrite(t *testing.T) {
	t.Parallel()
	date := time.Unix(1772600767, 0).UTC()
	var tarballs [2][]byte
	dir := t.TempDir()
	licenses := []archive.File{{Name: "LICENSE", Mode: 0o644, Data: []byte("license\n")}}
	for i := range tarballs {
		program := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(program, bytes.Repeat([]byte("program "), 1<<17), 0o755); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(t.TempDir(), "image.tar")
		err := Write(name, filepath.Join(t.TempDir(), "layout"), []Program{{"amd64", program, licenses}, {"arm64", program, licenses}},
			Labels{Name: "example.com/a", Version: "1.2.3", Revision: "abc", Time: date})
		if err != nil {
			t.Fatal(err)
		}
		if tarballs[i], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if out, err := exec.Command("tar", "-xf", name, "-C", dir).CombinedOutput(); err != nil {
				t.Fatalf("tar: %v\n%s", err, out)
			}
		}
	}
	if !bytes.Equal(tarballs[0], tarballs[1]) {
		t.Error("two images differ")
	}

	top, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(top); err != nil {
		t.Error(err)
	}
	m, err := top.IndexManifest()
	if err != nil || len(m.Manifests) != 1 || m.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "1.2.3" ||
		m.Manifests[0].Annotations["io.containerd.image.name"] != "example.com/a:1.2.3" {
		t.Fatalf("index %+v, %v", m, err)
	}
	index, err := top.ImageIndex(m.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	images, err := index.IndexManifest()
	if err != nil || len(images.Manifests) != 2 {
		t.Fatalf("%+v, %v", images, err)
	}
	for i, arch := range []string{"amd64", "arm64"} {
		d := images.Manifests[i]
		image, err := index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		c := config.Config
		if d.Platform.Architecture != arch || config.Architecture != arch || !config.Created.Time.Equal(date) || c.User != "65532:65532" ||
			c.Entrypoint[0] != "/usr/bin/espalier" || c.Cmd[0] != "serve" || c.Labels["org.opencontainers.image.revision"] != "abc" {
			t.Errorf("%s: %+v, %+v", arch, d.Platform, config)
		}
		checkFiles(t, mutate.Extract(image))
	}
}

func checkFiles(t *testing.T, r io.ReadCloser) {
	defer r.Close()
	type file struct {
		mode int64
		uid  int
	}
	want := map[string]file{
		"usr/bin/espalier": {0o755, 0}, "etc/passwd": {0o644, 0}, "etc/group": {0o644, 0}, "tmp": {0o1777, 0},
		"etc/ssl/certs/ca-certificates.crt": {0o644, 0}, "var/lib/espalier": {0o700, 65532},
		"usr/share": {0o755, 0}, "usr/share/doc": {0o755, 0}, "usr/share/doc/espalier": {0o755, 0}, "usr/share/doc/espalier/LICENSE": {0o644, 0},
		"usr": {0o755, 0}, "usr/bin": {0o755, 0}, "etc": {0o755, 0}, "etc/ssl": {0o755, 0}, "etc/ssl/certs": {0o755, 0},
		"var": {0o755, 0}, "var/lib": {0o755, 0},
	}
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Clean(h.Name)
		if w, ok := want[name]; !ok || w != (file{h.Mode, h.Uid}) {
			t.Errorf("%s: mode %o, uid %d; expected %o, %d (listed: %t)", name, h.Mode, h.Uid, w.mode, w.uid, ok)
		}
		delete(want, name)
		if name == "etc/ssl/certs/ca-certificates.crt" {
			text, _ := io.ReadAll(tr)
			if !x509.NewCertPool().AppendCertsFromPEM(text) || bytes.Count(text, []byte("BEGIN")) < 50 {
				t.Error("few root certificates")
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}
