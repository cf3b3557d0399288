package cli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/faces/client"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/models/config"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

// outputYAML prints a team file as it was written.
const outputYAML = "yaml"

func newTeam(a *app) *cobra.Command {
	return group("team", "Register teams with the store, so that sessions can name them",
		newTeamRegister(a), newTeamList(a), newTeamShow(a), newTeamRemove(a))
}

func newTeamRegister(a *app) *cobra.Command {
	return a.addStateFlags(&cobra.Command{
		Use:   "register TEAM",
		Short: "Register a team file with the store",
		Long: "Register a team file with the store, under the team's name. A version is named by the digest of its content, with the " +
			"instructions that are in other files; " +
			"earlier versions are kept, the newest 100. The same content again changes nothing.",
		RunE: func(cmd *cobra.Command, args []string) error { return a.registerTeam(cmd.Context(), args[0]) },
	})
}

func (a *app) registerTeam(ctx context.Context, file string) error {
	crew, text, err := config.ReadTeam(file)
	if err != nil {
		return err
	}
	base, _, err := a.storeBase(ctx)
	if err != nil {
		return err
	}
	doc, err := control.Teams{Base: base}.Register(ctx, control.Registration{Text: text, Team: &crew})
	if err != nil {
		return err
	}
	return a.result(doc, func() {
		if doc.Changed {
			a.print("team %s is registered in version %s", doc.Name, doc.Digest.Short())
		} else {
			a.print("team %s was registered in version %s before", doc.Name, doc.Digest.Short())
		}
	})
}

func newTeamList(a *app) *cobra.Command {
	return listing(a, cobra.Command{Use: "list", Short: "List the registered teams"}, httpapi.ListTeams, a.writeTeams)
}

func (a *app) writeTeams(doc control.TeamList) {
	if len(doc.Teams) == 0 {
		a.printErr("no teams are registered; `%s` registers one", a.commandLine("team register FILE"))
		return
	}
	table := a.table("TEAM", "VERSION", "REGISTERED", "BY", "VERSIONS", "PHASES", "DESCRIPTION")
	for _, t := range doc.Teams {
		table.Add(t.Name, t.Digest.Short(), terminal.Moment(&t.At), terminal.Dash(t.By),
			t.Versions, terminal.Dash(strings.Join(t.Phases, ", ")), terminal.Dash(textfmt.FirstLine(t.Description)))
	}
	a.writeFitted(table, "BY", "REGISTERED", "VERSIONS")
	for _, t := range doc.Teams {
		a.printDamage(control.Damage{Damage: t.Damage})
	}
}

func newTeamShow(a *app) *cobra.Command {
	var in httpapi.TeamVersion
	cmd := &cobra.Command{
		Use:     "show NAME",
		Short:   "Show a registered team and its versions",
		Example: "  maestro team show web\n  maestro team show web --version 3f2a -o yaml > web.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			in.Name = args[0]
			return inputError(report(cmd.Context(), a, a.here(a.storeBase), httpapi.ReadTeam, in, a.writeTeam))
		},
	}
	cmd.Flags().StringVar(&in.Version, "version", "", "the version whose digest begins so (default: the newest)")
	return a.addStateFlags(cmd, outputYAML)
}

func (a *app) writeTeam(doc control.RegisteredTeam) {
	if a.output == outputYAML {
		a.print("%s", strings.TrimSuffix(doc.File, "\n"))
		return
	}
	a.print("Team %s, version %s", doc.Name, doc.Digest)
	if doc.Team.Description != "" {
		a.print("%s", strings.TrimSpace(doc.Team.Description))
	}
	phases := a.table("PHASE", "NEEDS", "PERSONAS", "APPROVAL")
	for _, p := range doc.Team.Phases {
		approval := "-"
		if p.Approve.Wanted() {
			approval = "yes"
		}
		phases.Add(p.Name, terminal.Dash(strings.Join(p.Needs, ", ")), p.Workers(), approval)
	}
	a.print("")
	a.writeFitted(phases)
	a.print("")
	versions := a.table("VERSION", "REGISTERED", "BY")
	for _, v := range doc.Versions {
		versions.Add(v.Digest.Short(), terminal.Moment(&v.At), terminal.Dash(v.By))
	}
	a.writeFitted(versions)
}

func newTeamRemove(a *app) *cobra.Command {
	about := cobra.Command{
		Use: "remove NAME", Short: "Remove a registered team with its versions; its sessions keep what they use",
	}
	return byName(a, about, httpapi.RemoveTeam, func(doc control.TeamChange) { a.print("team %s is removed", doc.Name) })
}

// teamNamed is the team of a file or, where there is no such file, a registered team: NAME, or
// NAME@DIGEST with the beginning of a version's digest. Without a name it is no team.
func (c *connector) teamNamed(ctx context.Context, name string) (spec.Team, error) {
	if name == "" {
		return spec.Team{}, nil
	}
	reference, _, _ := strings.Cut(name, "@")
	if isFile(name) || spec.CheckName(reference) != nil {
		return config.LoadTeam(name)
	}
	s, err := c.openStore()
	if err != nil && !errors.Is(err, session.ErrNotFound) {
		return spec.Team{}, err
	}
	if err != nil {
		return spec.Team{}, usagef("file %s not found, and no registered team: %w", name, err)
	}
	t, err := control.Teams{Base: &control.Base{Store: s, Now: c.now}}.Named(ctx, name)
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

// teamFor is the team of a file, or a registered one of the store or server. The latter's reference
// names its version.
func (c *connector) teamFor(ctx context.Context, server *client.Client, name string) (t spec.Team, reference string, err error) {
	team, version, _ := strings.Cut(name, "@")
	if server == nil || isFile(name) || spec.CheckName(team) != nil {
		t, err = c.teamNamed(ctx, name)
		return t, "", err
	}
	found, err := client.Call(ctx, server, httpapi.ReadTeam, httpapi.TeamVersion{Name: team, Version: version})
	if failed, ok := errors.AsType[*control.Error](err); ok && failed.Kind == control.NotFound {
		return t, "", usagef("file %s not found, and %w", name, err)
	}
	return found.Team.Resolved(), team + "@" + string(found.Digest), err
}
