package servertest

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"espalier.dev/server"
)

// EncryptionProvider returns a provider of an encryption configuration, with a key for each seed.
func EncryptionProvider(name string, seeds ...byte) string {
	var keys []string
	for _, seed := range seeds {
		secret := base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(rune(seed)), 32)))
		keys = append(keys, fmt.Sprintf(`{"name": "key-%c", "secret": %q}`, seed, secret))
	}
	return fmt.Sprintf(`{%q: {"keys": [%s]}}`, name, strings.Join(keys, ", "))
}

// EncryptionConfig returns the text of an encryption configuration for all resources.
func EncryptionConfig(providers ...string) string {
	return EncryptionRules(EncryptionRule("*.*", providers...))
}

// EncryptionRules returns the text of an encryption configuration.
func EncryptionRules(rules ...string) string {
	return `{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": [` + strings.Join(rules, ", ") + `]}`
}

// EncryptionRule returns a rule of an encryption configuration.
func EncryptionRule(resource string, providers ...string) string {
	return fmt.Sprintf(`{"resources": [%q], "providers": [%s]}`, resource, strings.Join(providers, ", "))
}

// EncryptedOptions returns options of a server with an encryption configuration in a file.
func EncryptedOptions(t testing.TB, text string) *server.Options {
	t.Helper()
	o := Options(t)
	o.EncryptionProviderConfig = filepath.Join(t.TempDir(), "encryption.yaml")
	WriteEncryption(t, o, text)
	return o
}

// WriteEncryption replaces the encryption configuration of a server.
func WriteEncryption(t testing.TB, o *server.Options, text string) {
	t.Helper()
	if err := os.WriteFile(o.EncryptionProviderConfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
