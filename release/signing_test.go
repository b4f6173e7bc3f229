package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"espalier.dev/release/internal/sign"
)

// checkProvenance reads the envelope without the code that wrote it.
func checkProvenance(t *testing.T, files map[string]string, commit string) {
	var envelope struct {
		PayloadType, Payload string
		Signatures           []struct{ Sig string }
	}
	if err := json.Unmarshal([]byte(files[envelopeFile]), &envelope); err != nil {
		t.Fatal(err)
	}
	payload, err := base64.StdEncoding.DecodeString(envelope.Payload)
	if err != nil || string(payload) != files[provenanceFile] || envelope.PayloadType != "application/vnd.in-toto+json" {
		t.Fatalf("payload of type %s: %v\n%s", envelope.PayloadType, err, payload)
	}
	var statement struct {
		Type          string `json:"_type"`
		PredicateType string
		Subject       []struct {
			Name   string
			Digest map[string]string
		}
		Predicate struct {
			BuildDefinition struct {
				ExternalParameters   map[string]any
				InternalParameters   map[string]any
				ResolvedDependencies []struct{ Digest map[string]string }
			}
			RunDetails struct{ Builder struct{ ID string } }
		}
	}
	if err := json.Unmarshal(payload, &statement); err != nil {
		t.Fatal(err)
	}
	if statement.Type != "https://in-toto.io/Statement/v1" || statement.PredicateType != "https://slsa.dev/provenance/v1" {
		t.Errorf("types %s, %s", statement.Type, statement.PredicateType)
	}
	if got := statement.Predicate.BuildDefinition.ResolvedDependencies[0].Digest["gitCommit"]; got != commit {
		t.Errorf("gitCommit %s, expected %s", got, commit)
	}
	definition := statement.Predicate.BuildDefinition
	want := map[string]any{
		"version": "v1.2.3", "source": map[string]any{"uri": "git+https://espalier.dev", "revision": commit},
		"platforms": []any{runtime.GOOS + "/" + runtime.GOARCH, "windows/amd64"}, "flavors": []any{"espalier", "espalier-cli"},
		"baseURL": "https://example.com/releases", "image": "example.com/espalier", "sourceDateEpoch": 1772600767.0,
	}
	if !reflect.DeepEqual(definition.ExternalParameters, want) {
		t.Errorf("externalParameters %v, expected %v", definition.ExternalParameters, want)
	}
	if got, want := definition.InternalParameters, map[string]any{"go": runtime.Version()}; !reflect.DeepEqual(got, want) {
		t.Errorf("internalParameters %v, expected %v", got, want)
	}
	if got := statement.Predicate.RunDetails.Builder.ID; got != "https://example.com/builder" {
		t.Errorf("builder %s", got)
	}
	described := 0
	for _, s := range statement.Subject {
		if strings.Contains(files[checksumsFile], s.Digest["sha256"]+"  "+s.Name+"\n") {
			described++
		}
	}
	// All but the provenance itself, the checksums and their signature.
	if want := len(files) - 4; described != want {
		t.Errorf("%d subjects are in %s, expected %d", described, checksumsFile, want)
	}
}

func checkSBOM(t *testing.T, text string) {
	var bom struct {
		BOMFormat, SpecVersion, SerialNumber string
		Metadata                             struct {
			Timestamp string
			Component struct{ Name, Version string }
		}
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal([]byte(text), &bom); err != nil {
		t.Fatal(err)
	}
	c := bom.Metadata.Component
	if bom.BOMFormat != "CycloneDX" || bom.SerialNumber != "" || bom.Metadata.Timestamp != commitTime || c.Name != "espalier.dev" || c.Version != "v1.2.3" {
		t.Errorf("unexpected SBOM:\n%s", text)
	}
	if !slices.ContainsFunc(bom.Components, func(c struct{ Name, Version string }) bool {
		return c.Name == "std"
	}) {
		t.Errorf("the standard library is missing in %v", bom.Components)
	}
}

// checkVerify changes the files of a release in all ways that verify must notice.
func checkVerify(t *testing.T, dir, key, commit string) {
	checkVerified(t, dir, key, commit)
	other := writeKey(t, ed25519Key(t))
	for _, c := range []struct {
		name   string
		change func(t *testing.T, dir string)
		key    string
		want   string
	}{
		{"another key", func(*testing.T, string) {}, other, "is not a signature of checksums.txt with this key"},
		{"changed file", func(t *testing.T, dir string) { appendTo(t, dir, "espalier.yaml", "#") }, key, "espalier.yaml has SHA-256 "},
		{"changed checksums", func(t *testing.T, dir string) { appendTo(t, dir, checksumsFile, "\n") }, key, "is not a signature"},
		{"changed provenance", func(t *testing.T, dir string) { appendTo(t, dir, provenanceFile, "\n") }, key, "provenance.json has SHA-256"},
		{"added file", func(t *testing.T, dir string) { writeFile(t, filepath.Join(dir, "extra"), "x") }, key, "extra is not in checksums.txt"},
		{"removed file", func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, "espalier.yaml")); err != nil {
				t.Fatal(err)
			}
		}, key, "espalier.yaml is missing"},
		{"no signature", func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, signatureFile)); err != nil {
				t.Fatal(err)
			}
		}, key, "checksums.txt.sig: no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			changed := filepath.Join(t.TempDir(), "release")
			if err := os.CopyFS(changed, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			c.change(t, changed)
			if r := run(t, nil, "verify", "--key", c.key, changed); r.code != 1 || !strings.Contains(r.stderr, c.want) {
				t.Errorf("exit code %d: %s, expected %s", r.code, r.stderr, c.want)
			}
		})
	}
}

