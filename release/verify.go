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

// verify checks the files of a release: signatures, checksums and provenance. It prints what it has
// verified.
func (p program) verify(args []string) error {
	var keyFile, version string
	var unsigned bool
	fs := p.flags("verify", " DIR")
	fs.StringVar(&keyFile, "key", "", "PEM `file` with the public key of the release, such as release.pub in it; compare the fingerprint that is printed with the published one")
	fs.StringVar(&version, "version", "", "`version` that the release must have, for example v1.0.0")
	fs.BoolVar(&unsigned, "unsigned", false, "check only what needs no key: checksums and provenance")
	if err := parse(fs, args); err != nil {
		return err
	}
	if fs.NArg() != 1 {
		return usagef("verify needs the directory of a release")
	}
	if version != "" {
		if err := checkVersion(version); err != nil {
			return usagef("--version: %w", err)
		}
	}
	dir := fs.Arg(0)
	if keyFile == "" && !unsigned && keyless(dir) {
		return usagef("%s is signed without a key. Verify the signature with cosign:\n%s\nthen check the files with --unsigned", dir, cosignCommand(version))
	}
	if (keyFile == "") != unsigned {
		return usagef("verify needs --key FILE with the public key, or --unsigned")
	}
	var key *sign.Verifier
	var fingerprint string
	if !unsigned {
		data, err := os.ReadFile(keyFile)
		if err != nil {
			return usagef("read the key: %w", err)
		}
		if key, err = sign.ParsePublicKey(data); err != nil {
			return usagef("%s: %w", keyFile, err)
		}
		if fingerprint, err = key.ID(); err != nil {
			return err
		}
	}
	n, s, err := verifyRelease(dir, key)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	parameters := s.Predicate.BuildDefinition.ExternalParameters
	if version != "" && parameters.Version != version {
		return fmt.Errorf("%s is a release of %s, not of %s", dir, parameters.Version, version)
	}
	fmt.Fprintf(p.stdout, "%s of commit %s, built by %s\n%d files match the checksums and the provenance\n",
		parameters.Version, parameters.Source.Revision, s.Predicate.RunDetails.Builder.ID, n)
	switch {
	case key != nil:
		fmt.Fprintf(p.stdout, "checksums and provenance are signed with the key with this fingerprint (SHA-256):\n%s\n", fingerprint)
	case keyless(dir):
		fmt.Fprintf(p.stdout, "no signature was verified; the release is signed without a key, verify it with cosign:\n%s\n", cosignCommand(parameters.Version))
	default:
		fmt.Fprintln(p.stdout, "no signature was verified: the checksums prove only that the files belong together")
	}
	return nil
}

// keyless reports whether a release has signatures of cosign, and none that a key verifies.
func keyless(dir string) bool {
	return exists(dir, checksumsFile+bundleSuffix) && !exists(dir, signatureFile)
}

func exists(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}

// cosignCommand returns the command that verifies the checksums of a release of the workflow. The
// user has to know the repository: the release itself cannot prove it.
func cosignCommand(version string) string {
	if version == "" {
		version = "VERSION"
	}
	return "  cosign verify-blob --bundle " + checksumsFile + bundleSuffix + " \\\n" +
		"    --certificate-identity https://github.com/OWNER/REPOSITORY/.github/workflows/release.yml@refs/tags/" + version + " \\\n" +
		"    --certificate-oidc-issuer https://token.actions.githubusercontent.com " + checksumsFile
}

// verifyRelease returns the number of files that were verified, and the provenance. Files that neither the checksums
// nor a signature cover are an error, and so are missing ones. It verifies no signatures without a key.
func verifyRelease(dir string, key *sign.Verifier) (int, *provenance.Statement, error) {
	text, err := os.ReadFile(filepath.Join(dir, checksumsFile))
	if err != nil {
		return 0, nil, err
	}
	if key != nil {
		if keyless(dir) {
			return 0, nil, fmt.Errorf("no %s: the release is signed without a key, verify it with cosign:\n%s", signatureFile, cosignCommand(""))
		}
		signature, err := os.ReadFile(filepath.Join(dir, signatureFile))
		if err != nil {
			return 0, nil, err
		}
		if !key.Verify(text, signature) {
			return 0, nil, fmt.Errorf("%s is not a signature of %s with this key", signatureFile, checksumsFile)
		}
	}
	listed, err := parseChecksums(string(text))
	if err != nil {
		return 0, nil, err
	}
	found, err := digests(dir)
	if err != nil {
		return 0, nil, err
	}
	for _, f := range found {
		want, ok := listed[f.name]
		switch {
		case ok && want != f.sha256:
			return 0, nil, fmt.Errorf("%s has SHA-256 %s, not %s", f.name, f.sha256, want)
		case !ok && f.name != checksumsFile && f.name != signatureFile && !strings.HasSuffix(f.name, bundleSuffix):
			return 0, nil, fmt.Errorf("%s is not in %s", f.name, checksumsFile)
		}
	}
	for name := range listed {
		if !slices.ContainsFunc(found, func(d digest) bool { return d.name == name }) {
			return 0, nil, fmt.Errorf("%s is missing", name)
		}
	}
	statement, err := verifyProvenance(dir, key, listed)
	return len(listed), statement, err
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

// verifyProvenance compares the subjects with the checksums, and returns the provenance.
func verifyProvenance(dir string, key *sign.Verifier, listed map[string]string) (*provenance.Statement, error) {
	text, err := os.ReadFile(filepath.Join(dir, provenanceFile))
	if err != nil {
		return nil, err
	}
	if key != nil {
		envelope, err := os.ReadFile(filepath.Join(dir, envelopeFile))
		if err != nil {
			return nil, err
		}
		payloadType, payload, err := key.OpenEnvelope(envelope)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", envelopeFile, err)
		}
		if payloadType != provenance.PayloadType || string(payload) != string(text) {
			return nil, fmt.Errorf("%s does not contain %s", envelopeFile, provenanceFile)
		}
	}
	s, err := provenance.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", provenanceFile, err)
	}
	rest := map[string]bool{}
	for name := range listed {
		rest[name] = name != provenanceFile && name != envelopeFile
	}
	for _, subject := range s.Subject {
		if listed[subject.Name] != subject.Digest["sha256"] {
			return nil, fmt.Errorf("%s: SHA-256 of %s differs from that in %s", provenanceFile, subject.Name, checksumsFile)
		}
		rest[subject.Name] = false
	}
	for name, missing := range rest {
		if missing {
			return nil, errors.New(provenanceFile + " does not describe " + name)
		}
	}
	return s, nil
}
