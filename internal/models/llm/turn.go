package llm

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/models/wire"
)

// Limits of consecutive unproductive answers.
const (
	maxMalformed = 5
	maxTruncated = 3
	maxSilent    = 3
)

// Messages to the model after an answer that did not continue the work.
const (
	tellTruncated = "Your answer was cut off because it was too long, and none of its tool calls was done. Go on in smaller " +
		"steps: " +
		"one file or one part of a file in each answer, and edit instead of write where you can."
	tellSilent = "You called no tool. Go on with the work through the tools; if all of it is done, call finish."
)

// work does turns until the work is finished.
func (r *run) work(ctx context.Context) error {
	turns := r.MaxTurns
	if r.job.MaxTurns > 0 {
		turns = r.job.MaxTurns
	}
	for turn := 1; turn <= turns; turn++ {
		over, err := r.turn(ctx, turn)
		if stopped := ended(ctx); stopped != nil && err != nil {
			return stopped
		}
		if over || err != nil {
			return err
		}
	}
	return failures.Failf(failures.TurnLimit, "the work was not finished after %d turns (max_turns)", turns)
}

// turn gets one answer and executes its tool calls. over reports that the work is finished.
func (r *run) turn(ctx context.Context, turn int) (over bool, err error) {
	if f := r.makeRoom(); f != nil {
		return false, f
	}
	answer, stored, err := r.answer(ctx, turn)
	if err != nil {
		return false, err
	}
	r.writeCost(turn, answer)
	switch answer.Stop {
	case wire.Overflowed, wire.AboveLimit:
		return false, r.halve(answer)
	case wire.Filtered:
		f := failures.Failf(failures.Refused, "the model declined the work")
		f.Output = answer.Text
		return false, f
	case wire.CutOff:
		return false, r.cutOff(answer)
	case wire.Done, wire.Failed: // a failed answer has a fault
	}
	r.truncated = 0
	r.remember(answer)
	if len(answer.Calls) == 0 {
		return r.silence(answer)
	}
	r.silent = 0
	d, err := r.tools(ctx, turn, answer, stored)
	if err != nil {
		return false, err
	}
	return r.absorb(d)
}

// ended returns why a context ended: the cause of the attempt's context, or that of the call's.
func ended(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}

// remember adds the answer to the conversation.
func (r *run) remember(answer Answer) {
	m := wire.Message{Role: wire.Assistant, Thinking: answer.Thinking, Text: answer.Text, Calls: answer.Calls}
	if m.Text == "" && len(m.Calls) == 0 {
		m.Text = "(nothing)" // providers reject empty messages
	}
	r.talk.answered(m, answer.Usage, answer.Counted)
}

// makeRoom removes old tool results from a conversation that nearly fills the model's context
// window.
func (r *run) makeRoom() *failures.Failure {
	room := r.ContextTokens - r.MaxOutputTokens
	if r.talk.forecast(0, nil).Guess() <= room {
		return nil
	}
	if !r.talk.shrink(room*6/10) && r.talk.forecast(0, nil).Guess() > room {
		return failures.Failf(failures.ContextOverflow, "the conversation fills the model's window of %d tokens (context_tokens)",
			r.ContextTokens)
	}
	return nil
}

// halve removes old tool results from a conversation that the provider found too long. answer has the provider's words.
func (r *run) halve(answer Answer) error {
	before := r.talk.forecast(0, nil).Guess()
	r.talk.shrink(before / 2)
	if after := r.talk.forecast(0, nil).Guess(); after < before {
		return nil
	}
	if answer.Stop == wire.AboveLimit {
		f := failures.Failf(failures.RateLimited, "nothing can be left out of the conversation: %s", answer.Text)
		f.Final = true
		return f
	}
	return failures.Failf(failures.ContextOverflow, "the conversation is longer than what the model can read, and nothing can be "+
		"left out of it: %s", answer.Text)
}

// cutOff continues after an answer that was cut off. Its tool calls are not executed, and its
// thoughts are not sent back, because the last one is incomplete.
func (r *run) cutOff(answer Answer) error {
	if r.truncated++; r.truncated > maxTruncated {
		return failures.Failf(failures.InvalidOutput, "%d answers in a row were cut off at %d tokens (max_output_tokens)", r.truncated,
			r.MaxOutputTokens)
	}
	answer.Calls, answer.Thinking = nil, nil
	r.remember(answer)
	r.talk.add(wire.Message{Role: wire.User, Text: tellTruncated})
	return nil
}

// silence continues after an answer without a tool call. If the model has worked and repeats that
// it is finished, the work counts as finished: it is checked afterwards anyway.
func (r *run) silence(answer Answer) (over bool, err error) {
	if r.silent++; r.silent <= maxSilent {
		r.talk.add(wire.Message{Role: wire.User, Text: tellSilent})
		return false, nil
	}
	if r.changed {
		r.summary = answer.Text
		return true, nil
	}
	f := failures.Failf(failures.ContractViolation, "%d answers in a row called no tool, and nothing was done", r.silent)
	f.Output = answer.Text
	return false, f
}

// absorb records what the tools of a turn did.
func (r *run) absorb(d done) (over bool, err error) {
	maps.Copy(r.decided, d.Decisions)
	r.changed = r.changed || d.Changed || len(d.Decisions) > 0
	r.reminded = r.reminded || d.Reminded
	if d.Finished != nil {
		r.summary, r.sendsBack, r.kept = *d.Finished, d.SendsBack, d.Kept
		return true, nil
	}
	if r.malformed = d.Malformed; r.malformed > maxMalformed {
		f := failures.Failf(failures.InvalidOutput, "%d tool calls in a row made no sense; the last: %s", r.malformed, d.lastError())
		return false, f
	}
	r.talk.add(wire.Message{Role: wire.User, Results: d.Results})
	return false, nil
}

func (d done) lastError() string {
	for i := len(d.Results) - 1; i >= 0; i-- {
		if d.Results[i].Error {
			return d.Results[i].Text
		}
	}
	return ""
}

// tools executes the tool calls of an answer. If an earlier execution has executed them, their results are used, and only
// what changes files is executed again: the directory has been filled anew.
func (r *run) tools(ctx context.Context, turn int, answer Answer, stored *session.StoredTurn) (done, error) {
	if d, ok := r.repeat(ctx, answer.Calls, stored.Tools); ok {
		return d, nil
	}
	d, err := (&worker{run: r}).work(ctx, answer.Calls)
	if err != nil {
		return d, err
	}
	if err := r.job.Calls.KeepTools(ctx, stored.Call, wire.Encode(d)); err != nil {
		return d, fmt.Errorf("store what the tools of turn %d did: %w", turn, err)
	}
	return d, nil
}

// repeat makes the changes of executed tool calls again. ok is false if that is not possible, or if there is no document
// with their results.
func (r *run) repeat(ctx context.Context, calls []wire.Call, doc []byte) (d done, ok bool) {
	if json.Unmarshal(doc, &d) != nil || len(d.Results) != len(calls) {
		return done{}, false
	}
	again := &worker{run: r, done: &done{}}
	for i, call := range calls {
		changes := call.Name == toolWrite || call.Name == toolEdit || call.Name == toolDelete
		if changes && !d.Results[i].Error {
			if _, err := again.call(ctx, call); err != nil {
				return done{}, false
			}
		}
		r.writeResult(call, d.Results[i])
	}
	return d, true
}
