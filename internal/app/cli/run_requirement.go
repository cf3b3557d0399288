package cli

import (
	"context"
	"io"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/config"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/outside/issues"
	"github.com/maestro-hive/maestro/internal/platform/bounded"
)

// requirement is the requirement, and the ticket that it comes from; nil: none.
func (c *runCommand) requirement(ctx context.Context, args []string) (*origin, string, error) {
	if c.fromJira == "" {
		if address, ok := issues.Parse(strings.Join(args, " ")); ok && c.file == "" {
			requirement, err := c.fetchIssue(ctx, address)
			return nil, requirement, err
		}
		requirement, err := requirementOf(c.env.Stdin, c.file, args)
		return nil, requirement, err
	}
	ticket, err := fetchTicket(ctx, c.console, c.env, c.fromJira, c.agents)
	if err != nil {
		return nil, "", err
	}
	requirement, err := ticket.requirement()
	return ticket, requirement, err
}

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

// requirementOf reads the requirement: from the arguments, a file or standard input.
func requirementOf(stdin io.Reader, file string, args []string) (string, error) {
	var text, from string
	switch {
	case file != "" && len(args) > 0:
		return "", usagef("-f %s and TEXT exclude each other; leave one out", file)
	case file == "" && len(args) == 0:
		return "", usagef("missing requirement; give it as TEXT, in a file (-f FILE), or on standard input (-)")
	case file == "-" || (file == "" && args[0] == "-"):
		data, err := io.ReadAll(io.LimitReader(stdin, control.MaxRequirement+1))
		if err != nil {
			return "", failf("standard input cannot be read: %w", err)
		}
		text, from = string(data), "standard input"
	case file != "":
		data, err := bounded.ReadFile(file, control.MaxRequirement)
		if err != nil {
			return "", usagef("the requirement cannot be read: %w", err)
		}
		text, from = string(data), file
	default:
		text, from = args[0], "the requirement"
	}
	return checkRequirement(strings.TrimPrefix(text, "\uFEFF"), from)
}

// checkRequirement rejects an empty or too large requirement, and a file of another system.
func checkRequirement(text, from string) (string, error) {
	if foreign := config.ForeignDocument(text); foreign != "" {
		return "", usagef("%s %s", from, foreign)
	}
	if err := control.CheckRequirement(text); err != nil {
		return "", usagef("%s: %w", from, err)
	}
	return text, nil
}
