package llm

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/transcript"
	"github.com/maestro-hive/maestro/internal/models/wire"
)

// The defaults of an agent.
const (
	DefaultMaxTurns        = 50
	DefaultMaxOutputTokens = 8192
	DefaultContextTokens   = 200_000
)

// Agent works on assignments with a model.
type Agent struct {
	// Name is the agent's name, and Model the model's name.
	Name, Model string
	// API is the provider's API; it has a format that is spoken. BaseURL is the parameter of [wire.API.Base], and Key the
	// key; empty if the server needs none.
	API          wire.API
	BaseURL, Key string
	// Transport sends the requests.
	Transport http.RoundTripper
	// Enter waits until the provider's limits permit a call with this many prompt tokens. The
	// caller passes the tokens that the call used to leave.
	Enter func(ctx context.Context, tokens int64) (leave func(used int64), err error)
	// Prices are the prices of tokens; nil: unknown.
	Prices *cost.Prices
	// Scale learns how the provider counts tokens.
	Scale *wire.Scale
	// MaxTurns bounds the calls of an attempt if the job sets no bound.
	MaxTurns int
	// MaxOutputTokens bounds one answer, and ContextTokens prompt and answer together.
	MaxOutputTokens, ContextTokens int64
	// Timeout bounds an attempt, and IdleTimeout the time without received data during a call.
	// Both are required.
	Timeout, IdleTimeout time.Duration
	// Mask replaces secrets in a text.
	Mask func(string) string
	// Now returns the current time. It is needed if a provider asks to wait until a date.
	Now func() time.Time
	// Log gets the transcript while it is written; may be nil. Secrets are masked line by line.
	// If there are secrets of several lines, the writer must mask them.
	Log io.Writer
}

// Run does one attempt. If the attempt fails, the error is a *failures.Failure, and the outcome
// has its usage. If the context ends, Run stops the current call and returns the context's cause.
// Any other error is one of job.Calls or job.Try, and not a failure of the agent.
//
// The outcome's usage includes every turn of the conversation, also those that an earlier
// execution has paid for. It does not include calls that were interrupted: their cost is unknown,
// and job.Calls has an estimate.
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
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer job.Waits.AfterFunc(timeout,
		func() { cancel(failures.Failf(failures.Timeout, "took longer than %s (timeout)", timeout)) }).Stop()
	r := a.begin(job, tree{root})
	r.timeout = timeout
	err = r.work(ctx)
	return r.end(err)
}

// run is a running attempt.
type run struct {
	*Agent
	job session.Job
	// timeout is the time that the attempt may take.
	timeout time.Duration
	tree    tree
	talk    *conversation
	log     *transcript.Writer
	usage   cost.Usage

	decided   map[string]string
	summary   string
	sendsBack []string
	kept      map[string]session.Kept
	// changed: a file was written or a decision recorded.
	changed bool
	// reminded: the model was told once what is missing.
	reminded bool
	// malformed, truncated and silent count consecutive turns: invalid tool calls, answers that
	// were cut off, and answers without a tool call.
	malformed, truncated, silent int
}

func (a *Agent) begin(job session.Job, t tree) *run {
	r := &run{Agent: a, job: job, tree: t, decided: map[string]string{}, log: transcript.New(cmp.Or(a.Log, io.Discard), a.Mask)}
	prompt := wire.Prompt{Model: a.Model, System: a.Mask(systemPrompt(job)), Tools: toolsFor(job)}
	r.talk = newConversation(job.Input, string(a.API), prompt, a.Mask(firstMessage(job.Brief)))
	return r
}

// end returns the outcome. It masks and bounds all texts in it.
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
		out.Decisions, out.Kept = r.decided, session.MaskedKept(r.kept, r.Mask)
		for _, reason := range r.sendsBack {
			out.SendsBack = append(out.SendsBack, r.Mask(reason))
		}
	}
	r.log.End()
	return out, err
}

// say reports the current activity.
func (r *run) say(line string) {
	r.job.Progress(r.Mask(line))
}
