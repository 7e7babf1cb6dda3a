package kind

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	tlsRelease = "tls"
	tlsFull    = "tls-mcp-via-llm"
)

// TestTLSAndEgress asserts that the bundled Envoy starts with certificates and reaches the service by them, that servers
// elsewhere are reached through it and those beside the service are not, and that a rollout costs no turn its tools.
func TestTLSAndEgress(t *testing.T) {
	pair := keyPair(t, tlsFull+"."+namespace+".svc", tlsFull+"-replicas."+namespace+".svc")
	_, err := kubectl("create", "secret", "generic", "tls-pair", "--from-file=tls.crt="+pair.cert, "--from-file=ca.crt="+pair.cert, "--from-file=tls.key="+pair.key)
	must(t, "the Secret", err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(state())
		}
		if _, err := command("helm", "uninstall", tlsRelease, "-n", namespace); err != nil {
			t.Log(err)
		}
		if _, err := kubectl("delete", "secret", "tls-pair"); err != nil {
			t.Log(err)
		}
	})
	_, err = command("helm", "upgrade", "--install", tlsRelease, chart, "-n", namespace, "-f", "tls-values.yaml",
		"--set", "envoy.image="+envoy(os.Getenv("ENVOY_VERSION")), "--wait", "--timeout", "4m")
	must(t, "the release", err)
	node, err := kubectl("get", "nodes", "-o", `jsonpath={.items[0].status.addresses[?(@.type=="InternalIP")].address}`)
	must(t, "node", err)
	port, err := kubectl("get", "service", tlsFull+"-envoy", "-o", "jsonpath={.spec.ports[0].nodePort}")
	must(t, "port", err)

	turn := func() answer {
		c := talk(plan{Nonce: nonce(), Calls: [][]string{{"look", "list_directory"}}})
		c.url = "http://" + node + ":" + port + "/v1"
		return c.send(t.Context())
	}
	whole := func(a answer) bool {
		return a.done("did look") && a.extra.Get("mcp_tools_called").Raw == `["shop__look","files__list_directory"]`
	}
	var last answer
	eventually(t, time.Minute, "Envoy has found the service", func() bool { last = turn(); return whole(last) })
	table, err := kubectl("exec", "deployment/"+tlsFull, "-c", "mcp-via-llm", "--", "/mcp-via-llm", "tools", "--config", "/etc/mcp-via-llm/config/config.yaml")
	if err != nil || !strings.Contains(table, "shop__look") || !strings.Contains(table, "files__list_directory") {
		t.Errorf("tools: %v\n%s", err, table)
	}

	_, err = kubectl("rollout", "restart", "deployment/"+tlsFull)
	must(t, "restart", err)
	done := make(chan error, 1)
	go func() {
		_, err := kubectl("rollout", "status", "deployment/"+tlsFull, "--timeout=3m")
		done <- err
	}()
	for n := 0; ; n++ {
		if a := turn(); !whole(a) {
			t.Errorf("in the rollout, turn %d: %v", n, a)
		}
		select {
		case err := <-done:
			must(t, "rollout", err)
			t.Logf("%d turns during the rollout", n+1)
			return
		default:
		}
	}
}

// files are paths.
type files struct{ cert, key string }

// keyPair makes a certificate that signs itself, for both sides.
func keyPair(t *testing.T, names ...string) files {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, "key", err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: names, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		BasicConstraintsValid: true, IsCA: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, "certificate", err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, "key", err)
	dir := t.TempDir()
	out := files{filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")}
	must(t, "certificate", os.WriteFile(out.cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600))
	must(t, "key", os.WriteFile(out.key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	return out
}
