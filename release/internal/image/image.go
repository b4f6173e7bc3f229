// Package image builds container images as OCI image layouts, without a container runtime.
package image

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"

	"espalier.dev/release/internal/archive"
)

// The user that the server runs as. Kubernetes checks runAsNonRoot only for a number.
const (
	uid     = 65532
	dataDir = "/var/lib/espalier"
)

// A Program is the program for one architecture, as Go names it, with the files of its licenses.
type Program struct {
	Arch, Path string
	Licenses   []archive.File
}

// Labels are the values of the labels org.opencontainers.image.*.
// Name is that of the image, without the tag.
type Labels struct {
	Name, Version, Revision string
	Time                    time.Time
}

// Write writes an image with a variant for each program to a tarball of an OCI image layout. It
// uses work, a directory that does not exist, for temporary files.
func Write(name, work string, programs []Program, l Labels) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range programs {
		image, err := build(p, l)
		if err != nil {
			return fmt.Errorf("image for linux/%s: %w", p.Arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: p.Arch}}})
	}
	index = mutate.Annotations(index, l.annotations()).(v1.ImageIndex)

	path, err := layout.Write(work, empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": l.Version, // the tag
		"io.containerd.image.name":          l.Name + ":" + l.Version,
	})); err != nil {
		return err
	}
	files, err := archive.FromDir(work, "")
	if err != nil {
		return err
	}
	for i := range files {
		files[i].Mode = 0o644
	}
	return archive.WriteTar(name, files, l.Time)
}

func (l Labels) annotations() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":         "espalier",
		"org.opencontainers.image.description":   "An API server for Kubernetes custom resources, and their command line",
		"org.opencontainers.image.version":       l.Version,
		"org.opencontainers.image.revision":      l.Revision,
		"org.opencontainers.image.created":       l.Time.UTC().Format(time.RFC3339),
		"org.opencontainers.image.licenses":      "Apache-2.0",
		"org.opencontainers.image.url":           "https://espalier.dev",
		"org.opencontainers.image.source":        "https://espalier.dev",
		"org.opencontainers.image.documentation": "https://espalier.dev",
	}
}

// build builds an image from nothing: what is not needed cannot be attacked.
func build(p Program, l Labels) (v1.Image, error) {
	image := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	image = mutate.ConfigMediaType(image, types.OCIConfigJSON)
	// The base changes less often than the program, so it is a layer of its own.
	program := []archive.File{{Name: "usr/", Mode: 0o755}, {Name: "usr/bin/", Mode: 0o755},
		{Name: "usr/bin/espalier", Mode: 0o755, Path: p.Path},
		{Name: "usr/share/", Mode: 0o755}, {Name: "usr/share/doc/", Mode: 0o755}, {Name: "usr/share/doc/espalier/", Mode: 0o755}}
	for _, f := range p.Licenses {
		f.Name = "usr/share/doc/espalier/" + f.Name
		program = append(program, f)
	}
	for _, files := range [][]archive.File{base(), program} {
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
			r, w := io.Pipe()
			go func() { w.CloseWithError(archive.Tar(w, files, l.Time)) }()
			return r, nil
		}, tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return nil, err
		}
		image, err = mutate.Append(image, mutate.Addendum{Layer: layer,
			History: v1.History{Created: v1.Time{Time: l.Time}, CreatedBy: "espalier.dev/release"}})
		if err != nil {
			return nil, err
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", p.Arch, v1.Time{Time: l.Time}
	config.Config = v1.Config{
		User:       strconv.Itoa(uid) + ":" + strconv.Itoa(uid),
		Entrypoint: []string{"/usr/bin/espalier"},
		// A container has its own network, so only a server on all interfaces can be reached.
		Cmd:          []string{"serve", "--data-dir", dataDir + "/data", "--bind-address", "0.0.0.0"},
		Env:          []string{"PATH=/usr/bin", "HOME=" + dataDir},
		WorkingDir:   dataDir,
		ExposedPorts: map[string]struct{}{"6443/tcp": {}},
		Volumes:      map[string]struct{}{dataDir: {}},
		Labels:       l.annotations(),
	}
	return mutate.ConfigFile(image, config)
}

// base returns all files but the program.
func base() []archive.File {
	id := strconv.Itoa(uid)
	return []archive.File{
		{Name: "etc/", Mode: 0o755},
		{Name: "etc/passwd", Mode: 0o644, Data: []byte("root:x:0:0:root:/:/sbin/nologin\n" +
			"espalier:x:" + id + ":" + id + ":espalier:" + dataDir + ":/sbin/nologin\n")},
		{Name: "etc/group", Mode: 0o644, Data: []byte("root:x:0:\nespalier:x:" + id + ":\n")},
		{Name: "etc/ssl/", Mode: 0o755},
		{Name: "etc/ssl/certs/", Mode: 0o755},
		{Name: "etc/ssl/certs/ca-certificates.crt", Mode: 0o644, Data: roots()},
		{Name: "tmp/", Mode: 0o777 | fs.ModeSticky},
		{Name: "var/", Mode: 0o755},
		{Name: "var/lib/", Mode: 0o755},
		{Name: dataDir[1:] + "/", Mode: 0o700, UID: uid, GID: uid},
	}
}

// roots returns the root certificates of Mozilla. OIDC issuers and webhooks with certificates of
// public CAs need them. They come from a Go module, so they are the same on every machine. Roots
// that are trusted with constraints are left out: a file cannot express these.
func roots() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer accepts everything
		}
	}
	return b.Bytes()
}
