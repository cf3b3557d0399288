package cli

import (
	"context"
	"errors"

	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/doctor"
	"github.com/maestro-hive/maestro/internal/session"
)

// jiraFlags say what `doctor --jira` looks at.
type jiraFlags struct {
	on            bool
	team, project string
}

func (f jiraFlags) check() error {
	switch {
	case !f.on && f.project != "":
		return usagef("--project needs --jira")
	case f.team != "" && f.project != "":
		return usagef("--team excludes --project; leave one out")
	}
	return nil
}

// ticketProject is the project of the team's tickets.
func (c *doctorCommand) ticketProject(ctx context.Context) (string, error) {
	if c.team == "" {
		return c.project, nil
	}
	t, err := c.teamNamed(ctx, c.team)
	switch {
	case err != nil:
		return "", err
	case t.Help.Jira == nil:
		return "", usagef("%s has no help.jira, so its sessions create no tickets; add it, like help: {jira: {project: MD, type: Bug}}", c.team)
	}
	return t.Help.Jira.Project, nil
}

// examineTickets checks whether the account may create tickets, without creating one.
func (c *doctorCommand) examineTickets(ctx context.Context) ([]control.Finding, error) {
	project, err := c.ticketProject(ctx)
	if err != nil {
		return nil, err
	}
	client, _, err := jiraOf(c.env, c.agents)
	if err == nil {
		err = client.Check(ctx, project)
	}
	found := control.Finding{Check: "jira", Result: doctor.OK, Message: "the credentials are valid"}
	if project != "" {
		found.Message = "the account may create tickets in project " + project + " and comment on them"
	}
	var trouble *session.TicketTrouble
	switch {
	case errors.As(err, &trouble):
		found.Result, found.Message = doctor.Bad, trouble.Message
	case err != nil:
		return nil, err
	}
	return []control.Finding{found}, nil
}
