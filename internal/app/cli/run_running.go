package cli

import (
	"context"
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

// reloadPatience is how long a worker may take to read its file again.
const reloadPatience = 20 * time.Second

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
