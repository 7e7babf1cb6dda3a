package telemetry

import (
	"context"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
)

// shortest is the length, in bytes, of what is worth hiding: shorter words are in
// any line.
const shortest = 5

// hidden stands for a secret.
const hidden = "[hidden]"

// secrets are the credentials for collectors, as they are written in the
// environment and as they are sent, the longest first.
type secrets []string

// readSecrets takes them from the environment. It takes a list of headers to
// pieces without regard to what is wrong with it.
func readSecrets() (all secrets) {
	add := func(text string) {
		for _, s := range []string{text, strings.TrimSpace(text)} {
			if len(s) >= shortest && !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
	}
	for _, of := range append([]string{""}, signals...) {
		prefix := strings.TrimSuffix("OTEL_EXPORTER_OTLP_"+of, "_") + "_"
		headers := os.Getenv(prefix + "HEADERS")
		add(headers)
		for pair := range strings.SplitSeq(headers, ",") {
			_, value, found := strings.Cut(pair, "=")
			if !found {
				value = pair
			}
			add(value)
			for _, form := range []string{value, unescaped(value)} {
				add(form)
				for word := range strings.FieldsSeq(form) { // a scheme and its token
					add(word)
				}
			}
		}
		if u, err := url.Parse(os.Getenv(prefix + "ENDPOINT")); err == nil && u.User != nil {
			password, _ := u.User.Password()
			add(u.User.String())
			add(password)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return slices.DeleteFunc(all, func(s string) bool { return slices.Contains([]string{"Basic", "Bearer"}, s) })
}

func unescaped(value string) string {
	if plain, err := url.PathUnescape(value); err == nil {
		return plain
	}
	return value
}

func (s secrets) hide(text string) string {
	for _, secret := range s {
		text = strings.ReplaceAll(text, secret, hidden)
	}
	return text
}

// redacting hides secrets in what is logged of telemetry itself: parts of the SDK
// quote what they cannot read, and collectors what they do not like.
type redacting struct {
	slog.Handler
	secrets
}

func (h redacting) Handle(ctx context.Context, record slog.Record) error {
	out := slog.NewRecord(record.Time, record.Level, h.hide(record.Message), record.PC)
	record.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(h.attr(a))
		return true
	})
	return h.Handler.Handle(ctx, out)
}

func (h redacting) attr(a slog.Attr) slog.Attr {
	value := a.Value.Resolve()
	text := value.String()
	if clean := h.hide(text); clean != text || value.Kind() == slog.KindAny { // which JSON would show in more depth
		return slog.String(a.Key, clean)
	}
	return a
}

func (h redacting) WithAttrs(attrs []slog.Attr) slog.Handler {
	var clean []slog.Attr
	for _, a := range attrs {
		clean = append(clean, h.attr(a))
	}
	return redacting{h.Handler.WithAttrs(clean), h.secrets}
}

func (h redacting) WithGroup(name string) slog.Handler {
	return redacting{h.Handler.WithGroup(name), h.secrets}
}
