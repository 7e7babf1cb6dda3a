package mcp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/mcp-via-llm/mcp-via-llm/mcp/credential"

	"github.com/mcp-via-llm/mcp-via-llm/excerpt"
)

// statusError is an HTTP answer that ended an attempt or a session.
type statusError struct {
	code int
	rpc  *jsonrpc.Error // what the body says, if it is an answer of MCP
	said string         // what came with it else, in one line, for the operator alone
}

func (e *statusError) Error() string {
	text := strings.TrimSpace(fmt.Sprintf("HTTP %d %s", e.code, http.StatusText(e.code)))
	if e.rpc != nil {
		text += ": " + rpcText(e.rpc)
	}
	if e.said != "" {
		text += ": " + e.said
	}
	return text
}

var (
	markup = regexp.MustCompile(`(?s)<(script|style)\b.*?</(script|style)>|<[^>]*>`)
	blanks = regexp.MustCompile(`[\s\p{C}]+`)
)

// oneLine is the beginning of the body of an error answer as a line for the log,
// without markup and without the secrets that went out with the request.
func oneLine(body []byte, sent http.Header) string {
	text := blanks.ReplaceAllString(markup.ReplaceAllString(strings.ToValidUTF8(string(body), "\uFFFD"), " "), " ")
	for _, values := range sent {
		for _, value := range values {
			for _, secret := range strings.Fields(value) {
				if len(secret) >= 8 {
					text = strings.ReplaceAll(text, secret, "[...]")
				}
			}
		}
	}
	return excerpt.Head(strings.TrimSpace(text), maxErrorText)
}

// rpcText shows an error that a server gave. One of 2026-07-28 that speaks none of
// our revisions says which it does speak.
func rpcText(e *jsonrpc.Error) string {
	if offered := gjson.GetBytes(e.Data, "supported"); e.Code == sdk.CodeUnsupportedProtocolVersion && offered.IsArray() {
		return fmt.Sprintf("the server speaks no MCP revision that is known here (it offers %s)", excerpt.Head(offered.Raw, maxErrorText))
	}
	text := excerpt.Head(e.Message, maxErrorText)
	if e.Code == 0 { // it gave none, or one that is a word
		return "server error: " + text
	}
	return fmt.Sprintf("server error %d: %s", e.Code, text)
}

// maxErrorData bounds what the model gets of the data of an error, in bytes.
const maxErrorData = 1000

// errorData shows the data of an error (JSON-RPC 2.0, section 5.1), such as how long to
// wait or what is wrong with which argument; "" if it tells nothing beyond the message.
func errorData(e *jsonrpc.Error) string {
	data := gjson.ParseBytes(e.Data)
	if says(data) == "" || data.Type == gjson.False || says(data) == e.Message || data.IsObject() && len(data.Map()) == 0 {
		return ""
	}
	var c content
	text := withoutData(strings.ToValidUTF8(c.json(data), "\uFFFD"))
	return "; data: " + excerpt.Of(text, maxErrorData)
}

// errRevision is a server that chose a revision nobody knows.
type errRevision struct{ chosen string }

func (e *errRevision) Error() string {
	return fmt.Sprintf("the server speaks MCP revision %s, which is not known here", excerpt.Head(e.chosen, maxErrorText))
}

// unknownRevision is how the SDK reports that; it has no type for it.
const unknownRevision = "unsupported protocol version: "

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
	case errors.As(err, &status) && errors.As(err, &asURL): // which quotes the URL
		return status
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
		return errors.New(rpcText(rpc))
	}
	if chosen, found := strings.CutPrefix(err.Error(), unknownRevision); found {
		return &errRevision{chosen}
	}
	return errNotMCP
}

// outward is what the model, and so the client, is told of why a server is away:
// the kind of the trouble, and no host, address, path or certificate.
func outward(err error) string {
	var status *statusError
	var unsigned *credential.Error
	var revision *errRevision
	var name *net.DNSError
	var verify *tls.CertificateVerificationError
	var asPath *fs.PathError
	var asExec *exec.Error
	switch {
	case errors.Is(err, credential.ErrNoSubject):
		return "every caller needs a credential of its own for it, and this request brought none"
	case errors.As(err, &unsigned):
		return "the gateway could not get a credential for it"
	case errors.As(err, &status):
		return (&statusError{code: status.code}).Error()
	case errors.As(err, &revision):
		return revision.Error()
	case errors.Is(err, errConnectTimeout), errors.Is(err, errSessionLost), errors.Is(err, errNotMCP),
		errors.Is(err, errClosedByServer), errors.Is(err, errEnded):
		return err.Error()
	case errors.As(err, &asPath), errors.As(err, &asExec):
		return "it could not be started"
	case errors.As(err, &name):
		return "its name does not resolve"
	case errors.As(err, &verify):
		return "its certificate is not accepted"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	}
	return "it does not work with the gateway now"
}

// sdkCode reports whether a JSON-RPC code is one that the SDK gives to its own
// errors: client closing, server closing, rejected by transport.
func sdkCode(code int64) bool { return code <= -32003 && code >= -32005 }
