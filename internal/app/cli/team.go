package cli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/models/config"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/cmdline"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

// outputYAML prints a team file as it was written.
const outputYAML = "yaml"

// teamCommand is the commands on registered teams.
type teamCommand struct {
	*console
	*storeOpener
}

func newTeam(a *app) *cobra.Command {
	c := teamCommand{a.console, a.storeOpener}
	return group("team", "Register teams with the store, so that sessions can name them", c.newRegister(a), c.newList(a), c.newShow(a), c.newRemove(a))
}

func (c teamCommand) newRegister(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "register TEAM",
		Short: "Register a team file with the store",
		Long: "Register a team file with the store, under the team's name. A version is named by the digest of its content, with the instructions that are in other files; " +
			"earlier versions are kept, the newest 100. The same content again changes nothing.",
		Args: cmdline.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error { return c.register(cmd.Context(), args[0]) },
	}
	a.addStateDirFlag(cmd)
	a.addOutputFlag(cmd)
	return cmd
}

func (c teamCommand) register(ctx context.Context, file string) error {
	crew, text, err := config.ReadTeam(file)
	if err != nil {
		return err
	}
	base, err := c.adminBase()
	if err != nil {
		return err
	}
	doc, err := control.Teams{Base: base}.Register(ctx, control.Registration{Text: text, Team: &crew})
	if err != nil {
		return err
	}
	return c.result(doc, func() {
		if doc.Changed {
			c.print("team %s is registered in version %s", doc.Name, doc.Digest.Short())
		} else {
			c.print("team %s was registered in version %s before", doc.Name, doc.Digest.Short())
		}
	})
}

func (c teamCommand) newList(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the registered teams",
		Args:  cmdline.Arguments(0, 0),
		RunE:  func(cmd *cobra.Command, _ []string) error { return c.list(cmd.Context()) },
	}
	a.addStateDirFlag(cmd)
	a.addOutputFlag(cmd)
	return cmd
}

func (c teamCommand) list(ctx context.Context) error {
	doc, err := administer(ctx, c.storeOpener, httpapi.ListTeams, httpapi.None{})
	if err != nil {
		return err
	}
	return c.result(doc, func() {
		if len(doc.Teams) == 0 {
			c.printErr("no teams are registered; `%s` registers one", c.commandLine("team register FILE"))
			return
		}
		table := c.table("TEAM", "VERSION", "REGISTERED", "BY", "VERSIONS", "PHASES", "DESCRIPTION")
		for _, t := range doc.Teams {
			table.Add(t.Name, t.Digest.Short(), terminal.Moment(&t.At), terminal.Dash(t.By),
				t.Versions, terminal.Dash(strings.Join(t.Phases, ", ")), terminal.Dash(textfmt.FirstLine(t.Description)))
		}
		c.writeFitted(table, "BY", "REGISTERED", "VERSIONS")
		for _, t := range doc.Teams {
			c.printDamage(control.Damage{Damage: t.Damage})
		}
	})
}

func (c teamCommand) newShow(a *app) *cobra.Command {
	var version string
	cmd := &cobra.Command{
		Use:     "show NAME",
		Short:   "Show a registered team and its versions",
		Example: "  maestro team show web\n  maestro team show web --version 3f2a -o yaml > web.yaml",
		Args:    cmdline.Arguments(1, 1),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.show(cmd.Context(), args[0], version) },
	}
	cmd.Flags().StringVar(&version, "version", "", "the version whose digest begins so (default: the newest)")
	a.addStateDirFlag(cmd)
	a.addOutputFlag(cmd, outputYAML)
	return cmd
}

func (c teamCommand) show(ctx context.Context, name, version string) error {
	doc, err := administer(ctx, c.storeOpener, httpapi.ReadTeam, httpapi.TeamVersion{Name: name, Version: version})
	if err != nil {
		return inputError(err)
	}
	if c.output == outputYAML {
		c.print("%s", strings.TrimSuffix(doc.File, "\n"))
		return nil
	}
	return c.result(doc, func() {
		c.print("Team %s, version %s", doc.Name, doc.Digest)
		if doc.Team.Description != "" {
			c.print("%s", strings.TrimSpace(doc.Team.Description))
		}
		phases := c.table("PHASE", "NEEDS", "PERSONAS", "APPROVAL")
		for _, p := range doc.Team.Phases {
			approval := "-"
			if p.Approve.Wanted() {
				approval = "yes"
			}
			phases.Add(p.Name, terminal.Dash(strings.Join(p.Needs, ", ")), strings.Join(p.Personas, ", "), approval)
		}
		c.print("")
		c.writeFitted(phases)
		c.print("")
		versions := c.table("VERSION", "REGISTERED", "BY")
		for _, v := range doc.Versions {
			versions.Add(v.Digest.Short(), terminal.Moment(&v.At), terminal.Dash(v.By))
		}
		c.writeFitted(versions)
	})
}

func (c teamCommand) newRemove(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a registered team with its versions; its sessions keep what they use",
		Args:  cmdline.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			doc, err := administer(cmd.Context(), c.storeOpener, httpapi.RemoveTeam, httpapi.OfName{Name: args[0]})
			if err != nil {
				return err
			}
			return c.result(doc, func() { c.print("team %s is removed", doc.Name) })
		},
	}
	a.addStateDirFlag(cmd)
	a.addOutputFlag(cmd)
	return cmd
}

// teamNamed is the team of a file or, where there is no such file, a registered team: NAME, or
// NAME@DIGEST with the beginning of a version's digest.
func (o *storeOpener) teamNamed(ctx context.Context, name string) (spec.Team, error) {
	reference, _, _ := strings.Cut(name, "@")
	if isFile(name) || spec.CheckName(reference) != nil {
		return config.LoadTeam(name)
	}
	s, err := o.findStore()
	if err != nil {
		return spec.Team{}, err
	}
	if s == nil {
		return spec.Team{}, usagef("file %s not found, and there is no store with registered teams yet; check the path", name)
	}
	t, err := control.Teams{Base: &control.Base{Store: s, Now: o.now}}.Named(ctx, name)
	if err != nil {
		return t, usagef("file %s not found, and %w", name, err)
	}
	return t, nil
}

// isFile reports whether a name is that of something in the file system.
func isFile(name string) bool {
	_, err := os.Lstat(name)
	return !errors.Is(err, fs.ErrNotExist)
}
