package mcp

import (
	"log/slog"
	"strings"
	"testing"
)

// A server that says odd things of itself is of use all the same, and the log says
// once what was odd.
func TestOddIntroductions(t *testing.T) {
	const version, info, tools = `"protocolVersion":"2024-11-05"`, `"serverInfo":{"name":"o","version":"1"}`, `"capabilities":{"tools":{}}`
	for name, row := range map[string]struct{ told, odd string }{
		"fine":                    {version + `,` + info + `,` + tools, ""},
		"tools: a list":           {version + `,` + info + `,"capabilities":{"tools":[]}`, "capabilities.tools"},
		"tools: true":             {version + `,` + info + `,"capabilities":{"tools":true}`, "capabilities.tools"},
		"tools: text":             {version + `,` + info + `,"capabilities":{"tools":"true"}`, "capabilities.tools"},
		"tools: null":             {version + `,` + info + `,"capabilities":{"tools":null}`, ""},
		"tools: false":            {version + `,` + info + `,"capabilities":{"tools":false}`, "capabilities.tools"},
		"logging: a list":         {version + `,` + info + `,"capabilities":{"tools":{},"logging":[]}`, "capabilities.logging"},
		"prompts: a list":         {version + `,` + info + `,"capabilities":{"tools":{},"prompts":[],"resources":"x"}`, "capabilities.prompts, capabilities.resources"},
		"listChanged: text":       {version + `,` + info + `,"capabilities":{"tools":{"listChanged":"true"}}`, "capabilities.tools.listChanged"},
		"listChanged: object":     {version + `,` + info + `,"capabilities":{"tools":{"listChanged":{}}}`, "capabilities.tools.listChanged"},
		"experimental: text":      {version + `,` + info + `,"capabilities":{"tools":{},"experimental":"x","extensions":[]}`, "capabilities.experimental, capabilities.extensions"},
		"unknown":                 {version + `,` + info + `,"capabilities":{"tools":{},"other":7},"more":[1]`, ""},
		"capabilities: null":      {version + `,` + info + `,"capabilities":null`, ""},
		"capabilities: a list":    {version + `,` + info + `,"capabilities":[]`, "capabilities"},
		"capabilities: text":      {version + `,` + info + `,"capabilities":"tools"`, "capabilities"},
		"no capabilities":         {version + `,` + info, ""},
		"_meta: a list":           {version + `,` + info + `,` + tools + `,"_meta":[]`, "_meta"},
		"_meta: null":             {version + `,` + info + `,` + tools + `,"_meta":null`, ""},
		"serverInfo: text":        {version + `,` + tools + `,"serverInfo":"x"`, "serverInfo"},
		"serverInfo: a list":      {version + `,` + tools + `,"serverInfo":[]`, ""},
		"serverInfo: numbers":     {version + `,` + tools + `,"serverInfo":{"name":5,"version":1,"icons":7}`, "serverInfo.name, serverInfo.version"},
		"serverInfo: null":        {version + `,` + tools + `,"serverInfo":null`, ""},
		"no serverInfo":           {version + `,` + tools, ""},
		"instructions: null":      {version + `,` + info + `,` + tools + `,"instructions":null`, ""},
		"instructions: a number":  {version + `,` + info + `,` + tools + `,"instructions":5`, "instructions"},
		"instructions: an object": {version + `,` + info + `,` + tools + `,"instructions":{"a":1}`, "instructions"},
	} {
		for _, kind := range transports {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				var log buffer
				h := startHost(t, Options{
					Servers: []Server{phrased(t, kind, map[string]string{"initialize": `{"jsonrpc":"2.0","id":ID,"result":{` + row.told + `}}`})},
					Log:     slog.New(slog.NewTextHandler(&log, nil)),
				})
				if res := toolsOf(t, h, "box").Bind(nil).Call(t.Context(), "box__run", ""); res.Text != "done" {
					t.Errorf("%+v, %+v", res, h.Status())
				}
				const text = "introduces itself with values of wrong types"
				if n := strings.Count(log.String(), text); n != min(1, len(row.odd)) || row.odd != "" && !strings.Contains(log.String(), row.odd) {
					t.Errorf("%d complaints: %s", n, log.String())
				}
			})
		}
	}
}

// The same of a server of 2026-07-28.
func TestOddDiscovery(t *testing.T) {
	for name, told := range map[string]string{
		"tools: true":        `"supportedVersions":["2026-07-28"],"capabilities":{"tools":true}`,
		"versions: a text":   `"supportedVersions":"2026-07-28","capabilities":{"tools":{}}`,
		"versions: mixed":    `"supportedVersions":[7,null,"2026-07-28"],"capabilities":{"tools":{}}`,
		"ttlMs: a fraction":  `"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":1000.5,"cacheScope":7`,
		"capabilities: null": `"supportedVersions":["2026-07-28"],"capabilities":null,"_meta":[],"instructions":5`,
		"resultType: null":   `"supportedVersions":["2026-07-28"],"capabilities":{"tools":[]},"resultType":null,"serverInfo":"x"`,
	} {
		for _, kind := range []string{"json", stdio} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				h := newTestHost(t, phrased(t, kind, map[string]string{
					"server/discover": `{"jsonrpc":"2.0","id":ID,"result":{` + told + `}}`,
					"initialize":      `{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"initialize was removed"}}`,
				}))
				if res := toolsOf(t, h, "box").Bind(nil).Call(t.Context(), "box__run", ""); res.Text != "done" {
					t.Errorf("%+v, %+v", res, h.Status())
				}
			})
		}
	}
}
