package policy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// canonical is the form of RFC 8785, save that whole numbers keep all their
// digits where a double would lose some. Text that is no I-JSON (RFC 7493: a
// member given twice, half a surrogate pair, bad UTF-8) has none and gives nil:
// who reads it may see other things in it than we do.
func canonical(arguments []byte) []byte {
	v := jsontext.Value(bytes.Clone(arguments))
	if v.Canonicalize(jsontext.CanonicalizeRawInts(false)) != nil {
		return nil
	}
	return v
}

// digest is the SHA-256 of the canonical form, in hex; of the bytes as they are
// where there is no such form.
func digest(arguments []byte) string {
	form := canonical(arguments)
	if form == nil {
		form = arguments
	}
	sum := sha256.Sum256(form)
	return hex.EncodeToString(sum[:])
}

var errNotCanonical = errors.New("no canonical form")

// decode reads canonical arguments for CEL: whole numbers within 64 bits as such,
// all others as doubles.
func decode(form []byte) (map[string]any, error) {
	if form == nil {
		return nil, errNotCanonical
	}
	decoder := json.NewDecoder(bytes.NewReader(form))
	decoder.UseNumber()
	var object map[string]any
	if err := decoder.Decode(&object); err != nil {
		return nil, err
	}
	if object == nil {
		return nil, errNotCanonical
	}
	return numbers(object).(map[string]any), nil
}

func numbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, member := range v {
			v[k] = numbers(member)
		}
	case []any:
		for i, element := range v {
			v[i] = numbers(element)
		}
	case json.Number:
		if n, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return n
		}
		if n, err := strconv.ParseUint(v.String(), 10, 64); err == nil {
			return n
		}
		n, _ := strconv.ParseFloat(v.String(), 64) // out of range: infinite, which is as near as it gets
		return n
	}
	return v
}
