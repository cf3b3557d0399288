package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/workflows"
)

// tickets is a ticket system in memory.
type tickets struct {
	now func() time.Time
	// lag is how long its search does not find a new ticket.
	lag time.Duration
	// fail, if it returns an error, is the answer to a call: find, create or comment.
	// done says that the call has its effect all the same.
	fail func(call string, at time.Time) (done bool, err error)

	made  []made
	calls map[string]int
}

type made struct {
	key, label string
	at         time.Time
	of         session.Notice
	comments   []comment
	gone       bool
}

type comment struct {
	session.Notice
	occurrences, omitted int
}

func (s *tickets) answer(call string) (done bool, err error) {
	s.calls[call]++
	if s.fail == nil {
		return true, nil
	}
	done, err = s.fail(call, s.now())
	return done || err == nil, err
}

func (s *tickets) Find(_ context.Context, _, label string) (session.Ticket, bool, error) {
	if _, err := s.answer("find"); err != nil {
		return session.Ticket{}, false, err
	}
	for _, m := range s.made {
		if m.label == label && !m.gone && s.now().Sub(m.at) >= s.lag {
			return session.Ticket{Key: m.key, URL: s.Address(m.key)}, true, nil
		}
	}
	return session.Ticket{}, false, nil
}

func (s *tickets) Create(_ context.Context, how spec.HelpJira, label string, n session.Notice) (session.Ticket, error) {
	done, err := s.answer("create")
	if !done {
		return session.Ticket{}, err
	}
	key := fmt.Sprintf("%s-%d", how.Project, len(s.made)+1)
	s.made = append(s.made, made{key: key, label: label, at: s.now(), of: n})
	return session.Ticket{Key: key, URL: s.Address(key)}, err
}

func (s *tickets) Comment(_ context.Context, in session.TicketComment) error {
	done, err := s.answer("comment")
	for i, m := range s.made {
		if m.key != in.Key || !done {
			continue
		}
		if m.gone {
			return &session.TicketTrouble{Kind: session.Gone, Message: in.Key + " is not there"}
		}
		known := false
		for _, c := range m.comments {
			known = known || c.ID == in.Notice.ID
		}
		if !known || !in.Again {
			s.made[i].comments = append(m.comments, comment{in.Notice, in.Occurrences, in.Omitted})
		}
	}
	return err
}

func (s *tickets) Address(key string) string { return "https://jira/browse/" + key }

// records is a store of tickets in memory.
type records struct {
	mu   sync.Mutex
	kept map[string]session.TicketRecord
	// lost is how many writes are done, and answered with an error.
	lost int
}

func (r *records) Ticket(_ context.Context, _, name string) (session.TicketRecord, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if record, ok := r.kept[name]; ok {
		return record, nil
	}
	return session.TicketRecord{}, session.ErrNotFound
}

func (r *records) PutTicket(_ context.Context, _ string, record session.TicketRecord) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kept[record.Name].Revision < record.Revision {
		r.kept[record.Name] = record
	}
	if r.lost > 0 {
		r.lost--
		return errors.New("the directory is away")
	}
	return nil
}

// ticketBench runs the workflow of a ticket in the SDK's test environment: a new run
// for each notice that comes when the last run has completed.
type ticketBench struct {
	t       *testing.T
	jira    *tickets
	records *records
	// env is that of the newest run; completed and continued count the ends of runs.
	env                  *testsuite.TestWorkflowEnvironment
	completed, continued int
	// heard is what sessions were signalled, in order.
	heard []heard
	// absent are sessions that are gone.
	absent map[string]bool
	// at is when the last of the steps comes.
	at    time.Duration
	steps []*step
}

// step is something that happens at a time.
type step struct {
	at   time.Duration
	done bool
	// during is what happens during a run; between, if not nil, may happen between two runs.
	during  func(s *step)
	between func()
}

type heard struct {
	session string
	workflows.TicketNews
}

func newTicketBench(t *testing.T) *ticketBench {
	return &ticketBench{
		t: t, absent: map[string]bool{}, records: &records{kept: map[string]session.TicketRecord{}},
		jira: &tickets{calls: map[string]int{}},
	}
}

