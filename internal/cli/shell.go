package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/cas"
	"github.com/maestro-hive/maestro/internal/cmdline"
	"github.com/maestro-hive/maestro/internal/config"
	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/textfmt"
	"github.com/maestro-hive/maestro/worker/service"
)

// shellCommand is `shell`.
type shellCommand struct {
	*console
	*storeOpener
	app          *app
	agents       string
	keys, supply bool
}

func newShell(a *app) *cobra.Command {
	c := shellCommand{console: a.console, storeOpener: a.storeOpener, app: a}
	cmd := &cobra.Command{
		Use:   "shell SESSION PHASE/PERSONA [-- COMMAND...]",
		Short: "Look at an assignment's files in a copy of its room, or correct them",
		Long: "Start a shell, or a command, with what an assignment's agent works with: its files and HOME as its last attempt left them, its caches, its " +
			"environment and its network, in a separate room. They are copies: the agent may be at work meanwhile. If this host does not have them, the files are those that the store has.\n\n" +
			"At the end the changed files are listed. The store keeps them, and the command that supplies them as the assignment's work is printed; --supply does that at " +
			"once if the shell ends with exit code 0. All else is removed, with every process that was started.\n\n" +
			"It needs the worker file and the store, not Temporal. Variables come from the environment of this command. The exit code is that of the shell or command, or 127 if it cannot be started.",
		Example: "  maestro shell web-7 build/backend\n  maestro shell web-7 build/backend -- make test\n  maestro shell web-7 build/backend --supply",
		Args: func(cmd *cobra.Command, args []string) error {
			if n := cmd.ArgsLenAtDash(); n >= 0 {
				args = args[:n]
			}
			return cmdline.Arguments(2, 2)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := spec.ParseAssignmentID(args[1])
			if err != nil {
				return usagef("%w", err)
			}
			return c.run(cmd.Context(), args[0], id, args[2:])
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&c.agents, "agents", "", "worker file with the agent (default $MAESTRO_AGENTS)")
	flags.BoolVar(&c.keys, "keys", false, "pass the agent's variables that hold keys, too; code of the agent can read them")
	flags.BoolVar(&c.supply, "supply", false, "supply the files as the assignment's work at the end; needs Temporal")
	a.addTemporalFlags(cmd)
	a.addStateDirFlag(cmd)
	return cmd
}

func (c *shellCommand) run(ctx context.Context, sessionID string, id spec.AssignmentID, argv []string) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP) // at the terminal's end, the files are kept
	defer stop()
	r, err := c.open(ctx, sessionID, id)
	if err != nil {
		return err
	}
	defer func() {
		if err := r.close(); err != nil {
			c.printErr("the directories of the shell were not removed: %v", err)
		}
	}()
	status, ended := r.start(ctx, argv, c.keys)
	tree, err := r.report(context.WithoutCancel(ctx))
	if err != nil {
		return errors.Join(ended, err)
	}
	supply := fmt.Sprintf("resolve %s supply %s%s --for %s", sessionID, treePrefix, tree, id)
	waits := r.waits()
	switch {
	case c.supply && status == exitDone && ended == nil:
		resolve := resolveCommandOf(c.app)
		resolve.action, resolve.of = session.AnswerSupply, id.String()
		err := resolve.resolve(ctx, sessionID, treePrefix+string(tree))
		if err != nil && r.changed {
			c.printErr("the files are not supplied; the store keeps them, to supply them later: %s", c.commandLine(supply))
		}
		return err
	case waits:
		c.printErr("supply these files as the work of %s: %s", id, c.commandLine(supply))
	case r.changed:
		c.printErr("%s has no open request; when it has one, supply these files: %s", id, c.commandLine(supply))
	}
	if ended != nil && status != exitDone {
		return &codeError{status, ended}
	}
	return cmp.Or(ended, exit(status))
}

