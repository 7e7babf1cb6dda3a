// Package admin shows people what happens inside: servers and their health, what
// the catalog costs, turns that run and that have ended. Each page is also there
// as JSON. Nothing of what is said in a turn is known here.
package admin

import (
	"bytes"
	"embed"
	"encoding/json"
	"html/template"
	"io/fs"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/mcp"
)

// Source is what the pages show. All must be set.
type Source struct {
	Version  string
	NotReady func() string // why; "" if the service is ready
	Servers  func() []mcp.ServerStatus
	Turns    *Turns
	Clients  func() []string // names of the client profiles, in order
	// Catalog gives what a client profile has, written in a dialect of JSON Schema;
	// "" is the profile's own. It must not wait for servers. It is false for a
	// profile that is not there.
	Catalog func(client, schema string) (Catalog, bool)
	Schemas []string // the dialects
}

//go:embed page
var files embed.FS

var pages = template.Must(template.New("").Funcs(functions).ParseFS(files, "page/*.html"))

// A page loads nothing from elsewhere and is in no other's frame. Whatever a server
// or a client has written is escaped; the policy is the second line.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// page is what one address answers.
type page struct {
	template string
	title    string
	lives    bool // it changes by itself
	json     any
	view     any
	status   int // 0: 200
}

// Register adds the pages to a mux: /debug/, what is below it, and / to lead there.
// Each is HTML or JSON, as its reader likes; with .json behind it, JSON.
func (s *Source) Register(mux *http.ServeMux) {
	mux.Handle("GET /{$}", http.RedirectHandler("/debug/", http.StatusFound))
	mux.HandleFunc("GET /debug/static/{file}", s.static)
	for path, build := range map[string]func(*http.Request) page{
		"/debug/{$}":           s.overview,
		"/debug/overview":      s.overview,
		"/debug/servers":       s.servers,
		"/debug/catalog":       s.catalog,
		"/debug/turns":         s.turns,
		"/debug/turns/running": s.running,
		"/debug/turns/{turn}":  s.turn,
	} {
		handle := func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, build(r)) }
		mux.HandleFunc("GET "+path, handle)
		if !strings.HasSuffix(path, "}") {
			mux.HandleFunc("GET "+path+".json", handle)
		}
	}
	mux.HandleFunc("GET /", s.missing)
}

// missing answers for what is not there.
func (s *Source) missing(w http.ResponseWriter, r *http.Request) {
	s.serve(w, r, missing("There is no such page."))
}

// Refuse answers with an error as JSON, for what has no page.
func Refuse(w http.ResponseWriter, status int, why string) {
	answer(w, page{status: status, json: map[string]string{"error": why}})
}

// frame is what all pages have around them.
type frame struct {
	Version  string
	NotReady string
	Title    string
	Path     string
	Lives    bool
	JSON     string // address of the same as JSON
	Now      time.Time
	View     any
}

func (s *Source) serve(w http.ResponseWriter, r *http.Request, p page) {
	if p.template == "" || strings.HasSuffix(r.URL.Path, ".json") {
		answer(w, p)
		return
	}
	w.Header().Set("Vary", "Accept")
	if !wantsPage(r) {
		answer(w, p)
		return
	}
	f := frame{Version: s.Version, NotReady: s.NotReady(), Title: p.title, Path: r.URL.Path, Lives: p.lives, Now: time.Now().UTC(), View: p.view}
	if p.json != nil && p.status == 0 {
		f.JSON = r.URL.Path + ".json"
		if r.URL.Path == "/debug/" {
			f.JSON = "/debug/overview.json"
		}
		if r.URL.RawQuery != "" {
			f.JSON += "?" + r.URL.RawQuery
		}
	}
	var out bytes.Buffer
	if err := pages.ExecuteTemplate(&out, p.template, f); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	protect(h)
	if p.status != 0 {
		w.WriteHeader(p.status)
	}
	w.Write(out.Bytes()) //nolint:errcheck // the reader is gone, nobody is left to tell
}

func protect(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// answer sends a page as JSON.
func answer(w http.ResponseWriter, p page) {
	w.Header().Set("Content-Type", "application/json")
	protect(w.Header())
	if p.status != 0 {
		w.WriteHeader(p.status)
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.Encode(p.json) //nolint:errcheck // as above
}

func (s *Source) static(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	if _, err := fs.Stat(files, "page/"+name); err != nil || strings.HasSuffix(name, ".html") {
		s.missing(w, r)
		return
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-cache")
	http.ServeFileFS(w, r, files, "page/"+name)
}

// shown bounds the turns on the overview.
const shown = 15

type overview struct {
	Servers   []mcp.ServerStatus `json:"servers"`
	Catalogs  []Catalog          `json:"-"`
	Running   int                `json:"turns_running"`
	Turns     []Turn             `json:"-"`
	Connected int                `json:"servers_connected"`
	Version   string             `json:"version"`
	NotReady  string             `json:"not_ready,omitempty"`
}

func (s *Source) overview(*http.Request) page {
	o := overview{Servers: s.Servers(), Running: s.Turns.Active(), Version: s.Version, NotReady: s.NotReady()}
	for _, server := range o.Servers {
		if server.State == "connected" {
			o.Connected++
		}
	}
	for _, name := range s.Clients() {
		if c, ok := s.Catalog(name, ""); ok {
			o.Catalogs = append(o.Catalogs, c)
		}
	}
	o.Turns = append(s.Turns.Running(shown), s.Turns.Ended(shown)...)
	return page{template: "overview.html", title: "Overview", lives: true, json: o, view: o}
}

func (s *Source) servers(*http.Request) page {
	all := s.Servers()
	return page{template: "servers.html", title: "Servers", lives: true, json: all, view: all}
}

func (s *Source) turns(*http.Request) page {
	ended := s.Turns.Ended(keptTurns)
	return page{template: "turns.html", title: "Turns", lives: true, json: ended, view: append(s.Turns.Running(keptTurns), ended...)}
}

// running is for programs: a page for people has all turns.
func (s *Source) running(*http.Request) page { return page{json: s.Turns.Running(math.MaxInt)} }

func (s *Source) turn(r *http.Request) page {
	text := strings.TrimSuffix(r.PathValue("turn"), ".json")
	number, err := strconv.ParseUint(text, 10, 64)
	t, ok := s.Turns.Find(number)
	if err != nil || !ok {
		return missing("There is no such turn here. The last " + strconv.Itoa(keptTurns) + " that have ended are kept, until the service restarts.")
	}
	return page{template: "turn.html", title: "Turn " + text, lives: t.Running || t.Behind() > 0, json: t, view: newWaterfall(t)}
}

type catalogView struct {
	Catalog
	Costliest        int // tokens
	Clients, Schemas []string
}

func (s *Source) catalog(r *http.Request) page {
	clients := s.Clients()
	client, schema := r.FormValue("client"), r.FormValue("schema")
	if client == "" && len(clients) > 0 {
		client = clients[0]
	}
	c, ok := s.Catalog(client, schema)
	if !ok {
		return missing("There is no such client profile or schema dialect.")
	}
	view := catalogView{Catalog: c, Clients: clients, Schemas: s.Schemas}
	for _, o := range c.Offers {
		view.Costliest = max(view.Costliest, o.Tokens)
	}
	return page{template: "catalog.html", title: "Catalog", json: c, view: view}
}

func missing(why string) page {
	return page{template: "missing.html", title: "Not found", json: map[string]string{"error": why}, view: why, status: http.StatusNotFound}
}
