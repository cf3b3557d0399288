package control

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// AttemptInput names a finished attempt of a session.
type AttemptInput struct {
	Session string `path:"session" maxLength:"200" doc:"the session's id"`
	Phase   string `path:"phase" maxLength:"100"`
	Persona string `path:"persona" maxLength:"100"`
	Round   int    `path:"round" minimum:"1"`
	Attempt int    `path:"attempt" minimum:"1" doc:"counts in the round"`
	Pass    int    `query:"pass" minimum:"0" doc:"the pass; without it, the last one that has the attempt"`
}

// Input names the attempt in its session.
func (a AttemptRef) Input(sessionID string) AttemptInput {
	return AttemptInput{Session: sessionID, Phase: a.Phase, Persona: a.Persona, Round: a.Round, Attempt: a.Attempt, Pass: a.Pass}
}

func (in AttemptInput) ref() AttemptRef {
	return AttemptRef{
		AssignmentID: spec.AssignmentID{Phase: in.Phase, Persona: in.Persona}, Pass: in.Pass, Round: in.Round,
		Attempt: in.Attempt,
	}
}

// isOf reports whether an attempt is the named one. Pass zero matches any pass.
func (a AttemptRef) isOf(at Attempt) bool {
	return at.AssignmentID == a.AssignmentID && at.Round == a.Round && at.Attempt == a.Attempt && (a.Pass == 0 || at.Pass == a.Pass)
}

// find finds an attempt.
func (a Attempts) find(ctx context.Context, in AttemptInput) (found Attempt, err error) {
	id := in.ref()
	if err := invalid("assignment", id.Check()); err != nil {
		return found, err
	}
	_, key, err := a.inStore(ctx, in.Session)
	if err != nil {
		return found, err
	}
	record, err := a.Store.State.Record(ctx, state.Assignment{Key: key, AssignmentID: id.AssignmentID})
	if err != nil {
		return found, err
	}
	for _, at := range slices.Backward(AttemptsOf(record)) {
		if id.isOf(at) {
			return at, nil
		}
	}
	return found, notFoundf("the session has no finished attempt %s", id)
}

// TranscriptRange is a part of a transcript.
type TranscriptRange struct {
	// Log is the transcript's blob, and Size its size in bytes.
	Log  spec.Digest `json:"log"`
	Size int64       `json:"size"`
	// From and To are the part's offsets in bytes. It begins at a line and ends after one, unless a
	// line is longer than the limit.
	From int64  `json:"from"`
	To   int64  `json:"to"`
	Text string `json:"text"`
}

// RangeInput is a part of an attempt's transcript.
type RangeInput struct {
	AttemptInput
	From  int64 `query:"from" doc:"the offset in bytes; a negative one counts from the end"`
	Limit int   `query:"limit" minimum:"1" maximum:"1048576" default:"262144" doc:"how many bytes at most"`
}

// Range reads a part of an attempt's transcript.
func (a Attempts) Range(ctx context.Context, in RangeInput) (TranscriptRange, error) {
	var doc TranscriptRange
	data, log, err := a.transcript(ctx, in.AttemptInput)
	if err != nil {
		return doc, err
	}
	doc.Log, doc.Size = log, int64(len(data))
	if doc.From = min(in.From, doc.Size); in.From < 0 {
		doc.From = lineFrom(data, max(doc.Size+in.From, 0))
	}
	doc.To = min(doc.From+int64(in.Limit), doc.Size)
	part := data[doc.From:doc.To]
	if end := bytes.LastIndexByte(part, '\n'); doc.To < doc.Size && end >= 0 {
		part = part[:end+1]
		doc.To = doc.From + int64(len(part))
	}
	doc.Text = string(bytes.ToValidUTF8(part, []byte("\uFFFD")))
	return doc, nil
}

// lineFrom is the offset of the first line that begins at or soon after an offset; the offset
// itself if none does.
func lineFrom(data []byte, from int64) int64 {
	if from == 0 || data[from-1] == '\n' {
		return from
	}
	near := data[from:min(from+64<<10, int64(len(data)))]
	if i := bytes.IndexByte(near, '\n'); i >= 0 && i+1 < len(near) {
		return from + int64(i) + 1
	}
	return from
}

// transcript reads a whole transcript and verifies it; its size is limited when it is written.
func (a Attempts) transcript(ctx context.Context, in AttemptInput) ([]byte, spec.Digest, error) {
	found, err := a.find(ctx, in)
	if err != nil || found.Log == "" {
		return nil, "", err
	}
	data, err := a.Store.Content.Blob(ctx, found.Log)
	if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrCorrupt) {
		err = notFoundf("the transcript is lost: %w", err)
	}
	return data, found.Log, err
}
