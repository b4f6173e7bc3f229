package tokens

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	jose "gopkg.in/go-jose/go-jose.v2"
	"k8s.io/client-go/util/keyutil"

	"espalier.dev/server/pki"
)

// KeyFiles name the files of keys.
type KeyFiles struct {
	// Dir is a directory of keys: files NAME.key with private keys, and NAME.pub with public
	// ones. The private key whose name sorts last signs, all others verify. If the directory
	// has no private key, one is created. It is not used if Sign is set.
	Dir string
	// Sign is the file of the private key that signs.
	Sign string
	// Verify are files with further keys that verify: public keys, private keys or certificates.
	Verify []string
	// UnsafeNoFsync does not wait for the disk when a key is created. For tests only.
	UnsafeNoFsync bool
}

// Keys sign and verify tokens. [Keys.Run] reads them again when their files change. They are safe for concurrent use.
type Keys struct {
	files   KeyFiles
	current atomic.Pointer[keySet]
	// mu is held while the files are read again, and failure is the error of the last time.
	mu      sync.Mutex
	failure string
}

// LoadKeys reads the keys.
func LoadKeys(files KeyFiles) (*Keys, error) {
	const create = true
	set, err := files.read(create)
	if err != nil {
		return nil, err
	}
	reloads() // a series that begins with the first failure shows no increase
	k := &Keys{files: files}
	k.current.Store(set)
	return k, nil
}

// keySet is what the files of keys have at one time. It is immutable.
type keySet struct {
	signer jose.Signer
	// public are the public keys, that of the signer first.
	public []jose.JSONWebKey
	byID   map[string][]jose.JSONWebKey
}

// read reads the keys. With create, it creates a key if the directory has no private one.
func (files *KeyFiles) read(create bool) (*keySet, error) {
	k := &keySet{byID: map[string][]jose.JSONWebKey{}}
	sign, verify := files.Sign, files.Verify
	if sign == "" {
		names, err := files.list(create)
		if err != nil {
			return nil, fmt.Errorf("keys of service accounts: %w", err)
		}
		sign, verify = names[0], append(names[1:], verify...)
	}
	private, err := keyutil.PrivateKeyFromFile(sign)
	if err != nil {
		return nil, fmt.Errorf("read the key that signs the tokens of service accounts: %s: %w", sign, err)
	}
	signing, ok := private.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("the key in %s cannot sign", sign)
	}
	if err := k.add(signing.Public(), sign); err != nil {
		return nil, err
	}
	own := k.public[0]
	own.Key = private
	k.signer, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(own.Algorithm), Key: &own}, nil)
	if err != nil {
		return nil, fmt.Errorf("the key in %s cannot sign: %w", sign, err)
	}
	for _, file := range verify {
		keys, err := keyutil.PublicKeysFromFile(file)
		if err != nil {
			return nil, fmt.Errorf("read the keys that verify the tokens of service accounts: %s: %w", file, err)
		}
		for _, key := range keys {
			if err := k.add(key, file); err != nil {
				return nil, err
			}
		}
	}
	return k, nil
}

// add adds a public key of a file.
func (k *keySet) add(key any, file string) error {
	if private, ok := key.(crypto.Signer); ok {
		key = private.Public()
	}
	algorithm, err := algorithmOf(key)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	hash := sha256.Sum256(der)
	id := base64.RawURLEncoding.EncodeToString(hash[:])
	if k.byID[id] != nil {
		return nil // the same key in another file
	}
	web := jose.JSONWebKey{Key: key, KeyID: id, Algorithm: string(algorithm), Use: "sig"}
	k.public = append(k.public, web)
	k.byID[id] = append(k.byID[id], web)
	return nil
}

// candidates returns the keys that may have signed a token with a key ID, which may be empty.
func (k *keySet) candidates(id string) []jose.JSONWebKey {
	if id == "" {
		return k.public
	}
	return k.byID[id]
}

// algorithmOf returns the signature algorithm of a public key, which is the one that Kubernetes
// uses for it.
func algorithmOf(key crypto.PublicKey) (jose.SignatureAlgorithm, error) {
	switch key := key.(type) {
	case *rsa.PublicKey:
		return jose.RS256, nil
	case *ecdsa.PublicKey:
		switch key.Curve {
		case elliptic.P256():
			return jose.ES256, nil
		case elliptic.P384():
			return jose.ES384, nil
		case elliptic.P521():
			return jose.ES512, nil
		}
		return "", errors.New("unknown curve of an ECDSA key: must be P-256, P-384 or P-521")
	}
	return "", fmt.Errorf("a key of type %T: must be RSA or ECDSA", key)
}

// The endings of files in the directory of keys.
const privateEnding, publicEnding = ".key", ".pub"

// list returns the files in the directory of keys, the one that signs first. With create, it creates the
// directory and a key if necessary.
func (files *KeyFiles) list(create bool) ([]string, error) {
	dir := files.Dir
	if create {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	// A copied directory may be open to other users.
	if err := restrict(dir, 0o700); err != nil {
		return nil, fmt.Errorf("restrict the directory to its owner: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var private, public []string
	for _, e := range entries {
		file := filepath.Join(dir, e.Name())
		switch {
		case strings.HasPrefix(e.Name(), "."): // a file that is being written
		case strings.HasSuffix(e.Name(), privateEnding):
			if err := restrict(file, 0o600); err != nil {
				return nil, fmt.Errorf("restrict a key to its owner: %w", err)
			}
			private = append(private, file)
		case strings.HasSuffix(e.Name(), publicEnding):
			public = append(public, file)
		}
	}
	if len(private) == 0 && !create {
		return nil, fmt.Errorf("%s has no private key *%s", dir, privateEnding)
	}
	if len(private) == 0 {
		file := filepath.Join(dir, time.Now().UTC().Format("20060102T150405Z")+privateEnding)
		if err := createKey(file, !files.UnsafeNoFsync); err != nil {
			return nil, err
		}
		private = append(private, file)
	}
	slices.Sort(private)
	slices.Reverse(private)
	return append(private, public...), nil
}

// restrict sets the permissions of a file or directory, unless they are as wanted: each change is an event for
// those who watch the directory.
func restrict(path string, mode fs.FileMode) error {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() == mode {
		return err
	}
	return os.Chmod(path, mode)
}

func createKey(file string, sync bool) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("generate a key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode a key: %w", err)
	}
	return pki.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: keyutil.ECPrivateKeyBlockType, Bytes: der}), sync)
}
