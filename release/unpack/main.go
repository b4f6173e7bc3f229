// Command unpack reads an image of an OCI image layout, for checks of a release without a
// container runtime.
//
//	go run ./unpack LAYOUT ARCH root     writes the file system of the image as a tar archive
//	go run ./unpack LAYOUT ARCH command  writes the user and the command, one word per line
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(args []string, w io.Writer) error {
	if len(args) != 3 {
		return errors.New("usage: unpack LAYOUT ARCH root|command")
	}
	image, err := find(args[0], args[1])
	if err != nil {
		return err
	}
	switch args[2] {
	case "root":
		r := mutate.Extract(image)
		defer r.Close()
		_, err := io.Copy(w, r)
		return err
	case "command":
		config, err := image.ConfigFile()
		if err != nil {
			return err
		}
		fmt.Fprintln(w, config.Config.User)
		for _, word := range append(config.Config.Entrypoint, config.Config.Cmd...) {
			fmt.Fprintln(w, word)
		}
		return nil
	}
	return fmt.Errorf("%q: use root or command", args[2])
}

// find returns the image for an architecture of Linux. It checks all digests of the layout.
func find(dir, arch string) (v1.Image, error) {
	top, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, err
	}
	if err := validate.Index(top); err != nil {
		return nil, err
	}
	manifest, err := top.IndexManifest()
	if err != nil {
		return nil, err
	}
	for _, d := range manifest.Manifests {
		index, err := top.ImageIndex(d.Digest)
		if err != nil {
			return nil, err
		}
		images, err := index.IndexManifest()
		if err != nil {
			return nil, err
		}
		for _, d := range images.Manifests {
			if d.Platform != nil && d.Platform.OS == "linux" && d.Platform.Architecture == arch {
				return index.Image(d.Digest)
			}
		}
	}
	return nil, fmt.Errorf("%s has no image for linux/%s", dir, arch)
}
