package launch

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
	"github.com/maestro-hive/maestro/internal/platform/entityworkflow"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/workflows"
)

const (
	// AdmissionTimeout limits the wait for a worker to admit a session.
	AdmissionTimeout = 30 * time.Second
	admissionPause   = 100 * time.Millisecond
)

// Launcher starts the sessions of a store.
type Launcher struct {
	Conn  *temporalutil.Connection
	Store *store.Store
	// By is who starts sessions.
	By session.Starter
	// Now returns the current time.
	Now func() time.Time
}

// Session is a session to start.
type Session struct {
	// ID is chosen by the caller; see [NewID].
	ID          string
	Team        spec.Team
	Requirement string
	// Start is the rest. [Launcher.Start] adds the store, the blobs of the team and of the requirement, and, of a session
	// that nobody has started before, its starter.
	Start session.Start
}

// resumes reports whether the session has run before, with the same id.
func (s Session) resumes() bool { return s.Start.Base != "" && s.Start.Origin == nil }

// Started is a session whose workflow runs.
type Started struct {
	Session, RunID string
}

// Check rejects a session whose id the store has, with a [*TakenError], or whose team no worker can
// serve, with a [*RefusedError], before anything is stored. Start rejects one whose id Temporal has.
func (l *Launcher) Check(ctx context.Context, s Session) error {
	if !s.resumes() {
		known, err := l.Store.State.HasSession(ctx, session.Key{Namespace: l.Conn.Namespace, Session: s.ID})
		switch {
		case err != nil:
			return err
		case known:
			return &TakenError{s.ID, "the store"}
		}
	}
	_, err := l.agents(ctx, s.Team)
	return err
}

// agents are the agents that live workers offer for a team; or a [*RefusedError].
func (l *Launcher) agents(ctx context.Context, t spec.Team) (map[string]spec.OfferedAgent, error) {
	offers, err := l.Store.State.Offers(ctx)
	if err != nil {
		return nil, err
	}
	agents, problems := t.Admissible(offers, l.Now())
	if len(problems) > 0 {
		return nil, &RefusedError{problems}
	}
	return agents, nil
}

// Start stores the session's input and starts its workflow. Errors are a [*TakenError], a
// [*RunningError], and those of the store and of Temporal.
func (l *Launcher) Start(ctx context.Context, s Session) (Started, error) {
	input, err := l.storeInput(ctx, s)
	if err != nil {
		return Started{}, fmt.Errorf("the store in %s cannot be written: %w", l.Store.Dir(), err)
	}
	options := l.options(ctx, s)
	run, err := l.Conn.ExecuteWorkflow(ctx, options, workflows.TeamSessionName, input)
	if _, invalid := errors.AsType[*serviceerror.InvalidArgument](err); invalid {
		// The namespace may not have the search attributes, or its server not accept them yet.
		options.TypedSearchAttributes = temporal.SearchAttributes{}
		run, err = l.Conn.ExecuteWorkflow(ctx, options, workflows.TeamSessionName, input)
	}
	_, exists := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err)
	switch {
	case exists && s.resumes():
		return Started{}, &RunningError{s.ID}
	case exists:
		return Started{}, &TakenError{s.ID, "Temporal"}
	case err != nil:
		return Started{}, err
	}
	return Started{run.GetID(), run.GetRunID()}, nil
}

// storeInput stores team and requirement.
func (l *Launcher) storeInput(ctx context.Context, s Session) (workflows.SessionInput, error) {
	in := workflows.SessionInput{Version: workflows.LogicVersion, Start: s.Start}
	in.Store = l.Store.ID()
	if in.StartedBy == "" {
		in.Starter = l.By
	}
	data, err := json.Marshal(s.Team)
	if err != nil {
		return in, fmt.Errorf("encode team: %w", err)
	}
	if in.Team, err = l.Store.Content.PutBlob(ctx, data); err != nil {
		return in, err
	}
	in.Requirement, err = l.Store.Content.PutBlob(ctx, []byte(s.Requirement))
	return in, err
}

// The limits of the requirement's text in the Web UI and the memo.
const (
	summaryRequirement = 100
	detailsRequirement = 600
	memoRequirement    = 200
)

