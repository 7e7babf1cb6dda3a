package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/admin"
	"github.com/mcp-via-llm/mcp-via-llm/config"
	"github.com/mcp-via-llm/mcp-via-llm/sessions"
)

func (a *app) openStore(c config.Store) (sessions.Store, error) {
	o := c.Options()
	o.Observe = a.storeUsed
	if a.telemetry.Tracing() {
		o.Traces = a.telemetry.Traces
	}
	return sessions.Open(o)
}

// tryStore says at the start what is wrong with the store: that it cannot be
// reached, or what its user may not do. Turns go on all the same.
func (a *app) tryStore(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := a.store.Ping(ctx); err != nil && ctx.Err() == nil {
		a.log.Error("the session store does not work yet: turns go on without hidden history", "err", err)
	}
}

// clientSessions is what the admin listener says of a client's sessions.
type clientSessions struct {
	Client  string `json:"client"` // PROFILE/IDENTITY
	Keys    int    `json:"keys"`   // records, journals and leases that are kept, or were erased
	Deleted bool   `json:"deleted"`
}

// serveSessions counts (GET) or erases (DELETE) what is kept of a client.
func (a *app) serveSessions(w http.ResponseWriter, r *http.Request) {
	out := clientSessions{Client: r.URL.Query().Get("client"), Deleted: r.Method == http.MethodDelete}
	if err := checkClient(out.Client); err != nil {
		admin.Refuse(w, http.StatusBadRequest, "?client="+err.Error())
		return
	}
	do := a.store.Count
	if out.Deleted {
		do = a.store.Erase
	}
	var err error
	if out.Keys, err = do(r.Context(), out.Client); err != nil {
		admin.Refuse(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	writeJSON(w, out)
}

// checkClient refuses what can be no client: it would be counted as one of whom
// nothing is kept.
func checkClient(client string) error {
	if profile, identity, _ := strings.Cut(client, "/"); profile == "" || identity == "" {
		return fmt.Errorf("%q is not of the form PROFILE/IDENTITY, such as default/address:10.0.0.7: client and identity, as a turn's log line has them", client)
	}
	return nil
}

type sessionsCommand struct {
	Count  sessionsCount  `cmd:"" help:"Count what is kept of a client."`
	Delete sessionsDelete `cmd:"" help:"Erase what is kept of a client. Its calls in the background are cancelled."`
}

type sessionsFlags struct {
	configFlag
	Client string `required:"" placeholder:"PROFILE/IDENTITY" help:"The client, as its turns are logged."`
}

type (
	sessionsCount  struct{ sessionsFlags }
	sessionsDelete struct{ sessionsFlags }
)

// Validate makes a wrong client a wrong usage.
func (c *sessionsFlags) Validate() error {
	if err := checkClient(c.Client); err != nil {
		return fmt.Errorf("--client: %w", err)
	}
	return nil
}

func (c *sessionsCount) Run(out output) error  { return c.ask(out, http.MethodGet) }
func (c *sessionsDelete) Run(out output) error { return c.ask(out, http.MethodDelete) }

// ask has the running service do it: the embedded store is in its memory.
func (c *sessionsFlags) ask(out output, method string) error {
	cfg, err := config.Load(c.Config)
	if err != nil {
		return err
	}
	if cfg.Listen.Admin == "" {
		return errors.New("listen.admin is off: the running service cannot be asked")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	target := "http://" + cfg.Listen.Admin + "/debug/sessions?client=" + url.QueryEscape(c.Client)
	request, err := http.NewRequestWithContext(ctx, method, target, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("the service does not answer on listen.admin; is it running? %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the service answered %s: %s", response.Status, body)
	}
	var answer clientSessions
	if err := json.Unmarshal(body, &answer); err != nil {
		return err
	}
	verb := "kept"
	if answer.Deleted {
		verb = "deleted"
	}
	fmt.Fprintf(out.stdout, "%s: %d keys %s\n", answer.Client, answer.Keys, verb)
	return nil
}
