package telemetry

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
)

// begin starts with variables given as name and value in turn, and gives what was
// logged until it was shut down.
func begin(t *testing.T, variables ...string) (*Telemetry, *bytes.Buffer, error) {
	t.Helper()
	for i := 0; i < len(variables); i += 2 {
		t.Setenv(variables[i], variables[i+1])
	}
	var log bytes.Buffer
	s, err := Start(t.Context(), "1.2.3", slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug - 10})))
	return s, &log, err
}

// TestWrongValuesAreToldAlike asserts that each variable with a value of no meaning
// is named in a warning, and counts as not set.
func TestWrongValuesAreToldAlike(t *testing.T) {
	for _, row := range [][3]string{ // variable, value, what is left of it
		{"OTEL_SDK_DISABLED", "yes", ""},
		{"OTEL_SDK_DISABLED", "1", ""},
		{"OTEL_PROPAGATORS", "tracecontext, w3c", "tracecontext"},
		{"OTEL_PROPAGATORS", "zipkin", ""},
		{"OTEL_RESOURCE_ATTRIBUTES", "a=b,c", "a=b"},
		{capture, "yes", ""},
		{"OTEL_TRACES_SAMPLER", "often", ""},
		{"OTEL_TRACES_SAMPLER_ARG", "1.5", ""},
		{"OTEL_TRACES_SAMPLER_ARG", "NaN", ""},
		{"OTEL_METRICS_EXEMPLAR_FILTER", "some", ""},
		{"OTEL_METRIC_EXPORT_INTERVAL", "60s", ""},
		{"OTEL_METRIC_EXPORT_TIMEOUT", "0", ""},
		{"OTEL_BSP_SCHEDULE_DELAY", "5s", ""},
		{"OTEL_BSP_MAX_QUEUE_SIZE", "-1", ""},
		{"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "many", ""},
		{"OTEL_BLRP_EXPORT_TIMEOUT", "x", ""},
		{"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "x", ""},
		{"OTEL_LINK_ATTRIBUTE_COUNT_LIMIT", "1e3", ""},
		{"OTEL_LOGRECORD_ATTRIBUTE_COUNT_LIMIT", "x", ""},
		{"OTEL_EXPORTER_OTLP_TIMEOUT", "10s", ""},
		{"OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "zstd", ""},
		{"OTEL_EXPORTER_OTLP_METRICS_INSECURE", "1", ""},
		{"OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere.pem", ""},
		{"OTEL_EXPORTER_OTLP_LOGS_CLIENT_CERTIFICATE", "/nowhere.pem", ""},
		{"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "deltas", ""},
		{"OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION", "exponential", ""},
	} {
		t.Run(row[0]+" "+row[1], func(t *testing.T) {
			s, log, err := begin(t, row[0], row[1], "OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
			if err != nil {
				t.Fatal(err)
			}
			if got := os.Getenv(row[0]); got != row[2] {
				t.Errorf("what counts is %q", got)
			}
			if text := log.String(); strings.Count(text, `"level":"WARN"`) != 1 || !strings.Contains(text, `"variable":"`+row[0]+`"`) {
				t.Error(text)
			}
			s.Shutdown(t.Context()) //nolint:errcheck // there is no collector
		})
	}
}

// TestRightValuesAreQuiet asserts that what the specification allows is taken.
func TestRightValuesAreQuiet(t *testing.T) {
	for _, row := range [][2]string{
		{"OTEL_SDK_DISABLED", "FALSE"}, {"OTEL_SDK_DISABLED", " true "}, {"OTEL_PROPAGATORS", "tracecontext, baggage"}, {"OTEL_PROPAGATORS", "none"},
		{"OTEL_RESOURCE_ATTRIBUTES", "a=b%20c, d=e,"}, {capture, "span_and_event"}, {capture, "NO_CONTENT"}, {"OTEL_TRACES_SAMPLER", "ParentBased_TraceIdRatio"},
		{"OTEL_TRACES_SAMPLER_ARG", "0.01"}, {"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "-1"}, {"OTEL_BSP_EXPORT_TIMEOUT", "0"}, {"OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "api-key=abc,x-scope=a%3Db, y=Basic%20dTpw="}, {"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}, {"OTEL_TRACES_EXPORTER", " none"}, {"OTEL_METRICS_EXPORTER", "NONE"},
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "GRPC"}, {"OTEL_EXPORTER_OTLP_PROTOCOL", "HTTP/Protobuf"}, {"OTEL_EXPORTER_OTLP_COMPRESSION", "GZIP"}, {"OTEL_PROPAGATORS", "B3,TraceContext"}, {"OTEL_BSP_MAX_QUEUE_SIZE", ""},
	} {
		t.Run(row[0]+" "+row[1], func(t *testing.T) {
			s, log, err := begin(t, row[0], row[1])
			if err != nil || strings.Contains(log.String(), "WARN") {
				t.Fatal(err, log)
			}
			if err := s.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestDestinationsMustBeRight asserts that what would send telemetry nowhere refuses
// the start, the same for each signal, and only where it matters.
func TestDestinationsMustBeRight(t *testing.T) {
	for _, signal := range signals {
		own := "OTEL_EXPORTER_OTLP_" + signal + "_"
		for _, row := range []struct {
			variables []string
			wrong     string // "": it starts
		}{
			{[]string{"OTEL_" + signal + "_EXPORTER", "zipkinn"}, "OTEL_" + signal + "_EXPORTER"},
			{[]string{own + "ENDPOINT", "collector:4318"}, own + "ENDPOINT"},
			{[]string{own + "ENDPOINT", "127.0.0.1:4318"}, own + "ENDPOINT"},
			{[]string{own + "ENDPOINT", "http://"}, own + "ENDPOINT"},
			{[]string{own + "ENDPOINT", "http://127.0.0.1:1", own + "PROTOCOL", "http/json"}, own + "PROTOCOL"},
			{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "user:secret@collector:4318"}, "OTEL_EXPORTER_OTLP_ENDPOINT"},
			{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL", "grcp"}, "OTEL_EXPORTER_OTLP_PROTOCOL"},
			{[]string{"OTEL_EXPORTER_OTLP_PROTOCOL", "grcp"}, ""}, // nothing is sent
			{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "collector", "OTEL_TRACES_EXPORTER", "none", "OTEL_METRICS_EXPORTER", "none", "OTEL_LOGS_EXPORTER", "none"}, ""},
			{[]string{"OTEL_" + signal + "_EXPORTER", "zipkinn", "OTEL_SDK_DISABLED", "true"}, ""},
		} {
			t.Run(strings.Join(row.variables, " "), func(t *testing.T) {
				s, log, err := begin(t, row.variables...)
				switch {
				case row.wrong == "":
					if err != nil {
						t.Error(err)
						return
					}
					if err := s.Shutdown(t.Context()); err != nil {
						t.Error(err)
					}
				case err == nil || !strings.Contains(err.Error(), row.wrong+":") || strings.Contains(err.Error()+log.String(), "secret"):
					t.Errorf("%v %s", err, log)
				}
			})
		}
	}
}

// TestHeadersAreSecret asserts that whatever is wrong with the headers for a
// collector, the log says where and not what, and that what is right of them is sent.
func TestHeadersAreSecret(t *testing.T) {
	for _, of := range []string{"", "TRACES_", "METRICS_", "LOGS_"} {
		for _, value := range []string{"Bearer hunter2hunter2", "api-key: hunter2hunter2", "api key=hunter2hunter2", "authorization=100%hunter2hunter2", "hunter2hunter2,a=b", "=hunter2hunter2"} {
			name := "OTEL_EXPORTER_OTLP_" + of + "HEADERS"
			t.Run(name+" "+value, func(t *testing.T) {
				got := make(chan http.Header, 100)
				collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					got <- r.Header.Clone()
					http.Error(w, "I do not like "+value, http.StatusUnauthorized)
				}))
				defer collector.Close()
				s, log, err := begin(t, name, value+",x-ok=fine", "OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
				if err != nil {
					t.Fatal(err)
				}
				_, span := s.Traces.Tracer("test").Start(t.Context(), "turn")
				span.End()
				s.Log(slog.New(slog.DiscardHandler), "info").Info("line")
				s.Turn(t.Context(), Turn{Client: "default"})
				if err := s.Shutdown(t.Context()); err == nil {
					t.Error("the collector's refusal is not told")
				} else {
					otel.Handle(err)
				}
				text := log.String()
				if strings.Contains(text, "hunter2") || !strings.Contains(text, `"variable":"`+name+`"`) || !strings.Contains(text, "part 1") {
					t.Error(text)
				}
				fine := 0
				for len(got) > 0 {
					if header := <-got; header.Get("X-Ok") == "fine" {
						fine++
					}
				}
				if of == "" && fine < 3 || fine == 0 {
					t.Errorf("what is right of the headers was sent %d times", fine)
				}
			})
		}
	}
}

func TestSecretsAreHidden(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20token-1,k=ab")
	t.Setenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "https://user:pass-word@logs.example")
	var out bytes.Buffer
	log := slog.New(redacting{slog.NewJSONHandler(&out, nil), readSecrets()}).With("with", "Bearer%20token-1").WithGroup("g")
	log.Info("said token-1", "err", errors.New("no token-1"), "url", "https://user:pass-word@logs.example/v1", "deep", &struct{ Password *string }{new("pass-word")}, "n", 7, "plain", "Bearer able")
	text := out.String()
	if strings.Contains(text, "token-1") || strings.Contains(text, "pass-word") || !strings.Contains(text, `"n":7`) || !strings.Contains(text, `"plain":"Bearer able"`) || !strings.Contains(text, hidden) {
		t.Error(text)
	}
}

// TestCertificates asserts that files of certificates are looked at once, at the
// start.
func TestCertificates(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(empty, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := roots(empty); err == nil {
		t.Error("a file without a certificate is taken")
	}
	t.Setenv("KEY", empty)
	if _, err := keyPair("KEY")(empty); err == nil {
		t.Error("a pair without a key is taken")
	}
}
