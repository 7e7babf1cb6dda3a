package mcp

import (
	"context"
	"log/slog"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/mcp-via-llm/mcp-via-llm/excerpt"
)

// levels are the severities of RFC 5424 that MCP has (2025-11-25, "Logging"), from
// the least on.
var levels = map[string]slog.Level{
	"debug": slog.LevelDebug, "info": slog.LevelInfo, "notice": slog.LevelInfo, "warning": slog.LevelWarn,
	"error": slog.LevelError, "critical": slog.LevelError, "alert": slog.LevelError, "emergency": slog.LevelError,
}

// wanted is the least severity that the log shows.
func wanted(log *slog.Logger) sdk.LoggingLevel {
	for _, name := range []sdk.LoggingLevel{"debug", "info", "warning"} {
		if log.Enabled(context.Background(), levels[string(name)]) {
			return name
		}
	}
	return "error"
}

// says writes one message. Only its text is logged: structured data is where
// servers put the arguments and results of calls.
func (s *session) says(params gjson.Result) {
	level, ok := levels[params.Get("level").String()]
	if !ok {
		level = slog.LevelInfo
	}
	data := params.Get("data")
	if data.IsObject() {
		for _, member := range []string{"message", "msg", "text"} {
			if text := data.Get(member); text.Type == gjson.String {
				data = text
				break
			}
		}
	}
	text := "(structured data)"
	if data.Type == gjson.String {
		text = excerpt.Head(strings.ToValidUTF8(data.String(), "\uFFFD"), maxLogLine)
	}
	if !s.logs.allow(1) {
		return
	}
	s.log.Log(context.Background(), level, text, "stream", "log", "logger", excerpt.Head(params.Get("logger").String(), 100))
}

// wantLogs asks a server that offers to log for what our log shows. 2026-07-28 asks
// in each request instead, see callMeta.
func (s *session) wantLogs() {
	if caps := s.cs.InitializeResult().Capabilities; caps == nil || caps.Logging == nil {
		return
	}
	s.logLevel = wanted(s.log)
	if s.meta != nil {
		return
	}
	s.group.Go(func() {
		ctx, cancel := context.WithTimeout(s.calls, replyTimeout)
		defer cancel()
		// The session is too new to be lost, and nothing depends on the answer.
		got, err := s.ask(missing(ctx), "logging/setLevel", &sdk.SetLoggingLevelParams{Level: s.logLevel})
		if err := got.failure(err); err != nil {
			s.log.Debug("the server takes no log level", "error", plainError(ctx, s.tr, err))
		}
	})
}

// newServerLog bounds what a server has to say (notifications/message).
func newServerLog(log *slog.Logger) *throttle {
	return newThrottle(logRate, logBurst, func(left int) {
		log.Warn("the server logs too much; messages were left out", "messages", left)
	})
}
