package main

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestFaultsFile checks that the expectations are about the faults that there are.
func TestFaultsFile(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(faultsFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		if !strings.Contains("\n"+string(data), "\n"+f.name+": ") {
			t.Errorf("nothing is expected of: %s", f.name)
		}
	}
	for line := range strings.Lines(string(data)) {
		name, result, _ := strings.Cut(line, ": ")
		known := false
		for _, f := range faults {
			known = known || f.name == name
		}
		if !known || strings.HasPrefix(result, "failed") {
			t.Errorf("unexpected line: %s", line)
		}
	}
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"accepted":          nil,
		"401":               fmt.Errorf("review: %w", apierrors.NewUnauthorized("no")),
		"no TLS connection": fmt.Errorf("remote error: %w", tls.AlertError(42)),
		"broken":            errors.New("broken"),
	} {
		if got := answer(err); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}

func TestUntil(t *testing.T) {
	t.Parallel()
	tries := 0
	if _, err := until(t.Context(), "it", func(context.Context) (bool, error) { tries++; return tries == 3, errors.New("not found") }); err != nil || tries != 3 {
		t.Errorf("%d tries: %v", tries, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	missing := errors.New("missing")
	if _, err := until(ctx, "it", func(context.Context) (bool, error) { return false, missing }); !errors.Is(err, missing) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestSign verifies a token.
func TestSign(t *testing.T) {
	t.Parallel()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	token, err := sign(key, map[string]any{"sub": "me"})
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatal(token)
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		t.Fatal(err)
	}
	hash := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if err := rsa.VerifyPKCS1v15(&key.PublicKey, crypto.SHA256, hash[:], signature); err != nil {
		t.Error(err)
	}
}
