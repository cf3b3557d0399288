package cli

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/maestro-hive/maestro/internal/faces/client"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
	"github.com/maestro-hive/maestro/internal/platform/bounded"
	"github.com/maestro-hive/maestro/internal/platform/buildinfo"
	"github.com/maestro-hive/maestro/internal/platform/cmdline"
)

// plane is where the operations of commands run: in this process, on Temporal and the store, or at a
// server.
type plane struct {
	// base is that of the operations of this process; nil with a server.
	base   *control.Base
	server *client.Client
	// transit has the files that go to the server or come from it.
	transit *transit
	// close ends connections.
	close func()
}

// invoke runs an operation in this process or at the server.
func invoke[I, O any](ctx context.Context, p *plane, o httpapi.Operation[I, O], in I) (O, error) {
	if p.base == nil {
		return client.Call(ctx, p.server, o, in)
	}
	return o.Do(ctx, p.base, in)
}

// follow yields the events of attempts until their session ends.
func (p *plane) follow(ctx context.Context, in control.FollowInput) iter.Seq2[control.Event, error] {
	if p.base == nil {
		return client.FollowAttempts(ctx, p.server, in)
	}
	return control.Attempts{Base: p.base}.Follow(ctx, in)
}

// open lists the open requests of a session.
func (p *plane) open(ctx context.Context, sessionID string) (control.OpenRequests, error) {
	return invoke(ctx, p, httpapi.ListSessionRequests, httpapi.OfSession{Session: sessionID})
}

// status is the status of a session.
func (p *plane) status(ctx context.Context, sessionID string) (sessionstatus.Session, error) {
	return invoke(ctx, p, httpapi.ReadSession, httpapi.OfSession{Session: sessionID})
}

// known lists sessions, for suggestions: a hint that is missing does no harm.
func (p *plane) known(ctx context.Context) (ids []string) {
	if p.base != nil {
		return control.Sessions{Base: p.base}.Known(ctx)
	}
	all, _ := client.Call(ctx, p.server, httpapi.ListSessions, control.SessionFilter{Limit: 1000})
	for _, l := range all.Sessions {
		ids = append(ids, l.Session)
	}
	return ids
}

// dashboard is the address of the page of a session; empty: no server serves the store.
func (p *plane) dashboard(ctx context.Context, sessionID string) string {
	if p.base == nil {
		return p.server.SessionPage(sessionID)
	}
	return control.Sessions{Base: p.base}.Dashboard(ctx, sessionID)
}

// plane is that of the server in a command's flags or the environment; otherwise local creates it.
func (c *connector) plane(ctx context.Context, local func(context.Context) (*control.Base, func(), error)) (*plane, error) {
	at, err := c.client()
	if err != nil {
		return nil, err
	}
	if at != nil {
		between := &transit{now: c.now}
		return &plane{server: at, transit: between, close: func() {
			between.close()
			at.Close()
		}}, nil
	}
	base, done, err := local(ctx)
	return &plane{base: base, close: done}, err
}

// where describes the Temporal and the store, or the server.
func (p *plane) where() string {
	if p.base == nil {
		return "the Maestro server at " + p.server.URL()
	}
	var where []string
	if conn := p.base.Temporal(); conn != nil {
		where = append(where, fmt.Sprintf("Temporal at %s (namespace %s)", conn.Address, conn.Namespace))
	}
	if p.base.Store != nil {
		where = append(where, "the store in "+p.base.Store.Dir())
	}
	return strings.Join(where, " and ")
}

// temporal describes the Temporal of the operations.
func (p *plane) temporal() string {
	if p.base == nil || p.base.Temporal() == nil {
		return "Temporal"
	}
	return "Temporal at " + p.base.Temporal().Address
}

const (
	serverVariable = "MAESTRO_SERVER"
	tokenVariable  = "MAESTRO_TOKEN"
	serverFlag     = "server"
	maxTokenFile   = 4 << 10
)

