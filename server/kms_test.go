package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	kmsapi "k8s.io/kms/apis/v2"
)

// kms is a KMS v2 plugin on a unix socket. It "encrypts" with the name of its key, which is
// enough to notice when a wrong one is used.
type kms struct {
	kmsapi.UnimplementedKeyManagementServiceServer
	socket string
}

// kmsKey is the name of the plugin's key.
const kmsKey = "1"

// startKMS starts a plugin and stops it at the end of the test.
func startKMS(t testing.TB) *kms {
	t.Helper()
	k := &kms{socket: filepath.Join(t.TempDir(), "kms.sock")}
	l, err := net.Listen("unix", k.socket)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	kmsapi.RegisterKeyManagementServiceServer(s, k)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return k
}

// provider returns the provider of an encryption configuration.
func (k *kms) provider() string {
	return fmt.Sprintf(`{"kms": {"apiVersion": "v2", "name": "plugin", "endpoint": "unix://%s", "timeout": "10s"}}`, k.socket)
}

// Status reports the current key.
func (k *kms) Status(context.Context, *kmsapi.StatusRequest) (*kmsapi.StatusResponse, error) {
	return &kmsapi.StatusResponse{Version: "v2", Healthz: "ok", KeyId: kmsKey}, nil
}

// Encrypt adds the name of the key.
func (k *kms) Encrypt(_ context.Context, r *kmsapi.EncryptRequest) (*kmsapi.EncryptResponse, error) {
	return &kmsapi.EncryptResponse{Ciphertext: append([]byte(kmsKey+":"), r.Plaintext...), KeyId: kmsKey}, nil
}

// Decrypt removes the name of the key.
func (k *kms) Decrypt(_ context.Context, r *kmsapi.DecryptRequest) (*kmsapi.DecryptResponse, error) {
	plain, ok := bytes.CutPrefix(r.Ciphertext, []byte(r.KeyId+":"))
	if !ok {
		return nil, errors.New("encrypted with another key")
	}
	return &kmsapi.DecryptResponse{Plaintext: plain}, nil
}
