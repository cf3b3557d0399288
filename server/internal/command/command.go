// Package command is maestro-server's command line.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	uiversion "github.com/temporalio/ui-server/v2/server/version"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/server/common/headers"

	"github.com/maestro-hive/maestro/server/internal/devserver"
)

// Exit codes of Main.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// usageError is a fault of the command line itself.
type usageError struct{ error }

// Main runs maestro-server with args until it is done or ctx ends, and returns the exit code: 0 for a server that was
// told to stop, 1 for a failure, 2 for arguments that make no sense. An error is one sentence on stderr.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	_, _ = fmt.Fprintf(stderr, "maestro-server: %v\n", err)
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	return exitFailed
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "maestro-server",
		Short:         "A complete Temporal service in one process, on SQLite",
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          usageArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	server := &cobra.Command{
		Use:   "server",
		Short: "Run a server",
		Args:  usageArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	server.AddCommand(newStartDev())
	root.AddCommand(server)
	return root
}

func usageArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("unknown argument %q: see maestro-server --help", args[0])}
	}
	return nil
}

// startDev holds the flags of `server start-dev` as they were given.
type startDev struct {
	options          devserver.Options
	searchAttributes []string
	settings         []string
	logLevel         string
	logFormat        string
	untilEOF         bool
}

func newStartDev() *cobra.Command {
	s := &startDev{}
	cmd := &cobra.Command{
		Use:   "start-dev",
		Short: "Run a server for one machine until SIGTERM or SIGINT",
		Args:  usageArgs,
		RunE:  s.run,
	}
	flags := cmd.Flags()
	flags.StringVar(&s.options.IP, "ip", devserver.DefaultIP, "address that the frontend and the Web UI listen on")
	flags.IntVarP(&s.options.Port, "port", "p", devserver.DefaultPort, "port of the frontend; 0 takes a free one")
	flags.IntVar(&s.options.UIPort, "ui-port", 0,
		"port of the Web UI (default: --port plus 1000, or a free one where that is taken)")
	flags.BoolVar(&s.options.Headless, "headless", false, "do not run the Web UI")
	flags.StringVarP(&s.options.DBFilename, "db-filename", "f", "", "SQLite file that keeps everything (default: memory)")
	flags.StringArrayVarP(&s.options.Namespaces, "namespace", "n", nil, `namespace that shall exist besides "default"; repeatable`)
	flags.StringArrayVar(&s.searchAttributes, "search-attribute", nil,
		"search attribute of namespaces that do not exist yet, as NAME=TYPE; repeatable")
	flags.StringArrayVar(&s.settings, "dynamic-config-value", nil, "setting of the server, as KEY=JSON; repeatable")
	flags.StringVar(&s.logLevel, "log-level", "error", "debug, info, warn, error or never")
	flags.StringVar(&s.logFormat, "log-format", "text", "text or json (pretty is taken for text)")
	flags.BoolVar(&s.untilEOF, "until-stdin-closes", false,
		"stop also when standard input ends, so as not to outlive a parent process")
	return cmd
}

func (s *startDev) run(cmd *cobra.Command, _ []string) error {
	if err := s.complete(cmd.ErrOrStderr()); err != nil {
		return usageError{err}
	}
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	if s.untilEOF {
		go func() {
			_, _ = io.Copy(io.Discard, cmd.InOrStdin())
			cancel()
		}()
	}
	server, err := devserver.Start(ctx, s.options)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	if err != nil {
		return err
	}
	announce(cmd.OutOrStdout(), server, s.options.DBFilename)
	<-ctx.Done()
	return server.Stop()
}

// complete parses the flags that flags themselves cannot, and reports all faults together.
func (s *startDev) complete(stderr io.Writer) error {
	var faults []error
	s.options.SearchAttributes = map[string]enumspb.IndexedValueType{}
	for _, text := range s.searchAttributes {
		name, kind, err := devserver.ParseSearchAttribute(text)
		faults = append(faults, err)
		s.options.SearchAttributes[name] = kind
	}
	for _, text := range s.settings {
		setting, err := devserver.ParseSetting(text)
		faults = append(faults, err)
		s.options.Settings = append(s.options.Settings, setting)
	}
	handler, err := newHandler(stderr, s.logLevel, s.logFormat)
	faults = append(faults, err)
	if err := errors.Join(faults...); err != nil {
		return err
	}
	s.options.Logger = slog.New(handler)
	s.options.Fatal = func(err error) {
		_, _ = fmt.Fprintf(stderr, "maestro-server: %v\n", err)
		os.Exit(exitFailed)
	}
	return nil
}

func newHandler(w io.Writer, level, format string) (slog.Handler, error) {
	var least slog.Level
	if strings.EqualFold(level, "never") {
		return slog.DiscardHandler, nil
	}
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("log level %q: want debug, info, warn, error or never", level)
	}
	options := &slog.HandlerOptions{Level: least}
	switch format {
	case "text", "pretty":
		return slog.NewTextHandler(w, options), nil
	case "json":
		return slog.NewJSONHandler(w, options), nil
	default:
		return nil, fmt.Errorf("log format %q: want text or json", format)
	}
}

func announce(w io.Writer, server *devserver.Server, file string) {
	_, _ = fmt.Fprintf(w, "Temporal  %s\n", server.Address)
	if server.UIAddress != "" {
		_, _ = fmt.Fprintf(w, "Web UI    %s\n", server.UIAddress)
	}
	if file == "" {
		file = "in memory, gone when the server stops"
	}
	_, _ = fmt.Fprintf(w, "Database  %s\n", file)
}

// version names the build as the Go toolchain has recorded it, and what it serves.
func version() string {
	own, commit := "(devel)", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "" {
			own = info.Main.Version
		}
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				commit = ", commit " + setting.Value
			}
		}
	}
	return fmt.Sprintf("maestro-server %s (Temporal %s, Web UI %s%s)", own, headers.ServerVersion, uiversion.UIVersion, commit)
}
