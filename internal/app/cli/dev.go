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
	"github.com/maestro-hive/maestro/internal/platform/cmdline"
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
	maxPort     = 65535
	// quietly is the log level for interactive use.
	quietly = "warn"
)

// devStack is a server and a worker on this machine, which a command runs.
type devStack struct {
	*console
	*storeOpener
	env Env
	localdev.Options
	log logs.Options
	// dashboard is the port of the dashboard; 0: a free one.
	dashboard int
}

// devCommand is `dev`.
type devCommand struct {
	devStack
	agents string // a worker file
}

func newDev(a *app) *cobra.Command {
	c := devCommand{devStack: devStack{console: a.console, storeOpener: a.storeOpener, env: a.env}}
	c.Port, c.UIPort = defaultPort, defaultUIPort
	var healthPort string
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a Temporal server, its Web UI, the dashboard and a worker on this machine",
		Long: "Run a Temporal server, its Web UI, the dashboard with the HTTP API, and a worker on this machine, until Ctrl-C. All data is kept in the state directory; sessions continue at the next start.\n\n" +
			"The server listens on " + localdev.Loopback + " only. The worker file is --agents, else MAESTRO_AGENTS, else ./agents.yaml, else that of the example that `maestro demo` runs. SIGHUP reads it again.",
		Args: cmdline.Arguments(0, 0),
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
	flags.IntVar(&c.Port, "port", c.Port, "port of the Temporal server; 0: a free port")
	flags.IntVar(&c.UIPort, "ui-port", c.UIPort, "port of the Web UI; 0: a free port")
	flags.IntVar(&c.dashboard, "dashboard-port", 0, fmt.Sprintf("port of the dashboard and the API (default: %d, or a free port if that is taken)", dashboardPort))
	flags.BoolVar(&c.Headless, "headless", false, "run neither the Web UI nor the dashboard")
	flags.StringVar(&c.agents, "agents", "", "worker file")
	flags.StringVar(&c.MetricsAddress, "metrics-address", "", service.MetricsAddressUsage)
	flags.StringVar(&healthPort, "health-port", "", service.HealthPortUsage)
	c.log.AddFlags(flags, quietly)
	a.addStateDirFlag(cmd)
	return cmd
}

func (c *devCommand) run(ctx context.Context) error {
	if err := c.env.harden(); err != nil {
		return err
	}
	if err := c.checkPorts(); err != nil {
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

// checkPorts rejects invalid ports.
func (c *devCommand) checkPorts() error {
	if err := checkPort("port", c.Port); err != nil || c.Headless {
		return err
	}
	if err := checkPort("dashboard-port", c.dashboard); err != nil {
		return err
	}
	return checkPort("ui-port", c.UIPort)
}

func checkPort(flag string, port int) error {
	if port < 0 || port > maxPort {
		return usagef("--%s: %d is not a port; use 1 to %d, or 0 for a free port", flag, port, maxPort)
	}
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
	d.SDKWarnings = d.log.AtLeast(d.environ.get) != quietly
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

// startDashboard serves the dashboard, and prints its address.
func (d *devStack) startDashboard(ctx context.Context, k *localdev.Stack) (*serve.Server, error) {
	o := d.env.serving(serve.Options{Store: k.Store, Namespace: k.Conn.Namespace, Log: d.Log.Logger})
	o.Dial = func(ctx context.Context) (*temporalutil.Connection, error) {
		return temporalutil.DialAddress(ctx, k.Conn.Address, k.Conn.Namespace, nil)
	}
	o.Listen = net.JoinHostPort(localdev.Loopback, strconv.Itoa(cmp.Or(d.dashboard, dashboardPort)))
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
		if err != nil {
			return err
		}
		target := filepath.Join(dir, filepath.FromSlash(path))
		if d.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		data, err := fs.ReadFile(from, path)
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if strings.HasSuffix(path, ".sh") {
			mode = 0o755
		}
		return os.WriteFile(target, data, mode)
	})
}
