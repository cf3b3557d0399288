package cli

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/cmdline"
	"github.com/maestro-hive/maestro/internal/terminal"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// tokenDocument is a token in `token create -o json` and its like.
type tokenDocument struct {
	access.Token
	State string `json:"state"`
	// Secret is the token itself, which is shown once.
	Secret string `json:"token,omitempty"`
}

// tokenListDocument is the document of `token list -o json`.
type tokenListDocument struct {
	Tokens []tokenDocument `json:"tokens"`
}

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
	var grants, groups []string
	var expires string
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a token with roles, and print it once",
		Long: "Create a token with which a program calls the server's API, as `Authorization: Bearer TOKEN`. It is printed once; the store has only its hash. " +
			"The roles are viewer, approver, operator and admin, for all teams, or ROLE:TEAM for one.",
		Example: "  maestro token create ci --role operator:web --expires 30d",
		Args:    cmdline.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(grants) == 0 {
				return usagef("missing --role; use viewer, approver, operator or admin, and ROLE:TEAM for one team")
			}
			roles, err := access.ParseRoles(grants...)
			if err != nil {
				return usagef("--role: %w", err)
			}
			lifetime, err := parseLifetime(expires)
			if err != nil {
				return err
			}
			return c.create(cmd.Context(), access.NewToken{Name: args[0], Roles: roles, Groups: groups, Lifetime: lifetime})
		},
	}
	cmd.Flags().StringArrayVar(&grants, "role", nil, "role, or ROLE:TEAM; may be given several times")
	cmd.Flags().StringArrayVar(&groups, "group", nil, "group of the token, as a phase's approve.by names it; may be given several times")
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

func (c tokenCommand) create(ctx context.Context, n access.NewToken) error {
	tokens, err := c.tokens()
	if err != nil {
		return err
	}
	secret, made, err := tokens.Create(ctx, n)
	if err != nil {
		return tokenError(err)
	}
	return c.result(tokenDocument{made, made.State(c.now()), secret}, func() {
		c.print("%s", secret)
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
	tokens, err := c.tokens()
	if err != nil {
		return err
	}
	all, err := tokens.List(ctx)
	if err != nil {
		return err
	}
	doc := tokenListDocument{Tokens: []tokenDocument{}}
	for _, t := range all {
		doc.Tokens = append(doc.Tokens, tokenDocument{Token: t, State: t.State(c.now())})
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
	tokens, err := c.tokens()
	if err != nil {
		return err
	}
	t, err := tokens.Revoke(ctx, id)
	if err != nil {
		return tokenError(err)
	}
	return c.result(tokenDocument{Token: t, State: t.State(c.now())}, func() { c.print("token %s (id %s) is revoked", t.Name, t.ID) })
}

// tokens opens the tokens of the store.
func (c tokenCommand) tokens() (*access.Tokens, error) {
	s, err := c.openStore()
	if err != nil {
		return nil, err
	}
	return access.NewTokens(s.State, access.NewAudit(s.State, c.now)), nil
}

// tokenError adds the exit code of bad input.
func tokenError(err error) error {
	var refused *access.NameError
	if errors.As(err, &refused) {
		return usagef("%w", err)
	}
	return err
}
