package web

import (
	"context"
	"fmt"
	"io"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/store/state"
)

func (f fakeTeams) List(context.Context) (control.TeamList, error) { return f.teams, nil }

func (f fakeTeams) Read(_ context.Context, name, _ string) (control.RegisteredTeam, error) {
	version := state.TeamVersion{Digest: "12ab", By: "ann <b>", At: testNow}
	return control.RegisteredTeam{
		Name: name, TeamVersion: version, Newest: true, File: "name: <script>\u202e",
		Versions: []state.TeamVersion{version}, Team: spec.Team{
			Name: name, Description: "A <b>web</b> service",
			Phases: []spec.Phase{
				{Name: "design", Personas: []string{"architect"}, Approve: spec.Approval{Count: 2}},
				{Name: "build", Needs: []string{"design"}, Personas: []string{"developer", "tester"}},
				{Name: "ship", Needs: []string{"build"}, Deliver: &spec.Deliver{To: "github"}},
			},
		},
	}, nil
}

// webTeam is the file of the team web.
const webTeam = `version: 1
name: web
description: A <b>web</b> service
personas:
  architect: {role: Architect, agent: claude, instructions: Design it.}
  developer: {role: Developer, agent: claude, instructions: Build it.}
phases:
  - {name: design, personas: [architect], approve: true}
  - {name: frontend, personas: [developer], needs: [design]}
  - {name: ship, deliver: {to: github, repository: acme/shop}}
`

// Form is that of the control plane.
func (f fakeTeams) Form(ctx context.Context, in control.TeamInput) (control.TeamForm, error) {
	if in.Name != "" {
		in = control.TeamInput{File: webTeam}
	}
	directory := control.Directory{Name: "shop"}
	return control.Teams{Base: &control.Base{Directories: []control.Directory{directory}}}.Form(ctx, in)
}

func (f fakeTeams) Register(ctx context.Context, in control.Registration) (control.TeamChange, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	form, err := f.Form(ctx, control.TeamInput{File: in.Text})
	if err == nil {
		f.registered = append(f.registered, in)
	}
	return control.TeamChange{Name: form.Team, Changed: len(f.registered) == 1}, err
}

func (f fakeStarts) Upload(_ context.Context, _ control.Recipient, archive io.Reader) (control.Workspace, error) {
	data, err := io.ReadAll(archive)
	if err != nil {
		return control.Workspace{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.uploads = append(f.uploads, data)
	return control.Workspace{Workspace: "0123", Files: 3, Bytes: int64(len(data)), Private: []string{".env"}}, nil
}

func (f fakeStarts) Keep(_ context.Context, _ control.Recipient, files map[string]string) (control.Workspace, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kept = append(f.kept, files)
	return control.Workspace{Workspace: "0123", Files: len(files)}, nil
}

func (f fakeStarts) Preview(context.Context, control.NewSession) (control.Plan, error) {
	if f.invalid != nil {
		return control.Plan{}, f.invalid
	}
	return f.plan, nil
}

func (f fakeStarts) Start(_ context.Context, in control.NewSession) (control.Started, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.started = append(f.started, in)
	return control.Started{Foreseen: control.Foreseen{Session: "web-8"}}, nil
}

func (f fakeStarts) PreviewResume(context.Context, string, control.Resume) (control.Foreseen, error) {
	return f.foreseen, nil
}

func (f fakeStarts) Resume(_ context.Context, id string, in control.Resume) (control.Started, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.resumed = append(f.resumed, in)
	return control.Started{Foreseen: control.Foreseen{Session: id}}, nil
}

func (f fakeStarts) Delivering(_ context.Context, _ string, in control.Deliver) (control.Resume, error) {
	if in.Repository == "" {
		return control.Resume{}, control.Problem{Kind: control.Invalid}.Err("give the repository")
	}
	file := fmt.Sprintf("version: 1\nname: web\ndeliver: %s %s %s\n", in.To, in.Repository, in.Merge)
	return control.Resume{
		Team:           control.TeamInput{File: file},
		PhaseSelection: control.PhaseSelection{Only: []string{"design", "deliver"}},
	}, nil
}

func (f fakeStarts) DeliveryAgents(context.Context) ([]string, error) { return f.deliver, nil }

func (f fakeStarts) TeamText(context.Context, string) (string, error) {
	return "version: 1\nname: web\n", nil
}

func (f fakeStarts) PreviewFork(context.Context, string, control.Fork) (control.Foreseen, error) {
	return f.foreseen, nil
}

func (f fakeStarts) Fork(_ context.Context, id string, in control.Fork) (control.Started, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forks = append(f.forks, in)
	return control.Started{Foreseen: control.Foreseen{Session: id + "-fork"}}, nil
}

// invalid is an error of the control plane about a field.
type invalid string

func (e invalid) Error() string { return string(e) }

func (e invalid) As(target any) bool {
	known, ok := target.(**control.Error)
	if ok {
		*known = &control.Error{Problem: control.Problem{Kind: control.Invalid, Field: "from"}}
	}
	return ok
}

// samplePlan is a plan with something of each kind.
func samplePlan() control.Plan {
	return control.Plan{Team: "web", Phases: []control.PlannedPhase{
		{Name: "design", Personas: []control.PlannedPersona{{
			Persona: "architect", Agent: "claude", Action: session.SupplyIt,
			Reason: "supplied: 2 files",
		}}},
		{
			Name: "frontend", Needs: []string{"design"}, Checks: []string{"lint"}, PauseAfter: true,
			Personas: []control.PlannedPersona{
				{Persona: "developer", Agent: "claude", Action: session.RunIt},
				{Persona: "designer", Agent: "codex", Action: session.Leave, Reason: "not selected"},
			},
		},
		{Name: "ship", Needs: []string{"frontend"}, Deliver: &spec.Deliver{Repository: "acme/shop"}},
	}}
}

// sampleForeseen is a preview with something of each kind.
func sampleForeseen() control.Foreseen {
	entry := func(phase, persona string, action session.PlanAction, why string) session.PlanEntry {
		return session.PlanEntry{AssignmentID: spec.AssignmentID{Phase: phase, Persona: persona}, Action: action, Reason: why}
	}
	return control.Foreseen{
		Session: "web-7", Run: 2, Faults: []string{"blob 12ab is missing"},
		Plan: []session.PlanEntry{
			entry("design", "architect", session.Restore, "unchanged"),
			entry("frontend", "developer", session.RunIt, "its input has changed"),
		},
	}
}
