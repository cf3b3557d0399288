package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/examples"
	"github.com/maestro-hive/maestro/internal/app/localdev"
	"github.com/maestro-hive/maestro/internal/app/serve"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/config"
	"github.com/maestro-hive/maestro/internal/ops/apply"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/ops/launch"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
	"github.com/maestro-hive/maestro/internal/platform/httpserver"
	"github.com/maestro-hive/maestro/internal/platform/logs"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/worker/service"
)

const (
	defaultPort   = 7233
	defaultUIPort = 8233
	// exampleName is the embedded example that demo runs.
	exampleName = "shortener"
	// quietly is the log level for interactive use.
	quietly = "warn"
)

// devStack is a server and a worker on this machine, which a command runs.
type devStack struct {
	*app
	localdev.Options
	log logs.Options
	// dashboard is the port of the dashboard; 0: a free one.
	dashboard uint16
}

// devCommand is `dev`.
type devCommand struct {
	devStack
	agents string // a worker file
}

func newDev(a *app) *cobra.Command {
	c := devCommand{devStack: devStack{app: a}}
	c.Port, c.UIPort = defaultPort, defaultUIPort
	var healthPort string
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a Temporal server, its Web UI, the dashboard and a worker on this machine",
		Long: "Run a Temporal server, its Web UI, the dashboard with the HTTP API, and a worker on this machine, until Ctrl-C. All " +
			"data is kept in the state directory; sessions continue at the next start.\n\n" +
			"The server listens on " + localdev.Loopback + " only. The worker file is --agents, else MAESTRO_AGENTS, else " +
			"./agents.yaml, else that of the example that `maestro demo` runs. SIGHUP reads it again.",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			c.MetricsAddress = cmp.Or(c.MetricsAddress, c.environ.get(service.MetricsAddressVariable))
			if c.HealthPort, c.ServesHealth, err = service.HealthPort(healthPort, c.environ.get); err != nil {
				return usagef("%w", err)
			}
			reloads, stop := service.Reloads()
			defer stop()
			c.Reloads = reloads
			return c.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.Uint16Var(&c.Port, "port", c.Port, "port of the Temporal server; 0: a free port")
	flags.Uint16Var(&c.UIPort, "ui-port", c.UIPort, "port of the Web UI; 0: a free port")
	flags.Uint16Var(&c.dashboard, "dashboard-port", 0, fmt.Sprintf("port of the dashboard and the API (default: %d, or a free "+
		"port if that is taken)", dashboardPort))
	flags.BoolVar(&c.Headless, "headless", false, "run neither the Web UI nor the dashboard")
	flags.StringVar(&c.agents, "agents", "", "worker file")
	flags.StringVar(&c.MetricsAddress, "metrics-address", "", service.MetricsAddressUsage)
	flags.StringVar(&healthPort, "health-port", "", service.HealthPortUsage)
	c.log.AddFlags(flags, quietly)
	cmd.AddCommand(newDevCommands(a)...)
	return a.addStateDirFlag(cmd)
}

func (c *devCommand) run(ctx context.Context) error {
	if err := c.env.harden(); err != nil {
		return err
	}
	k, err := c.start(ctx, c.workerFile)
	if err != nil {
		return err
	}
	defer k.Stop()
	c.describe(k)
	if !c.Headless {
		dashboard, err := c.startDashboard(ctx, k)
		if err != nil {
			return err
		}
		defer dashboard.Stop(ctx)
	}
	c.printErr("\nStart a session:  maestro run TEAM.yaml \"what to build\"%s", c.connectionFlags(k))
	c.printErr("Stop with Ctrl-C; sessions continue at the next start.")
	if err := k.Wait(ctx); err != nil {
		return err
	}
	c.printErr("stopping: unfinished work continues at the next start")
	return nil
}

// start starts server and worker, with the store that the command names. The agents
// are those of the worker file that find finds.
func (d *devStack) start(ctx context.Context, find func(s *store.Store) (string, error)) (_ *localdev.Stack, err error) {
	if d.Log, err = d.log.New(d.stderr, d.environ.get); err != nil {
		return nil, usagef("%w", err)
	}
	if d.Server, err = localdev.FindServer(d.env.Executable); err != nil {
		return nil, err
	}
	if d.Store, err = d.createStore(d.workerDir); err != nil {
		return nil, err
	}
	d.Agents = func() (string, error) { return find(d.Store) }
	sdk := d.log
	if d.log.AtLeast(d.environ.get) == quietly { // Say is told of a server that comes and goes
		sdk.Level = "error"
	}
	if d.SDKLog, err = sdk.New(d.stderr, d.environ.get); err != nil {
		return nil, usagef("%w", err)
	}
	d.Stderr, d.Say, d.Getenv = d.stderr, d.printErr, d.environ.get
	d.Now, d.Host, d.PID = d.env.Now, d.env.Host, d.env.PID
	return localdev.Start(ctx, d.Options)
}