// checkVerified compares what verify prints about a release.
func checkVerified(t *testing.T, dir, key, commit string) {
	data, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := sign.ParsePrivateKey(data)
	if err != nil {
		t.Fatal(err)
	}
	id, err := signer.Public().ID()
	if err != nil {
		t.Fatal(err)
	}
	first := "v1.2.3 of commit " + commit + ", built by https://example.com/builder\n"
	signed := "signed with the key with this fingerprint (SHA-256):\n" + id + "\n"
	const unsigned = "no signature was verified: the checksums prove only"
	bundled := filepath.Join(t.TempDir(), "bundled")
	if err := os.CopyFS(bundled, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(bundled, "checksums.txt.sigstore.json"), "{}")
	without := filepath.Join(t.TempDir(), "keyless")
	if err := os.CopyFS(without, os.DirFS(bundled)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(without, signatureFile)); err != nil {
		t.Fatal(err)
	}
	const cosign = "cosign verify-blob --bundle checksums.txt.sigstore.json \\\n    --certificate-identity https://github.com/OWNER/REPOSITORY/.github/workflows/release.yml@refs/tags/"
	for _, c := range []struct {
		args []string
		code int
		want []string // in standard output, or in the error
	}{
		{[]string{"--key", key, dir}, 0, []string{first, signed}},
		{[]string{"--key", filepath.Join(dir, publicKeyFile), "--version", "v1.2.3", dir}, 0, []string{first, signed}},
		{[]string{"--key", key, "--version", "v1.2.4", dir}, 1, []string{"is a release of v1.2.3, not of v1.2.4"}},
		{[]string{"--key", key, "--version", "1.2.3", dir}, 2, []string{`--version: "1.2.3" is no version of a release`}},
		{[]string{"--unsigned", "--version", "v1.2.3", dir}, 0, []string{first, unsigned}},
		{[]string{"--unsigned", "--version", "v1.2.4", dir}, 1, []string{"is a release of v1.2.3, not of v1.2.4"}},
		{[]string{dir}, 2, []string{"verify needs --key FILE with the public key, or --unsigned"}},
		// A key verifies a release that cosign has signed as well.
		{[]string{"--key", key, bundled}, 0, []string{first, signed}},
		{[]string{"--unsigned", bundled}, 0, []string{first, unsigned}},
		{[]string{bundled}, 2, []string{"verify needs --key FILE"}},
		{[]string{"--unsigned", without}, 0, []string{first, "no signature was verified; the release is signed without a key", cosign + "v1.2.3 "}},
		{[]string{without}, 2, []string{"is signed without a key. Verify the signature with cosign", cosign + "VERSION ", "--unsigned"}},
		{[]string{"--version", "v1.2.3", without}, 2, []string{cosign + "v1.2.3 "}},
		{[]string{"--key", key, without}, 1, []string{"no checksums.txt.sig: the release is signed without a key", cosign}},
	} {
		r := run(t, nil, append([]string{"verify"}, c.args...)...)
		text := r.stdout
		if c.code != 0 {
			text = r.stderr
		}
		for _, want := range c.want {
			if r.code != c.code || !strings.Contains(text, want) {
				t.Errorf("verify %v: exit code %d, expected %d\n%s\nexpected: %s", c.args, r.code, c.code, r.stdout+r.stderr, want)
			}
		}
		if strings.Contains(r.stdout, "signed with the key") != slices.Contains(c.want, signed) {
			t.Errorf("verify %v: unexpected statement about a signature\n%s", c.args, r.stdout)
		}
	}
}

func appendTo(t *testing.T, dir, name, text string) {
	t.Helper()
	old, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, name), string(old)+text)
}

func TestVerifyUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"verify"}, {"verify", "."}, {"verify", "--key", "x", "--unsigned", "."},
		{"verify", "--key", "missing", "."}, {"verify", "--key", "main.go", "."}, {}, {"publish"}} {
		if r := run(t, nil, args...); r.code != 2 || !strings.HasPrefix(r.stderr, "error: ") {
			t.Errorf("%q: exit code %d: %s", args, r.code, r.stderr)
		}
	}
}

