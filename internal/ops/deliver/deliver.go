package deliver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/delivery"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/ops/apply"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// Deliverer delivers the work of sessions.
type Deliverer struct {
	Store *store.Store
	// Host returns the host of an agent, with its credentials.
	Host func(agent string) (delivery.Host, error)
	// Dir is the directory of this host for clones.
	Dir string
	// Environ is the environment in which git runs.
	Environ []string
	// Dashboard returns the address of the dashboard; empty: none is served.
	Dashboard func(ctx context.Context) string
	// Mask replaces every secret that the worker knows.
	Mask  func(text string) string
	Clock func() time.Time
}

// maxAttempt bounds one attempt, if the persona has no timeout.
const maxAttempt = 15 * time.Minute

// maxSteps bounds the steps of one attempt. Each leads to another look at the pull request.
const maxSteps = 6

// Run delivers the work of a session's phase as far as that is possible now. The outcome is a merged pull request, or the
// reasons for which work is sent back. The error is a [*failures.Failure]: of category pending if others have to act, and
// needs_person if a person has to decide.
func (d *Deliverer) Run(ctx context.Context, job session.Job) (session.Outcome, error) {
	host, err := d.Host(job.Agent)
	if err != nil {
		return session.Outcome{}, err
	}
	r := &run{Deliverer: d, job: job, order: *job.Delivery, host: host}
	bounded, cancel := context.WithTimeout(ctx, cmp.Or(job.Timeout.Std(), maxAttempt))
	defer cancel()
	out, err := r.deliver(bounded)
	if bounded.Err() != nil && ctx.Err() == nil {
		err = failures.Failf(failures.APIError, "an attempt to deliver took longer than %s", cmp.Or(job.Timeout.Std(), maxAttempt))
	}
	if sent, ok := errors.AsType[*sentBackError](err); ok {
		out, err = session.Outcome{SendsBack: sent.reasons}, nil
	}
	if _, failed := errors.AsType[*failures.Failure](err); err != nil && !failed && ctx.Err() == nil { // the store, or the disk
		err = failures.Failf(failures.ResourceError, "%s", textfmt.Shorten(err.Error(), session.MaxMessage))
	}
	r.log("%s", cmp.Or(errorText(err), out.Summary))
	out.Log = []byte(d.Mask(r.transcript.String()))
	return out, err
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// run is one attempt.
type run struct {
	*Deliverer
	job    session.Job
	order  session.DeliveryJob
	host   delivery.Host
	record delivery.Record
	// pull is the pull request as of the last look.
	pull       delivery.PullRequest
	transcript strings.Builder
}

func (r *run) deliver(ctx context.Context) (out session.Outcome, err error) {
	if err := r.load(ctx); err != nil {
		return out, err
	}
	if r.record.Sending.Pass == r.order.Pass { // the reply of this pass was lost
		return out, &sentBackError{r.record.Sending.Reasons}
	}
	push := r.record.Work != string(r.job.Input)
	if push && r.record.Number != 0 { // nothing is added to what is merged, closed or gone
		if err := r.look(ctx); err != nil {
			return out, err
		}
		push = r.pull.State == session.PullOpen && r.pull.Head != ""
	}
	if push {
		if err := r.push(ctx, false); err != nil {
			return out, err
		}
	}
	if r.record.Number == 0 {
		if err := r.open(ctx); err != nil {
			return out, err
		}
	}
	for range maxSteps {
		if err := r.look(ctx); err != nil {
			return out, err
		}
		if err := r.reply(ctx); err != nil {
			return out, err
		}
		step := delivery.Decide(r.wanted(), r.pull, r.record, r.Clock())
		r.record.WaitsFor = step.Why
		if err := r.save(ctx); err != nil {
			return out, err
		}
		out, done, err := r.take(ctx, step)
		if done || err != nil {
			return out, err
		}
	}
	return out, pending(time.Minute, "%s changes at each look", r.record.URL)
}

// wanted is what the team wants, and whether a person has just agreed to what was asked.
func (r *run) wanted() delivery.Order {
	return delivery.Order{Deliver: r.order.Deliver, Retried: r.order.Because == session.BecauseRetried}
}

// take takes a step. done: the attempt is over.
func (r *run) take(ctx context.Context, step delivery.Step) (out session.Outcome, done bool, err error) {
	r.log("%s: %s", step.Act, step.Why)
	repository, number := r.record.Repository, r.record.Number
	switch step.Act {
	case delivery.Wait:
		return out, true, pending(step.Wait, "%s", step.Why)
	case delivery.Finish:
		return r.finished(), true, nil
	case delivery.Ask:
		r.record.Asked, r.record.AskedFor = step.Question, r.pull.Head
		if err := r.save(ctx); err != nil {
			return out, true, err
		}
		return out, true, failures.Failf(failures.NeedsPerson, "%s", textfmt.Shorten(step.Why, session.MaxMessage))
	case delivery.SendBack:
		return out, true, r.sendBack(ctx, step)
	case delivery.MarkReady:
		err = r.host.Edit(ctx, repository, number, delivery.Edit{Ready: true, Reviewers: r.order.Reviewers})
	case delivery.RerunChecks:
		err = r.rerun(ctx, step.Checks)
	case delivery.MergeBase:
		err = r.push(ctx, true)
	case delivery.Push:
		if err = r.push(ctx, false); err == nil && r.pull.State == session.PullClosed {
			err = r.host.Edit(ctx, repository, number, delivery.Edit{Reopen: true})
		}
	case delivery.Merge:
		err = r.merge(ctx)
	}
	return out, false, err
}

// finished is the outcome of a merged pull request.
func (r *run) finished() session.Outcome {
	text := "merged " + r.record.URL
	decisions := map[string]string{"pull-request": r.record.URL}
	if r.pull.MergedAs != "" {
		text += " as " + apply.Short(r.pull.MergedAs)
		decisions["merge-commit"] = r.pull.MergedAs
	}
	if r.record.Work != string(r.job.Input) {
		text += ", without the rework since then"
	}
	return session.Outcome{Summary: textfmt.Shorten(text, session.MaxSummary), Decisions: decisions}
}

// sendBack sends work back with the feedback of a step. It is noted before it is reported: a repetition of this pass reports
// the same, and a later pass does not.
func (r *run) sendBack(ctx context.Context, step delivery.Step) (err error) {
	logs := map[string]delivery.CheckLog{}
	for _, c := range step.Checks {
		if logs[c.ID], err = r.host.CheckLog(ctx, r.record.Repository, c); err != nil {
			return err
		}
	}
	reasons := delivery.Feedback(r.pull, step, logs)
	for i, text := range reasons {
		reasons[i] = r.Mask(text)
	}
	return r.recordSendBack(ctx, step, reasons)
}

// sentBackError ends an attempt that sends work back.
type sentBackError struct{ reasons []string }

func (e *sentBackError) Error() string { return "work is sent back: " + strings.Join(e.reasons, "\n") }

func (r *run) recordSendBack(ctx context.Context, step delivery.Step, reasons []string) error {
	r.record.Sends(r.order.Pass, reasons, step)
	if err := r.save(ctx); err != nil {
		return err
	}
	return &sentBackError{reasons}
}

// rerun runs failed checks again. It is noted first: a check that is run again twice by a crash would cost more than one that
// is not run again.
func (r *run) rerun(ctx context.Context, checks []delivery.Check) error {
	for _, c := range checks {
		r.record.Reruns = append(r.record.Reruns, delivery.CheckItem(r.pull.Head, c))
	}
	if err := r.save(ctx); err != nil {
		return err
	}
	for _, c := range checks {
		if err := r.host.Rerun(ctx, r.record.Repository, c); err != nil {
			return err
		}
	}
	return pending(delivery.ChecksAppear, "%s checks of %s run again", fmt.Sprint(len(checks)), r.record.URL)
}

// merge merges the pull request. What the host requires first is waited for.
func (r *run) merge(ctx context.Context) error {
	why, err := r.host.Merge(ctx, r.record.Repository, r.record.Number, r.pull.Head, r.order.Method)
	if err == nil && why != "" {
		return pending(delivery.ChecksAppear, "%s cannot be merged yet: %s", r.record.URL, why)
	}
	return err
}

// load reads what is known of the delivery, and finds its repository.
func (r *run) load(ctx context.Context) error {
	row, err := r.Store.State.Delivery(ctx, r.order.Key, r.order.Phase)
	if err != nil && !errors.Is(err, state.ErrNotFound) {
		return err
	}
	r.record = row.Record
	ordered := r.order.Repository + " " + r.order.Base
	if r.record.State == session.PullMerged && r.record.Ordered != ordered { // it is to be merged elsewhere, too
		r.record = delivery.Record{}
	}
	r.record.Ordered = ordered
	name, err := r.repository(ctx)
	if err != nil {
		return err
	}
	found, err := r.host.Repository(ctx, name)
	if err != nil {
		return err
	}
	if found.Archived {
		return failures.Failf(failures.InvalidRequest, "repository %s is archived, so that nothing can be delivered to it", found.Name)
	}
	r.record.Host, r.record.Repository = r.job.Agent, found.Name
	r.record.Branch = delivery.Branch(r.order.Key.Session)
	if r.record.Number == 0 {
		r.record.Base = cmp.Or(r.order.Base, found.DefaultBranch)
	}
	return nil
}

// repository returns the name of the repository: that of the team, or the one that the session's directory was cloned from.
func (r *run) repository(ctx context.Context) (string, error) {
	if name := cmp.Or(r.record.Repository, r.order.Repository); name != "" {
		return name, nil
	}
	if r.order.Source != nil {
		host, name := spec.RepositoryOf(r.order.Source.Remote)
		remote, err := r.host.Remote(ctx, name)
		if err != nil {
			return "", err
		}
		if at, _ := spec.RepositoryOf(remote.URL); name != "" && at == host {
			return name, nil
		}
	}
	return "", failures.Failf(failures.InvalidRequest, "no repository to deliver to: the session was not started in a clone of "+
		"one of this host; write "+
		"deliver.repository into the team file, and resume with it")
}

// look reads the pull request.
func (r *run) look(ctx context.Context) (err error) {
	if r.pull, err = r.host.Look(ctx, r.record.Repository, r.record.Number); err != nil {
		return err
	}
	r.record.Saw(r.order.Key.Session, r.pull, r.Clock().UTC())
	return nil
}

// save writes the record.
func (r *run) save(ctx context.Context) error {
	fence := state.Fence{Run: r.order.Run, Holder: r.order.Holder}
	row := state.Delivery{Key: r.order.Key, Phase: r.order.Phase, Record: r.record}
	return r.Store.State.PutDelivery(ctx, fence, r.order.Persona, row)
}

// log adds a line to the attempt's transcript.
func (r *run) log(format string, args ...any) {
	fmt.Fprintf(&r.transcript, "%s "+format+"\n", append([]any{r.Clock().UTC().Format(time.TimeOnly)}, args...)...)
}

// pending is the failure of an attempt that others have to continue.
func pending(wait time.Duration, format string, args ...any) error {
	f := failures.Failf(failures.Pending, format, args...)
	f.Message, f.RetryAfter = textfmt.Shorten(f.Message, session.MaxMessage), textfmt.Duration(wait)
	return f
}
