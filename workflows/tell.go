package workflows

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/team"
)

// lastNoticeLimit bounds what a session that ends spends on telling people.
const lastNoticeLimit = time.Minute

// takeTickets has the session know which tickets were made for its requests.
func (s *session) takeTickets(ctx workflow.Context) {
	signals := workflow.GetSignalChannel(ctx, TicketSignal)
	workflow.Go(ctx, func(ctx workflow.Context) {
		if s.awaitAdmission(ctx) != nil {
			return
		}
		for {
			var news TicketNews
			signals.Receive(ctx, &news)
			r := s.find(news.Request)
			if r == nil || r.Ticket != nil && *r.Ticket == news.Ticket {
				continue
			}
			r.Ticket = &news.Ticket
			s.listRequests()
			s.show(ctx)
			if err := s.keep(ctx, "", nil); err != nil {
				workflow.GetLogger(ctx).Warn("the store does not know of a ticket", "ticket", news.Ticket.Key, "error", err)
			}
		}
	})
}

// heard tells whether anybody outside wants to hear of the session.
func (s *session) heard() bool { return s.team.Help.Jira != nil || s.webhook || s.in.ReportTo != "" }

// tell tells people outside of Temporal what happens, in order, and without the
// session waiting for it.
func (s *session) tell(ctx workflow.Context, event team.Event, h *team.HelpRequest, answer *team.Answer) {
	if !s.heard() {
		return
	}
	in := s.notice(ctx, event, h, answer)
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	s.untold++
	workflow.Go(ctx, func(ctx workflow.Context) {
		defer func() { s.untold-- }()
		if err := s.telling.Lock(ctx); err != nil {
			return
		}
		defer s.telling.Unlock()
		if in.Jira != nil && h == nil { // all that a ticket was made for by now hears of it
			in.Fingerprints = slices.Clone(s.told)
		}
		var out activities.Notified
		if err := s.atBoundary(ctx, activities.NotifyName, in, &out); err != nil {
			workflow.GetLogger(ctx).Error("nobody outside hears of it", "event", event, "error", err)
		}
		if out.Fingerprint != "" && !slices.Contains(s.told, out.Fingerprint) {
			s.told = append(s.told, out.Fingerprint)
		}
	})
}

// tellEnd tells how the session ended, and waits for a while until everybody who
// passes it on has it.
func (s *session) tellEnd(ctx workflow.Context, event team.Event) {
	if !s.heard() {
		return
	}
	s.tell(ctx, event, nil, nil)
	waiting, cancel := workflow.WithCancel(ctx)
	defer cancel()
	timer := workflow.NewTimerWithOptions(waiting, lastNoticeLimit, workflow.TimerOptions{Summary: "people are told how the session ended"})
	err := workflow.Await(ctx, func() bool { return s.untold == 0 || timer.IsReady() })
	if s.untold > 0 {
		workflow.GetLogger(ctx).Warn("the session ends, and notices about it may not have been delivered", "notices", s.untold, "waited", lastNoticeLimit, "error", err)
	}
}

// notice is what people are told.
func (s *session) notice(ctx workflow.Context, event team.Event, h *team.HelpRequest, answer *team.Answer) activities.NotifyInput {
	info := workflow.GetInfo(ctx)
	s.notices++
	in := activities.NotifyInput{
		Notice: team.Notice{
			Schema: team.NoticeSchema, ID: fmt.Sprintf("%s/%s/%d", s.status.Session, info.WorkflowExecution.RunID, s.notices),
			Event: event, At: workflow.Now(ctx).UTC(), Session: s.status.Session, Run: info.WorkflowExecution.RunID,
			Namespace: info.Namespace, Store: s.in.Store, Team: s.team.Name, Incarnation: s.status.Incarnation,
			Status: s.status.Status, Reason: team.Shorten(s.status.Reason, team.MaxMessage), Request: h, Answer: answer,
			Usage: s.status.Usage, Checkpoint: s.head,
		},
		Jira: s.team.Help.Jira, ReportTo: s.in.ReportTo, Webhook: s.webhook,
	}
	in.Notice.Commands = []string{"maestro status " + s.status.Session, "maestro artifacts list " + s.status.Session}
	if in.Notice.Asks() {
		in.Notice.Commands = s.commands(*h)
	}
	if event == team.SessionFailed || event == team.SessionCancelled {
		in.Notice.Commands = slices.Insert(in.Notice.Commands, 0, "maestro resume "+s.status.Session)
	}
	if in.Notice.Ends() && s.ended != nil { // somebody may have wanted it so
		in.Notice.Answer = s.ended.answer
	}
	return in
}

// commands are what a person can type about a request, the most useful one first.
func (s *session) commands(h team.HelpRequest) []string {
	name := s.status.Session
	if h.Kind == team.ForApproval {
		return []string{
			fmt.Sprintf("maestro artifacts diff %s %s", name, h.Phase), fmt.Sprintf("maestro approve %s %s", name, h.Phase),
			fmt.Sprintf("maestro reject %s %s --note \"what to change\"", name, h.Phase),
		}
	}
	var commands []string
	if h.Kind == team.ForMoney {
		commands = append(commands, h.Command)
	}
	if h.Takes(team.Retrying) {
		commands = append(commands, fmt.Sprintf("maestro resolve %s retry --request %s --note \"what to do differently\"", name, h.ID))
	}
	if h.Takes(team.Skipping) {
		commands = append(commands, fmt.Sprintf("maestro resolve %s skip --request %s", name, h.ID))
	}
	if h.Takes(team.Supplying) {
		commands = append(commands, fmt.Sprintf("maestro resolve %s supply PATH --request %s", name, h.ID))
	}
	return append(commands, fmt.Sprintf("maestro resolve %s abort --request %s", name, h.ID),
		"maestro status "+name, fmt.Sprintf("maestro logs %s %s/%s", name, h.Phase, h.Persona), "maestro artifacts list "+name)
}
