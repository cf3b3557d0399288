package session

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// State is the state of a session, a phase or an assignment.
type State string

// The states. Sessions use the first group and completed, failed and
// cancelled; phases and assignments use the second.
const (
	Admitted          State = "admitted"
	Running           State = "running"
	WaitingForBreaker State = "waiting_breaker"
	HelpIsNeeded      State = "help_needed"
	AwaitingApproval  State = "awaiting_approval"
	Completed         State = "completed"
	Failed            State = "failed"
	WasCancelled      State = "cancelled"

	Pending  State = "pending"
	Waiting  State = "waiting"
	Restored State = "restored"
	Supplied State = "supplied"
	Skipped  State = "skipped"
)

// OpenStates are the states of sessions that have not ended.
var OpenStates = []State{Admitted, Running, WaitingForBreaker, HelpIsNeeded, AwaitingApproval}

// Closed reports whether a session in this state has ended.
func (s State) Closed() bool { return s == Completed || s == Failed || s == WasCancelled }

// Done reports whether a phase or assignment in this state has finished work.
func (s State) Done() bool {
	return s == Completed || s == Restored || s == Supplied || s == Skipped
}

// AtEnd is the state of a phase or assignment after its session has ended: work in progress becomes
// pending, and a phase that waited for approval is completed.
func (s State) AtEnd() State {
	switch s {
	case Running, Waiting, HelpIsNeeded:
		return Pending
	case AwaitingApproval:
		return Completed
	default:
		return s
	}
}

// Status is the status of a session: the document of `status -o json`. Its field names are stable.
type Status struct {
	Session string `json:"session"`
	Team    string `json:"team"`
	Status  State  `json:"status"`
	// Run counts the Temporal runs of the session, from 1.
	Run       int               `json:"run"`
	Phases    []PhaseStatus     `json:"phases"`
	Decisions map[string]string `json:"decisions"`
	Usage     cost.Usage        `json:"usage,omitzero"`
	// Dropped is the cost of assignments that the team does not have any more. Usage includes it.
	Dropped cost.Usage `json:"dropped_usage,omitzero"`
	// Unsettled is the sum of estimates of calls with unknown cost, and Reserved the amount that is
	// reserved for calls in progress. No usage includes them.
	Unsettled cost.Usage  `json:"unsettled,omitzero"`
	Reserved  cost.Amount `json:"reserved,omitzero"`
	// Help lists the open requests.
	Help []Request `json:"help"`
	// Alerts are the raised alerts of the team's rules, oldest first.
	Alerts []Alert `json:"alerts,omitempty"`
	// Checkpoint is the newest checkpoint's digest.
	Checkpoint    spec.Digest `json:"checkpoint"`
	HistoryEvents int64       `json:"history_events"`
	// Reason is one sentence on why the session failed or what it waits for.
	Reason string `json:"reason,omitempty"`
	Starter
	StartedAt *time.Time `json:"started_at"`
	ClosedAt  *time.Time `json:"closed_at"`
	// Plan lists what happened to each assignment when the session was resumed, forked, or started
	// on a part of its team's work.
	Plan []PlanEntry `json:"plan,omitempty"`
	// Origin is the session from which it was forked.
	Origin *Origin `json:"origin,omitempty"`
	// Labels are its labels, by key.
	Labels map[string]string `json:"labels,omitempty"`
	// LeftOut says, in sentences, what was not taken of the workspace, see [Source.LeftOut]. Readers add it.
	LeftOut []string `json:"left_out,omitempty"`
}

// Starter is who started a session, as fields of the documents that embed it.
type Starter struct {
	// StartedBy is the person; empty: unknown.
	StartedBy string `json:"started_by,omitempty"`
	// StartedByID identifies this person under another name; empty: only the name does.
	StartedByID string `json:"started_by_id,omitempty"`
	// StartedOver is the agent that started the session with the rights of this person: mcp/ and its name, mcp if it stated none, or
	// agent/ and the name of its token.
	StartedOver string `json:"started_over,omitempty"`
}

// Describe names the person for people, and says that a program used the person's rights.
func (s Starter) Describe() string { return textfmt.Over(s.StartedBy, s.StartedOver) }

