package mcp

import (
	"context"
	"fmt"
	"strings"

	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/ops/control"
)

type startInput struct {
	Team        control.TeamInput `json:"team" jsonschema:"the team; name: that of a registered team; file: the text of a team file, in YAML"`
	Requirement string            `json:"requirement" jsonschema:"what the team is to do"`
	Session     string            `json:"session,omitempty" jsonschema:"the id of the session; one is chosen if left out"`
	Files       map[string]string `json:"files,omitempty" jsonschema:"texts of files that the session starts from, by path; 200 files and 512 KiB at most"`
	Only        []string          `json:"only,omitempty" jsonschema:"run only these phases"`
	From        string            `json:"from,omitempty" jsonschema:"run this phase and all that depend on it"`
	Until       string            `json:"until,omitempty" jsonschema:"run this phase and all that it depends on"`
	PauseAfter  []string          `json:"pause_after,omitempty" jsonschema:"pause after these phases until the session is resumed"`
	Decisions   map[string]string `json:"decisions,omitempty" jsonschema:"decisions that the session starts with, by name"`
	Labels      map[string]string `json:"labels,omitempty" jsonschema:"labels by which the session is found, 16 at most"`
}

type resumeInput struct {
	httpapi.OfSession
	Preview bool     `json:"preview,omitempty" jsonschema:"only list what would be reused and run"`
	Force   []string `json:"force,omitempty" jsonschema:"phases that run although they are finished, with those that depend on them"`
	Only    []string `json:"only,omitempty" jsonschema:"run only these phases"`
}

type forkInput struct {
	httpapi.OfSession
	Preview bool   `json:"preview,omitempty" jsonschema:"only list what would be reused and run"`
	From    string `json:"from" jsonschema:"the phase to run again, with all that depend on it"`
	As      string `json:"as,omitempty" jsonschema:"the id of the new session; one is chosen if left out"`
}

func (t tools) starts(s control.Starts) {
	changes(t, "start_session", "Start a session of a team on a requirement. Follow it with wait_session.",
		func(ctx context.Context, in startInput) (control.Started, error) {
			next, err := in.session(ctx, s)
			if err != nil {
				return control.Started{}, err
			}
			return s.Start(ctx, next)
		})
	changes(t, "preview_session", "Say what a session would do, phase by phase, without starting it. It takes what start_session takes.",
		func(ctx context.Context, in startInput) (control.Plan, error) {
			next, err := in.session(ctx, s)
			if err != nil {
				return control.Plan{}, err
			}
			return s.Preview(ctx, next)
		})
	changes(t, "resume_session", "Continue a session that is paused after a phase, or start one that has ended again; finished work is reused.",
		func(ctx context.Context, in resumeInput) (doc control.Started, err error) {
			how := control.Resume{Force: in.Force, PhaseSelection: control.PhaseSelection{Only: in.Only}}
			if in.Preview {
				doc.Foreseen, err = s.PreviewResume(ctx, in.Session, how)
				return doc, err
			}
			return s.Resume(ctx, in.Session, how)
		})
	changes(t, "fork_session", "Start a new session that reuses another's finished work and runs a phase again. The other session stays as it is.",
		func(ctx context.Context, in forkInput) (doc control.Started, err error) {
			how := control.Fork{From: in.From, As: in.As}
			if in.Preview {
				doc.Foreseen, err = s.PreviewFork(ctx, in.Session, how)
				return doc, err
			}
			return s.Fork(ctx, in.Session, how)
		})
}

// session is the session of an input, with its files stored.
func (in startInput) session(ctx context.Context, s control.Starts) (control.NewSession, error) {
	next := control.NewSession{
		Session: in.Session, Team: in.Team, Requirement: in.Requirement, Decisions: in.Decisions, Labels: in.Labels,
		PhaseSelection: control.PhaseSelection{Only: in.Only, From: in.From, Until: in.Until, PauseAfter: in.PauseAfter},
	}
	if len(in.Files) == 0 {
		return next, nil
	}
	stored, err := s.Keep(ctx, control.Recipient{Team: in.Team}, in.Files)
	if err == nil && len(stored.Odd) > 0 { // whoever writes a path can write another one
		err = fmt.Errorf("files: %s", strings.Join(stored.Odd, "; "))
	}
	next.Workspace = stored.Workspace
	return next, err
}
