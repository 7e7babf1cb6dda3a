package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os/exec"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcp-via-llm/mcp-via-llm/mcp/credential"
)

// statusError is an HTTP answer that ended an attempt or a session.
type statusError struct{ code int }

func (e *statusError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("HTTP %d %s", e.code, http.StatusText(e.code)))
}

// isRefused reports whether the server does not accept the credential.
func isRefused(err error) bool {
	var status *statusError
	var unsigned *credential.Error
	return errors.As(err, &status) && (status.code == http.StatusUnauthorized || status.code == http.StatusForbidden) ||
		errors.As(err, &unsigned) && unsigned.Refused
}

// maxErrorText bounds what is shown of a server's own error message, in bytes.
const maxErrorText = 300

var (
	errClosedByServer = errors.New("the server closed the connection")
	errSessionLost    = errors.New("the server does not know the session any more")
	errNotMCP         = errors.New("the server does not speak MCP as expected")
)

// plainError turns what the SDK reports into an error that can be shown and
// logged: the SDK's own texts may quote URLs with credentials, or pieces of a
// result that did not decode.
func plainError(ctx context.Context, tr transport, err error) error {
	var asURL *url.Error
	var asPath *fs.PathError
	var asExec *exec.Error
	var rpc *jsonrpc.Error
	var status *statusError
	var unsigned *credential.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unsigned):
		return unsigned
	case errors.As(err, &status), errors.Is(err, errSessionLost), errors.Is(err, errNotMCP):
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &asPath), errors.As(err, &asExec):
		return err
	case errors.Is(err, sdk.ErrSessionMissing):
		return errSessionLost
	case tr.failure() != nil:
		return tr.failure()
	case errors.As(err, &asURL):
		return asURL.Err
	case errors.Is(err, io.EOF), errors.Is(err, sdk.ErrConnectionClosed), errors.Is(err, errClosedByServer):
		return errClosedByServer
	case errors.As(err, &rpc) && !sdkCode(rpc.Code):
		return fmt.Errorf("server error %d: %s", rpc.Code, cutText(rpc.Message, maxErrorText))
	}
	return errNotMCP
}

// sdkCode reports whether a JSON-RPC code is one that the SDK gives to its own
// errors: client closing, server closing, rejected by transport.
func sdkCode(code int64) bool { return code <= -32003 && code >= -32005 }
