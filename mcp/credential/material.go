package credential

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"
)

// maxFile bounds a file with a token, a secret or certificates, in bytes.
const maxFile = 1 << 20

// readFile reads a file of bounded size. Its errors hold the path, never content.
func readFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return "", err
	case len(content) > maxFile:
		return "", unusable(path, "it is larger than 1 MiB")
	}
	return string(content), nil
}

// unusable is the error of a file with the wrong content.
func unusable(path, why string) error {
	return &fs.PathError{Op: "use", Path: path, Err: errors.New(why)}
}

// ReadToken reads a token or a secret: one line that fits into a header.
func ReadToken(path string) (string, error) {
	content, err := readFile(path)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(content)
	switch {
	case token == "":
		return "", unusable(path, "it is empty")
	case !httpguts.ValidHeaderFieldValue(token):
		return "", unusable(path, "it holds more than one line, or characters that a header must not contain")
	}
	return token, nil
}

// file is the newest good content of a file. Content is compared, not times: the
// mounts of Kubernetes swap symbolic links, and clocks are coarse.
type file struct {
	path string
	log  *slog.Logger

	mu     sync.Mutex
	looked time.Time
	good   string
	failed bool // the last look, which was logged
}

func newFile(path string, log *slog.Logger) *file { return &file{path: path, log: log} }

// text returns the content as it was at most age ago. While the file cannot be
// read, what it held before stays.
func (f *file) text(age time.Duration) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.good != "" && time.Since(f.looked) < age {
		return f.good, nil
	}
	text, err := ReadToken(f.path)
	f.looked = time.Now()
	if err == nil {
		f.good, f.failed = text, false
		return text, nil
	}
	if f.good == "" {
		return "", &Error{Text: "the token cannot be read: " + err.Error()}
	}
	if !f.failed {
		f.failed = true
		f.log.Warn("the token's file cannot be read; keeping the token known before", "error", err)
	}
	return f.good, nil
}

// TLS says whom an https server must be, and who we are to it. The files are PEM,
// and are read again when they change.
type TLS struct {
	// CA verifies the server in place of the system's roots.
	CA string
	// Cert and Key are the client certificate.
	Cert, Key string
	// ServerName is the name in the server's certificate, if not that of the URL.
	ServerName string
}

// ReadCA reads a bundle of CA certificates.
func ReadCA(path string) ([]byte, error) {
	content, err := readFile(path)
	if err != nil {
		return nil, err
	}
	if !x509.NewCertPool().AppendCertsFromPEM([]byte(content)) {
		return nil, unusable(path, "it holds no PEM certificate")
	}
	return []byte(content), nil
}

// ReadPair reads a client certificate and its key.
func ReadPair(cert, key string) (tls.Certificate, error) {
	certPEM, err := readFile(cert)
	if err != nil {
		return tls.Certificate{}, err
	}
	keyPEM, err := readFile(key)
	if err != nil {
		return tls.Certificate{}, err
	}
	pair, err := tls.X509KeyPair([]byte(certPEM), []byte(keyPEM))
	if err != nil {
		return tls.Certificate{}, unusable(cert, "it is no certificate that goes with the key")
	}
	return pair, nil
}

// tlsFiles makes TLS configurations from files. The last good one stays while
// the files are broken, as a certificate and its key are never written at once.
type tlsFiles struct {
	conf TLS
	log  *slog.Logger

	mu     sync.Mutex
	looked time.Time
	good   *tls.Config
	failed bool // the last look, which was logged
}

func newTLSFiles(conf *TLS, log *slog.Logger) *tlsFiles {
	if conf == nil {
		conf = &TLS{}
	}
	return &tlsFiles{conf: *conf, log: log}
}

// config returns a configuration as the files were at most a second ago.
func (f *tlsFiles) config() (*tls.Config, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.good == nil || time.Since(f.looked) >= time.Second {
		f.looked = time.Now()
		switch fresh, err := f.read(); {
		case err == nil:
			f.good, f.failed = fresh, false
		case f.good == nil:
			return nil, &Error{Text: err.Error()}
		case !f.failed:
			f.failed = true
			f.log.Warn("the TLS files cannot be read; keeping what was known before", "error", err)
		}
	}
	return f.good.Clone(), nil
}

func (f *tlsFiles) read() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.conf.ServerName}
	if f.conf.CA != "" {
		pem, err := ReadCA(f.conf.CA)
		if err != nil {
			return nil, err
		}
		c.RootCAs = x509.NewCertPool()
		c.RootCAs.AppendCertsFromPEM(pem)
	}
	if f.conf.Cert != "" {
		pair, err := ReadPair(f.conf.Cert, f.conf.Key)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// roots are the authorization servers' roots: the system's and the given CA.
func (f *tlsFiles) roots() (*x509.CertPool, error) {
	if f.conf.CA == "" {
		return nil, nil
	}
	pem, err := ReadCA(f.conf.CA)
	if err != nil {
		return nil, &Error{Text: err.Error()}
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, errors.New("the system's CA certificates cannot be read")
	}
	pool.AppendCertsFromPEM(pem)
	return pool, nil
}
