package httpapi

import (
	"context"
	"iter"

	"github.com/danielgtaylor/huma/v2"

	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/spec"
)

// selectInput selects attempts of a session.
type selectInput struct {
	Session    string `path:"session" maxLength:"200" doc:"the session's id"`
	Assignment string `query:"assignment" maxLength:"210" doc:"PHASE or PHASE/PERSONA; empty: all"`
}

// OfAttempt names a finished attempt.
type OfAttempt struct {
	Session string `path:"session" maxLength:"200" doc:"the session's id"`
	Phase   string `path:"phase" maxLength:"100"`
	Persona string `path:"persona" maxLength:"100"`
	Round   int    `path:"round" minimum:"1"`
	Attempt int    `path:"attempt" minimum:"1" doc:"counts in the round"`
	Pass    int    `query:"pass" minimum:"0" doc:"the pass; without it, the last one that has the attempt"`
}

func (in OfAttempt) ref() control.AttemptRef {
	return control.AttemptRef{AssignmentID: spec.AssignmentID{Phase: in.Phase, Persona: in.Persona}, Pass: in.Pass, Round: in.Round, Attempt: in.Attempt}
}

// rangeInput is a part of a transcript. What is embedded is exported, or it would not be filled in.
type rangeInput struct {
	OfAttempt
	From  int64 `query:"from" doc:"the offset in bytes; a negative one counts from the end"`
	Limit int   `query:"limit" minimum:"1" maximum:"1048576" default:"262144" doc:"how many bytes at most"`
}

// attemptEventsInput says which attempts are followed.
type attemptEventsInput struct {
	Session    string `path:"session" maxLength:"200" doc:"the session's id"`
	Assignment string `query:"assignment" maxLength:"210" doc:"PHASE or PHASE/PERSONA; empty: all"`
	After      string `header:"Last-Event-ID" maxLength:"4096" doc:"the id of the last event that the reader has"`
}

func attempts(api huma.API, running following, a control.Attempts) {
	const one = "GET /sessions/{session}/attempts/{phase}/{persona}/{round}/{attempt}"
	register(api, operation("GET /sessions/{session}/attempts", "list-attempts", "List the attempts of a session, those at work included"),
		func(ctx context.Context, in *selectInput) (control.AttemptList, error) {
			return a.List(ctx, in.Session, control.Select(in.Assignment))
		})
	register(api, operation(one, "read-attempt", "Read a finished attempt: its task and feedback, its result, and its changes"),
		func(ctx context.Context, in *OfAttempt) (control.AttemptDetail, error) {
			return a.Read(ctx, in.Session, in.ref())
		})
	register(api, operation(one+"/transcript", "read-transcript", "Read a part of an attempt's transcript, from either end"),
		func(ctx context.Context, in *rangeInput) (control.TranscriptRange, error) {
			return a.Range(ctx, in.Session, in.ref(), in.From, in.Limit)
		})
	register(api, operation(one+"/log", "read-attempt-log", "Read an attempt's whole transcript, and the changes before a failure"),
		func(ctx context.Context, in *OfAttempt) (control.AttemptLog, error) {
			return a.LogOf(ctx, in.Session, in.ref())
		})
	op := operation("GET /sessions/{session}/attempts/events", "follow-attempts", "Follow a session's attempts and what they print, as server-sent events")
	op.Description = "The stream ends with the session. Reconnect with Last-Event-ID to miss nothing: ids remain valid when the server restarts."
	read := func(ctx context.Context, in *attemptEventsInput) error {
		_, err := control.Sessions(a).Read(ctx, in.Session)
		return err
	}
	streamed(api, running, op, read, func(ctx context.Context, in *attemptEventsInput) iter.Seq2[sent, error] {
		return func(yield func(sent, error) bool) {
			for e, err := range a.Follow(ctx, in.Session, control.Select(in.Assignment), in.After) {
				if !yield(sent{string(e.Kind), e.ID, e}, err) {
					return
				}
			}
		}
	})
}
