package llm

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/textfmt"
	"github.com/maestro-hive/maestro/internal/transcript"
	"github.com/maestro-hive/maestro/internal/wire"
)

// The defaults of an agent.
const (
	DefaultMaxTurns        = 50
	DefaultMaxOutputTokens = 8192
	DefaultContextTokens   = 200_000
)

// Agent is a model that works on assignments.
type Agent struct {
	// Name is the agent's, Kind the API of its provider, Server its host, Model the model's.
	Name, Kind, Server, Model string

	Provider Provider
	// Transport carries the calls.
	Transport http.RoundTripper
	// Enter waits until a call may begin within the provider's limits, with a prompt of so many
	// tokens; leave takes how many the call took. nil: there are no limits.
	Enter func(ctx context.Context, tokens int64) (leave func(used int64), err error)
	// Prices are what tokens cost; nil: nothing that is known.
	Prices *cost.Prices
	// Scale is what was learned of how the provider counts; nil: nothing is.
	Scale *wire.Scale
	// MaxTurns bounds the calls of an attempt whose job sets no bound.
	MaxTurns int
	// MaxOutputTokens bounds one answer, ContextTokens prompt and answer together.
	MaxOutputTokens, ContextTokens int64
	// Timeout bounds an attempt, IdleTimeout the time in which nothing comes in
	// during a call. Both are required.
	Timeout, IdleTimeout time.Duration
	// Mask replaces secrets.
	Mask func(string) string
	// Now tells the time, for waits that a provider asks for by a date.
	Now func() time.Time
	// Log takes the transcript as it grows; nil: nobody wants it. Secrets are masked
	// line by line: who has secrets of several lines masks what is written.
	Log io.Writer
}

// Run does one attempt. A *failures.Failure says how it failed; the outcome then
// still has the usage. A context that ends stops the call
// under way and returns the context's cause. Any other error is one of job.Calls
// or job.Try, and no failure of the agent.
//
// The outcome's usage covers every turn of the conversation, also those that an
// earlier execution has paid for, but no call that was cut off: what such a call
// has cost nobody knows, and job.Calls keeps the estimate.
func (a *Agent) Run(ctx context.Context, job session.Job) (session.Outcome, error) {
	root, err := os.OpenRoot(job.Tree)
	if err != nil {
		return session.Outcome{}, failures.Failf(failures.ResourceError, "agent %s: open the directory: %v", a.Name, err)
	}
	defer root.Close() //nolint:errcheck // a directory
	timeout := a.Timeout
	if d := job.Timeout.Std(); d > 0 && d < timeout {
		timeout = d
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, failures.Failf(failures.Timeout, "took longer than %s (timeout)", timeout))
	defer cancel()
	r := a.begin(job, tree{root})
	err = r.work(ctx)
	return r.end(err)
}

// run is one attempt under way.
type run struct {
	*Agent
	job   session.Job
	tree  tree
	talk  *conversation
	log   *transcript.Writer
	usage cost.Usage

	decided   map[string]string
	summary   string
	sendsBack []string
	// changed: a file was written or a decision recorded.
	changed bool
	// reminded: the model was told once what is missing.
	reminded bool
	// malformed, truncated and silent count in a row: calls that no tool made
	// sense of, answers that were cut off, and answers without a call.
	malformed, truncated, silent int
}

func (a *Agent) begin(job session.Job, t tree) *run {
	r := &run{Agent: a, job: job, tree: t, decided: map[string]string{}, log: transcript.New(cmp.Or(a.Log, io.Discard), a.Mask)}
	system, first := a.Mask(systemPrompt(job)), a.Mask(firstMessage(job.Brief))
	r.talk = newConversation(a.Kind, a.Model, system, toolsFor(job), first)
	return r
}

// end makes the outcome. Every text in it is masked and bounded.
func (r *run) end(err error) (session.Outcome, error) {
	out := session.Outcome{Usage: r.usage, Summary: textfmt.Shorten(r.Mask(r.summary), session.MaxSummary)}
	var f *failures.Failure
	switch {
	case errors.As(err, &f):
		told := *f
		told.Message = textfmt.Shorten(r.Mask(oneLine("agent "+r.Name+": "+f.Message)), session.MaxMessage)
		told.Output = textfmt.Tail(r.Mask(f.Output), session.MaxOutput)
		r.log.Note("%s", told.Error())
		err = &told
	case err == nil:
		out.Decisions = r.decided
		for _, reason := range r.sendsBack {
			out.SendsBack = append(out.SendsBack, r.Mask(reason))
		}
	}
	r.log.End()
	return out, err
}

// say tells people what is being done.
func (r *run) say(line string) {
	if r.job.Progress != nil {
		r.job.Progress(r.Mask(line))
	}
}
