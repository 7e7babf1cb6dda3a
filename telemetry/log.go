package telemetry

import (
	"context"
	"io"
	"log/slog"
	"os"

	"go.opentelemetry.io/contrib/bridges/otelslog"
	"go.opentelemetry.io/otel/trace"
)

// NewLog makes the service's log. Level is debug, info, warn or error; format is
// json, text, or auto: text on a terminal, else json. Lines that belong to a trace
// have its trace_id and span_id (OpenTelemetry, "Trace Context in non-OTLP Log
// Formats"), and those of a request its request_id.
func NewLog(w io.Writer, level, format string) *slog.Logger {
	options := &slog.HandlerOptions{Level: levelOf(level)}
	if format == "text" || format != "json" && isTerminal(w) {
		return slog.New(traced{requested{slog.NewTextHandler(w, options)}})
	}
	return slog.New(traced{requested{slog.NewJSONHandler(w, options)}})
}

func levelOf(level string) slog.Level {
	var at slog.Level
	if at.UnmarshalText([]byte(level)) != nil {
		at = slog.LevelInfo
	}
	return at
}

// Log sends what goes to log over OTLP too, from the given level up, if that is
// configured.
func (t *Telemetry) Log(log *slog.Logger, level string) *slog.Logger {
	if len(exporters("LOGS")) == 0 || disabled() {
		return log
	}
	bridge := otelslog.NewHandler(Name, otelslog.WithLoggerProvider(t.Logs))
	return slog.New(slog.NewMultiHandler(log.Handler(), atLeast{requested{bridge}, levelOf(level)}))
}

type requestKey struct{}

// WithRequest gives a context the id of the request that it is for, which log lines
// have as request_id.
func WithRequest(ctx context.Context, id string) context.Context {
	if id == "" {
		return ctx
	}
	return context.WithValue(ctx, requestKey{}, id)
}

// requested adds the request's id to lines whose context has one.
type requested struct{ slog.Handler }

func (h requested) Handle(ctx context.Context, record slog.Record) error {
	if id, ok := ctx.Value(requestKey{}).(string); ok {
		record = record.Clone()
		record.AddAttrs(slog.String("request_id", id))
	}
	return h.Handler.Handle(ctx, record)
}

func (h requested) WithAttrs(attrs []slog.Attr) slog.Handler {
	return requested{h.Handler.WithAttrs(attrs)}
}
func (h requested) WithGroup(name string) slog.Handler { return requested{h.Handler.WithGroup(name)} }

// traced adds the trace to lines whose context has one.
type traced struct{ slog.Handler }

func (h traced) Handle(ctx context.Context, record slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		record = record.Clone()
		record.AddAttrs(slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	return h.Handler.Handle(ctx, record)
}

func (h traced) WithAttrs(attrs []slog.Attr) slog.Handler { return traced{h.Handler.WithAttrs(attrs)} }
func (h traced) WithGroup(name string) slog.Handler       { return traced{h.Handler.WithGroup(name)} }

// atLeast drops lines below a level, which the bridge would send all.
type atLeast struct {
	slog.Handler
	level slog.Level
}

func (h atLeast) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= h.level && h.Handler.Enabled(ctx, level)
}

func (h atLeast) WithAttrs(attrs []slog.Attr) slog.Handler {
	return atLeast{h.Handler.WithAttrs(attrs), h.level}
}

func (h atLeast) WithGroup(name string) slog.Handler {
	return atLeast{h.Handler.WithGroup(name), h.level}
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
