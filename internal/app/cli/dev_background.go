package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/platform/bounded"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
)

const (
	// stopPatience is how long a `maestro dev` may take to end.
	stopPatience = 30 * time.Second
	maxDevLog    = 64 << 20
)

// localDocument is the document of `dev status -o json`.
type localDocument struct {
	temporalutil.LocalServer
	Runs      bool   `json:"runs"`
	StateDir  string `json:"state_dir"`
	Dashboard string `json:"dashboard,omitempty"`
	Log       string `json:"log,omitempty"`
}

// newDevCommands are the commands for what `run` or `dev` has started on this machine.
func newDevCommands(a *app) []*cobra.Command {
	status := &cobra.Command{
		Use: "status", Short: "Show the server and the worker that run on this machine",
		RunE: func(cmd *cobra.Command, _ []string) error { return a.devStatus(cmd.Context()) },
	}
	logs := &cobra.Command{
		Use: "logs", Short: "Print the messages of a Maestro in the background",
		RunE: func(*cobra.Command, []string) error { return a.devLogs() },
	}
	stop := &cobra.Command{
		Use: "stop", Short: "Stop the server and the worker on this machine; sessions continue at the next start",
		RunE: func(cmd *cobra.Command, _ []string) error { return a.devStop(cmd.Context()) },
	}
	a.addOutputFlag(status)
	return []*cobra.Command{a.addStateDirFlag(status), a.addStateDirFlag(logs), a.addStateDirFlag(stop)}
}

// local is the server that runs for the state directory.
func (a *app) local() (doc localDocument, err error) {
	if doc.StateDir, err = a.storeDir(); err != nil {
		return doc, err
	}
	doc.LocalServer, doc.Runs = temporalutil.FindLocal(doc.StateDir, a.env.Host)
	if log := filepath.Join(doc.StateDir, devLog); isFile(log) {
		doc.Log = log
	}
	return doc, nil
}

func (a *app) devStatus(ctx context.Context) error {
	doc, err := a.local()
	if err != nil {
		return err
	}
	if !doc.Runs {
		doc.LocalServer = temporalutil.LocalServer{}
	}
	s, err := a.openStore()
	if err == nil {
		defer s.Close() //nolint:errcheck // only read
		doc.Dashboard = access.ServedAt(ctx, s.State)
	} else if !errors.Is(err, session.ErrNotFound) {
		return err
	}
	if err := a.result(doc, func() { a.writeLocal(doc) }); err != nil || doc.Runs {
		return err
	}
	return exit(exitFailed)
}

func (a *app) writeLocal(doc localDocument) {
	if !doc.Runs {
		a.print("nothing runs for %s", doc.StateDir)
		return
	}
	a.print("process    %d", doc.PID)
	a.print("Temporal   %s, namespace %s", doc.Address, doc.Namespace)
	for _, line := range []struct{ name, value string }{
		{"Web UI    ", doc.WebUI},
		{"dashboard ", doc.Dashboard},
		{"agents    ", doc.WorkerFile},
		{"messages  ", doc.Log},
	} {
		if line.value != "" {
			a.print("%s %s", line.name, line.value)
		}
	}
	a.print("state      %s", doc.StateDir)
	if doc.Dashboard != "" {
		a.print("\nsign in: maestro serve --link%s", a.stateFlag())
	}
}

func (a *app) devLogs() error {
	doc, err := a.local()
	if err != nil {
		return err
	}
	if doc.Log == "" {
		return usagef("no Maestro was started in the background for %s", doc.StateDir)
	}
	data, err := bounded.ReadFile(doc.Log, maxDevLog)
	if err != nil {
		return failf("%w", err)
	}
	_, err = a.stdout.Write(data)
	return err
}

// devStop asks the process to end, and returns when it has ended.
func (a *app) devStop(ctx context.Context) error {
	doc, err := a.local()
	if err != nil {
		return err
	}
	if !doc.Runs {
		a.printErr("nothing runs for %s", doc.StateDir)
		return nil
	}
	process, err := os.FindProcess(doc.PID)
	if err == nil {
		err = process.Signal(syscall.SIGTERM)
	}
	if err != nil {
		return failf("stop process %d: %w", doc.PID, err)
	}
	err = waitUntil(ctx, stopPatience, func() (bool, error) {
		_, doc.Runs = temporalutil.FindLocal(doc.StateDir, a.env.Host)
		return !doc.Runs, nil
	})
	if err != nil {
		return failf("process %d has not ended: %w; its messages: `maestro dev logs%s`", doc.PID, err, a.stateFlag())
	}
	a.printErr("stopped; sessions continue at the next start")
	return nil
}

// waitUntil waits until a condition holds: an error is the condition's, or says that it does not hold within some time.
func waitUntil(ctx context.Context, patience time.Duration, holds func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not within %s", patience))
	defer cancel()
	ticker := time.NewTicker(backgroundPause)
	defer ticker.Stop()
	for {
		if done, err := holds(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}
