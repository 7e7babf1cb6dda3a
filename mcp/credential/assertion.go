package credential

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// assertionLife is how long a client's assertion is good for: one request.
const assertionLife = time.Minute

// assertion is a JWT that proves the client to an authorization server (RFC 7523,
// section 3).
func (c *Client) assertion(audience string) (string, error) {
	key, method, err := ReadKey(c.KeyFile)
	if err != nil {
		return "", err
	}
	now := time.Now()
	t := jwt.NewWithClaims(method, jwt.RegisteredClaims{
		Issuer: c.ID, Subject: c.ID, Audience: jwt.ClaimStrings{audience}, ID: rand.Text(),
		IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(assertionLife)),
	})
	if c.KeyID != "" {
		t.Header["kid"] = c.KeyID
	}
	return t.SignedString(key)
}

// ReadKey reads a PEM private key (PKCS #8, PKCS #1 or SEC 1) with the signature
// algorithm that goes with it.
func ReadKey(path string) (crypto.PrivateKey, jwt.SigningMethod, error) {
	content, err := readFile(path)
	if err != nil {
		return nil, nil, err
	}
	block, _ := pem.Decode([]byte(content))
	if block == nil {
		return nil, nil, unusable(path, "it holds no PEM private key")
	}
	var key any
	switch block.Type {
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	default:
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	}
	if err != nil {
		return nil, nil, unusable(path, "it holds no private key that can be read")
	}
	method := signing(key)
	if method == nil {
		return nil, nil, unusable(path, "the key is neither RSA, nor ECDSA on a NIST curve, nor Ed25519")
	}
	return key, method, nil
}

// signing is the algorithm that RFC 7518, section 3.1 pairs with a key; nil for none.
func signing(key any) jwt.SigningMethod {
	switch k := key.(type) {
	case *rsa.PrivateKey:
		return jwt.SigningMethodRS256
	case ed25519.PrivateKey:
		return jwt.SigningMethodEdDSA
	case *ecdsa.PrivateKey:
		for _, m := range []*jwt.SigningMethodECDSA{jwt.SigningMethodES256, jwt.SigningMethodES384, jwt.SigningMethodES512} {
			if m.CurveBits == k.Curve.Params().BitSize {
				return m
			}
		}
	}
	return nil
}
