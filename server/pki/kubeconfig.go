package pki

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// clusterName is the name of the server in a kubeconfig.
const clusterName = "espalier"

// Kubeconfig holds the address of a server and the credentials of a user.
type Kubeconfig struct {
	// Server is the server's URL.
	Server string
	// CA is the CA bundle for the server's certificate, in PEM.
	CA []byte
	// ServerName is the name in the server's certificate, if it is not the host of the URL.
	ServerName string
	// User is the name of the user; empty means the administrator.
	User string
	// Client is the user's certificate.
	Client Pair
	// UnsafeNoFsync does not wait for the disk. For tests only.
	UnsafeNoFsync bool
}

// Marshal returns the text of the file.
func (k Kubeconfig) Marshal() ([]byte, error) {
	user := k.User
	if user == "" {
		user = AdminUser
	}
	c := clientcmdapi.NewConfig()
	c.Clusters[clusterName] = &clientcmdapi.Cluster{
		Server:                   k.Server,
		CertificateAuthorityData: k.CA,
		TLSServerName:            k.ServerName,
	}
	c.AuthInfos[user] = &clientcmdapi.AuthInfo{
		ClientCertificateData: k.Client.Cert,
		ClientKeyData:         k.Client.Key,
	}
	c.Contexts[clusterName] = &clientcmdapi.Context{Cluster: clusterName, AuthInfo: user}
	c.CurrentContext = clusterName
	data, err := clientcmd.Write(*c)
	if err != nil {
		return nil, fmt.Errorf("encode the kubeconfig: %w", err)
	}
	return data, nil
}

// Write writes the file, see [WriteFile].
func (k Kubeconfig) Write(path string) error {
	data, err := k.encode(path)
	if err != nil {
		return err
	}
	return WriteFile(path, data, !k.UnsafeNoFsync)
}

// encode returns the text of the file, and creates its directory.
func (k Kubeconfig) encode(path string) ([]byte, error) {
	data, err := k.Marshal()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("create the directory of the kubeconfig: %w", err)
	}
	return data, nil
}

// Stage writes the file under another name, so that [Staged.Commit] need not wait for the disk.
// It removes staged files that earlier processes left.
func (k Kubeconfig) Stage(path string) (*Staged, error) {
	data, err := k.encode(path)
	if err != nil {
		return nil, err
	}
	prefix := "." + filepath.Base(path) + ".new-"
	removeLeft(filepath.Dir(path), prefix)
	f, err := os.CreateTemp(filepath.Dir(path), prefix) // mode 0600
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	s := &Staged{path: path, temporary: f.Name()}
	if err := finish(f, data, !k.UnsafeNoFsync); err != nil {
		s.Discard()
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	return s, nil
}

// stagedTime is the age of a staged file after which no server can be about to commit it: a
// server that starts stages the file when it begins to load.
const stagedTime = 24 * time.Hour

// removeLeft removes the staged files in a directory that are old. Others may belong to servers
// that are starting.
func removeLeft(directory, prefix string) {
	entries, _ := os.ReadDir(directory) // if it cannot be read, they stay
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) || !e.Type().IsRegular() {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > stagedTime {
			_ = os.Remove(filepath.Join(directory, e.Name()))
		}
	}
}

// Staged is a complete file that does not have its name yet.
type Staged struct{ path, temporary string }

// Commit gives the file its name.
func (s *Staged) Commit() error {
	if err := os.Rename(s.temporary, s.path); err != nil {
		return fmt.Errorf("write %s: %w", s.path, err)
	}
	return nil
}

// Discard removes the file, unless it has its name.
func (s *Staged) Discard() { _ = os.Remove(s.temporary) }

// RemoveKubeconfig removes the kubeconfig of an earlier run. It returns an error, and keeps
// the file, if the server did not write it or somebody added to it.
func RemoveKubeconfig(path string) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the kubeconfig of an earlier run: %w", err)
	}
	c, err := clientcmd.Load(data)
	ours := err == nil && len(data) > 0 && len(c.Clusters) == 1 && c.Clusters[clusterName] != nil &&
		len(c.AuthInfos) == 1 && c.AuthInfos[AdminUser] != nil
	if !ours {
		return fmt.Errorf("%s exists and was not written by this server: remove it, or choose another path for the kubeconfig", path)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove the kubeconfig of an earlier run: %w", err)
	}
	return nil
}
