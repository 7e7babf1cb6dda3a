package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"

	"github.com/mcp-via-llm/mcp-via-llm/config"
	"github.com/mcp-via-llm/mcp-via-llm/extproc"
)

const (
	// maxMessage is far above one ext_proc message: Envoy sends bodies in chunks
	// of at most its connection buffer (1 MiB by default), and headers.
	maxMessage = 32 << 20
	// streamWorkers goroutines serve one stream after another, so that most need
	// not grow a stack of their own; streams beyond them get a new one each.
	streamWorkers = 64
	// The windows hold a usual request whole. They also end grpc-go's estimation
	// of the bandwidth, whose pings are frames among the bodies' own.
	streamWindow     = 1 << 20
	connectionWindow = 16 << 20
	// minPing lets Envoys ping a quiet connection often; grpc-go's default of
	// 5 min would close it (too_many_pings).
	minPing = 5 * time.Second
)

// grpc-go's own pool has no buffers between 32 KiB and 1 MiB, and clears the whole of
// one whenever it is taken. Bodies come in messages of that size.
func init() {
	pool, err := mem.NewBinaryTieredBufferPool(8, 12, 14, 15, 16, 17, 18, 20)
	if err != nil {
		panic(err) // the sizes are constants
	}
	experimental.SetDefaultBufferPool(pool)
}

// grpcOptions sets no limit on streams: grpc-go has none by default, and each
// turn is one.
func grpcOptions(files *config.TLS) ([]grpc.ServerOption, error) {
	options := []grpc.ServerOption{
		extproc.Codec(),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.InitialWindowSize(streamWindow),
		grpc.InitialConnWindowSize(connectionWindow),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
	}
	if files == nil {
		return options, nil
	}
	if _, err := serverTLS(files); err != nil {
		return nil, fmt.Errorf("listen.tls: %w", err)
	}
	// Read again at every handshake, so that renewed files are taken up. Envoy
	// keeps its connections: handshakes are rare.
	return append(options, grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion:         tls.VersionTLS12,
		NextProtos:         []string{"h2"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return serverTLS(files) },
	}))), nil
}

func serverTLS(files *config.TLS) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}, Certificates: []tls.Certificate{pair}}
	if files.ClientCA == "" {
		return c, nil
	}
	pem, err := os.ReadFile(files.ClientCA)
	if err != nil {
		return nil, err
	}
	c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", files.ClientCA)
	}
	return c, nil
}