// update sends an update a while after the last step.
func (b *ticketBench) update(after time.Duration, name, id string, args ...any) {
	b.at += after
	b.steps = append(b.steps, &step{at: b.at, during: func(s *step) {
		b.env.UpdateWorkflow(name, id, &testsuite.TestUpdateCallback{
			OnReject: func(err error) { require.NoError(b.t, err) }, OnAccept: func() { s.done = true },
			OnComplete: func(_ any, err error) { require.NoError(b.t, err) },
		}, args...)
	}})
}

// notify sends a notice a while after the last step.
func (b *ticketBench) notify(after time.Duration, n activities.TicketNotice) {
	b.update(after, workflows.NoticeUpdate, n.Notice.ID, n)
}

// change changes something a while after the last step.
func (b *ticketBench) change(after time.Duration, what func()) {
	b.at += after
	b.steps = append(b.steps, &step{at: b.at, during: func(s *step) { what(); s.done = true }, between: what})
}

// continueAsNew has the run continue as new a while after the last step.
func (b *ticketBench) continueAsNew(after time.Duration) {
	b.change(after, func() { b.env.SetContinueAsNewSuggested(true) })
	b.update(time.Millisecond, workflows.RetryUpdate, "wake")
}

// run takes all steps and returns when the ticket's workflow has completed.
func (b *ticketBench) run(in workflows.TicketInput) {
	b.t.Helper()
	for len(b.steps) > 0 {
		if first := b.steps[0]; first.between != nil {
			first.between()
			b.steps = b.steps[1:]
			continue
		}
		b.execute(in, b.steps[0].at)
	}
}

// execute runs the workflow from a moment until it completes.
func (b *ticketBench) execute(in workflows.TicketInput, from time.Duration) {
	b.t.Helper()
	b.newEnvironment(from)
	for _, s := range b.steps {
		b.env.RegisterDelayedCallback(func() { s.during(s) }, max(s.at-from, 0))
	}
	b.env.ExecuteWorkflow(workflows.TicketName, in)
	b.steps = slices.DeleteFunc(b.steps, func(s *step) bool { return s.done })
	var again *workflow.ContinueAsNewError
	if !errors.As(b.env.GetWorkflowError(), &again) {
		require.NoError(b.t, b.env.GetWorkflowError())
		b.completed++
		require.Less(b.t, b.completed, 1000)
		return
	}
	b.continued++
	var next workflows.TicketInput
	require.NoError(b.t, converter.GetDefaultDataConverter().FromPayloads(again.Input, &next))
	b.execute(next, b.env.Now().Sub(morning))
}

func (b *ticketBench) newEnvironment(from time.Duration) {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler))) // a day of failed tries is a lot to read
	b.env = suite.NewTestWorkflowEnvironment()
	b.env.SetStartTime(morning.Add(from))
	b.env.SetTestTimeout(time.Minute)
	b.jira.now = b.env.Now
	b.env.RegisterWorkflowWithOptions(workflows.Ticket, workflow.RegisterOptions{Name: workflows.TicketName})
	calls := &activities.TicketCalls{Tickets: b.jira, IndexDelay: textfmt.Duration(2 * time.Minute)}
	kept := &activities.TicketRecords{Store: b.records, Namespace: "default"}
	for name, fn := range map[activities.Name]any{
		activities.FindTicketName: calls.Find, activities.CreateTicketName: calls.Create, activities.CommentTicketName: calls.Comment,
		activities.LoadTicketName: kept.Load, activities.SaveTicketName: kept.Save,
	} {
		b.env.RegisterActivityWithOptions(fn, activity.RegisterOptions{Name: string(name)})
	}
	b.env.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, workflows.TicketSignal, mock.Anything).Return(
		func(_, sessionID, _, _ string, arg any) error {
			if b.absent[sessionID] {
				return errors.New("no such workflow")
			}
			b.heard = append(b.heard, heard{sessionID, arg.(workflows.TicketNews)})
			return nil
		})
}

// record is what the store has of the failure's ticket.
func (b *ticketBench) record() session.TicketRecord { return b.records.kept[failure.Fingerprint] }
