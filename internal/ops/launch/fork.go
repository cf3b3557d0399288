package launch

import (
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// Fork is a new session that starts with the finished work of another and runs a phase again, with
// all its dependent phases.
func (s Stored) Fork(from string, t spec.Team, phase string) Session {
	c := s.Checkpoint
	return Session{Team: t, Requirement: c.Requirement, Start: session.Start{
		Workspace: c.Workspace, Run: 1, Base: c.Name, Origin: &session.Origin{Session: from, Checkpoint: c.Name}, Labels: c.Labels,
		Course: session.Course{Force: []string{phase}, Given: c.Given, Source: s.Execution.Course.Source},
	}}
}
