package etcd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	etcdversion "go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"k8s.io/apimachinery/pkg/util/version"
)

// NewerError is returned by [Start] if a newer etcd has written the data. Nothing was changed.
type NewerError struct{ Written, Own string }

// Error returns what is wrong, and what to do.
func (e *NewerError) Error() string {
	return fmt.Sprintf("etcd %s has written the data, and the embedded etcd is %s: use the release of espalier that has written it, or a newer one; the data was not changed",
		e.Written, e.Own)
}

// checkWriter returns a [NewerError] if a newer minor version of etcd than the embedded one has
// written the database in a directory: etcd would panic. The files have been checked.
func checkWriter(dir string) error {
	path := filepath.Join(dir, "member", "snap", "db")
	if info, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil
	} else if err != nil {
		return err
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	var recorded []string
	err = db.View(func(tx *bbolt.Tx) error {
		for _, at := range []struct{ bucket, key []byte }{
			{schema.Cluster.Name(), schema.ClusterClusterVersionKeyName},
			{schema.Meta.Name(), schema.MetaStorageVersionName},
		} {
			if b := tx.Bucket(at.bucket); b != nil {
				recorded = append(recorded, string(b.Get(at.key)))
			}
		}
		return nil
	})
	if err := errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	own := version.MustParseSemantic(etcdversion.Version)
	for _, text := range recorded {
		v, err := version.ParseSemantic(text)
		if err != nil {
			continue // none is recorded yet
		}
		if v.Major() > own.Major() || v.Major() == own.Major() && v.Minor() > own.Minor() {
			return &NewerError{text, own.String()}
		}
	}
	return nil
}