// options are those of the session's workflow.
func (l *Launcher) options(ctx context.Context, s Session) client.StartWorkflowOptions {
	o := client.StartWorkflowOptions{
		ID:                       s.ID,
		TaskQueue:                spec.WorkflowQueue(l.Store.ID()),
		WorkflowTaskTimeout:      entityworkflow.WorkflowTaskTimeout,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,

		WorkflowExecutionErrorWhenAlreadyStarted: true,

		Memo: map[string]any{
			workflows.MemoStore:       l.Store.ID(),
			workflows.MemoTeam:        s.Team.Name,
			workflows.MemoRequirement: safetext.Clip(s.Requirement, memoRequirement),
		},
		StaticSummary: fmt.Sprintf("team %s: %s", s.Team.Name, safetext.Code(safetext.Clip(s.Requirement, summaryRequirement))),
		StaticDetails: details(s, access.ServedAt(ctx, l.Store.State)),
	}
	if len(s.Start.Labels) > 0 {
		o.Memo[workflows.MemoLabels] = s.Start.Labels
	}
	if s.resumes() {
		o.WorkflowIDReusePolicy = enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE
	}
	o.TypedSearchAttributes = temporal.NewSearchAttributes(
		workflows.AttributeTeam.ValueSet(s.Team.Name), workflows.AttributeStatus.ValueSet(string(session.Admitted)))
	return o
}

// details is the Web UI's text on a session, for readers who do not know Maestro. It is Markdown,
// except for the requirement, which may come from a ticket.
func details(s Session, dashboard string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "A Maestro session: team **%s** works on ", s.Team.Name)
	for i, p := range s.Team.Phases {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s (%s)", p.Name, p.Workers())
	}
	fmt.Fprintf(&b, " on this requirement:\n\n%s\n",
		safetext.CodeBlock(textfmt.Shorten(strings.TrimSpace(s.Requirement), detailsRequirement)))
	if dashboard != "" {
		fmt.Fprintf(&b, "\nOpen it in the [dashboard](%s%s).\n", dashboard, access.PagePath(s.ID, ""))
	}
	fmt.Fprintf(&b, "\nThe current details on this page show whether it waits for a person, and how to answer.\n\nFollow it: "+
		"`maestro watch %[1]s`. Its files: `maestro artifacts list %[1]s`. Cancel it: `maestro cancel %[1]s`, or the button above.\n",
		s.ID)
	return b.String()
}

// Admitted waits until workers have admitted the session. A refusal is a [*RefusedError],
// and no answer within [AdmissionTimeout] is [ErrNotAdmitted].
func (l *Launcher) Admitted(ctx context.Context, started Started) (sessionstatus.Session, error) {
	w := l.reader(started.Session)
	bounded, cancel := context.WithTimeout(ctx, AdmissionTimeout)
	defer cancel()
	ticker := time.NewTicker(admissionPause)
	defer ticker.Stop()
	for {
		v, err := w.Look(bounded)
		switch {
		case len(v.Faults) > 0:
			return v, &RefusedError{v.Faults}
		case err == nil && w.Admitted(v, started.RunID):
			return v, nil
		case err != nil && ctx.Err() == nil && bounded.Err() == nil && !temporalutil.Unreachable(err):
			return v, err
		}
		select {
		case <-ctx.Done():
			return v, ctx.Err()
		case <-bounded.Done():
			return v, cmp.Or(ctx.Err(), ErrNotAdmitted)
		case <-ticker.C:
		}
	}
}

func (l *Launcher) reader(id string) *sessionstatus.Reader {
	return &sessionstatus.Reader{Conn: l.Conn, Store: l.Store, Session: id, Now: l.Now}
}

const idLetters = "abcdefghijklmnopqrstuvwxyz234567"

// NewID makes a readable and unique id: the team's name, the date and six random letters.
func NewID(teamName string, now time.Time) string {
	var random [6]byte
	_, _ = rand.Read(random[:]) // never fails
	return idOf(teamName, now, random[:])
}

// IDFor is an id like those of [NewID] that is the same for each try of a start on one day: it follows from the digest of what
// identifies the start.
func IDFor(teamName string, day time.Time, start [sha256.Size]byte) string {
	return idOf(teamName, day, start[:12]) // 60 bits: other starts of the day have others
}

func idOf(teamName string, day time.Time, bits []byte) string {
	letters := make([]byte, len(bits))
	for i, b := range bits {
		letters[i] = idLetters[int(b)%len(idLetters)]
	}
	return fmt.Sprintf("%s-%s-%s", teamName, day.Format("20060102"), letters)
}
