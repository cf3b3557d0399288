package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/models/config"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/store"
)

const (
	// ownDir is the directory of a repository with a team and a worker file of its own.
	ownDir = ".maestro"
	// devLog is the log of a `maestro dev` in the background, below the state directory.
	devLog = "dev.log"
	// backgroundPatience is how long a server and a worker may take to start.
	backgroundPatience = 90 * time.Second
	backgroundPause    = 100 * time.Millisecond
)

// reloadPatience is how long a worker may take to read its file again.
const reloadPatience = 20 * time.Second

// serveHere sees to a Temporal with a worker: the one that is configured, the one that runs for the state directory, or a new
// one. That runs in the background, or, without a terminal, in this process until stop is called.
func (c *runCommand) serveHere(ctx context.Context, stateDir, agents string, t spec.Team) (stop func(), err error) {
	stop = func() {}
	named, err := c.temporal.Named(c.environ)
	if err != nil {
		return stop, usagef("%w", err)
	}
	if named {
		return stop, nil
	}
	if local, runs := temporalutil.FindLocal(stateDir, c.env.Host); runs {
		c.printErr("it runs on the Maestro of process %d, with the agents of %s: `maestro dev status`", local.PID, local.WorkerFile)
		return stop, c.useRunning(ctx, local, stateDir, agents, t)
	}
	if !c.foreground && c.onTerminal {
		return stop, c.startBackground(ctx, stateDir, agents)
	}
	stack := devStack{app: c.app}
	stack.Headless, stack.log.Level = true, "error"
	if err := c.env.harden(); err != nil {
		return stop, err
	}
	k, err := stack.start(ctx, func(*store.Store) (string, error) { return agents, nil })
	if err != nil {
		return stop, err
	}
	return k.Stop, nil
}

// useRunning sees to it that the Maestro that runs has what a team uses as a worker file defines it. If it reads this file, it
// reads it again. If it reads another one, in which an agent or a check of the same name is another, the session is refused: a
// change would be one for the repositories of that file, too.
func (c *runCommand) useRunning(ctx context.Context, local temporalutil.LocalServer, stateDir, agents string, t spec.Team) error {
	cfg, err := config.LoadWorker(agents)
	if err != nil {
		return err
	}
	offers, err := c.offersIn(ctx, stateDir)
	if err != nil {
		return failf("%w", err)
	}
	reads := local.WorkerFile == agents && local.Reloads
	other := otherDefinitions(t, cfg, offers, local.WorkerFile == agents)
	switch {
	case !reads && len(other) > 0:
		return usagef("the Maestro that runs (process %d) has other definitions than %s of: %s\n  It reads %s. One of these is "+
			"enough:\n"+
			"    maestro run --state-dir DIR ...   runs a Maestro of its own for this repository\n"+
			"    maestro dev stop                  lets the next run start one with this file; open sessions of other repositories "+
			"continue with it, too",
			local.PID, agents, strings.Join(other, ", "), local.WorkerFile)
	// the file for repositories that have none is written at each run
	case !reads, len(other) == 0 && filepath.Base(filepath.Dir(agents)) != ownDir:
		return nil
	}
	if err := syscall.Kill(local.PID, syscall.SIGHUP); err != nil {
		return failf("ask process %d to read %s again: %w", local.PID, agents, err)
	}
	err = waitUntil(ctx, reloadPatience, func() (bool, error) {
		offers, err := c.offersIn(ctx, stateDir)
		return err == nil && len(otherDefinitions(t, cfg, offers, true)) == 0, nil
	})
	if err != nil {
		return failf("process %d has not taken the changes of %s: %w; `maestro dev logs` says why", local.PID, agents, err)
	}
	return nil
}

// otherDefinitions lists the agents and checks of a team that no live worker has as a worker file defines them. Relative programs
// are the same ones only in the same file.
func otherDefinitions(t spec.Team, cfg agent.Config, offers []spec.Offer, sameFile bool) (other []string) {
	isHere := func(argv []string) bool {
		return !sameFile && len(argv) > 0 && strings.Contains(argv[0], "/") && !filepath.IsAbs(argv[0])
	}
	for _, name := range t.AgentNames() {
		d, defined := cfg.Agents[name]
		if defined && (isHere(d.Argv) ||
			!slices.ContainsFunc(offers, func(o spec.Offer) bool { return o.Agents[name].Digest == cfg.Digest(name) })) {
			other = append(other, "agent "+name)
		}
	}
	for _, use := range t.CheckUses() {
		d, defined := cfg.Checks[use.Check]
		text := "check " + use.Check
		if defined && !slices.Contains(other, text) &&
			!slices.ContainsFunc(offers, func(o spec.Offer) bool { return o.Checks[use.Check] == d.Digest() }) {
			other = append(other, text)
		}
	}
	return other
}

// startBackground starts `maestro dev` as a process of its own, and returns when its worker serves.
func (c *runCommand) startBackground(ctx context.Context, stateDir, agents string) error {
	logFile := filepath.Join(stateDir, devLog)
	log, err := os.OpenFile(logFile, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return failf("%w", err)
	}
	defer log.Close() //nolint:errcheck // the other process writes it
	cmd := exec.Command(c.env.Executable, "dev", "--port", "0", "--ui-port", "0", "--agents", agents, "--state-dir", stateDir)
	o, err := c.storeOptions()
	if err != nil {
		return err
	}
	environ := slices.Concat(c.env.Environ, o.Environ())
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = stateDir, environ, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return failf("start Maestro in the background: %w", err)
	}
	c.printErr("starting Maestro in the background (process %d): a Temporal server, a worker, the dashboard", cmd.Process.Pid)
	c.printErr("`maestro dev status` shows it, `maestro dev stop` ends it\n")
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	err = waitUntil(ctx, backgroundPatience, func() (bool, error) {
		select {
		case err := <-ended:
			said, _ := os.ReadFile(logFile)
			return false, fmt.Errorf("it has ended (%w):\n%s", cmp.Or(err, errors.New("exit status 0")), said)
		default:
			return c.servesIn(ctx, stateDir), nil
		}
	})
	if err != nil {
		return failf("Maestro in the background does not serve: %w; its messages are in %s", err, logFile)
	}
	return nil
}

// servesIn reports whether a worker serves on the Temporal of a state directory.
func (c *runCommand) servesIn(ctx context.Context, stateDir string) bool {
	if _, runs := temporalutil.FindLocal(stateDir, c.env.Host); !runs {
		return false
	}
	offers, err := c.offersIn(ctx, stateDir)
	return err == nil && len(offers) > 0
}

// offersIn are those of the live workers of a state directory.
func (c *runCommand) offersIn(ctx context.Context, stateDir string) ([]spec.Offer, error) {
	o, err := c.storeOptions()
	if err != nil {
		return nil, err
	}
	s, err := store.Open(stateDir, o)
	if err != nil {
		return nil, err
	}
	defer s.Close() //nolint:errcheck // only read
	offers, err := s.State.Offers(ctx)
	return slices.DeleteFunc(offers, func(o spec.Offer) bool { return !o.Live(c.now()) }), err
}
