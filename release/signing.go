package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"espalier.dev/release/internal/gobuild"
	"espalier.dev/release/internal/sign"
)

const (
	signatureFile = checksumsFile + ".sig"
	publicKeyFile = "release.pub"
	bundleSuffix  = ".sigstore.json"
)

// signing is how a release is signed.
type signing struct {
	// signer is nil without a key.
	signer *sign.Signer
	// cosign is the path of cosign if it signs without a key, with the identity of the environment.
	cosign string
}

// parseSigning finds out how to sign before anything is built. Signatures are only left out if the
// user asks for it.
func (p program) parseSigning(keyFile string, unsigned bool) (signing, error) {
	var s signing
	if unsigned {
		if keyFile != "" {
			return s, usagef("--key and --unsigned exclude each other")
		}
		return s, nil
	}
	data, from, err := p.readKey(keyFile)
	if err != nil {
		return s, err
	}
	if data != nil {
		if s.signer, err = sign.ParsePrivateKey(data); err != nil {
			return s, usagef("%s: %w: create a key with openssl genpkey -algorithm ed25519 -out FILE", from, err)
		}
	}
	// cosign asks for a token in these environments without a browser.
	if p.getenv("ACTIONS_ID_TOKEN_REQUEST_URL") != "" || p.getenv("SIGSTORE_ID_TOKEN") != "" {
		if path, err := exec.LookPath("cosign"); err == nil {
			s.cosign = path
		}
	}
	if s.signer == nil && s.cosign == "" {
		return s, usagef("no signing key: use --key FILE or SIGNING_KEY, cosign with an OIDC token of the environment, or --unsigned")
	}
	return s, nil
}

// readKey returns the key in keyFile or else in SIGNING_KEY, which has the key itself or the name
// of its file, and says where it comes from. It returns nil if there is none.
func (p program) readKey(keyFile string) (data []byte, from string, err error) {
	if keyFile == "" {
		value := p.getenv("SIGNING_KEY")
		if strings.Contains(value, "-----BEGIN") {
			return []byte(value), "SIGNING_KEY", nil
		}
		keyFile = value
	}
	if keyFile == "" {
		return nil, "", nil
	}
	data, err = os.ReadFile(keyFile)
	if err != nil {
		return nil, "", usagef("read the key: %w", err)
	}
	return data, keyFile, nil
}

// publicKey writes the key that verifies the signatures.
func (r *release) publicKey(context.Context) error {
	if r.signer == nil {
		return nil
	}
	text, err := r.signer.Public().PEM()
	if err != nil {
		return err
	}
	id, err := r.signer.Public().ID()
	if err != nil {
		return err
	}
	r.logf("sign with the key with the fingerprint (SHA-256) %s", id)
	return r.write(publicKeyFile, text)
}

// sign signs the checksums, which cover all other files.
func (r *release) sign(ctx context.Context) error {
	if r.signer != nil {
		text, err := os.ReadFile(filepath.Join(r.out, checksumsFile))
		if err != nil {
			return err
		}
		signature, err := r.signer.Sign(text)
		if err != nil {
			return err
		}
		if err := r.write(signatureFile, signature); err != nil {
			return err
		}
	}
	if r.cosign == "" {
		return nil
	}
	for _, name := range []string{checksumsFile, provenanceFile} {
		r.logf("sign %s with cosign", name)
		c := exec.CommandContext(ctx, r.cosign, "sign-blob", "--yes", "--bundle", name+bundleSuffix, name)
		c.Dir = r.out
		gobuild.Interruptible(c)
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("cosign sign-blob %s: %w\n%s", name, err, out)
		}
	}
	return nil
}
