package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/cmdline"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

// tokenCommand is the commands on tokens.
type tokenCommand struct {
	*console
	*storeOpener
}

func newToken(a *app) *cobra.Command {
	c := tokenCommand{a.console, a.storeOpener}
	return group("token", "Create, list and revoke tokens for programs", c.newCreate(a), c.newList(a), c.newRevoke(a))
}

// usualLifetime is the default lifetime of a token.
const usualLifetime = "90d"

func (c tokenCommand) newCreate(a *app) *cobra.Command {
	var in control.NewToken
	var expires string
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a token with roles, and print it once",
		Long: "Create a token with which a program calls the server's API, as `Authorization: Bearer TOKEN`. It is printed once; the store has only its hash. " +
			"The roles are viewer, approver, operator and admin, for all teams, or ROLE:TEAM for one.",
		Example: "  maestro token create ci --role operator:web --expires 30d",
		Args:    cmdline.Arguments(1, 1),
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
			in.Name, in.For = args[0], textfmt.Duration(lifetime)
			return c.create(cmd.Context(), in)
		},
	}
	cmd.Flags().StringArrayVar(&in.Roles, "role", nil, "role, or ROLE:TEAM; may be given several times")
	cmd.Flags().StringArrayVar(&in.Groups, "group", nil, "group of the token, as a phase's approve.by names it; may be given several times")
	cmd.Flags().StringVar(&expires, "expires", usualLifetime, "how long it is good, like 30d or 12h; never: until it is revoked")
	a.addStateDirFlag(cmd)
	a.addOutputFlag(cmd)
	return cmd
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

func (c tokenCommand) create(ctx context.Context, in control.NewToken) error {
	made, err := administer(ctx, c.storeOpener, httpapi.CreateToken, httpapi.Body[control.NewToken]{Body: in})
	if err != nil {
		return err
	}
	return c.result(made, func() {
		c.print("%s", made.Secret)
		c.printErr("token %s (id %s) has the roles %s; it is not shown again. Revoke it with `maestro token revoke %s`", made.Name, made.ID, strings.Join(access.Roles(made.Roles).Grants(), ", "), made.ID)
	})
}

func (c tokenCommand) newList(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List tokens, without their secrets",
		Args:  cmdline.Arguments(0, 0),
		RunE:  func(cmd *cobra.Command, _ []string) error { return c.list(cmd.Context()) },
	}
	a.addStateDirFlag(cmd)
	a.addOutputFlag(cmd)
	return cmd
}

func (c tokenCommand) list(ctx context.Context) error {
	doc, err := administer(ctx, c.storeOpener, httpapi.ListTokens, httpapi.None{})
	if err != nil {
		return err
	}
	return c.result(doc, func() {
		if len(doc.Tokens) == 0 {
			c.printErr("no tokens")
			return
		}
		table := c.table("ID", "NAME", "STATE", "ROLES", "GROUPS", "BY", "CREATED", "EXPIRES", "LAST USED")
		for _, t := range doc.Tokens {
			colour := terminal.Colour("")
			if t.State != "active" {
				colour = terminal.Red
			}
			table.Add(t.ID, t.Name, terminal.Painted(t.State, colour), strings.Join(access.Roles(t.Roles).Grants(), ", "), terminal.Dash(strings.Join(t.Groups, ", ")),
				t.By, terminal.Moment(&t.CreatedAt), terminal.Moment(t.ExpiresAt), terminal.Dash(t.LastUsed))
		}
		c.writeFitted(table, "CREATED", "BY")
	})
}

func (c tokenCommand) newRevoke(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "revoke ID",
		Short: "Revoke a token, at once",
		Args:  cmdline.Arguments(1, 1),
		RunE:  func(cmd *cobra.Command, args []string) error { return c.revoke(cmd.Context(), args[0]) },
	}
	a.addStateDirFlag(cmd)
	a.addOutputFlag(cmd)
	return cmd
}

func (c tokenCommand) revoke(ctx context.Context, id string) error {
	t, err := administer(ctx, c.storeOpener, httpapi.RevokeToken, httpapi.OfName{Name: id})
	if err != nil {
		return err
	}
	return c.result(t, func() { c.print("token %s (id %s) is revoked", t.Name, t.ID) })
}
