package mcp

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// stdioMode makes the test binary a stdio server instead; see runStdio.
const stdioMode = "MCP_TEST_STDIO"

func TestMain(m *testing.M) {
	if mode := os.Getenv(stdioMode); mode != "" {
		runStdio(mode)
		return
	}
	goleak.VerifyTestMain(m)
}