// PhaseStatus is the state of one phase. Phases are in the team file's order.
type PhaseStatus struct {
	Name        string             `json:"name"`
	Status      State              `json:"status"`
	Assignments []AssignmentStatus `json:"assignments"`
	// Needs names the phases that it depends on. Readers add them.
	Needs []string `json:"needs,omitempty"`
	// SentBack: its work was sent back at least once. Only a reader of the store knows.
	SentBack bool `json:"sent_back,omitempty"`
	// Seconds is the time from the start of the phase's first attempt to the end of its last, or
	// until now while the phase is not done. Readers compute it.
	Seconds float64 `json:"seconds,omitzero"`
	// PullRequest is that of a phase that delivers; nil: it has none. Readers add it.
	PullRequest *PullRequest `json:"pull_request,omitempty"`
}

// PullRequestState is the state of a pull request on its host.
type PullRequestState string

// The states of a pull request.
const (
	PullOpen   PullRequestState = "open"
	PullClosed PullRequestState = "closed"
	PullMerged PullRequestState = "merged"
)

// PullRequest is the state of a pull request by which a phase delivers the work.
type PullRequest struct {
	// Host is the agent that delivers, Repository where to.
	Host       string `json:"host"`
	Repository string `json:"repository"`
	Number     int    `json:"number"`
	URL        string `json:"url"`
	// State is open, closed or merged.
	State PullRequestState `json:"state"`
	Draft bool             `json:"draft,omitempty"`
	// WaitsFor is one sentence on what it waits for; empty: for nothing.
	WaitsFor string `json:"waits_for,omitempty"`
	// ChecksPassed, ChecksFailed and ChecksPending count the checks of its newest commit, and Approvals the persons who approve it.
	ChecksPassed  int `json:"checks_passed"`
	ChecksFailed  int `json:"checks_failed"`
	ChecksPending int `json:"checks_pending"`
	Approvals     int `json:"approvals"`
	// ChangedAt is when something new was found.
	ChangedAt time.Time `json:"changed_at"`
}

// String names the pull request, and says how it stands; empty if there is none.
func (p *PullRequest) String() string {
	if p == nil {
		return ""
	}
	return fmt.Sprintf("pull request #%d of %s: %s", p.Number, p.Repository, strings.Join(p.Standing(), ", "))
}

// Standing says how the pull request stands: its state, its checks and its approvals.
func (p *PullRequest) Standing() []string {
	all := []string{string(p.State)}
	if p.Draft && p.State == PullOpen {
		all[0] = "open as a draft"
	}
	if n := p.ChecksPassed + p.ChecksFailed + p.ChecksPending; n > 0 {
		all = append(all, fmt.Sprintf("%d of %s passed", p.ChecksPassed, textfmt.Count(n, "check")))
	}
	if p.ChecksFailed > 0 {
		all = append(all, fmt.Sprintf("%d failed", p.ChecksFailed))
	}
	if p.ChecksPending > 0 {
		all = append(all, fmt.Sprintf("%d pending", p.ChecksPending))
	}
	if p.Approvals > 0 {
		all = append(all, textfmt.Count(p.Approvals, "approval"))
	}
	return all
}

// Close sets the states of unfinished work when the session ended: work for which a person was
// needed has failed, the rest is pending.
func (p *PhaseStatus) Close(help []Request) {
	for i := range p.Assignments {
		a := &p.Assignments[i]
		switch {
		case slices.ContainsFunc(help, func(h Request) bool { return h.Phase == p.Name && h.Persona == a.Persona }):
			a.Status, p.Status = Failed, Failed
		case !a.Status.Done():
			a.Status = Pending
		}
		a.Progress, a.Awaits = "", nil
	}
	p.Status = p.Status.AtEnd()
}

// Done is the state of the phase after all its assignments are done: supplied if any was supplied,
// skipped if all were skipped, and otherwise the usual one.
func (p PhaseStatus) Done(usual State) State {
	skipped := 0
	for _, a := range p.Assignments {
		if a.Status == Supplied {
			return Supplied
		}
		if a.Status == Skipped {
			skipped++
		}
	}
	if skipped == len(p.Assignments) {
		return Skipped
	}
	return usual
}

