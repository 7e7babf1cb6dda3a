package telemetry

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/mcp-via-llm/mcp-via-llm/telemetry/limits"
)

// variable is a rule for one variable of the environment.
type variable struct {
	name string
	// check says what is wrong with a value, and gives what is right of it; "" if
	// nothing is. It must not quote what may be a secret.
	check func(value string) (right string, err error)
	// must: without this value telemetry would go nowhere, or somewhere else. It is
	// refused. Any other value is warned of and counts as not set (OpenTelemetry
	// specification, "Environment Variable Specification", "Parsing empty value" and
	// "Enum value").
	must bool
}

// capture is the variable that the instrumentations of generative AI share.
const capture = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"

// signals are as the variables name them.
var signals = []string{"TRACES", "METRICS", "LOGS"}

// variables are all that is read, by the SDK or here.
func variables() []variable {
	boolean, anyInt := oneOf("true", "false"), integer(minInt)
	all := []variable{
		{name: "OTEL_PROPAGATORS", check: eachOf("tracecontext", "baggage", "b3", "b3multi", "jaeger", "xray", "ottrace", "none")},
		{name: "OTEL_RESOURCE_ATTRIBUTES", check: pairs(func(string) bool { return true })},
		{name: capture, check: oneOf("true", "false", "NO_CONTENT", "SPAN_ONLY", "EVENT_ONLY", "SPAN_AND_EVENT")},
		{name: "OTEL_TRACES_SAMPLER", check: oneOf("always_on", "always_off", "traceidratio", "parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio")},
		{name: "OTEL_TRACES_SAMPLER_ARG", check: ratio},
		{name: "OTEL_METRICS_EXEMPLAR_FILTER", check: oneOf("trace_based", "always_on", "always_off")},
		{name: "OTEL_METRIC_EXPORT_INTERVAL", check: integer(1)}, {name: "OTEL_METRIC_EXPORT_TIMEOUT", check: integer(1)},
		{name: "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", check: oneOf("cumulative", "delta", "lowmemory")},
		{name: "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION", check: oneOf("explicit_bucket_histogram", "base2_exponential_bucket_histogram")},
	}
	for _, queue := range []string{"OTEL_BSP_", "OTEL_BLRP_"} {
		all = append(all, variable{name: queue + "SCHEDULE_DELAY", check: integer(1)}, variable{name: queue + "EXPORT_TIMEOUT", check: integer(0)},
			variable{name: queue + "MAX_QUEUE_SIZE", check: integer(1)}, variable{name: queue + "MAX_EXPORT_BATCH_SIZE", check: integer(1)})
	}
	for _, limit := range limits.Names {
		all = append(all, variable{name: limit, check: anyInt})
	}
	for _, of := range append([]string{""}, signals...) {
		prefix := "OTEL_EXPORTER_OTLP_" + of
		if of != "" {
			prefix += "_"
		}
		all = append(all, variable{name: prefix + "HEADERS", check: pairs(isToken)}, variable{name: prefix + "TIMEOUT", check: integer(0)},
			variable{name: prefix + "COMPRESSION", check: oneOf("gzip", "none")}, variable{name: prefix + "INSECURE", check: boolean},
			variable{name: prefix + "CERTIFICATE", check: roots}, variable{name: prefix + "CLIENT_CERTIFICATE", check: keyPair(prefix + "CLIENT_KEY")})
	}
	return all
}

// destinations are the variables that say whether a signal goes out, and where.
func destinations(signal string) []variable {
	known := oneOf("otlp", "console", "none")
	if signal == "METRICS" {
		known = eachOf("otlp", "console", "prometheus", "none")
	}
	all := []variable{{"OTEL_" + signal + "_EXPORTER", known, true}}
	if slices.Contains(exporters(signal), "otlp") {
		for _, name := range []string{"OTEL_EXPORTER_OTLP_" + signal + "_", "OTEL_EXPORTER_OTLP_"} {
			all = append(all, variable{name + "PROTOCOL", oneOf("grpc", "http/protobuf"), true}, variable{name + "ENDPOINT", endpoint, true})
		}
	}
	return all
}

// readEnvironment looks at all variables once, before anything of OpenTelemetry
// does: what is wrong is told, all in one way, and taken out of the environment,
// where the parts of the SDK would each make something else of it, or quote it.
func readEnvironment(log *slog.Logger) error {
	apply(variable{name: "OTEL_SDK_DISABLED", check: oneOf("true", "false")}, log) //nolint:errcheck // it is no must
	if disabled() {
		return nil
	}
	var errs []error
	seen := map[string]bool{}
	for _, signal := range signals {
		for _, v := range destinations(signal) {
			if !seen[v.name] {
				seen[v.name] = true
				errs = append(errs, apply(v, log))
			}
		}
	}
	for _, v := range variables() {
		apply(v, log) //nolint:errcheck // they are no musts
	}
	return errors.Join(errs...)
}

