package mcp

import (
	"errors"
	"regexp"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"
)

// errVersion is a server that refused initialize and names the revisions that it takes,
// beside the one that it does not.
type errVersion struct {
	error
	supported []string
}

func (e *errVersion) Unwrap() error { return e.error }

// withVersions adds to an error what the refusal of initialize says of revisions.
func withVersions(err error, refusal *jsonrpc.Error) error {
	if refusal == nil {
		return err
	}
	if errors.Is(err, errClosedByServer) { // the SDK takes some codes for its own
		err = errors.New(rpcText(refusal))
	}
	if !aboutVersions.MatchString(refusal.Message) && !gjson.GetBytes(refusal.Data, "supported").Exists() {
		return err
	}
	return &errVersion{err, revision.FindAllString(refusal.Message+string(refusal.Data), -1)}
}

var (
	aboutVersions = regexp.MustCompile(`(?i)protocol.?version`)
	revision      = regexp.MustCompile(`\b\d{4}-\d\d-\d\d\b`)
)

// other is the newest revision with initialize that the server takes and that was not
// tried, "" if there is none.
func (e *errVersion) other(tried string) string {
	for _, v := range sdk.SupportedProtocolVersions() { // newest first
		if v <= legacyVersion && v != tried && (tried != "" || v != legacyVersion) && slices.Contains(e.supported, v) {
			return v
		}
	}
	return ""
}