// serverFlags name the server that a command works with instead of Temporal and the store.
type serverFlags struct {
	url, tokenFile string
	plainHTTP      bool
}

// addServerFlags gives a command that can work with a server the flags that name it.
func (t *target) addServerFlags(cmd *cobra.Command) {
	cmdline.AddGroup(cmd.Flags(), "Without Temporal and the store", func(flags *pflag.FlagSet) {
		flags.StringVar(&t.server.url, serverFlag, "", "URL of a server to work with (default: $"+serverVariable+"); the token comes from $"+tokenVariable)
		flags.StringVar(&t.server.tokenFile, "token-file", "", "file with the token instead")
		flags.BoolVar(&t.server.plainHTTP, "plain-http", false, "send the token to another host also without encryption")
	})
}

// client returns a client of the server in flags or the environment; nil: no server is named, or
// flags name a Temporal or a store, which override the environment.
func (c *connector) client() (*client.Client, error) {
	t := c.target
	local := t.namesLocal()
	switch {
	case t.server.url != "" && local != "":
		return nil, usagef("--%s %s excludes --%s; leave one out", serverFlag, t.server.url, local)
	case t.server.url == "" && (t.server.tokenFile != "" || t.server.plainHTTP) && t.environ.get(serverVariable) == "":
		return nil, usagef("--token-file and --plain-http need --%s or %s", serverFlag, serverVariable)
	case t.server.url == "" && local != "":
		return nil, nil
	}
	at := cmp.Or(t.server.url, t.environ.get(serverVariable))
	if at == "" {
		return nil, nil
	}
	token := t.environ.get(tokenVariable)
	if t.server.tokenFile != "" {
		data, err := bounded.ReadFile(t.server.tokenFile, maxTokenFile)
		if err != nil {
			return nil, usagef("--token-file: %w", err)
		}
		token = strings.TrimSpace(string(data))
	}
	made, err := client.New(client.Options{
		URL: at, Token: token, PlainHTTP: t.server.plainHTTP, Version: buildinfo.This().Version,
		Now: c.now,
	})
	if err != nil {
		return nil, usagef("%w", err)
	}
	return made, nil
}

// namesLocal is a flag for a Temporal or a store; empty: none is given.
func (t *target) namesLocal() string {
	for _, f := range append(t.places(),
		namedFlag{"api-key", t.temporal.APIKey}, namedFlag{"tls-cert-path", t.temporal.TLSCertPath},
		namedFlag{"tls-key-path", t.temporal.TLSKeyPath}, namedFlag{"tls-ca-path", t.temporal.TLSCAPath},
	) {
		if f.value != "" {
			return f.name
		}
	}
	return ""
}

// commandLine is the flags as they are written.
func (f serverFlags) commandLine() string {
	line := ""
	for _, g := range []namedFlag{{serverFlag, f.url}, {"token-file", f.tokenFile}} {
		if g.value != "" {
			line += " --" + g.name + " " + agent.ShellWord(g.value)
		}
	}
	if f.plainHTTP {
		line += " --plain-http"
	}
	return line
}

// refuseServer makes commands that need Temporal and the store fail if a server is named.
func refuseServer(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		refuseServer(sub)
	}
	if !cmd.Runnable() || cmd.DisableFlagParsing || cmd.Flags().Lookup(serverFlag) != nil {
		return
	}
	cmd.Flags().Var(refusedServer{cmd}, serverFlag, "")
	cmd.Flags().Lookup(serverFlag).Hidden = true
}

// refusedServer is the flag of commands that cannot work with a server.
type refusedServer struct{ cmd *cobra.Command }

func (refusedServer) String() string { return "" }
func (refusedServer) Type() string   { return "URL" }

func (r refusedServer) Set(string) error {
	return fmt.Errorf("`%s` works with Temporal and the store themselves, not with a server; leave --%s out", r.cmd.CommandPath(), serverFlag)
}
