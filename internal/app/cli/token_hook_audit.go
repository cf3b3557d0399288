package cli

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

func newToken(a *app) *cobra.Command {
	return group("token", "Create, list and revoke tokens for programs", newTokenCreate(a), newTokenList(a), newTokenRevoke(a))
}

// usualLifetime is the default lifetime of a token.
const usualLifetime = "90d"

func newTokenCreate(a *app) *cobra.Command {
	var in access.NewToken
	var expires string
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a token with roles, and print it once",
		Long: "Create a token with which a program calls the server's API, as `Authorization: Bearer TOKEN`. It is printed once; the " +
			"store has only its hash. " +
			"The roles are viewer, approver, operator and admin, for all teams, or ROLE:TEAM for one.",
		Example: "  maestro token create ci --role operator:web --expires 30d",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(in.Roles) == 0 {
				return usagef("missing --role; use viewer, approver, operator or admin, and ROLE:TEAM for one team")
			}
			if _, err := access.ParseRoles(in.Roles...); err != nil {
				return usagef("--role: %w", err)
			}
			lifetime, err := parseLifetime(expires)
			if err != nil {
				return err
			}
			in.Name, in.For, in.NeverExpires = args[0], textfmt.Duration(lifetime), lifetime == 0
			return report(cmd.Context(), a, a.here(a.storeBase), httpapi.CreateToken, httpapi.Body[access.NewToken]{Body: in},
				a.writeNewToken)
		},
	}
	cmd.Flags().StringArrayVar(&in.Roles, "role", nil, "role, or ROLE:TEAM; may be given several times")
	cmd.Flags().StringArrayVar(&in.Groups, "group", nil, "group of the token, as a phase's approve.by names it; may be given "+
		"several times")
	cmd.Flags().BoolVar(&in.Agent, "agent", false, "an agent has the token: it counts as no person where persons have to approve")
	cmd.Flags().StringVar(&expires, "expires", usualLifetime, "how long it is good, like 30d or 12h; never: until it is revoked")
	return a.addStateFlags(cmd)
}

// parseLifetime reads --expires; zero is never.
func parseLifetime(expires string) (time.Duration, error) {
	if expires == "never" {
		return 0, nil
	}
	lifetime, err := parseAgo(expires)
	if err != nil {
		return 0, usagef("--expires: %q is not a duration like 30d or 12h, or never", textfmt.Shorten(expires, 80))
	}
	return lifetime, nil
}

func (a *app) writeNewToken(made control.Token) {
	a.print("%s", made.Secret)
	a.printErr("token %s (id %s) has the roles %s; it is not shown again. Revoke it with `maestro token revoke %s`",
		made.Name, made.ID, strings.Join(access.Roles(made.Roles).Grants(), ", "), made.ID)
}

func newTokenList(a *app) *cobra.Command {
	about := cobra.Command{Use: "list", Short: "List tokens, without their secrets"}
	return listing(a, about, httpapi.ListTokens, a.writeTokens)
}

func (a *app) writeTokens(doc control.TokenList) {
	if len(doc.Tokens) == 0 {
		a.printErr("no tokens")
		return
	}
	table := a.table("ID", "NAME", "STATE", "ROLES", "GROUPS", "BY", "CREATED", "EXPIRES", "LAST USED")
	for _, t := range doc.Tokens {
		colour := terminal.Colour("")
		if t.State != "active" {
			colour = terminal.Red
		}
		name := t.Name
		if t.Agent {
			name += " (agent)"
		}
		table.Add(t.ID, name, terminal.Painted(t.State, colour), strings.Join(access.Roles(t.Roles).Grants(), ", "),
			terminal.Dash(strings.Join(t.Groups, ", ")), t.By, terminal.Moment(&t.CreatedAt), terminal.Moment(t.ExpiresAt),
			terminal.Dash(t.LastUsed))
	}
	a.writeFitted(table, "CREATED", "BY")
}

func newTokenRevoke(a *app) *cobra.Command {
	about := cobra.Command{Use: "revoke ID", Short: "Revoke a token, at once"}
	return byName(a, about, httpapi.RevokeToken, func(t control.Token) { a.print("token %s (id %s) is revoked", t.Name, t.ID) })
}

func newHook(a *app) *cobra.Command {
	return group("hook", "Let other systems start sessions with signed calls", newHookAdd(a), newHookList(a), newHookRemove(a))
}

func newHookAdd(a *app) *cobra.Command {
	var in control.NewHook
	var kind string
	var labels, mapping []string
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Add a hook, and print its address and its secret once",
		Long: "Add a hook: an address of `maestro serve` by which another system starts sessions of one registered team. The call is " +
			"signed with the hook's secret, which is printed once.\n\n" +
			"A hook of the kind generic is called as Standard Webhooks specifies, with JSON; --map selects the texts in it. " +
			"A hook of the kind github or gitlab is the address of a webhook there; --on lists the events of issues and comments that " +
			"start a session. Its other events wake sessions that wait for their pull requests.",
		Example: "  maestro hook add tickets --team web --map requirement=/issue/text --map label.ticket=/issue/key\n  maestro hook " +
			"add github --kind github --team web --workspace site --on issues.labeled:agent",
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
			body := httpapi.Body[control.NewHook]{Body: in}
			return report(cmd.Context(), a, a.here(a.storeBase), httpapi.AddHook, body, a.writeNewHook)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&in.Team, "team", "", "registered team whose sessions it starts, NAME or NAME@DIGEST")
	flags.StringVar(&kind, "kind", string(access.HookGeneric), "who calls it: generic, github or gitlab")
	flags.StringVar(&in.Directory, "workspace", "", "directory that sessions start from, by the name that `serve --workspace "+
		"NAME=DIR` gives it")
	flags.StringArrayVar(&labels, "label", nil, "KEY=VALUE: label of its sessions; repeatable")
	flags.StringArrayVar(&mapping, "map", nil, "KEY=POINTER: where requirement, decision.NAME or label.KEY is in a call, as a "+
		"JSON pointer; repeatable (default: requirement=/requirement)")
	flags.StringArrayVar(&in.On, "on", nil, "event of GitHub or GitLab that starts a session: issues.labeled:LABEL, "+
		"issue_comment.created:COMMAND or, of GitHub, issues.opened; repeatable (default: the label maestro and the command @maestro)")
	flags.StringArrayVar(&in.Users, "user", nil, "user of GitLab whose commands start a session; repeatable")
	return a.addStateFlags(cmd)
}

