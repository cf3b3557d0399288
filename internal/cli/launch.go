package cli

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/entityworkflow"
	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/sessionstatus"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/temporalutil"
	"github.com/maestro-hive/maestro/internal/terminal"
	"github.com/maestro-hive/maestro/internal/textfmt"
	"github.com/maestro-hive/maestro/workflows"
)

const (
	// admissionPatience bounds the wait for a worker to admit a session.
	admissionPatience = 30 * time.Second
	admissionPause    = 100 * time.Millisecond
	// shownRequirement bounds what the Web UI and the memo show of a requirement.
	shownRequirement = 600
	memoRequirement  = 200
)

// launch is a session about to start.
type launch struct {
	app         *app
	conn        *temporalutil.Connection
	store       *store.Store
	team        spec.Team
	requirement string
	workspace   spec.Digest
	// course selects the part of the team's work to do.
	course session.Course
	// base is the state that the session resumes from; nil for a new one.
	base *startingPoint
	// reportTo is the key of the ticket that the requirement came from.
	reportTo string
	// session is the id; empty until start has chosen one.
	session string
}

// startingPoint is the state that a session resumes from.
type startingPoint struct {
	store.StoredCheckpoint
	// incarnation is the new one's number; 1 for a fork.
	incarnation int
	// origin is set for a fork.
	origin *session.Origin
}

// resumes reports whether the session has run before, under the same id.
func (l *launch) resumes() bool { return l.base != nil && l.base.origin == nil }

// precheck refuses a session whose id is taken or whose team no worker can
// serve, before anything is stored.
func (l *launch) precheck(ctx context.Context) error {
	if l.session != "" && !l.resumes() {
		if err := l.checkFree(ctx); err != nil {
			return err
		}
	}
	offers, err := l.store.Offers(ctx)
	if err != nil {
		return err
	}
	if _, faults := l.team.Admissible(offers, l.app.env.Now()); len(faults) > 0 {
		return refusal(faults)
	}
	return nil
}

// refusal lists why a session cannot start.
func refusal(faults []string) error {
	if len(faults) == 1 {
		return usagef("the session cannot start: %s", faults[0])
	}
	return usagef("the session cannot start:\n  %s", strings.Join(faults, "\n  "))
}

// checkFree refuses a session id that Temporal or the store knows.
func (l *launch) checkFree(ctx context.Context) error {
	w := &sessionstatus.Watcher{Conn: l.conn, Session: l.session, Now: l.app.env.Now}
	_, err := w.Describe(ctx)
	var other *sessionstatus.OtherWorkflowError
	switch {
	case err == nil, errors.As(err, &other):
		return l.idTaken("Temporal")
	case !errors.Is(err, sessionstatus.ErrUnknown):
		return err
	}
	known, err := l.store.HasSession(session.Key{Namespace: l.conn.Namespace, Session: l.session})
	if known {
		return l.idTaken("the store in " + l.store.Dir())
	}
	return err
}

func (l *launch) idTaken(by string) error {
	return usagef("session %[2]q already exists in %[1]s; choose another --session, or show it with `%[3]s`", by, l.session, l.app.commandLine("status "+l.session))
}

// start stores the session's input and starts its workflow.
func (l *launch) start(ctx context.Context) (runDocument, error) {
	if l.session == "" {
		l.session = newSessionID(l.team.Name, l.app.env.Now())
	}
	input, err := l.storeInput(ctx)
	if err != nil {
		return runDocument{}, fmt.Errorf("the store in %s cannot be written: %w", l.store.Dir(), err)
	}
	options := l.options(ctx)
	run, err := l.conn.ExecuteWorkflow(ctx, options, workflows.TeamSessionName, input)
	var exists *serviceerror.WorkflowExecutionAlreadyStarted
	var invalid *serviceerror.InvalidArgument
	if errors.As(err, &invalid) && options.TypedSearchAttributes.Size() > 0 {
		// A server takes some seconds to accept attributes that were just added.
		options.TypedSearchAttributes = temporal.SearchAttributes{}
		run, err = l.conn.ExecuteWorkflow(ctx, options, workflows.TeamSessionName, input)
	}
	switch {
	case errors.As(err, &exists) && l.resumes():
		return runDocument{}, usagef("session %s is already running: another command started it", l.session)
	case errors.As(err, &exists):
		return runDocument{}, l.idTaken("Temporal")
	case err != nil:
		return runDocument{}, err
	}
	return runDocument{Session: run.GetID(), RunID: run.GetRunID(), Store: l.store.ID()}, nil
}

