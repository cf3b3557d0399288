package cli

import (
	"context"

	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/outside/issues"
)

// fetchIssue is the requirement that an issue has, and says what was taken of it.
func (c *runCommand) fetchIssue(ctx context.Context, address issues.Address) (string, error) {
	issue, err := issues.Fetch(ctx, address, c.environ.get, c.now)
	if err != nil {
		return "", ticketError(err)
	}
	c.printErr("taken: %q, with %s, of %s", issue.Title, textfmt.Count(issue.Comments, "comment"), address)
	if issue.LeftOut != "" {
		c.printErr("not taken: %s", issue.LeftOut)
	}
	return checkRequirement(issue.Text, "issue "+address.String())
}
