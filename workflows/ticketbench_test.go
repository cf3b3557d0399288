package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/team"
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
	of         team.Notice
	comments   []comment
	gone       bool
}

type comment struct {
	team.Notice
	occurrences int
}

func (s *tickets) answer(call string) (done bool, err error) {
	s.calls[call]++
	if s.fail == nil {
		return true, nil
	}
	done, err = s.fail(call, s.now())
	return done || err == nil, err
}

func (s *tickets) Find(_ context.Context, _, label string) (team.Ticket, bool, error) {
	if _, err := s.answer("find"); err != nil {
		return team.Ticket{}, false, err
	}
	for _, m := range s.made {
		if m.label == label && !m.gone && s.now().Sub(m.at) >= s.lag {
			return team.Ticket{Key: m.key, URL: s.Address(m.key)}, true, nil
		}
	}
	return team.Ticket{}, false, nil
}

func (s *tickets) Create(_ context.Context, how team.HelpJira, label string, n team.Notice) (team.Ticket, error) {
	done, err := s.answer("create")
	if !done {
		return team.Ticket{}, err
	}
	key := fmt.Sprintf("%s-%d", how.Project, len(s.made)+1)
	s.made = append(s.made, made{key: key, label: label, at: s.now(), of: n})
	return team.Ticket{Key: key, URL: s.Address(key)}, err
}

func (s *tickets) Comment(_ context.Context, key string, n team.Notice, occurrences int, again bool) error {
	done, err := s.answer("comment")
	for i, m := range s.made {
		if m.key != key || !done {
			continue
		}
		if m.gone {
			return &team.TicketTrouble{Kind: team.Gone, Message: key + " is not there"}
		}
		known := false
		for _, c := range m.comments {
			known = known || c.ID == n.ID
		}
		if !known || !again {
			s.made[i].comments = append(m.comments, comment{n, occurrences})
		}
	}
	return err
}

func (s *tickets) Address(key string) string { return "https://jira/browse/" + key }

// ticketBench runs the workflow of a ticket in the SDK's test environment.
type ticketBench struct {
	t    *testing.T
	env  *testsuite.TestWorkflowEnvironment
	jira *tickets
	// heard is what sessions were signalled, in order.
	heard []heard
	// absent are sessions that are gone.
	absent map[string]bool
	at     time.Duration
}

type heard struct {
	session string
	workflows.TicketNews
}

func newTicketBench(t *testing.T) *ticketBench {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler))) // a day of failed tries is a lot to read
	b := &ticketBench{t: t, env: suite.NewTestWorkflowEnvironment(), absent: map[string]bool{}}
	b.env.SetStartTime(morning)
	b.env.SetTestTimeout(time.Minute)
	b.jira = &tickets{now: b.env.Now, calls: map[string]int{}}
	b.serve(b.jira)
	b.env.RegisterWorkflowWithOptions(workflows.Ticket, workflow.RegisterOptions{Name: workflows.TicketName})
	b.env.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, workflows.TicketSignal, mock.Anything).Return(
		func(_, session, _, _ string, arg any) error {
			if b.absent[session] {
				return errors.New("no such workflow")
			}
			b.heard = append(b.heard, heard{session, arg.(workflows.TicketNews)})
			return nil
		})
	return b
}

func (b *ticketBench) serve(jira *tickets) {
	calls := &activities.TicketCalls{Tickets: jira, IndexDelay: team.Duration(2 * time.Minute)}
	for name, fn := range map[activities.Name]any{
		activities.FindTicketName: calls.Find, activities.CreateTicketName: calls.Create, activities.CommentTicketName: calls.Comment,
	} {
		b.env.RegisterActivityWithOptions(fn, activity.RegisterOptions{Name: string(name)})
	}
}
