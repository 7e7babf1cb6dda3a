package chat

import (
	"strings"

	"github.com/tidwall/gjson"
)

// AddUsage sums two raw usage objects member by member, details included. An
// empty one adds nothing; members that are not numbers stay as in the first.
func AddUsage(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	gjson.Parse(b).ForEach(func(key, add gjson.Result) bool {
		path := gjson.Escape(key.String())
		old := gjson.Get(a, path)
		switch {
		case old.IsObject() && add.IsObject():
			a = set(a, path, AddUsage(old.Raw, add.Raw))
		case old.Type == gjson.Number && add.Type == gjson.Number:
			a = set(a, path, addNumbers(old, add))
		case !present(old):
			a = set(a, path, add.Raw)
		}
		return true
	})
	return a
}

func addNumbers(a, b gjson.Result) string {
	if strings.ContainsAny(a.Raw+b.Raw, ".eE") {
		return formatFloat(a.Float() + b.Float())
	}
	return formatInt(a.Int() + b.Int())
}
