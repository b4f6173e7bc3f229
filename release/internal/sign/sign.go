// Package sign signs and verifies with Ed25519 and ECDSA keys in PEM files, in formats that
// openssl verifies: raw signatures, and DSSE envelopes.
package sign

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// A Signer signs with a private key. Equal messages have equal signatures.
type Signer struct{ key crypto.Signer }

// ParsePrivateKey reads an Ed25519 or ECDSA P-256 key from a PEM file, in the format PKCS #8 or SEC 1.
func ParsePrivateKey(data []byte) (*Signer, error) {
	var types []string
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		types = append(types, block.Type)
		switch block.Type {
		case "PRIVATE KEY":
			key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
			if err != nil {
				return nil, err
			}
			return newSigner(key)
		case "EC PRIVATE KEY":
			key, err := x509.ParseECPrivateKey(block.Bytes)
			if err != nil {
				return nil, err
			}
			return newSigner(key)
		case "ENCRYPTED PRIVATE KEY":
			return nil, errors.New("the private key is encrypted: decrypt it with openssl pkey")
		}
	}
	if len(types) > 0 {
		return nil, fmt.Errorf("no private key, only %s", strings.Join(types, ", "))
	}
	return nil, errors.New("no private key in PEM")
}

func newSigner(key any) (*Signer, error) {
	switch k := key.(type) {
	case ed25519.PrivateKey:
		return &Signer{k}, nil
	case *ecdsa.PrivateKey:
		if err := checkCurve(k.Curve); err != nil {
			return nil, err
		}
		return &Signer{k}, nil
	}
	return nil, fmt.Errorf("keys of type %T are not supported: use Ed25519 or ECDSA", key)
}

// checkCurve rejects curves for which signatures would use another hash than SHA-256.
func checkCurve(c elliptic.Curve) error {
	if c != elliptic.P256() {
		return fmt.Errorf("ECDSA keys on %s are not supported: use P-256", c.Params().Name)
	}
	return nil
}

// Sign returns the signature of message: of 64 bytes for Ed25519, in ASN.1 of the SHA-256 for ECDSA.
func (s *Signer) Sign(message []byte) ([]byte, error) {
	switch k := s.key.(type) {
	case ed25519.PrivateKey:
		return ed25519.Sign(k, message), nil
	case *ecdsa.PrivateKey:
		sum := sha256.Sum256(message)
		return k.Sign(nil, sum[:], crypto.SHA256) // without random numbers, as in RFC 6979
	}
	return nil, fmt.Errorf("unexpected key %T", s.key)
}

// Public returns the key that verifies the signatures.
func (s *Signer) Public() *Verifier { return &Verifier{s.key.Public()} }

// A Verifier verifies with a public key.
type Verifier struct{ key crypto.PublicKey }

// ParsePublicKey reads a public key, or that of a private key, from a PEM file.
func ParsePublicKey(data []byte) (*Verifier, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "PUBLIC KEY" {
		s, err := ParsePrivateKey(data)
		if err != nil {
			return nil, errors.New("no Ed25519 or ECDSA key in PEM")
		}
		return s.Public(), nil
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	switch k := key.(type) {
	case ed25519.PublicKey:
		return &Verifier{k}, nil
	case *ecdsa.PublicKey:
		if err := checkCurve(k.Curve); err != nil {
			return nil, err
		}
		return &Verifier{k}, nil
	}
	return nil, fmt.Errorf("keys of type %T are not supported: use Ed25519 or ECDSA", key)
}

// Verify reports whether signature is one of message.
func (v *Verifier) Verify(message, signature []byte) bool {
	switch k := v.key.(type) {
	case ed25519.PublicKey:
		return ed25519.Verify(k, message, signature)
	case *ecdsa.PublicKey:
		sum := sha256.Sum256(message)
		return ecdsa.VerifyASN1(k, sum[:], signature)
	}
	return false
}

// PEM returns the public key in PEM, as openssl pkey -pubout writes it.
func (v *Verifier) PEM() ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(v.key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}

// ID returns the SHA-256 of the public key in DER, the fingerprint that names the key, also in
// envelopes.
func (v *Verifier) ID() (string, error) {
	der, err := x509.MarshalPKIXPublicKey(v.key)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:]), nil
}

// envelope is a DSSE envelope: https://github.com/secure-systems-lab/dsse.
type envelope struct {
	PayloadType string              `json:"payloadType"`
	Payload     string              `json:"payload"`
	Signatures  []envelopeSignature `json:"signatures"`
}

type envelopeSignature struct {
	KeyID string `json:"keyid"`
	Sig   string `json:"sig"`
}

// Envelope returns a DSSE envelope of a payload, as one line of JSON.
func (s *Signer) Envelope(payloadType string, payload []byte) ([]byte, error) {
	sig, err := s.Sign(PAE(payloadType, payload))
	if err != nil {
		return nil, err
	}
	id, err := s.Public().ID()
	if err != nil {
		return nil, err
	}
	line, err := json.Marshal(envelope{payloadType, base64.StdEncoding.EncodeToString(payload),
		[]envelopeSignature{{id, base64.StdEncoding.EncodeToString(sig)}}})
	return append(line, '\n'), err
}

// OpenEnvelope returns the payload of a DSSE envelope with a valid signature.
func (v *Verifier) OpenEnvelope(data []byte) (payloadType string, payload []byte, err error) {
	var e envelope
	if err := json.Unmarshal(data, &e); err != nil {
		return "", nil, fmt.Errorf("no DSSE envelope: %w", err)
	}
	payload, err = base64.StdEncoding.DecodeString(e.Payload)
	if err != nil {
		return "", nil, fmt.Errorf("no DSSE envelope: payload: %w", err)
	}
	for _, s := range e.Signatures {
		if sig, err := base64.StdEncoding.DecodeString(s.Sig); err == nil && v.Verify(PAE(e.PayloadType, payload), sig) {
			return e.PayloadType, payload, nil
		}
	}
	return "", nil, errors.New("the envelope has no valid signature of this key")
}

// PAE returns what a signature of an envelope signs: the pre-authentication encoding of DSSE.
func PAE(payloadType string, payload []byte) []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(payload), payload)
}
