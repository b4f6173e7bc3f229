package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"espalier.dev/release/internal/provenance"
	"espalier.dev/release/internal/sign"
)

// verify checks the files of a release: signatures, checksums and provenance.
func (p program) verify(args []string) error {
	var keyFile string
	var unsigned bool
	fs := p.flags("verify", " DIR")
	fs.StringVar(&keyFile, "key", "", "PEM `file` with the public key of the release")
	fs.BoolVar(&unsigned, "unsigned", false, "check only what needs no signatures")
	if err := parse(fs, args); err != nil {
		return err
	}
	if fs.NArg() != 1 {
		return usagef("verify needs the directory of a release")
	}
	if (keyFile == "") != unsigned {
		return usagef("verify needs --key FILE with the public key, or --unsigned")
	}
	dir := fs.Arg(0)
	var key *sign.Verifier
	if !unsigned {
		data, err := os.ReadFile(keyFile)
		if err != nil {
			return usagef("read the key: %w", err)
		}
		if key, err = sign.ParsePublicKey(data); err != nil {
			return usagef("%s: %w", keyFile, err)
		}
	}
	n, err := verifyRelease(dir, key)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if unsigned {
		fmt.Fprintf(p.stdout, "%d files match the checksums and the provenance; no signature was verified\n", n)
	} else {
		fmt.Fprintf(p.stdout, "%d files match the signed checksums and the signed provenance\n", n)
	}
	return nil
}

// verifyRelease returns the number of files that were verified. Files that neither the checksums
// nor a signature cover are an error, and so are missing ones. It verifies no signatures without a key.
func verifyRelease(dir string, key *sign.Verifier) (int, error) {
	text, err := os.ReadFile(filepath.Join(dir, checksumsFile))
	if err != nil {
		return 0, err
	}
	if key != nil {
		signature, err := os.ReadFile(filepath.Join(dir, signatureFile))
		if err != nil {
			return 0, err
		}
		if !key.Verify(text, signature) {
			return 0, fmt.Errorf("%s is not a signature of %s with this key", signatureFile, checksumsFile)
		}
	}
	listed, err := parseChecksums(string(text))
	if err != nil {
		return 0, err
	}
	found, err := digests(dir)
	if err != nil {
		return 0, err
	}
	for _, f := range found {
		want, ok := listed[f.name]
		switch {
		case ok && want != f.sha256:
			return 0, fmt.Errorf("%s has SHA-256 %s, not %s", f.name, f.sha256, want)
		case !ok && f.name != checksumsFile && f.name != signatureFile && !strings.HasSuffix(f.name, bundleSuffix):
			return 0, fmt.Errorf("%s is not in %s", f.name, checksumsFile)
		}
	}
	for name := range listed {
		if !slices.ContainsFunc(found, func(d digest) bool { return d.name == name }) {
			return 0, fmt.Errorf("%s is missing", name)
		}
	}
	return len(listed), verifyProvenance(dir, key, listed)
}

func parseChecksums(text string) (map[string]string, error) {
	listed := map[string]string{}
	for line := range strings.Lines(text) {
		sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !ok || name == "" || name != filepath.Base(name) {
			return nil, fmt.Errorf("%s: unexpected line %q", checksumsFile, line)
		}
		listed[name] = sum
	}
	return listed, nil
}

// verifyProvenance compares the subjects with the checksums.
func verifyProvenance(dir string, key *sign.Verifier, listed map[string]string) error {
	text, err := os.ReadFile(filepath.Join(dir, provenanceFile))
	if err != nil {
		return err
	}
	if key != nil {
		envelope, err := os.ReadFile(filepath.Join(dir, envelopeFile))
		if err != nil {
			return err
		}
		payloadType, payload, err := key.OpenEnvelope(envelope)
		if err != nil {
			return fmt.Errorf("%s: %w", envelopeFile, err)
		}
		if payloadType != provenance.PayloadType || string(payload) != string(text) {
			return fmt.Errorf("%s does not contain %s", envelopeFile, provenanceFile)
		}
	}
	s, err := provenance.Parse(text)
	if err != nil {
		return fmt.Errorf("%s: %w", provenanceFile, err)
	}
	rest := map[string]bool{}
	for name := range listed {
		rest[name] = name != provenanceFile && name != envelopeFile
	}
	for _, subject := range s.Subject {
		if listed[subject.Name] != subject.Digest["sha256"] {
			return fmt.Errorf("%s: SHA-256 of %s differs from that in %s", provenanceFile, subject.Name, checksumsFile)
		}
		rest[subject.Name] = false
	}
	for name, missing := range rest {
		if missing {
			return errors.New(provenanceFile + " does not describe " + name)
		}
	}
	return nil
}
