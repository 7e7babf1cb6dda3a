package schema

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// problemOf says what is wrong with a value. The validator's own words for a bound
// ("exclusiveMinimum: got 0, want 0") mislead.
func problemOf(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Minimum:
		return "must be at least " + number(k.Want) + ", not " + number(k.Got)
	case *kind.Maximum:
		return "must be at most " + number(k.Want) + ", not " + number(k.Got)
	case *kind.ExclusiveMinimum:
		return "must be greater than " + number(k.Want) + ", not " + number(k.Got)
	case *kind.ExclusiveMaximum:
		return "must be less than " + number(k.Want) + ", not " + number(k.Got)
	case *kind.MultipleOf:
		return "must be a multiple of " + number(k.Want) + ", not " + number(k.Got)
	case *kind.MinLength:
		return fmt.Sprintf("must have at least %d characters, not %d", k.Want, k.Got)
	case *kind.MaxLength:
		return fmt.Sprintf("must have at most %d characters, not %d", k.Want, k.Got)
	case *kind.MinItems:
		return fmt.Sprintf("must have at least %d items, not %d", k.Want, k.Got)
	case *kind.MaxItems:
		return fmt.Sprintf("must have at most %d items, not %d", k.Want, k.Got)
	case *kind.MinProperties:
		return fmt.Sprintf("must have at least %d members, not %d", k.Want, k.Got)
	case *kind.MaxProperties:
		return fmt.Sprintf("must have at most %d members, not %d", k.Want, k.Got)
	case *kind.FalseSchema:
		return "must not be there"
	case *kind.Const:
		return oneOf([]any{k.Want}, k.LocalizedString(english))
	case *kind.Enum:
		return oneOf(k.Want, k.LocalizedString(english))
	case *kind.OneOf:
		if len(k.Subschemas) == 0 {
			return "fits none of the alternatives"
		}
		return fmt.Sprintf("must fit one of the alternatives only, and fits %d and %d (counted from 0)", k.Subschemas[0], k.Subschemas[1])
	case *kind.AnyOf:
		return "fits none of the alternatives"
	}
	return k.LocalizedString(english)
}

// oneOf names the values that there are; said are the validator's words, which are as
// good where there are texts and numbers alone.
func oneOf(values []any, said string) string {
	if !slices.ContainsFunc(values, func(v any) bool {
		_, text := v.(string)
		_, number := v.(json.Number)
		return !text && !number
	}) {
		return said
	}
	all := make([]string, len(values))
	for i, v := range values {
		raw, err := json.Marshal(v)
		if err != nil {
			return said
		}
		all[i] = string(raw)
	}
	if len(all) == 1 {
		return "value must be " + all[0]
	}
	return "value must be one of " + strings.Join(all, ", ")
}

// number writes a number in full, if that is not too long.
func number(n *big.Rat) string {
	if n.IsInt() && n.Num().BitLen() < 200 {
		return n.Num().String()
	}
	f, _ := n.Float64()
	return fmt.Sprint(f)
}
