package source

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/client-go/rest"
)

const (
	// maxCached is the maximum number of CRDs of a server that are cached, and maxCachedBytes that of
	// the bytes of one.
	maxCached      = 10_000
	maxCachedBytes = 4 << 20
	// maxServers is the maximum number of servers whose CRDs are cached.
	maxServers = 16
)

// DefinitionCache holds the CRDs of an API server in a directory, one in a file, so that they are known
// before the server answers, and need not be kept in memory. Several processes may use it.
type DefinitionCache struct {
	dir   string
	files map[string]bool
}

// OpenDefinitionCache returns the cache of an API server below a directory, which is created.
func OpenDefinitionCache(root string, config *rest.Config) (*DefinitionCache, error) {
	c := &DefinitionCache{dir: filepath.Join(root, ServerName(config)), files: map[string]bool{}}
	if err := c.create(); err != nil {
		return nil, err
	}
	removeOldest(root)
	entries, err := os.ReadDir(c.dir)
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), newPrefix) {
			if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > maxWriting {
				_ = os.Remove(filepath.Join(c.dir, entry.Name())) // the next start tries again
			}
		}
		name, ok := strings.CutSuffix(entry.Name(), cacheExtension)
		if ok && entry.Type().IsRegular() && isDefinitionName(name) && len(c.files) < maxCached {
			c.files[name] = true
		}
	}
	return c, err
}

const (
	// cacheExtension is the extension of a cached CRD, and newPrefix the start of the name of one that is
	// being written.
	cacheExtension = ".json"
	newPrefix      = ".new-"
	// maxWriting is the age above which the process that has written a file has ended before it was
	// complete.
	maxWriting = time.Hour
)

// create creates the directory, unless it exists, and marks it as used.
func (c *DefinitionCache) create() error {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	for _, dir := range []string{filepath.Dir(c.dir), c.dir} {
		info, err := os.Lstat(dir)
		switch {
		case err != nil:
			return err
		case !info.IsDir() || !isPrivate(info):
			return fmt.Errorf("%s is not a directory that only you can write to", dir)
		}
	}
	now := time.Now()
	_ = os.Chtimes(c.dir, now, now) // it is only used to remove the oldest
	return nil
}

// ServerName returns a name for an API server, which is that of its directory in a cache. Test clusters often have the address
// of an earlier one, but another CA.
func ServerName(config *rest.Config) string {
	h := sha256.New()
	ca := config.CAData
	if len(ca) == 0 && config.CAFile != "" {
		ca, _ = os.ReadFile(config.CAFile) // the client reports it
	}
	for _, part := range []string{config.Host, config.APIPath, config.ServerName, string(ca)} {
		fmt.Fprintf(h, "%d %s\n", len(part), part)
	}
	host := strings.Map(func(r rune) rune {
		if r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' {
			return r
		}
		return '-'
	}, strings.TrimPrefix(strings.ToLower(config.Host), "https://"))
	return strings.Trim(host[:min(len(host), 60)], "-.") + "-" + hex.EncodeToString(h.Sum(nil)[:8])
}

// isDefinitionName reports whether a name is that of a CRD, which makes it a file name.
func isDefinitionName(name string) bool {
	return len(name) <= 240 && len(content.IsDNS1123Subdomain(name)) == 0
}

// removeOldest removes the caches of the servers that have not been used for the longest time.
func removeOldest(root string) {
	type server struct {
		path string
		used time.Time
	}
	var all []server
	entries, _ := os.ReadDir(root) // what cannot be read cannot be removed
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && entry.IsDir() {
			all = append(all, server{filepath.Join(root, entry.Name()), info.ModTime()})
		}
	}
	slices.SortFunc(all, func(a, b server) int { return cmp.Or(b.used.Compare(a.used), strings.Compare(a.path, b.path)) })
	for _, s := range all[min(len(all), maxServers):] {
		_ = os.RemoveAll(s.path) // the next start tries again
	}
}

// Names returns the names of the cached CRDs, sorted.
func (c *DefinitionCache) Names() (all []string) {
	for name := range c.files {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// Path returns the file of a CRD.
func (c *DefinitionCache) Path(name string) string { return filepath.Join(c.dir, name+cacheExtension) }

// Write writes a CRD, unless its file has the same content. A file is replaced as a whole.
func (c *DefinitionCache) Write(o Object) error {
	if !isDefinitionName(o.Name) {
		return fmt.Errorf("%q is not the name of a CRD", o.Name)
	}
	if !c.files[o.Name] && len(c.files) == maxCached {
		return fmt.Errorf("more than %d CRDs", maxCached)
	}
	text, err := cachedText(o.JSON)
	if err != nil {
		return err
	}
	if len(text) > maxCachedBytes {
		return fmt.Errorf("the CRD is larger than %d MiB", maxCachedBytes>>20)
	}
	if c.has(o.Name, text) {
		c.files[o.Name] = true
		return nil
	}
	// The directory may have been removed since it was opened.
	if err := c.create(); err != nil {
		return err
	}
	f, err := os.CreateTemp(c.dir, newPrefix+"*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), c.Path(o.Name))
	}
	if err != nil {
		_ = os.Remove(f.Name()) // it is useless
		return err
	}
	c.files[o.Name] = true
	return nil
}

// has reports whether the file of a CRD has a text.
func (c *DefinitionCache) has(name string, text []byte) bool {
	f, err := os.OpenFile(c.Path(name), os.O_RDONLY|openFlags, 0)
	if err != nil {
		return false
	}
	defer f.Close() // it is only read
	old, err := io.ReadAll(io.LimitReader(f, int64(len(text))+1))
	return err == nil && bytes.Equal(old, text)
}

// cachedText returns a CRD without what does not matter to objects, and that changes often.
func cachedText(src []byte) ([]byte, error) {
	var object, metadata map[string]json.RawMessage
	if err := json.Unmarshal(src, &object); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(object["metadata"], &metadata); err != nil {
		return nil, err
	}
	for name := range metadata {
		if name != "name" && name != "labels" && name != "annotations" {
			delete(metadata, name)
		}
	}
	var annotations map[string]string
	if json.Unmarshal(metadata["annotations"], &annotations) == nil {
		delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
		metadata["annotations"], _ = json.Marshal(annotations) // strings never fail
	}
	delete(object, "status")
	object["metadata"], _ = json.Marshal(metadata) // it was parsed
	return json.MarshalIndent(object, "", "  ")
}

// Remove removes a CRD.
func (c *DefinitionCache) Remove(name string) error {
	if !c.files[name] {
		return nil
	}
	delete(c.files, name)
	if err := os.Remove(c.Path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