// AssignmentStatus is the state of one assignment.
type AssignmentStatus struct {
	Persona string `json:"persona"`
	AssignmentSummary
	// Progress is the agent's last reported progress while it works.
	Progress string `json:"progress,omitempty"`
	// Awaits is the breaker that the assignment waits for; nil: none.
	Awaits *BreakerWait `json:"awaits,omitempty"`
	// Seconds is the time at work in all attempts, including the one in progress. Readers compute
	// it.
	Seconds float64 `json:"seconds,omitzero"`
	// Pass, Round and Attempt are those in progress, or the last ones. The round counts in its pass, and the attempt in its round.
	// Readers add them.
	Pass    int `json:"pass,omitempty"`
	Round   int `json:"round,omitempty"`
	Attempt int `json:"attempt,omitempty"`
}

// AssignmentSummary has the fields that statuses and checkpoints share.
type AssignmentSummary struct {
	Status State `json:"status"`
	// Agent works in place of the persona's own; empty: the persona's own works.
	Agent string `json:"agent,omitempty"`
	// Rounds counts the rounds that were started.
	Rounds int `json:"rounds"`
	// Attempts counts the counted attempts, over all rounds: without those of Failures that only a person can mend.
	Attempts int `json:"attempts"`
	// LostWorkers counts the workers that died during the assignment.
	LostWorkers int        `json:"lost_workers"`
	Usage       cost.Usage `json:"usage,omitzero"`
	// Failures has one entry per failed attempt, oldest first: the last [MaxFailures].
	Failures []AttemptFailure `json:"failures"`
	// Summary is the agent's own, after the assignment is done.
	Summary string `json:"summary,omitempty"`
	// Files counts the files that it changed, after it is done.
	Files int `json:"files,omitempty"`
	// Dropped lists, for the integrator of a phase, the versions in a conflict that are not in the
	// phase's result.
	Dropped []string `json:"dropped,omitempty"`
	// LeftOut says, in sentences, what the result does not have of the agent's files, and why.
	LeftOut []string `json:"left_out,omitempty"`
}

// Unsaid is the part of LeftOut that the summary does not have: a long summary has no room for it.
func (a AssignmentSummary) Unsaid() []string {
	return slices.DeleteFunc(slices.Clone(a.LeftOut), func(note string) bool { return strings.Contains(a.Summary, note) })
}

// AttemptFailure is the short form of a failed attempt.
type AttemptFailure struct {
	Category failures.Category `json:"category"`
	Message  string            `json:"message"`
	// Final: another attempt was useless.
	Final bool `json:"final,omitempty"`
}

// MaxFailures is how many failed attempts of an assignment travel through a session's history. Its record has all.
const MaxFailures = 20

// LastFailures is the last [MaxFailures] failed attempts.
func LastFailures(all []AttemptFailure) []AttemptFailure { return all[max(0, len(all)-MaxFailures):] }

// CountedAttempts is how many of the failed attempts count: those of the agent, and of a provider or a host for which the
// team has waited in vain. A failure that only a person can mend does not count.
func CountedAttempts(failed []AttemptFailure) (n int) {
	for _, f := range failed {
		if owner := failures.RuleFor(f.Category).Owner; owner == failures.OwnerAgent || owner != failures.OwnerPerson && !f.Final {
			n++
		}
	}
	return n
}

// Assignment returns the assignment's status, for changing; nil if the session has no such
// assignment.
func (s *Status) Assignment(id spec.AssignmentID) *AssignmentStatus {
	for i := range s.Phases {
		if s.Phases[i].Name != id.Phase {
			continue
		}
		for j := range s.Phases[i].Assignments {
			if s.Phases[i].Assignments[j].Persona == id.Persona {
				return &s.Phases[i].Assignments[j]
			}
		}
	}
	return nil
}

// Standing is the state of a session that has not ended. It waits for a person or a breaker if an
// assignment or a phase does, and no other work is in progress.
func (s *Status) Standing() State {
	parked, breaker, help := false, false, false
	for _, p := range s.Phases {
		atWork := p.Status == Running // sealing, unless an assignment has yet to finish
		for _, a := range p.Assignments {
			switch {
			case a.Awaits != nil:
				breaker = true
			case a.Status == HelpIsNeeded:
				help = true
			case a.Status == Running || a.Status == Waiting:
				return Running
			}
			atWork = atWork && a.Status.Done()
		}
		if atWork {
			return Running
		}
		parked = parked || p.Status == AwaitingApproval
	}
	switch { // nothing is at work
	case help:
		return HelpIsNeeded
	case breaker:
		return WaitingForBreaker
	case parked:
		return AwaitingApproval
	}
	return Running
}

