package cli

import (
	"context"
	"errors"

	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/doctor"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// jiraFlags say what `doctor --jira` looks at.
type jiraFlags struct {
	on                  bool
	team, project, kind string
}

func (f jiraFlags) check() error {
	switch {
	case !f.on && (f.project != "" || f.kind != ""):
		return usagef("--project and --type need --jira")
	case f.team != "" && (f.project != "" || f.kind != ""):
		return usagef("--team excludes --project and --type; leave one out")
	case f.kind != "" && f.project == "":
		return usagef("--type %s needs --project", f.kind)
	}
	return nil
}

// how are the team's ticket settings.
func (c *doctorCommand) how(ctx context.Context) (spec.HelpJira, error) {
	if c.team == "" {
		return spec.HelpJira{Project: c.project, Type: c.kind}, nil
	}
	t, err := c.teamNamed(ctx, c.team)
	switch {
	case err != nil:
		return spec.HelpJira{}, err
	case t.Help.Jira == nil:
		return spec.HelpJira{}, usagef("%s has no help.jira, so its sessions create no tickets; add it, like help: {jira: {project: MD, type: Bug}}", c.team)
	}
	return *t.Resolved().Help.Jira, nil
}

// examineTickets checks whether tickets can be created, without creating one.
func (c *doctorCommand) examineTickets(ctx context.Context) ([]control.Finding, error) {
	how, err := c.how(ctx)
	if err != nil {
		return nil, err
	}
	client, _, err := jiraOf(c.env, c.agents)
	var trouble *session.TicketTrouble
	switch {
	case errors.As(err, &trouble):
		return []control.Finding{{Check: "jira", Result: doctor.Bad, Message: trouble.Message}}, nil
	case err != nil:
		return nil, err
	}
	var found []control.Finding
	for _, check := range client.Check(ctx, how) {
		result := doctor.OK
		if !check.OK {
			result = doctor.Bad
		}
		found = append(found, control.Finding{Check: "jira " + check.What, Result: result, Message: check.Message, Remedy: check.Remedy})
	}
	return found, nil
}