// storeInput stores team and requirement.
func (l *launch) storeInput(ctx context.Context) (workflows.SessionInput, error) {
	in := workflows.SessionInput{Version: workflows.LogicVersion, Store: l.store.ID(), Workspace: l.workspace, Course: l.course, ReportTo: l.reportTo}
	if l.base != nil {
		in.Base, in.Incarnation, in.Origin = l.base.Name, l.base.incarnation, l.base.origin
	}
	data, err := json.Marshal(l.team)
	if err != nil {
		return in, fmt.Errorf("encode team: %w", err)
	}
	if in.Team, err = l.store.PutBlob(ctx, data); err != nil {
		return in, err
	}
	in.Requirement, err = l.store.PutBlob(ctx, []byte(l.requirement))
	return in, err
}

func (l *launch) options(ctx context.Context) client.StartWorkflowOptions {
	o := client.StartWorkflowOptions{
		ID:                       l.session,
		TaskQueue:                spec.WorkflowQueue(l.store.ID()),
		WorkflowTaskTimeout:      entityworkflow.WorkflowTaskTimeout,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,

		WorkflowExecutionErrorWhenAlreadyStarted: true,

		Memo: map[string]any{
			workflows.MemoStore:       l.store.ID(),
			workflows.MemoTeam:        l.team.Name,
			workflows.MemoRequirement: terminal.Clip(l.requirement, memoRequirement),
		},
		StaticSummary: fmt.Sprintf("team %s: %s", l.team.Name, safetext.Code(terminal.Clip(l.requirement, 100))),
		StaticDetails: details(l.session, l.team, l.requirement),
	}
	if l.resumes() {
		o.WorkflowIDReusePolicy = enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE
	}
	if missing, err := l.app.attributes(l.conn).Missing(ctx); err == nil && len(missing) == 0 {
		o.TypedSearchAttributes = temporal.NewSearchAttributes(
			workflows.AttributeTeam.ValueSet(l.team.Name), workflows.AttributeStatus.ValueSet(string(session.Admitted)))
	}
	return o
}

// details is the Web UI's text on a session, for readers who have never seen
// one. It is Markdown, besides the requirement, which may come from a ticket.
func details(sessionID string, t spec.Team, requirement string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "A Maestro session: team **%s** works on ", t.Name)
	for i, p := range t.Phases {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s (%s)", p.Name, strings.Join(p.Personas, ", "))
	}
	fmt.Fprintf(&b, " on this requirement:\n\n%s\n", safetext.CodeBlock(textfmt.Shorten(strings.TrimSpace(requirement), shownRequirement)))
	fmt.Fprintf(&b, "\nThe current details on this page show whether it waits for a person, and how to answer.\n\nFollow it: `maestro watch %[1]s`. Its files: `maestro artifacts list %[1]s`. Cancel it: `maestro cancel %[1]s`, or the button above.\n", sessionID)
	return b.String()
}

const idLetters = "abcdefghijklmnopqrstuvwxyz234567"

// newSessionID makes a readable and unique id:
// the team's name, the date and six random letters.
func newSessionID(teamName string, now time.Time) string {
	var random [6]byte
	_, _ = rand.Read(random[:]) // never fails
	for i, b := range random {
		random[i] = idLetters[int(b)%len(idLetters)]
	}
	return fmt.Sprintf("%s-%s-%s", teamName, now.Format("20060102"), random)
}

// awaitAdmission waits until workers have admitted a run of the session. A refusal
// lists its faults.
func (a *app) awaitAdmission(ctx context.Context, w *sessionstatus.Watcher, run string) (sessionstatus.Session, error) {
	bounded, cancel := context.WithTimeout(ctx, admissionPatience)
	defer cancel()
	ticker := time.NewTicker(admissionPause)
	defer ticker.Stop()
	for {
		v, err := w.Look(bounded)
		switch {
		case len(v.Faults) > 0:
			return v, refusal(v.Faults)
		case err == nil && w.Admitted(v, run):
			return v, nil
		case err != nil && ctx.Err() == nil && bounded.Err() == nil && !temporalutil.Lost(err):
			return v, err
		}
		select {
		case <-ctx.Done():
			a.printErr("the session is started and runs in the background: %s", a.commandLine("watch "+w.Session))
			return v, ctx.Err()
		case <-bounded.Done():
			return v, failf("the session is started, but no worker admitted it within %s; it runs as soon as one does: %s",
				admissionPatience, a.commandLine("watch "+w.Session))
		case <-ticker.C:
		}
	}
}
