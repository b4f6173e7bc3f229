package builtin

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"k8s.io/apimachinery/pkg/util/yaml"
)

//go:embed seeds/*.yaml
var seedFiles embed.FS

// Seeds returns the realistic manifests that cases are made from, by apiVersion and kind.
func Seeds() (map[string][]map[string]any, error) {
	out := map[string][]map[string]any{}
	err := fs.WalkDir(seedFiles, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := seedFiles.ReadFile(path)
		if err != nil {
			return err
		}
		objects, err := ReadManifest(data)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, obj := range objects {
			key := fmt.Sprintf("%s %s", obj["apiVersion"], obj["kind"])
			out[key] = append(out[key], obj)
		}
		return nil
	})
	return out, err
}

// SeedsOf returns the manifests of a kind.
func SeedsOf(seeds map[string][]map[string]any, k *Kind) []map[string]any {
	apiVersion, kind := k.requested().ToAPIVersionAndKind()
	return seeds[apiVersion+" "+kind]
}

// ReadManifest reads the objects of a YAML file.
func ReadManifest(data []byte) ([]map[string]any, error) {
	var out []map[string]any
	d := yaml.NewYAMLToJSONDecoder(bytes.NewReader(data))
	for {
		var obj map[string]any
		err := d.Decode(&obj)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if obj != nil {
			out = append(out, obj)
		}
	}
}
