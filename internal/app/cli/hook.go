package cli

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/cmdline"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

// hookCommand is the commands on hooks.
type hookCommand struct {
	*console
	*storeOpener
}

func newHook(a *app) *cobra.Command {
	c := hookCommand{a.console, a.storeOpener}
	return group("hook", "Let other systems start sessions with signed calls", c.newAdd(a), c.newList(a), c.newRemove(a))
}

func (c hookCommand) newAdd(a *app) *cobra.Command {
	var in control.NewHook
	var kind string
	var labels, mapping []string
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Add a hook, and print its address and its secret once",
		Long: "Add a hook: an address of `maestro serve` by which another system starts sessions of one registered team. The call is signed with the hook's secret, which is printed once.\n\n" +
			"A hook of the kind generic is called as Standard Webhooks specifies, with JSON; --map selects the texts in it. " +
			"A hook of the kind github is the address of a GitHub webhook; --on lists the events of issues and comments that start a session.",
		Example: "  maestro hook add tickets --team web --map requirement=/issue/text --map label.ticket=/issue/key\n  maestro hook add github --kind github --team web --workspace site --on issues.labeled:agent",
		Args:    cmdline.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if in.Team == "" {
				return usagef("missing --team; name a registered team, as `maestro team list` lists them")
			}
			in.Name, in.Kind = args[0], access.HookKind(kind)
			if in.Labels, err = session.ParseLabels(labels); err != nil {
				return usagef("--label: %w", err)
			}
			in.Map = map[string]string{}
			for _, text := range mapping {
				key, pointer, err := pair("--map", "KEY=POINTER", text)
				if err != nil {
					return err
				}
				in.Map[key] = pointer
			}
			return c.add(cmd.Context(), in)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&in.Team, "team", "", "registered team whose sessions it starts, NAME or NAME@DIGEST")
	flags.StringVar(&kind, "kind", string(access.HookGeneric), "who calls it: generic or github")
	flags.StringVar(&in.Directory, "workspace", "", "directory that sessions start from, by the name that `serve --workspace NAME=DIR` gives it")
	flags.StringArrayVar(&labels, "label", nil, "KEY=VALUE: label of its sessions; repeatable")
	flags.StringArrayVar(&mapping, "map", nil, "KEY=POINTER: where requirement, decision.NAME or label.KEY is in a call, as a JSON pointer; repeatable (default: requirement=/requirement)")
	flags.StringArrayVar(&in.On, "on", nil, "event of GitHub that starts a session: issues.labeled:LABEL, issues.opened or issue_comment.created:COMMAND; repeatable (default: the label maestro and the command /maestro)")
	flags.BoolVar(&in.EachEvent, "each-event", false, "start a session for each event of GitHub, instead of one for each issue and one for each comment with the command")
	a.addStateDirFlag(cmd)
	a.addOutputFlag(cmd)
	return cmd
}

func (c hookCommand) add(ctx context.Context, in control.NewHook) error {
	doc, err := administer(ctx, c.storeOpener, httpapi.AddHook, httpapi.Body[control.NewHook]{Body: in})
	if err != nil {
		return hookError(err)
	}
	return c.result(doc, func() {
		c.print("URL     %s", doc.URL)
		c.print("secret  %s", doc.Secret)
		c.printErr("hook %s starts sessions of team %s; the secret is not shown again. Remove it with `maestro hook remove %[1]s`", doc.Name, doc.Team)
		if strings.HasPrefix(doc.URL, "/") {
			c.printErr("no server runs for this store; its address goes before the path. Start one with `maestro serve`")
		}
	})
}

func (c hookCommand) newList(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List hooks, without their secrets",
		Args:  cmdline.Arguments(0, 0),
		RunE:  func(cmd *cobra.Command, _ []string) error { return c.list(cmd.Context()) },
	}
	a.addStateDirFlag(cmd)
	a.addOutputFlag(cmd)
	return cmd
}

func (c hookCommand) list(ctx context.Context) error {
	doc, err := administer(ctx, c.storeOpener, httpapi.ListHooks, httpapi.None{})
	if err != nil {
		return err
	}
	return c.result(doc, func() {
		if len(doc.Hooks) == 0 {
			c.printErr("no hooks")
			return
		}
		table := c.table("NAME", "KIND", "TEAM", "WORKSPACE", "STARTS WITH", "BY", "CREATED")
		for _, h := range doc.Hooks {
			with := slices.Clone(h.On)
			for _, key := range slices.Sorted(maps.Keys(h.Map)) {
				with = append(with, key+"="+h.Map[key])
			}
			table.Add(h.Name, string(h.Kind), teamOfHook(h), terminal.Dash(h.Directory),
				strings.Join(with, ", "), h.By, terminal.Moment(&h.CreatedAt))
		}
		c.writeFitted(table, "CREATED", "BY")
	})
}

// teamOfHook is the team of a hook, with the beginning of its version.
func teamOfHook(h access.Hook) string {
	name, digest, versioned := strings.Cut(h.Team, "@")
	if !versioned {
		return name
	}
	return name + "@" + spec.Digest(digest).Short()
}

func (c hookCommand) newRemove(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a hook at once; its sessions continue",
		Args:  cmdline.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			doc, err := administer(cmd.Context(), c.storeOpener, httpapi.RemoveHook, httpapi.OfName{Name: args[0]})
			if err != nil {
				return hookError(err)
			}
			return c.result(doc, func() { c.print("hook %s is removed", doc.Name) })
		},
	}
	a.addStateDirFlag(cmd)
	a.addOutputFlag(cmd)
	return cmd
}

// hookError adds the exit code of bad input.
func hookError(err error) error {
	var wrong *control.Error
	if errors.As(err, &wrong) && wrong.Kind != control.Unavailable {
		return usagef("%w", err)
	}
	return err
}
