package cli

import (
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

func newPeople(a *app) *cobra.Command {
	return group("people", "Invite people to the dashboard, and manage their accounts", newPeopleInvite(a), newPeopleList(a),
		newPeopleShow(a),
		newPeopleRole(a), newPeopleReset(a), newPeopleRevoke(a))
}

// rolesFlags are --role, --team and --group.
type rolesFlags struct {
	roles, teams, groups []string
}

func (f *rolesFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.roles, "role", nil,
		"viewer, approver, operator or admin, or ROLE:TEAM; may be given several times")
	cmd.Flags().StringArrayVar(&f.teams, "team", nil, "team of the roles that name none; may be given several times (default: "+
		"all teams)")
	cmd.Flags().StringArrayVar(&f.groups, "group", nil, "group of the person, as a phase's approve.by names it; may be given "+
		"several times")
}

// grants are the roles, as ROLE or ROLE:TEAM.
func (f *rolesFlags) grants() (all []string, err error) {
	if len(f.roles) == 0 {
		return nil, usagef("missing --role; use viewer, approver, operator or admin, and --team for one team")
	}
	for _, role := range f.roles {
		if len(f.teams) == 0 || strings.Contains(role, ":") {
			all = append(all, role)
			continue
		}
		for _, team := range f.teams {
			all = append(all, role+":"+team)
		}
	}
	if _, err := access.ParseRoles(all...); err != nil {
		return nil, usagef("--role: %w", err)
	}
	return all, nil
}

func newPeopleInvite(a *app) *cobra.Command {
	var flags rolesFlags
	var expires string
	cmd := &cobra.Command{
		Use:   "invite NAME",
		Short: "Invite a person, and print the link once",
		Long: "Make an account for a person of the dashboard, and print the link with which the person chooses a password or a " +
			"passkey. " +
			"The link works once. Records have the name, so it stays the person's.",
		Example: "  maestro people invite ann --role approver --team web --group leads",
		RunE: func(cmd *cobra.Command, args []string) error {
			roles, err := flags.grants()
			if err != nil {
				return err
			}
			lifetime, err := parseAgo(expires)
			if err != nil {
				return usagef("--expires: %q is not a duration like 3d or 12h", textfmt.Shorten(expires, 80))
			}
			in := access.NewPerson{Name: args[0], Roles: roles, Groups: flags.groups, For: textfmt.Duration(lifetime)}
			return report(cmd.Context(), a, a.here(a.storeBase), httpapi.InvitePerson, httpapi.Body[access.NewPerson]{Body: in},
				func(p access.Person) {
					a.printErr("%s is invited as %s", p.Name, grantsOf(p))
					a.writeLink(p)
				})
		},
	}
	flags.add(cmd)
	cmd.Flags().StringVar(&expires, "expires", "3d", "how long the link is good, like 3d or 12h, 30d at most")
	return a.addStateFlags(cmd)
}

func grantsOf(p access.Person) string { return strings.Join(access.Roles(p.Roles).Grants(), ", ") }

func newPeopleList(a *app) *cobra.Command {
	about := cobra.Command{Use: "list", Short: "List people who have accounts"}
	return listing(a, about, httpapi.ListPeople, a.writePeople)
}

func (a *app) writePeople(doc control.PersonList) {
	if len(doc.People) == 0 {
		a.printErr("no people")
		return
	}
	table := a.table("NAME", "STATE", "ROLES", "GROUPS", "BY", "CREATED", "LAST SIGN-IN")
	for _, p := range doc.People {
		colour := terminal.Colour("")
		if p.State == "revoked" {
			colour = terminal.Red
		}
		table.Add(p.Name, terminal.Painted(p.State, colour), grantsOf(p), terminal.Dash(strings.Join(p.Groups, ", ")), p.By,
			terminal.Moment(&p.CreatedAt), terminal.Moment(p.SignedInAt))
	}
	a.writeFitted(table, "CREATED", "BY")
}

func newPeopleShow(a *app) *cobra.Command {
	about := cobra.Command{Use: "show NAME", Short: "Show a person's account, and where the person is signed in"}
	return byName(a, about, httpapi.ReadPerson, func(doc access.Account) {
		a.writePeople(control.PersonList{People: []access.Person{doc.Person}})
		password := "no password"
		if doc.HasPassword {
			password = "a password"
		}
		a.print("signs in by: %s, %s", password, textfmt.Count(len(doc.Passkeys), "passkey"))
		if len(doc.SignIns) == 0 {
			return
		}
		table := a.table("SIGNED IN", "LAST USED", "UNTIL")
		for _, in := range doc.SignIns {
			table.Add(terminal.Moment(&in.SignedInAt), terminal.Moment(&in.LastUsed), terminal.Moment(&in.ExpiresAt))
		}
		a.writeFitted(table, "UNTIL")
	})
}

func newPeopleRole(a *app) *cobra.Command {
	var flags rolesFlags
	cmd := &cobra.Command{
		Use:   "role NAME",
		Short: "Give a person other roles, at once",
		Long: "Give a person roles in place of those before, at once. Groups stay as they are without --group; an empty one " +
			"removes them. A link for the account that was not used ends, and another one is printed.",
		Example: "  maestro people role ann --role operator --team web",
		RunE: func(cmd *cobra.Command, args []string) error {
			roles, err := flags.grants()
			if err != nil {
				return err
			}
			in := access.PersonRoles{Roles: roles, Groups: flags.groups}
			if in.NoGroups = len(flags.groups) == 1 && flags.groups[0] == ""; in.NoGroups {
				in.Groups = nil
			}
			return report(cmd.Context(), a, a.here(a.storeBase), httpapi.SetPersonRoles,
				httpapi.NameBody[access.PersonRoles]{Name: args[0], Body: in}, func(p access.Person) {
					a.print("%s has the roles %s", p.Name, grantsOf(p))
					if p.Link != "" {
						a.printErr("the link for the account that was not used has ended; this one takes its place:")
						a.writeLink(p)
					} else if p.State == "invited" {
						a.printErr("links that were not used have ended; `maestro people reset %s` makes one", p.Name)
					}
				})
		},
	}
	flags.add(cmd)
	return a.addStateFlags(cmd)
}

func newPeopleReset(a *app) *cobra.Command {
	about := cobra.Command{
		Use: "reset NAME", Short: "Print a link with which a person recovers the account",
		Long: "Print a link with which a person who has lost the password or the passkey chooses a new one. It works once, for 3 " +
			"days. " +
			"When it is used, the old password, passkeys, sign-ins and the person's tokens end; who was revoked has the account again.",
	}
	return byName(a, about, httpapi.ResetPerson, a.writeLink)
}

// writeLink prints a link for an account, and whom it serves.
func (a *app) writeLink(p access.Person) {
	a.print("%s", p.Link)
	a.printErr("the link is for %s and nobody else, works once, until %s, and is not shown again", p.Name,
		terminal.Moment(p.LinkUntil))
	if at, err := url.Parse(p.Link); err == nil && access.OnlyHere(at.Host) {
		a.printErr("it opens on this machine only; for others, start the server with --host NAME, behind a proxy with TLS, and make " +
			"another link")
	}
}

func newPeopleRevoke(a *app) *cobra.Command {
	about := cobra.Command{Use: "revoke NAME", Short: "End a person's account, at once"}
	return byName(a, about, httpapi.RevokePerson, func(p access.Person) {
		a.print("%s is revoked, and signed out everywhere", p.Name)
	})
}