func apply(v variable, log *slog.Logger) error {
	set := cmp.Or(os.Getenv(v.name), limits.Wrong[v.name])
	value := strings.TrimSpace(set)
	if value == "" {
		return nil
	}
	right, err := v.check(value)
	if err != nil && v.must {
		return fmt.Errorf("%s: %w", v.name, err)
	}
	if err != nil {
		log.Warn("an environment variable is wrong, and what is wrong of it is left out", "variable", v.name, "err", err)
	}
	if right != set {
		return os.Setenv(v.name, right)
	}
	return nil
}

const minInt = -1 << 31

func integer(least int) func(string) (string, error) {
	return func(value string) (string, error) {
		if n, err := strconv.Atoi(value); err != nil || n < least {
			if least == minInt {
				return "", fmt.Errorf("%q is no integer", value)
			}
			return "", fmt.Errorf("%q is no integer from %d", value, least)
		}
		return value, nil
	}
}

func ratio(value string) (string, error) {
	if n, err := strconv.ParseFloat(value, 64); err != nil || !(n >= 0 && n <= 1) {
		return "", fmt.Errorf("%q is no number from 0 to 1", value)
	}
	return value, nil
}

// oneOf takes one of several words, in upper or lower case.
func oneOf(known ...string) func(string) (string, error) {
	return func(value string) (string, error) {
		if word := among(known, value); word != "" {
			return word, nil
		}
		return "", unknown(known, value)
	}
}

// among gives the word as it is known; "" if it is not.
func among(known []string, value string) string {
	for _, word := range known {
		if strings.EqualFold(word, value) {
			return word
		}
	}
	return ""
}

// eachOf takes a list of such words, and leaves out what is not known.
func eachOf(known ...string) func(string) (string, error) {
	return func(value string) (string, error) {
		var right, wrong []string
		for text := range strings.SplitSeq(value, ",") {
			text = strings.TrimSpace(text)
			if word := among(known, text); word != "" {
				right = append(right, word)
			} else if text != "" {
				wrong = append(wrong, text)
			}
		}
		if len(wrong) > 0 {
			return strings.Join(right, ","), unknown(known, strings.Join(wrong, ", "))
		}
		return strings.Join(right, ","), nil
	}
}

func unknown(known []string, value string) error {
	return fmt.Errorf("%q is not known; known are %s", value, strings.Join(known, ", "))
}

// endpoint takes what all exporters understand alike. A host without a scheme is
// taken for a scheme by some of them, and for nothing by others.
func endpoint(value string) (string, error) {
	u, err := url.Parse(value)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", errors.New("it is no http:// or https:// URL with a host, such as http://collector:4318")
	}
	return value, nil
}

// pairs takes NAME=VALUE pairs joined by commas, values percent-encoded (W3C
// Baggage), and leaves out what is none. What it says has none of their words: the
// values of headers are credentials, and in a list that is malformed anything may
// be part of one.
func pairs(isName func(string) bool) func(string) (string, error) {
	return func(value string) (string, error) {
		var right []string
		var errs []error
		for i, pair := range strings.Split(value, ",") {
			name, text, found := strings.Cut(pair, "=")
			_, err := url.PathUnescape(text)
			switch name = strings.TrimSpace(name); {
			case strings.TrimSpace(pair) == "":
			case !found:
				errs = append(errs, fmt.Errorf("part %d has no =", i+1))
			case name == "" || !isName(name):
				errs = append(errs, fmt.Errorf("part %d has no proper name before the =", i+1))
			case err != nil:
				errs = append(errs, fmt.Errorf("part %d has a %% that begins no percent-encoding; write %%25", i+1))
			default:
				right = append(right, pair)
			}
		}
		if len(errs) > 0 {
			return strings.Join(right, ","), fmt.Errorf("%w (parts are joined by commas; a comma in a value is written %%2C)", joined(errs))
		}
		return strings.Join(right, ","), nil
	}
}

// joined is errors.Join on one line.
func joined(errs []error) error {
	var all []string
	for _, err := range errs {
		all = append(all, err.Error())
	}
	return errors.New(strings.Join(all, ", "))
}

// isToken says whether a name can be a header's (RFC 9110, section 5.6.2).
func isToken(name string) bool {
	return !strings.ContainsFunc(name, func(c rune) bool {
		return !strings.ContainsRune("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz", unicode.ToLower(c)) || c > unicode.MaxASCII
	})
}

func roots(file string) (string, error) {
	pem, err := os.ReadFile(file)
	if err == nil && !x509.NewCertPool().AppendCertsFromPEM(pem) {
		err = fmt.Errorf("%s has no certificate in PEM", file)
	}
	if err != nil {
		return "", err
	}
	return file, nil
}

func keyPair(key string) func(string) (string, error) {
	return func(certificate string) (string, error) {
		if os.Getenv(key) == "" {
			return "", fmt.Errorf("%s is not set, and one is nothing without the other", key)
		}
		if _, err := tls.LoadX509KeyPair(certificate, os.Getenv(key)); err != nil {
			return "", fmt.Errorf("with %s: %w", key, err)
		}
		return certificate, nil
	}
}