// Stand updates the status of a session that has not ended from its assignments. It sets the reason
// if the session waits for a breaker.
func (s *Status) Stand() {
	before := s.Status
	s.Status = s.Standing()
	switch {
	case s.Status == WaitingForBreaker:
		s.Reason = s.BreakerReason()
	case before == WaitingForBreaker:
		s.Reason = ""
	}
}

// Delivers reports whether a phase of the session delivers its work as a pull request.
func (s *Status) Delivers() bool {
	return slices.ContainsFunc(s.Phases, func(p PhaseStatus) bool {
		return slices.ContainsFunc(p.Assignments, func(a AssignmentStatus) bool { return a.Persona == spec.DeliveryPersona })
	})
}

// BreakerReason lists the breakers that the session's assignments wait for.
func (s *Status) BreakerReason() string {
	var reasons []string
	for _, p := range s.Phases {
		for _, a := range p.Assignments {
			if a.Awaits != nil {
				reasons = append(reasons, fmt.Sprintf("%s/%s %s", p.Name, a.Persona, a.Awaits))
			}
		}
	}
	return strings.Join(reasons, "; ")
}

// Clone is a copy that is independent of later changes of the status.
func (s *Status) Clone() Status {
	out := *s
	out.Phases = slices.Clone(s.Phases)
	for i, p := range out.Phases {
		out.Phases[i].Assignments = slices.Clone(p.Assignments)
	}
	out.Help = append([]Request{}, s.Help...)
	return out
}

// Sum is the usage of all assignments.
func (s *Status) Sum() cost.Usage {
	total := s.Dropped
	for _, p := range s.Phases {
		for _, a := range p.Assignments {
			total = total.Add(a.Usage)
		}
	}
	return total
}

// NoWork is the summary of an assignment that has not started.
func NoWork() AssignmentSummary {
	return AssignmentSummary{Status: Pending, Failures: []AttemptFailure{}}
}

// NewStatus is the status of a session of this team before any work. The team must be resolved.
func NewStatus(session string, t spec.Team) Status {
	s := Status{
		Session: session, Team: t.Name, Status: Admitted, Run: 1,
		Decisions: map[string]string{}, Help: []Request{},
	}
	for _, p := range t.Phases {
		ps := PhaseStatus{Name: p.Name, Status: Pending}
		for _, persona := range p.Personas {
			ps.Assignments = append(ps.Assignments, AssignmentStatus{Persona: persona, AssignmentSummary: NoWork()})
		}
		s.Phases = append(s.Phases, ps)
	}
	return s
}

// Key identifies a session in a store.
type Key struct {
	Namespace string `json:"namespace"`
	Session   string `json:"session"`
}

// Check rejects names that are not safe as file names.
func (k Key) Check() error {
	if err := spec.CheckSession(k.Namespace); err != nil {
		return fmt.Errorf("namespace: %w", err)
	}
	return spec.CheckSession(k.Session)
}

// Execution is a session's status as of the newest boundary. Later changes of a round in progress are in its assignment's
// [Record]. Costs are sums over calls: only the mirror has them, as of its writing.
type Execution struct {
	Status
	// Revision grows with every boundary.
	Revision  int64  `json:"revision"`
	Namespace string `json:"namespace"`
	RunID     string `json:"run_id"`
	// OriginalRun is the Temporal run that a reset follows; else RunID.
	OriginalRun string `json:"original_run,omitempty"`
	// FirstRun is the first of the Temporal runs that continue each other as new, and First its number.
	FirstRun string `json:"first_run,omitempty"`
	First    int    `json:"-"`
	// Course is the part of the team's work that was requested.
	Course    Course    `json:"course,omitzero"`
	UpdatedAt time.Time `json:"updated_at"`
	// BoundaryAt is the time of the boundary, by the workflow's time.
	BoundaryAt time.Time `json:"boundary_at,omitzero"`
}

// The schema names of the store's documents.
const (
	CheckpointSchema = "maestro.checkpoint/v1"
)
