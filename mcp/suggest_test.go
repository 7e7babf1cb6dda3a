package mcp

import (
	"slices"
	"testing"
)

// Only what the model can have meant is suggested: a name of little but
// underscores is short, and so is its distance to anything.
func TestSuggest(t *testing.T) {
	var b Binding
	for _, name := range []string{"wx__forecast", "wx__now", "calc__add", "files__read_text_file", "files__read_media_file", "files__read_file", "files__list", "x_____", "x__Gr__e___"} {
		b.entries = append(b.entries, entry{Tool: Tool{Name: name}})
	}
	for name, want := range map[string][]string{
		"wx__forcast":           {"wx__forecast"},
		"forecast":              {"wx__forecast"},
		"wx_forecast":           {"wx__forecast"},
		"wx.now":                {"wx__now"},
		"add":                   {"calc__add"},
		"calc_add":              {"calc__add"},
		"math__add":             {"calc__add"},
		"files__read_txt_files": {"files__read_text_file", "files__read_file", "files__read_media_file"},
		"x__mail":               nil,
		"x__abc":                nil,
		"x__frobnicate":         nil,
		"send":                  nil,
		"mcp_resource__a__b":    nil,
		"":                      nil,
	} {
		if got := b.Suggest(name); !slices.Equal(got, want) {
			t.Errorf("Suggest(%q) = %q, want %q", name, got, want)
		}
	}
}
