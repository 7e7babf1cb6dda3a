package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// fault is one way to be a bad server.
type fault struct {
	list func(cursor string) string         // the result of tools/list
	call func(message, func(string)) string // the result of tools/call; nil: what was called
	then func(send func(line string))       // what is sent once the session is made; nil: nothing
}

func names() []string { return slices.Sorted(maps.Keys(faults)) }

var faults = map[string]*fault{
	// A list without an end, and one whose every page is large.
	"pages":    {list: func(cursor string) string { return page(cursor, 20, 0) }},
	"fatpages": {list: func(cursor string) string { return page(cursor, 20, 100<<10) }},
	// The same cursor again and again.
	"circle": {list: func(string) string { return `{"tools":[` + tool("same", `{"type":"object"}`) + `],"nextCursor":"x"}` }},
	// The list changes all the time, and the server says so.
	"storm": {list: func(string) string {
		return tools(tool("steady", `{"type":"object"}`), tool(fmt.Sprint("new", count.Add(1)), `{"type":"object"}`))
	}, then: storm},
	// Notifications of everything else, without an end.
	"chatter": {list: one, then: chatter},
	"huge":    {list: one, call: func(message, func(string)) string { return said(strings.Repeat("0123456789abcdef", 100<<16)) }},
	"mute":    {list: one, call: func(message, func(string)) string { select {} }},
	"dies":    {list: one, call: func(message, func(string)) string { os.Exit(3); return "" }},
	// Noise on stdout: lines that are no JSON, bytes that are no text, a line that does not end.
	"garbage": {list: one, then: garbage, call: func(m message, send func(string)) string {
		send("{\x00\xff not JSON \x1b[2J")
		return said("called " + m.Params.Name)
	}},
	"endless": {list: one, call: func(_ message, send func(string)) string { send(strings.Repeat("x", 200<<20)); return said("called") }},
	"bombs":   {list: func(string) string { return bombs() }},
	"scripts": {list: func(string) string { return scripts() }},
	// An answer to what nobody asked, again and again, and a request of the client's that is none.
	"answers": {list: one, then: answers},
}

var count atomic.Int64

func tool(name, schema string) string {
	encoded, err := json.Marshal(name)
	if err != nil {
		panic(err) // a string
	}
	return `{"name":` + string(encoded) + `,"inputSchema":` + schema + `}`
}

func tools(all ...string) string { return `{"tools":[` + strings.Join(all, ",") + `]}` }

func one(string) string { return tools(tool("do", `{"type":"object"}`)) }

func page(cursor string, n, bytes int) string {
	at, _ := strconv.Atoi(cursor) // the first has none
	var all []string
	for i := range n {
		all = append(all, tool(fmt.Sprintf("tool_%d", at*n+i), `{"type":"object","description":"`+strings.Repeat("x", bytes)+`"}`))
	}
	return `{"tools":[` + strings.Join(all, ",") + `],"nextCursor":"` + strconv.Itoa(at+1) + `"}`
}

func storm(send func(string)) {
	for {
		send(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		time.Sleep(100 * time.Microsecond)
	}
}

func chatter(send func(string)) {
	for i := 0; ; i++ {
		send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"emergency","data":"line %d %s"}}`, i, strings.Repeat("y", 1000)))
		send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":%d}}`, i, i))
		send(`{"jsonrpc":"2.0","method":"notifications/unheard/of","params":{}}`)
		time.Sleep(100 * time.Microsecond)
	}
}

func garbage(send func(string)) {
	for i := 0; ; i++ {
		send([]string{"starting…", "[1,2", "\xff\xfe\x00", `{"jsonrpc":"2.0"}`, `[]`, `null`, "", strings.Repeat("z", 1<<20), `{"id":1e999,"result":{}}`}[i%9])
		time.Sleep(time.Millisecond)
	}
}

func answers(send func(string)) {
	for i := 0; ; i++ {
		send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":[]}}`, 1_000_000+i))
		send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"s%d","method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`, i))
		send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"x%d","method":"no/such/method"}`, i))
		time.Sleep(100 * time.Microsecond)
	}
}

// bombs are many small schemas that would be large, one that is deep and one that is wide, among good tools.
func bombs() string {
	var defs strings.Builder
	for i := range 40 {
		ref := fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i+1)
		fmt.Fprintf(&defs, `"d%d":{"anyOf":[%s,%s],"type":"object","properties":{"x":%s}},`, i, ref, ref, ref)
	}
	bomb := `{"type":"object","properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{` + defs.String() + `"d40":{"type":"object"}}}`
	all := []string{tool("good_first", `{"type":"object"}`),
		tool("deep", `{"type":"object","properties":{"a":`+strings.Repeat(`{"items":`, 20_000)+`{}`+strings.Repeat(`}`, 20_000)+`}}`),
		tool("wide", `{"type":"object","properties":{"a":{"enum":[`+strings.Repeat(`"v",`, 1_000_000)+`"w"]}}}`)}
	for i := range 300 {
		all = append(all, tool(fmt.Sprintf("bomb_%d", i), bomb))
	}
	return tools(append(all, tool("good_last", `{"type":"object"}`))...)
}

// scripts are names as people write them, and some that no one does.
func scripts() string {
	var all []string
	for _, name := range []string{"plain", "mit Leerzeichen", "größe/查询", "поиск", "検索", "חיפוש", "بحث", "खोज", "ค้นหา", "🔧🔨", "a.b.c", "a_b_c", "a b c", "...",
		"__", "notion.search", "notion_search", "\u202egnp.exe", "a\u0000b", "\"},{\"type\":\"function\"", "\\u0041", strings.Repeat("long", 50), strings.Repeat("長", 50), "e\u0301", "\u00e9", "mcp_call_tool"} {
		all = append(all, tool(name, `{"type":"object","properties":{"`+"ключ"+`":{"type":"string"}}}`))
	}
	return tools(all...)
}
