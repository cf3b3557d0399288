package cli

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/examples"
	"github.com/maestro-hive/maestro/internal/cmdline"
	"github.com/maestro-hive/maestro/internal/localdev"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/temporalutil"
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

// devOptions are the flags of `dev`.
type devOptions struct {
	localdev.Options
	log service.LogOptions
}

func newDev(a *app) *cobra.Command {
	o := devOptions{Options: localdev.Options{Port: defaultPort, UIPort: defaultUIPort}}
	var agents, healthPort string
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a Temporal server, its Web UI and a worker on this machine",
		Long: "Run a Temporal server, its Web UI and a worker on this machine, until Ctrl-C. All data is kept in the state directory; sessions continue at the next start.\n\n" +
			"The server listens on " + localdev.Loopback + " only. The worker file is --agents, else MAESTRO_AGENTS, else ./agents.yaml, else that of the example that `maestro demo` runs. SIGHUP reads it again.",
		Args: cmdline.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			o.MetricsAddress = cmp.Or(o.MetricsAddress, a.environ.get(service.MetricsAddressVariable))
			if o.HealthPort, o.ServesHealth, err = service.HealthPort(healthPort, a.environ.get); err != nil {
				return usagef("%w", err)
			}
			reloads, stop := service.Reloads()
			defer stop()
			o.Reloads = reloads
			return a.dev(cmd.Context(), o, agents)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&o.Port, "port", o.Port, "port of the Temporal server; 0: a free port")
	flags.IntVar(&o.UIPort, "ui-port", o.UIPort, "port of the Web UI; 0: a free port")
	flags.BoolVar(&o.Headless, "headless", false, "do not run the Web UI")
	flags.StringVar(&agents, "agents", "", "worker file")
	flags.StringVar(&o.MetricsAddress, "metrics-address", "", service.MetricsAddressUsage)
	flags.StringVar(&healthPort, "health-port", "", service.HealthPortUsage)
	o.log.AddFlags(flags, quietly)
	a.addStateDirFlag(cmd)
	return cmd
}

func (a *app) dev(ctx context.Context, o devOptions, agents string) error {
	if err := a.harden(); err != nil {
		return err
	}
	if err := checkPorts(o); err != nil {
		return err
	}
	k, err := a.startStack(ctx, o, func(s *store.Store) (string, error) { return a.workerFile(s, agents) })
	if err != nil {
		return err
	}
	defer k.Stop()
	a.describeStack(k)
	a.printErr("\nStart a session:  maestro run TEAM.yaml \"what to build\"%s", a.connectionFlags(k))
	a.printErr("Stop with Ctrl-C; sessions continue at the next start.")
	if err := k.Wait(ctx); err != nil {
		return err
	}
	a.printErr("stopping: unfinished work continues at the next start")
	return nil
}

// checkPorts refuses ports that do not exist.
func checkPorts(o devOptions) error {
	if err := checkPort("port", o.Port); err != nil || o.Headless {
		return err
	}
	return checkPort("ui-port", o.UIPort)
}

func checkPort(flag string, port int) error {
	if port < 0 || port > maxPort {
		return usagef("--%s: %d is not a port; use 1 to %d, or 0 for a free port", flag, port, maxPort)
	}
	return nil
}

// startStack starts server and worker, with the store that the command names. The agents
// are those of the worker file that find finds.
func (a *app) startStack(ctx context.Context, o devOptions, find func(s *store.Store) (string, error)) (_ *localdev.Stack, err error) {
	if o.Log, err = o.log.New(a.env.Stderr, a.environ.get); err != nil {
		return nil, usagef("%w", err)
	}
	if o.Server, err = localdev.FindServer(a.env.Executable); err != nil {
		return nil, err
	}
	if o.Store, err = a.createStore(true); err != nil {
		return nil, err
	}
	o.Agents = func() (string, error) { return find(o.Store) }
	o.SDKWarnings = o.log.AtLeast(a.environ.get) != quietly
	o.Stderr, o.Say, o.Getenv = a.env.Stderr, a.printErr, a.environ.get
	o.Now, o.Host, o.PID = a.env.Now, a.env.Host, a.env.PID
	return localdev.Start(ctx, o.Options)
}

// describeStack prints all addresses.
func (a *app) describeStack(k *localdev.Stack) {
	a.printErr("Maestro is running (process %d)", a.env.PID)
	a.printErr("  Temporal  %s, namespace %s", k.Conn.Address, k.Conn.Namespace)
	if k.WebUI() != "" {
		a.printErr("  Web UI    %s", k.WebUI())
	}
	a.printErr("  store     %s in %s", k.Store.ID(), k.Store.Dir())
	if k.Telemetry.Address() != "" {
		a.printErr("  metrics   %s", k.Telemetry.URL())
	}
	if k.HealthPort != 0 {
		a.printErr("  health    http://%s:%d%s and %s", localdev.Loopback, k.HealthPort, service.HealthPath, service.ReadyPath)
	}
	var agents []string
	for _, name := range slices.Sorted(maps.Keys(k.Agents.Agents)) {
		agents = append(agents, fmt.Sprintf("%s (%s)", name, k.Agents.Agents[name].Kind))
	}
	a.printErr("  agents    %s, from %s", strings.Join(agents, ", "), k.File)
}

// connectionFlags is the flags with which another command finds the stack: it looks in the store
// where the server is, unless the environment or a profile says so.
func (a *app) connectionFlags(k *localdev.Stack) string {
	flags := a.stateFlag()
	elsewhere := temporalutil.Options{StoreDir: k.Store.Dir(), Host: a.env.Host}
	if options, err := elsewhere.ClientOptions(a.environ); err != nil || options.HostPort != k.Conn.Address {
		flags = " --address " + k.Conn.Address + flags
	}
	return flags
}

// workerFile finds the worker file of a stack.
func (a *app) workerFile(s *store.Store, flag string) (string, error) {
	if flag != "" {
		return flag, nil
	}
	if file := a.environ.get("MAESTRO_AGENTS"); file != "" {
		return file, nil
	}
	here := filepath.Join(a.env.Dir, "agents.yaml")
	if _, err := os.Stat(here); err == nil {
		return here, nil
	}
	dir, err := a.extractExample(s)
	if err != nil {
		return "", err
	}
	a.printErr("there is no agents.yaml here and no --agents, so the worker has the example's agents, which are shell scripts")
	return filepath.Join(dir, "agents.yaml"), nil
}

// extractExample writes the embedded example to a directory beside the store.
func (a *app) extractExample(s *store.Store) (string, error) {
	dir := filepath.Join(s.Dir(), "demo")
	if err := extract(examples.FS, dir); err != nil {
		return "", fmt.Errorf("write the example to %s: %w", dir, err)
	}
	return filepath.Join(dir, exampleName), nil
}

// extract writes an embedded tree into a directory, replacing what it wrote
// there before.
func extract(from fs.FS, dir string) error {
	return fs.WalkDir(from, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(dir, filepath.FromSlash(path))
		if d.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		data, err := fs.ReadFile(from, path)
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o600)
		if strings.HasSuffix(path, ".sh") {
			mode = 0o700
		}
		return os.WriteFile(target, data, mode)
	})
}
