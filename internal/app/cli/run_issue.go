package cli

import (
	"context"
	"errors"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/outside/issues"
)

// fetchIssue is the requirement that an issue has, and says what was taken of it.
func (c *runCommand) fetchIssue(ctx context.Context, address issues.Address) (string, error) {
	issue, err := issues.Fetch(ctx, address, c.environ.get, c.now)
	if trouble, ok := errors.AsType[*session.TicketTrouble](err); ok && trouble.Kind != session.Unreached {
		return "", usagef("%w", err)
	}
	if err != nil {
		return "", failf("%w", err)
	}
	c.printErr("taken: %q, with %s, of %s", issue.Title, textfmt.Count(issue.Comments, "comment"), address)
	if issue.Left > 0 {
		c.printErr("not taken: %s", textfmt.Count(issue.Left, "older comment"))
	}
	if issue.Why != "" {
		c.printErr("%s", issue.Why)
	}
	return checkRequirement(issue.Text, "issue "+address.String())
}