// describe prints all addresses.
func (d *devStack) describe(k *localdev.Stack) {
	d.printErr("Maestro is running (process %d)", d.env.PID)
	d.printErr("  Temporal  %s, namespace %s", k.Conn.Address, k.Conn.Namespace)
	if k.WebUI() != "" {
		d.printErr("  Web UI    %s", k.WebUI())
	}
	d.printErr("  store     %s in %s", k.Store.ID(), k.Store.Dir())
	if k.Telemetry.Address() != "" {
		d.printErr("  metrics   %s", k.Telemetry.URL())
	}
	if k.HealthPort != 0 {
		d.printErr("  health    http://%s:%d%s and %s", localdev.Loopback, k.HealthPort, service.HealthPath, service.ReadyPath)
	}
	var agents []string
	for _, name := range slices.Sorted(maps.Keys(k.Agents.Agents)) {
		agents = append(agents, fmt.Sprintf("%s (%s)", name, k.Agents.Agents[name].Kind))
	}
	d.printErr("  agents    %s, from %s", strings.Join(agents, ", "), k.File)
}

// ownDirectory is the repository that the command runs in, from which the dashboard can start sessions, too.
func (d *devStack) ownDirectory(ctx context.Context) []control.Directory {
	dir, err := os.Getwd()
	name := filepath.Base(dir)
	if err != nil || spec.CheckName(name) != nil || !apply.InRepository(ctx, dir, d.environ) {
		return nil
	}
	return []control.Directory{d.directoryNamed(name, dir)}
}

// startDashboard serves the dashboard, and prints its address.
func (d *devStack) startDashboard(ctx context.Context, k *localdev.Stack) (*serve.Server, error) {
	o := d.env.serving(serve.Options{Store: k.Store, Namespace: k.Conn.Namespace, Log: d.Log.Logger})
	o.Dial = func(ctx context.Context) (*temporalutil.Connection, error) {
		return temporalutil.DialAddress(ctx, k.Conn.Address, k.Conn.Namespace, nil)
	}
	o.Directories = d.ownDirectory(ctx)
	o.Listen = net.JoinHostPort(localdev.Loopback, strconv.Itoa(int(cmp.Or(d.dashboard, dashboardPort))))
	server, err := serve.Start(ctx, o)
	if errors.Is(err, httpserver.ErrListen) && d.dashboard == 0 {
		o.Listen = net.JoinHostPort(localdev.Loopback, "0")
		server, err = serve.Start(ctx, o)
	}
	if err != nil {
		return nil, startError("--dashboard-port", err)
	}
	link, err := server.LoginURL(ctx)
	if err != nil {
		server.Stop(ctx)
		return nil, err
	}
	d.printErr("  dashboard %s  (signs in once; `maestro serve --link%s` prints another link)", link, d.stateFlag())
	return server, nil
}

// connectionFlags are the flags with which another command finds the stack. A command reads the
// server's address from the store, unless the environment or a profile names another one.
func (c *devCommand) connectionFlags(k *localdev.Stack) string {
	flags := c.stateFlag()
	elsewhere := temporalutil.Options{StoreDir: k.Store.Dir(), Host: c.env.Host}
	if options, err := elsewhere.ClientOptions(c.environ); err != nil || options.HostPort != k.Conn.Address {
		flags = " --address " + k.Conn.Address + flags
	}
	return flags
}

// workerFile finds the worker file of a stack.
func (c *devCommand) workerFile(s *store.Store) (string, error) {
	if c.agents != "" {
		return c.agents, nil
	}
	if file := c.environ.get("MAESTRO_AGENTS"); file != "" {
		return file, nil
	}
	here := filepath.Join(c.env.Dir, "agents.yaml")
	if _, err := os.Stat(here); err == nil {
		return here, nil
	}
	dir, err := extractExample(s)
	if err != nil {
		return "", err
	}
	c.printErr("there is no agents.yaml here and no --agents, so the worker has the example's agents, which are shell scripts")
	return filepath.Join(dir, "agents.yaml"), nil
}

// extractExample writes the embedded example to a directory beside the store.
func extractExample(s *store.Store) (string, error) {
	dir := filepath.Join(s.Dir(), "demo")
	if err := extract(examples.FS, dir); err != nil {
		return "", fmt.Errorf("write the example to %s: %w", dir, err)
	}
	return filepath.Join(dir, exampleName), nil
}

// extract writes an embedded tree into a directory, replacing what it wrote
// there before. Agents may run as another user, who reads it.
func extract(from fs.FS, dir string) error {
	return fs.WalkDir(from, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(from, path)
		if err != nil {
			return err
		}
		return writeFile(filepath.Join(dir, filepath.FromSlash(path)), data, os.O_TRUNC)
	})
}

