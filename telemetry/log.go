package telemetry

import (
	"io"
	"log/slog"
	"os"
)

// NewLog makes the service's log. Level is debug, info, warn or error; format is
// json, text, or auto: text on a terminal, else json.
func NewLog(w io.Writer, level, format string) *slog.Logger {
	var at slog.Level
	if at.UnmarshalText([]byte(level)) != nil {
		at = slog.LevelInfo
	}
	options := &slog.HandlerOptions{Level: at}
	if format == "text" || format != "json" && isTerminal(w) {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