func (a *app) writeNewHook(doc control.AddedHook) {
	a.print("URL     %s", doc.URL)
	a.print("secret  %s", doc.Secret)
	a.printErr("hook %s starts sessions of team %s; the secret is not shown again. Remove it with `maestro hook remove %[1]s`",
		doc.Name, doc.Team)
	if strings.HasPrefix(doc.URL, "/") {
		a.printErr("no server runs for this store; its address goes before the path. Start one with `maestro serve`")
	}
}

func newHookList(a *app) *cobra.Command {
	about := cobra.Command{Use: "list", Short: "List hooks, without their secrets"}
	return listing(a, about, httpapi.ListHooks, a.writeHooks)
}

func (a *app) writeHooks(doc control.HookList) {
	if len(doc.Hooks) == 0 {
		a.printErr("no hooks")
		return
	}
	table := a.table("NAME", "KIND", "TEAM", "WORKSPACE", "STARTS WITH", "BY", "CREATED")
	for _, h := range doc.Hooks {
		with := slices.Clone(h.On)
		for _, key := range slices.Sorted(maps.Keys(h.Map)) {
			with = append(with, key+"="+h.Map[key])
		}
		table.Add(h.Name, string(h.Kind), teamOfHook(h), terminal.Dash(h.Directory),
			strings.Join(with, ", "), h.By, terminal.Moment(&h.CreatedAt))
	}
	a.writeFitted(table, "CREATED", "BY")
}

// teamOfHook is the team of a hook, with the beginning of its version.
func teamOfHook(h access.Hook) string {
	name, digest, versioned := strings.Cut(h.Team, "@")
	if !versioned {
		return name
	}
	return name + "@" + spec.Digest(digest).Short()
}

func newHookRemove(a *app) *cobra.Command {
	about := cobra.Command{Use: "remove NAME", Short: "Remove a hook at once; its sessions continue"}
	return byName(a, about, httpapi.RemoveHook, func(h access.Hook) { a.print("hook %s is removed", h.Name) })
}

func newAudit(a *app) *cobra.Command {
	var in access.EventFilter
	var since string
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "List who changed what, newest first",
		Long: "List the changes that people and programs made to sessions, budgets, breakers, teams and tokens, and sign-ins " +
			"that failed. " +
			"An unknown outcome means that the change is under way, or that the program ended before the change did.",
		Example: "  maestro audit --since 7d\n  maestro audit --session SESSION -o json",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if in.Since, err = parseStart(since, a.now()); err != nil {
				return err
			}
			if in.Limit < 1 || in.Limit > 1000 {
				return usagef("--limit: %d is not between 1 and 1000", in.Limit)
			}
			return inputError(report(cmd.Context(), a, a.here(a.storeBase), httpapi.ListAudit, in, a.writeEvents))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&since, "since", "", "only events since a date, like 2026-11-21, or within a duration, like 7d or 12h")
	flags.StringVar(&in.Session, "session", "", "only events of this session")
	flags.StringVar(&in.Actor, "actor", "", "only what this person or token did, and the tokens of this person")
	flags.StringVar(&in.Team, "team", "", "only events of this team")
	flags.StringVar(&in.Action, "action", "", "only this action, like session.cancel, or those of a noun, like session")
	flags.IntVar(&in.Limit, "limit", 100, "maximum number of events")
	flags.StringVar(&in.Cursor, "cursor", "", "continue after the page that ended with this cursor")
	return a.addStateFlags(cmd)
}

func (a *app) writeEvents(page access.EventPage) {
	if len(page.Events) == 0 {
		a.printErr("no events")
		return
	}
	t := a.table("WHEN", "WHO", "VIA", "FROM", "ACTION", "ON", "OUTCOME", "DETAIL")
	for _, e := range page.Events {
		on := strings.TrimSpace(cmp.Or(e.Session, e.Team) + " " + e.Subject)
		detail := e.Detail
		if e.Error != "" {
			detail = strings.TrimSpace(detail + " (" + e.Error + ")")
		}
		t.Add(terminal.Moment(&e.At), terminal.Dash(e.Who()), terminal.Dash(string(e.Via)),
			terminal.Dash(e.From), e.Action, terminal.Dash(on),
			terminal.Painted(string(e.Outcome), outcomeColour(e.Outcome)), terminal.Dash(detail))
	}
	a.writeFitted(t, "FROM", "VIA")
	if page.Cursor != "" {
		a.printErr("there are more; continue with --cursor %s", page.Cursor)
	}
}

func outcomeColour(o access.Outcome) terminal.Colour {
	switch o {
	case access.Done:
		return ""
	case access.Unknown:
		return terminal.Yellow
	default:
		return terminal.Red
	}
}
