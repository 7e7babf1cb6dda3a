package mcp

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/tidwall/gjson"
)

// searchIndex ranks functions by the words of a query with Okapi BM25 (Robertson and
// Zaragoza, "The Probabilistic Relevance Framework", 2009): words that few functions
// have count for more, and long descriptions for no more than short ones.
type searchIndex struct {
	tools   []*tool
	words   map[string][]occurrence
	lengths []float64
	mean    float64
}

// occurrence is how much a word has to do with a function.
type occurrence struct {
	tool   int
	weight float64
}

// What a word counts where it stands.
const (
	weightName        = 3
	weightDescription = 1
	weightParameter   = 0.5
	weightNear        = 0.5 // of a word that only begins like the one asked for

	saturation = 1.2  // BM25's k1
	lengthNorm = 0.75 // BM25's b

	maxSchemaDepth = 32
	nearLetters    = 3
)

func newSearchIndex(entries []entry) *searchIndex {
	x := &searchIndex{words: map[string][]occurrence{}}
	for i, e := range entries {
		weights := map[string]float64{}
		length := 0.0
		add := func(text string, weight float64) {
			for _, word := range words(text) {
				weights[word] += weight
				length += weight
			}
		}
		add(e.Server, weightName)
		add(e.Original, weightName)
		add(e.Description, weightDescription)
		parameterTexts(gjson.Parse(e.as.Parameters), 0, func(text string) { add(text, weightParameter) })
		for word, weight := range weights {
			x.words[word] = append(x.words[word], occurrence{i, weight})
		}
		x.tools, x.lengths = append(x.tools, e.tool), append(x.lengths, length)
		x.mean += length / float64(len(entries))
	}
	return x
}

// parameterTexts gives the names and descriptions in a schema.
func parameterTexts(schema gjson.Result, depth int, text func(string)) {
	if depth > maxSchemaDepth {
		return
	}
	schema.ForEach(func(key, value gjson.Result) bool {
		switch {
		case key.String() == "properties" && value.IsObject():
			value.ForEach(func(name, property gjson.Result) bool {
				text(name.String())
				parameterTexts(property, depth+1, text)
				return true
			})
		case value.IsObject() || value.IsArray():
			parameterTexts(value, depth+1, text)
		case key.String() == "description" || key.String() == "title":
			text(value.String())
		}
		return true
	})
}

// find gives the functions that have to do with a query, the best first.
func (x *searchIndex) find(query string) []*tool {
	scores := map[int]float64{}
	asked := words(query)
	slices.Sort(asked)
	for _, word := range slices.Compact(asked) {
		if known := x.words[word]; known != nil {
			x.score(scores, known, 1)
			continue
		}
		for _, near := range slices.Sorted(maps.Keys(x.words)) { // sums of floats depend on the order
			if min(len(near), len(word)) >= nearLetters && (strings.HasPrefix(near, word) || strings.HasPrefix(word, near)) {
				x.score(scores, x.words[near], weightNear)
			}
		}
	}
	places := make([]int, 0, len(scores))
	for i := range scores {
		places = append(places, i)
	}
	slices.SortFunc(places, func(a, b int) int { return cmp.Or(cmp.Compare(scores[b], scores[a]), a-b) })
	out := make([]*tool, len(places))
	for i, place := range places {
		out[i] = x.tools[place]
	}
	return out
}

func (x *searchIndex) score(scores map[int]float64, known []occurrence, weight float64) {
	n, all := float64(len(known)), float64(len(x.tools))
	rarity := math.Log(1 + (all-n+0.5)/(n+0.5))
	for _, o := range known {
		norm := saturation * (1 - lengthNorm + lengthNorm*x.lengths[o.tool]/x.mean)
		scores[o.tool] += weight * rarity * o.weight * (saturation + 1) / (o.weight + norm)
	}
}

// words splits a text into words in lower case, without the plural's s. Names are
// split at their humps; scripts that put no spaces between words, into characters.
func words(text string) (out []string) {
	var word []rune
	end := func() {
		if n := len(word); n > 0 {
			if n > nearLetters && word[n-1] == 's' && word[n-2] != 's' {
				word = word[:n-1]
			}
			out = append(out, string(word))
		}
		word = word[:0]
	}
	before := rune(0)
	for _, r := range text {
		switch {
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai):
			end()
			out = append(out, string(r))
		case !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r):
			end()
		default:
			if unicode.IsUpper(r) && unicode.IsLower(before) {
				end()
			}
			word = append(word, unicode.ToLower(r))
		}
		before = r
	}
	end()
	return out
}