// open makes the room of a shell: copies of an assignment's directories.
func (c *shellCommand) open(ctx context.Context, sessionID string, id spec.AssignmentID) (_ *shellRoom, err error) {
	file := cmp.Or(c.agents, c.environ.get("MAESTRO_AGENTS"))
	if file == "" {
		return nil, usagef("missing worker file; give it with --agents or MAESTRO_AGENTS")
	}
	cfg, err := config.LoadWorker(file)
	if err != nil {
		return nil, err
	}
	s, key, err := c.storedIn(func() (*store.Store, error) { return c.openStoreWith(service.StoreOptions(cfg, c.now)) }, sessionID)
	if err != nil {
		return nil, err
	}
	record, err := s.Record(key, id)
	if errors.Is(err, session.ErrNotFound) {
		return nil, usagef("session %s has no work of %s yet; `%s` lists its assignments", sessionID, id, c.commandLine("status "+sessionID))
	}
	if err != nil {
		return nil, err
	}
	head, err := c.newest(ctx, s, key)
	if err != nil {
		return nil, err
	}
	team, err := c.storedTeam(ctx, s, key)
	if err != nil {
		return nil, err
	}
	if err := c.app.env.harden(); err != nil {
		return nil, err
	}
	set, dirs, err := service.Workplace(s, cfg, c.environ.get, c.now)
	if err != nil {
		return nil, usagef("%w", err)
	}
	r := &shellRoom{console: c.console, env: c.app.env, store: s, key: key, id: id, set: set, dirs: dirs, team: team}
	var tree spec.Digest
	if r.agent, tree = lastOf(record); r.agent == "" {
		r.agent = team.Personas[id.Persona].Agent
	}
	if set.Offered(r.agent).Kind == "" {
		return nil, usagef("%s: agent %q of %s not found; give the file of a worker that has it, with --agents", file, r.agent, id)
	}
	if len(cfg.Agents[r.agent].Gateway) > 0 {
		c.printErr("the shell has no access to the gateway of agent %s: programs in it cannot call a model", r.agent)
	}
	if err := r.fill(ctx, tree, head.Tree); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// lastOf is the agent that has last worked on an assignment, and the newest recorded tree of its
// work; empty if unknown.
func lastOf(r session.Record) (agent string, tree spec.Digest) {
	for _, round := range slices.Backward(r.Rounds) {
		if result := round.Result; result != nil {
			return cmp.Or(agent, result.Agent, round.Agent), result.Output
		}
		for _, attempt := range slices.Backward(round.Attempts) {
			if agent = cmp.Or(agent, attempt.Agent); attempt.Left != "" {
				return agent, attempt.Left
			}
		}
		agent = cmp.Or(agent, round.Agent)
	}
	return agent, ""
}

// maxListed is how many changed files are listed. More would scroll the command away that was run.
const maxListed = 50

// report lists what the shell has changed and returns the tree, which the store keeps.
func (r *shellRoom) report(ctx context.Context) (spec.Digest, error) {
	after, err := r.collect(ctx)
	if err != nil {
		r.keep = true
		return "", failf("the files cannot be stored: %w; they remain in %s until the next shell", err, r.scratch.Tree)
	}
	before, err := r.store.Content.Tree(ctx, r.before)
	if err != nil {
		return "", err
	}
	now, err := r.store.Content.Tree(ctx, after)
	if err != nil {
		return "", err
	}
	changes, err := cas.Diff(ctx, before, now)
	if err != nil {
		return "", err
	}
	if r.changed = len(changes) > 0; !r.changed {
		r.printErr("nothing changed")
		return after, nil
	}
	r.printErr("changed: %s", textfmt.Count(len(changes), "file"))
	for i, p := range slices.Sorted(maps.Keys(changes)) {
		if i == maxListed {
			r.printErr("... and %d more", len(changes)-maxListed)
			break
		}
		mark := "M"
		if _, had, err := before.Get(ctx, p); err != nil {
			return "", err
		} else if changes[p].Deleted {
			mark = "D"
		} else if !had {
			mark = "A"
		}
		r.printErr("%s %s", mark, safetext.Name(p))
	}
	return after, nil
}

// waits reports whether the assignment has an open request that accepts files.
func (r *shellRoom) waits() bool {
	e, err := r.store.Execution(r.key)
	return err == nil && slices.ContainsFunc(e.Help, func(h session.Request) bool {
		return h.Subject() == r.id.String() && slices.Contains(h.Actions, session.AnswerSupply)
	})
}
