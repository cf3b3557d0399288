package cli

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/maestro-hive/maestro/internal/agent"
	"github.com/maestro-hive/maestro/internal/bounded"
	"github.com/maestro-hive/maestro/internal/buildinfo"
	"github.com/maestro-hive/maestro/internal/client"
	"github.com/maestro-hive/maestro/internal/cmdline"
	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/sessionstatus"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
)

// plane has the operations that commands use: those of the control plane in this process, on
// Temporal and the store, or those of a server.
type plane struct {
	sessions sessionOperations
	requests requestOperations
	reviews  reviewOperations
	attempts attemptOperations
	starts   startOperations
	money    moneyOperations
	// base is the base of the operations of this process; nil with a server, whose address is
	// server.
	base   *control.Base
	server string
	// close ends connections.
	close func()
}

// sessionOperations are those of [control.Sessions] that commands use.
type sessionOperations interface {
	List(context.Context, control.SessionFilter) (control.SessionList, error)
	Status(ctx context.Context, session string) (sessionstatus.Session, error)
	Progress(ctx context.Context, session string) (control.Progress, error)
	Cancel(ctx context.Context, session string) (control.Cancellation, error)
	Known(context.Context) []string
	Dashboard(ctx context.Context, session string) string
}

// requestOperations are those of [control.Requests] that commands use.
type requestOperations interface {
	Inbox(context.Context) (control.Inbox, error)
	Open(ctx context.Context, session string) (open []session.Request, known bool, err error)
	Answer(ctx context.Context, session string, answer session.Answer) (control.Answered, error)
}

// reviewOperations are those of [control.Reviews] that commands use.
type reviewOperations interface {
	Artifacts(ctx context.Context, session string) (control.Artifacts, error)
	Diff(context.Context, control.DiffInput) (control.Diff, error)
	DiffFile(ctx context.Context, in control.DiffInput, path string) (control.FileDiff, error)
	// Result has the files that the session has changed, Selected those of its newest tree that
	// paths select.
	Result(ctx context.Context, session string) (control.Result, error)
	Selected(ctx context.Context, session string, paths []string) (control.Result, error)
}

// attemptOperations are those of [control.Attempts] that commands use.
type attemptOperations interface {
	List(ctx context.Context, session string, selected control.Select) (control.AttemptList, error)
	Log(ctx context.Context, session string, at control.Attempt) (control.AttemptLog, error)
	Follow(ctx context.Context, session string, selected control.Select, from string) iter.Seq2[control.Event, error]
}

// startOperations are those of [control.Starts] that commands use.
type startOperations interface {
	Check(context.Context, control.NewSession) error
	Start(context.Context, control.NewSession) (control.Started, error)
	Resume(ctx context.Context, session string, in control.Resume) (control.Started, error)
	Fork(ctx context.Context, session string, in control.Fork) (control.Started, error)
	// Files is the store for a session's files before they are sent to the session's store.
	Files() (*store.Store, error)
	Send(ctx context.Context, from *store.Store, team string, files spec.Digest) error
}

// moneyOperations are those of [control.Money] that commands use.
type moneyOperations interface {
	Budgets(ctx context.Context, session string) (control.Budgets, error)
	Raise(ctx context.Context, session string, r control.Raise) (control.Raised, error)
	Day(ctx context.Context, team string) (control.Day, error)
	RaiseDay(ctx context.Context, team string, r control.DayRaise) (control.Day, error)
	Usage(context.Context, control.UsageFilter) (control.Usage, error)
	SessionUsage(ctx context.Context, session string, by []string, since string) (control.Usage, error)
}

// planeOf has the operations of this process.
func planeOf(base *control.Base, done func()) *plane {
	return &plane{
		sessions: control.Sessions{Base: base}, requests: control.Requests{Base: base}, reviews: control.Reviews{Base: base}, starts: localStarts{control.Starts{Base: base}},
		attempts: control.Attempts{Base: base}, money: control.Money{Base: base},
		base: base, close: done,
	}
}

// planeAt has the operations of a server.
func planeAt(c *client.Client, now func() time.Time) *plane {
	between := &transit{now: now}
	return &plane{
		sessions: client.Sessions{Client: c}, requests: client.Requests{Client: c},
		reviews: servedReviews{client.Reviews{Client: c}, between}, starts: servedStarts{client.Starts{Client: c}, between},
		attempts: client.Attempts{Client: c}, money: client.Money{Client: c}, server: c.URL(), close: func() {
			between.close()
			c.Close()
		},
	}
}

// plane is that of the server in a command's flags or the environment; otherwise local creates it.
func (c *connector) plane(ctx context.Context, local func(context.Context) (*control.Base, func(), error)) (*plane, error) {
	at, err := c.client()
	if err != nil {
		return nil, err
	}
	if at != nil {
		return planeAt(at, c.now), nil
	}
	base, done, err := local(ctx)
	if err != nil {
		return nil, err
	}
	return planeOf(base, done), nil
}

// where describes the Temporal and the store, or the server.
func (p *plane) where() string {
	if p.base == nil {
		return "the Maestro server at " + p.server
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
	made, err := client.New(client.Options{URL: at, Token: token, PlainHTTP: t.server.plainHTTP, Version: buildinfo.This().Version,
		Now: c.now})
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
