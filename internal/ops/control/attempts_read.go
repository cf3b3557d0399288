package control

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// AttemptInput names an attempt of a session.
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
	_, key, err := a.InStore(ctx, in.Session)
	if err != nil {
		return found, err
	}
	record, err := a.Store.State.Record(ctx, state.Assignment{Key: key, AssignmentID: id.AssignmentID})
	if err != nil {
		return found, err
	}
	all := AttemptsOf(record)
	if at, ok := begun(record); ok {
		all = append(all, at)
	}
	for _, at := range slices.Backward(all) {
		if id.isOf(at) {
			return at, nil
		}
	}
	return found, notFoundf("the session has no attempt %s", id)
}

// TranscriptRange is a part of a transcript.
type TranscriptRange struct {
	// Log is the transcript's blob, and Size its size in bytes. An attempt in progress has no blob yet, and the size is that of
	// its output so far; zero: there is none, or it is on another host.
	Log  spec.Digest `json:"log"`
	Size int64       `json:"size"`
	// From and To are the part's offsets in bytes. It begins at a line and ends after one, unless a
	// line is longer than the limit. Output that is shorter than an offset was begun anew: the part is its beginning.
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

// Range reads a part of an attempt's transcript, or of what an attempt in progress has printed.
func (a Attempts) Range(ctx context.Context, in RangeInput) (doc TranscriptRange, err error) {
	at, err := a.find(ctx, in.AttemptInput)
	if err != nil {
		return doc, err
	}
	if at.EndedAt == nil {
		return a.printed(ctx, at, in)
	}
	data, err := a.orLost(ctx, at.Log)
	doc.Log, doc.Size = at.Log, int64(len(data))
	if doc.From = min(in.From, doc.Size); in.From < 0 {
		doc.From = lineFrom(data, max(doc.Size+in.From, 0))
	}
	doc.To = min(doc.From+int64(in.Limit), doc.Size)
	doc.Text = data[doc.From:doc.To]
	if end := strings.LastIndexByte(doc.Text, '\n'); doc.To < doc.Size && end >= 0 {
		doc.Text = doc.Text[:end+1]
		doc.To = doc.From + int64(len(doc.Text))
	}
	doc.Text = strings.ToValidUTF8(doc.Text, "\uFFFD")
	return doc, err
}

// printed reads a part of what an attempt in progress has printed, as far as it is on this host.
func (a Attempts) printed(ctx context.Context, at Attempt, in RangeInput) (doc TranscriptRange, err error) {
	f, err := a.LiveLogs(ctx).open(a.key(in.Session), at)
	if errors.Is(err, fs.ErrNotExist) {
		return doc, nil
	}
	if err != nil {
		return doc, err
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return doc, err
	}
	from, text, err := linesOf(f, in.From, in.Limit)
	return TranscriptRange{Size: info.Size(), From: from, To: from + int64(len(text)), Text: safetext.Block(text)}, err
}

// lineFrom is the offset of the first line that begins at or soon after an offset; the offset
// itself if none does.
func lineFrom(data string, from int64) int64 {
	if from == 0 || data[from-1] == '\n' {
		return from
	}
	near := data[from:min(from+64<<10, int64(len(data)))]
	if i := strings.IndexByte(near, '\n'); i >= 0 && i+1 < len(near) {
		return from + int64(i) + 1
	}
	return from
}
