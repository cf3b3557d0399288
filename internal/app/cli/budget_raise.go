package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

// budgetRaise is `budget raise`.
type budgetRaise struct {
	*console
	*connector
}

func newBudgetRaise(a *app) *cobra.Command {
	c := budgetRaise{a.console, a.connector}
	var r control.Raise
	var usd, team string
	cmd := &cobra.Command{
		Use:   "raise (SESSION | --team TEAM) (--tokens N | --usd X)",
		Short: "Raise a budget of a running session, or a team's daily budget",
		Long: "Raise a budget of a running session: the one that the session waits for or, if it waits for none, the session's own; " +
			"with --persona, --phase or --session, that one. " +
			"A session that waits because the budget is spent continues where it stopped; finished calls are not paid again. " +
			"If no worker answers within " + control.AnswerTimeout.String() + ", the raise is applied as soon as one does.\n\n" +
			"With --team, raise the team's daily budget for today (UTC) only: sessions that wait for the next day continue. This needs neither a worker nor Temporal.",
		Args: sessionOrTeam(&team),
		RunE: func(cmd *cobra.Command, args []string) error {
			if usd != "" {
				if err := r.USD.UnmarshalText([]byte(usd)); err != nil {
					return usagef("--usd: %w", err)
				}
			}
			if r.Tokens < 0 || r.USD < 0 || r.Tokens == 0 && r.USD == 0 {
				return usagef("missing --tokens or --usd; give a positive amount to add")
			}
			if team != "" {
				return c.raiseDay(cmd.Context(), team, r)
			}
			return c.raise(cmd.Context(), args[0], r)
		},
	}
	cmd.Flags().Int64Var(&r.Tokens, "tokens", 0, "tokens to add")
	cmd.Flags().StringVar(&usd, "usd", "", "dollars to add")
	cmd.Flags().StringVar(&r.Persona, "persona", "", "raise this persona's budget")
	cmd.Flags().StringVar(&r.Phase, "phase", "", "raise this phase's budget")
	cmd.Flags().BoolVar(&r.Session, "session", false, "raise the session's own budget")
	cmd.Flags().StringVar(&r.Note, "note", "", "why, for the record")
	cmd.Flags().StringVar(&team, "team", "", "raise the daily budget of this team, for today")
	cmd.MarkFlagsMutuallyExclusive("persona", "phase", "session", "team")
	a.addServedFlags(cmd)
	return cmd
}

func (c *budgetRaise) raise(ctx context.Context, sessionID string, r control.Raise) error {
	p, err := c.plane(ctx, c.temporalBase)
	if err != nil {
		return err
	}
	defer p.close()
	doc, err := invoke(ctx, p, httpapi.RaiseBudget, httpapi.SessionBody[control.Raise]{Session: sessionID, Body: r})
	ended := control.ProblemOf(err)
	switch {
	case ended.Reason == control.Ended && ended.State == session.Completed:
		return usagef("%w; its budget cannot be raised", err)
	case ended.Reason == control.Ended:
		return usagef("%w; raise the budget in its team file and resume it: %s", err, c.commandLine("resume "+sessionID+" --team FILE"))
	case err != nil:
		return c.explainIn(ctx, p, err)
	case doc.Raised != nil:
		c.printErr("the budget of %s is now %s, %s spent", budget.Label(doc.Raised.Scope), terminal.Cap(doc.Raised.Cap), terminal.AmountIn(doc.Raised.Spent, doc.Raised.Cap))
	default:
		c.printErr("no worker answered within %s; the budget of session %s is raised as soon as one does", control.AnswerTimeout, sessionID)
	}
	return c.result(doc, func() {})
}