// openssl verifies the signatures with the commands in CONTRIBUTING.md.
func TestOpenSSL(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not installed")
	}
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		key    any
		verify []string
	}{
		"ed25519": {ed25519Key(t), []string{"pkeyutl", "-verify", "-pubin", "-inkey", "key.pub", "-rawin", "-in", "message", "-sigfile", "sig"}},
		"ecdsa":   {p256, []string{"dgst", "-sha256", "-verify", "key.pub", "-signature", "sig", "message"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, key := t.TempDir(), writeKey(t, c.key)
			data, err := os.ReadFile(key)
			if err != nil {
				t.Fatal(err)
			}
			s, err := sign.ParsePrivateKey(data)
			if err != nil {
				t.Fatal(err)
			}
			openssl(t, dir, true, "pkey", "-in", key, "-pubout", "-out", "key.pub")
			checkPublicKey(t, s.Public(), dir)
			message := sign.PAE("type", []byte("payload"))
			first, err := s.Sign(message)
			if err != nil {
				t.Fatal(err)
			}
			if second, _ := s.Sign(message); string(second) != string(first) {
				t.Error("two signatures differ")
			}
			writeFile(t, filepath.Join(dir, "message"), "DSSEv1 4 type 7 payload")
			writeFile(t, filepath.Join(dir, "sig"), string(first))
			openssl(t, dir, true, c.verify...)
			writeFile(t, filepath.Join(dir, "message"), "DSSEv1 4 type 7 Payload")
			openssl(t, dir, false, c.verify...)
		})
	}
}

// checkPublicKey compares the key and its fingerprint with those of openssl.
func checkPublicKey(t *testing.T, key *sign.Verifier, dir string) {
	t.Helper()
	want, err := os.ReadFile(filepath.Join(dir, "key.pub"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := key.PEM(); err != nil || string(got) != string(want) {
		t.Errorf("public key %q, %v, expected %q", got, err, want)
	}
	openssl(t, dir, true, "pkey", "-pubin", "-in", "key.pub", "-outform", "DER", "-out", "key.der")
	want, err = os.ReadFile(filepath.Join(dir, "key.der"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := key.ID(); err != nil || got != fmt.Sprintf("%x", sha256.Sum256(want)) {
		t.Errorf("fingerprint %s, %v", got, err)
	}
}

func openssl(t *testing.T, dir string, succeeds bool, args ...string) {
	t.Helper()
	c := exec.Command("openssl", args...)
	c.Dir = dir
	if out, err := c.CombinedOutput(); (err == nil) != succeeds {
		t.Errorf("openssl %v: %v\n%s", args, err, out)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for want, key := range map[string]any{"*rsa.PrivateKey are not supported": rsaKey, "P-384 are not supported": p384} {
		_, err := program{getenv: func(string) string { return "" }}.parseSigning(writeKey(t, key), false)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %s", err, want)
		}
	}
	// The key itself, and the name of its file.
	file := writeKey(t, ed25519Key(t))
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{file, string(data)} {
		s, err := program{getenv: func(name string) string { return map[string]string{"SIGNING_KEY": value}[name] }}.parseSigning("", false)
		if err != nil || s.signer == nil {
			t.Errorf("SIGNING_KEY: %v", err)
		}
	}
}

// Without a key, cosign signs if the environment has an identity.
func TestKeyless(t *testing.T) {
	bin := t.TempDir()
	log := filepath.Join(bin, "log")
	script := "#!/bin/sh\necho \"$@\" >>" + log + "\necho bundle >\"$4\"\n"
	if err := os.WriteFile(filepath.Join(bin, "cosign"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	none := program{getenv: func(string) string { return "" }}
	if _, err := none.parseSigning("", false); err == nil {
		t.Error("cosign without an identity is accepted")
	}
	p := program{func(name string) string { return map[string]string{"SIGSTORE_ID_TOKEN": "token"}[name] }, os.Stdout, &buffer{}}
	s, err := p.parseSigning("", false)
	if err != nil {
		t.Fatal(err)
	}
	r := &release{program: p, buildOptions: &buildOptions{signing: s}, out: t.TempDir()}
	if err := r.sign(t.Context()); err != nil {
		t.Fatal(err)
	}
	calls, err := os.ReadFile(log)
	want := "sign-blob --yes --bundle checksums.txt.sigstore.json checksums.txt\n" +
		"sign-blob --yes --bundle provenance.json.sigstore.json provenance.json\n"
	if err != nil || string(calls) != want {
		t.Errorf("%v: cosign was called with\n%s", err, calls)
	}
}