// writeFile writes a file of a template or an example, and makes its directory. Scripts are executable.
func writeFile(file string, data []byte, flag int) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if filepath.Ext(file) == ".sh" {
		mode = 0o755
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|flag, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// demoCommand is `demo`.
type demoCommand struct {
	*app
	stack devStack
	keep  bool
}

func newDemo(a *app) *cobra.Command {
	c := demoCommand{app: a, stack: devStack{app: a}}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run an example session from start to end, without any setup",
		Long: "Start a Temporal server and a worker on free ports, run the example team on its requirement, and show its progress " +
			"and results. " +
			"The agents are shell scripts that need no model; what they write is really built and tested. The exit code is the session's.",
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	cmd.Flags().BoolVar(&c.keep, "keep", false, "keep running until Ctrl-C, to look at the Web UI")
	c.stack.log.AddFlags(cmd.Flags(), "error")
	a.addPlainFlag(cmd.Flags())
	return a.addStateDirFlag(cmd)
}

func (c *demoCommand) run(ctx context.Context) error {
	if err := c.env.harden(); err != nil {
		return err
	}
	var example string
	k, err := c.stack.start(ctx, func(s *store.Store) (file string, err error) {
		example, err = extractExample(s)
		return filepath.Join(example, "agents.yaml"), err
	})
	if err != nil {
		return err
	}
	defer k.Stop()
	c.stack.describe(k)
	c.printErr("")
	w, err := c.startExample(ctx, k, example)
	if err != nil {
		return err
	}
	v, err := c.show(ctx, w)
	if err != nil {
		return err
	}
	if err := c.printResult(ctx, k, w, v); err != nil {
		return err
	}
	if c.keep {
		dashboard, err := c.stack.startDashboard(ctx, k)
		if err != nil {
			return err
		}
		defer dashboard.Stop(ctx)
		c.printErr("\nRunning until Ctrl-C.")
		if err := k.Wait(ctx); err != nil {
			return err
		}
	}
	return exit(outcomeCode(v.Status.Status))
}

// startExample starts a session of the example's team on its requirement.
func (c *demoCommand) startExample(ctx context.Context, k *localdev.Stack, dir string) (*lookout, error) {
	t, err := config.LoadTeam(filepath.Join(dir, "team.yaml"))
	if err != nil {
		return nil, err
	}
	requirement, err := requirementOf(c.env.Stdin, filepath.Join(dir, "requirement.md"), nil)
	if err != nil {
		return nil, err
	}
	base, _, err := c.connectedBase(k.Conn, k.Store)
	if err != nil {
		return nil, err
	}
	doc, err := control.Starts{Base: base}.Start(ctx, control.NewSession{
		Team:        control.TeamInput{Loaded: &t},
		Requirement: requirement,
	})
	if err == nil && !doc.Admitted {
		err = cmp.Or(ctx.Err(), launch.ErrNotAdmitted)
	}
	p := &backend{base: base}
	return p.lookout(doc.Session, c.env.Now), c.explainStart(ctx, p, err)
}

// printResult prints the session's results, and commands to try next.
func (c *demoCommand) printResult(ctx context.Context, k *localdev.Stack, w *lookout, v sessionstatus.Session) error {
	if v.Status.Status != session.Completed {
		c.reportFailure(v.Status)
	}
	c.print("")
	shown, err := w.status(ctx, w.session)
	if err != nil {
		return err
	}
	c.writeStatus(shown)
	key := session.Key{Namespace: k.Conn.Namespace, Session: w.session}
	newest, err := w.newest(ctx, w.session, nil)
	if err != nil {
		return err
	}
	out := filepath.Join(k.Store.Dir(), "demo", w.session)
	files, err := k.Store.Content.Export(ctx, newest.Work.Tree, nil, out, true)
	if err != nil {
		return err
	}
	c.print("\nartifacts    %s in %s", textfmt.Count(len(files), "file"), out)
	c.print("checkpoints  %s", filepath.Join(k.Store.MirrorDir(key), "checkpoint_*.json"))
	flags := c.stateFlag()
	switch {
	case c.keep:
		c.print("Web UI       %s/namespaces/%s/workflows/%s", k.WebUI(), k.Conn.Namespace, w.session)
	default:
		c.print("Web UI       `maestro demo --keep%s` keeps it running; `maestro dev%s` shows this session again", flags, flags)
	}
	c.print("\nmore:\n  maestro logs %[1]s%[2]s\n  maestro artifacts list %[1]s%[2]s\n  maestro checkpoints list %[1]s%[2]s",
		w.session, flags)
	return nil
}
