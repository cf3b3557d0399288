package workflows

import (
	"cmp"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// alerts raises the alerts of the team's rules: once in a session, or once for a request. A
// session without rules issues no commands for them.
type alerts struct {
	team        *spec.Team
	status      *session.Status
	ending      *ending
	checkpoints *checkpoints
	notifier    *notifier
	// open lists the open requests.
	open func() []*request
	// attempts are the results of the last attempts, the oldest first: true for each that failed. There are
	// as many as the rules are about.
	attempts []bool
}

// checkUsage raises the alerts about the session's usage.
func (al *alerts) checkUsage(ctx workflow.Context) {
	for _, rule := range al.team.Alerts {
		if a, reached := session.CostAlert(rule, al.status.Usage); reached {
			al.raiseOnce(ctx, a)
		}
	}
}

// countAttempts counts the attempts of a round, failed ones first, and raises the alerts about
// failures.
func (al *alerts) countAttempts(ctx workflow.Context, failed, succeeded int) {
	most := al.team.LongestAlert()
	if most == 0 {
		return
	}
	for i := range failed + succeeded {
		al.attempts = append(al.attempts, i < failed)
		al.attempts = slices.Clone(al.attempts[max(0, len(al.attempts)-most):])
		for _, rule := range al.team.Alerts {
			if a, reached := session.FailureAlert(rule, al.attempts); reached {
				al.raiseOnce(ctx, a)
			}
		}
	}
}

// watch raises the alerts about a request that waits for a person. A continued run of the
// workflow continues to watch.
func (al *alerts) watch(ctx workflow.Context, r *request) {
	var rules []spec.Alert
	for _, rule := range al.team.Alerts {
		if rule.Waiting > 0 {
			rules = append(rules, rule)
		}
	}
	if r.Kind.NoticeOnly() || len(r.Actions) == 0 || r.alerted >= len(rules) {
		return
	}
	slices.SortFunc(rules, func(a, b spec.Alert) int { return cmp.Compare(a.Waiting, b.Waiting) })
	workflow.Go(ctx, func(ctx workflow.Context) {
		for r.alerted < len(rules) {
			rule := rules[r.alerted]
			if !al.waitFor(ctx, r, rule) {
				return
			}
			r.alerted++
			al.raise(ctx, session.WaitingAlert(rule, r.Request, workflow.Now(ctx)), &r.Request)
		}
	})
}

// waitFor waits until a request has been open for the time of a rule. It returns false if the
// request is closed before, or if the next run has to watch it.
func (al *alerts) waitFor(ctx workflow.Context, r *request, rule spec.Alert) bool {
	timing, cancel := workflow.WithCancel(ctx)
	defer cancel()
	left := max(r.Since.Add(rule.Waiting.Std()).Sub(workflow.Now(ctx)), 0)
	timer := workflow.NewTimerWithOptions(timing, left, workflow.TimerOptions{Summary: "alert " + rule.String() + " for request " + r.ID})
	over := func() bool {
		return r.answer != nil || r.closed || al.ending.stopping() || !slices.Contains(al.open(), r)
	}
	return workflow.Await(ctx, func() bool { return timer.IsReady() || over() }) == nil && !over()
}

// raiseOnce raises the alert of a rule that is not about a request, unless it was raised before.
func (al *alerts) raiseOnce(ctx workflow.Context, a session.Alert) {
	if !al.status.Alerted(a.Rule) {
		al.raise(ctx, a, nil)
	}
}

// raise adds an alert to the status, and has it stored and sent. It is stored first: a session
// that is resumed does not send it again.
func (al *alerts) raise(ctx workflow.Context, a session.Alert, h *session.Request) {
	a.At = workflow.Now(ctx).UTC()
	al.status.Alert(a)
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	al.notifier.pending++
	workflow.Go(ctx, func(ctx workflow.Context) {
		defer func() { al.notifier.pending-- }()
		if err := al.checkpoints.mark(ctx, nil); err != nil {
			workflow.GetLogger(ctx).Warn("an alert could not be stored", "rule", a.Rule, "error", err)
		}
		al.notifier.alert(ctx, a, h)
	})
}
