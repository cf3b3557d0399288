package workflows

import (
	"cmp"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// The alerts of the team's rules are raised once in a session, or once for a request. A session without
// rules issues no commands for them.

// alertOfUsage raises the alerts about the session's usage.
func (s *sessionRun) alertOfUsage(ctx workflow.Context) {
	for _, rule := range s.Team.Alerts {
		if a, reached := session.CostAlert(rule, s.Status.Usage); reached {
			s.alertOnce(ctx, a)
		}
	}
}

// countAttempts counts the attempts of a round, failed ones first, and raises the alerts about
// failures.
func (s *sessionRun) countAttempts(ctx workflow.Context, failed, succeeded int) {
	most := s.Team.LongestAlert()
	if most == 0 {
		return
	}
	for i := range failed + succeeded {
		s.LastAttempts = append(s.LastAttempts, i < failed)
		s.LastAttempts = slices.Clone(s.LastAttempts[max(0, len(s.LastAttempts)-most):])
		for _, rule := range s.Team.Alerts {
			if a, reached := session.FailureAlert(rule, s.LastAttempts); reached {
				s.alertOnce(ctx, a)
			}
		}
	}
}

// watchRequest raises the alerts about a request that waits for a person. A continued run of the
// workflow continues to watch.
func (s *sessionRun) watchRequest(ctx workflow.Context, r *request) {
	var rules []spec.Alert
	for _, rule := range s.Team.Alerts {
		if rule.Waiting > 0 {
			rules = append(rules, rule)
		}
	}
	if r.Kind.NoticeOnly() || len(r.Actions) == 0 || r.Alerted >= len(rules) {
		return
	}
	slices.SortFunc(rules, func(a, b spec.Alert) int { return cmp.Compare(a.Waiting, b.Waiting) })
	workflow.Go(ctx, func(ctx workflow.Context) {
		for r.Alerted < len(rules) {
			rule := rules[r.Alerted]
			if !s.waitForAlert(ctx, r, rule) {
				return
			}
			r.Alerted++
			s.alert(ctx, session.WaitingAlert(rule, r.Request, workflow.Now(ctx)), &r.Request)
		}
	})
}

// waitForAlert waits until a request has been open for the time of a rule. It returns false if the
// request is closed before, or if the next run has to watch it.
func (s *sessionRun) waitForAlert(ctx workflow.Context, r *request, rule spec.Alert) bool {
	timing, cancel := workflow.WithCancel(ctx)
	defer cancel()
	left := max(r.Since.Add(rule.Waiting.Std()).Sub(workflow.Now(ctx)), 0)
	timer := workflow.NewTimerWithOptions(timing, left, workflow.TimerOptions{Summary: "alert " + rule.String() + " for request " +
		r.ID})
	over := func() bool {
		return r.Answer != nil || r.closed || s.ending.stopping() || !slices.Contains(s.Requests, r)
	}
	return workflow.Await(ctx, func() bool { return timer.IsReady() || over() }) == nil && !over()
}

// alertOnce raises the alert of a rule that is not about a request, unless it was raised before.
func (s *sessionRun) alertOnce(ctx workflow.Context, a session.Alert) {
	if !s.Status.Alerted(a.Rule) {
		s.alert(ctx, a, nil)
	}
}

// alert adds an alert to the status, and has it stored and sent. It is stored first: a session
// that is resumed does not send it again.
func (s *sessionRun) alert(ctx workflow.Context, a session.Alert, h *session.Request) {
	a.At = workflow.Now(ctx).UTC()
	s.Status.Alert(a)
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	s.noticesPending++
	workflow.Go(ctx, func(ctx workflow.Context) {
		defer func() { s.noticesPending-- }()
		if err := s.saveStatus(ctx, nil); err != nil {
			workflow.GetLogger(ctx).Warn("an alert could not be stored", "rule", a.Rule, "error", err)
		}
		s.notifyAlert(ctx, a, h)
	})
}
