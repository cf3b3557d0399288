package control_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/sandbox/workdir"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
	"github.com/maestro-hive/maestro/internal/testkit/gittest"
	"github.com/maestro-hive/maestro/internal/testkit/worktest"
)

// shelf is a store with sessions that have ended.
type shelf struct {
	t *testing.T
	*control.Base
	ctx context.Context
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	s, err := store.Create(t.TempDir(), store.Options{Clock: time.Now})
	require.NoError(t, err)
	return &shelf{
		t, &control.Base{Store: s, Namespace: "default", Now: time.Now},
		access.With(t.Context(), access.Local("ann@desk")),
	}
}

// team has a phase "design" and a phase "build" after it.
func team() spec.Team {
	return spec.Team{
		Name: "craft", Personas: map[string]spec.Persona{"ann": {Role: "Writer", Agent: "coder"}},
		Phases: []spec.Phase{
			{Name: "design", Personas: []string{"ann"}},
			{Name: "build", Personas: []string{"ann"}, Needs: []string{"design"}},
		},
	}
}

// keep puts a session into the store that has finished its design. undone is the design as it was sent back before.
func (s *shelf) keep(id string, is session.State, before, after map[string]string, undone ...map[string]string) {
	s.t.Helper()
	var c session.Checkpoint
	for _, files := range undone {
		c.Reworks = append(c.Reworks, session.Rework{
			To: "design", By: "ann", Reasons: []string{"too short"}, Undone: worktest.Change(s.t, s.Store, annDesigns, before, files),
		})
	}
	status := session.NewStatus(id, team())
	status.Status = is
	_, err := s.Store.ImportCheckpoints(s.ctx, session.Key{Namespace: "default", Session: id}, session.Execution{Status: status},
		[]session.Checkpoint{worktest.Checkpoint(s.t, s.Store, team(), annDesigns, before, after, c)})
	require.NoError(s.t, err)
}

var annDesigns = spec.AssignmentID{Phase: "design", Persona: "ann"}

func (s *shelf) reviews() control.Reviews { return control.Reviews{Base: s.Base} }

// kind is that of an error.
func kind(err error) control.Kind {
	var typed *control.Error
	if errors.As(err, &typed) {
		return typed.Kind
	}
	return ""
}

func TestADiffIsBounded(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.keep("s", session.Failed, map[string]string{"a": "one\n", "gone": "x\n"}, map[string]string{
		"a": "two\n", "b[1]*": "new\n",
		"c": strings.Repeat("long\n", 1000),
	})
	r := s.reviews()

	whole, err := r.Diff(s.ctx, control.DiffInput{Session: "s"})
	require.NoError(t, err)
	require.Len(t, whole.Files, 4)
	phase, err := r.Diff(s.ctx, control.DiffInput{Session: "s", Which: "design"})
	require.NoError(t, err)
	require.Equal(t, whole.Files, phase.Files)
	require.Equal(t, "design", phase.Phase)

	some, err := r.Diff(s.ctx, control.DiffInput{Session: "s", MaxFiles: 3, MaxBytes: 1000})
	require.NoError(t, err)
	require.True(t, some.Truncated)
	require.Len(t, some.Files, 3)
	require.True(t, some.Files[2].Omitted)
	require.Empty(t, some.Files[2].Diff)
	require.Equal(t, 1000, some.Files[2].Added)

	one, err := r.DiffFile(s.ctx, control.DiffInput{Session: "s"}, "a")
	require.NoError(t, err)
	require.Equal(t, whole.Files[:1], one.Files)
	one, err = r.DiffFile(s.ctx, control.DiffInput{Session: "s"}, "b[1]*")
	require.NoError(t, err)
	require.Contains(t, one.Files[0].Diff, "--- /dev/null\n+++ b/b[1]*\n")
	_, err = r.DiffFile(s.ctx, control.DiffInput{Session: "s"}, "*")
	require.Equal(t, control.NotFound, kind(err), "a path is no pattern")
	_, err = r.DiffFile(s.ctx, control.DiffInput{Session: "s"}, "../s")
	require.Equal(t, control.Invalid, kind(err))
	for path, editable := range map[string]bool{"a": true, "gone": false, "c": false} {
		text, ok, err := r.Text(s.ctx, "s", "design", path, 1000)
		require.NoError(t, err)
		require.Equal(t, editable, ok, path)
		require.Equal(t, editable, text == "two\n", path)
	}

	_, err = r.Diff(s.ctx, control.DiffInput{Session: "s", Which: "build"})
	require.Equal(t, control.NotFound, kind(err))
	_, err = r.Diff(s.ctx, control.DiffInput{Session: "s", Which: "nowhere"})
	require.Equal(t, control.Invalid, kind(err))
	_, err = r.Diff(s.ctx, control.DiffInput{Session: "other"})
	require.Equal(t, control.NotFound, kind(err))
}

// After a phase was done again, a reviewer sees what has changed since its work was sent back.
func TestRedoneWorkIsComparedWithWhatWasSentBack(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	start := map[string]string{"a": "one\n"}
	s.keep("s", session.Failed, start, map[string]string{"a": "three\n", "b": "same\n"}, map[string]string{"a": "zero\n"},
		map[string]string{"a": "two\n", "b": "same\n"})
	redone, err := s.reviews().Diff(s.ctx, control.DiffInput{Session: "s", Which: "design", Redone: true})
	require.NoError(t, err)
	require.Len(t, redone.Files, 1, "b was there when the work was sent back last")
	require.Contains(t, redone.Files[0].Diff, "-two\n+three\n")
	one, err := s.reviews().DiffFile(s.ctx, control.DiffInput{Session: "s", Which: "design", Redone: true}, "a")
	require.NoError(t, err)
	require.Equal(t, redone.Files, one.Files)

	list, err := control.Checkpoints{Base: s.Base}.List(s.ctx, "s")
	require.NoError(t, err)
	require.Equal(t, "design, done 3 times", list.Checkpoints[0].Name())

	s.keep("accepted", session.Failed, start, map[string]string{"a": "two\n"})
	_, err = s.reviews().Diff(s.ctx, control.DiffInput{Session: "accepted", Which: "design", Redone: true})
	require.Equal(t, control.NotFound, kind(err))
	_, err = s.reviews().Diff(s.ctx, control.DiffInput{Session: "s", Redone: true})
	require.Equal(t, control.Invalid, kind(err))
}

func TestAnAttemptsChangesAreShown(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.keep("s", session.Failed, map[string]string{"a": "one\n"}, map[string]string{"a": "two\n"})
	from := worktest.Tree(t, s.Store, map[string]string{"a": "one\n", "old": "x\n"})
	left := worktest.Tree(t, s.Store, map[string]string{"a": "one\nmore\n", "sub/new": "y\n"})
	of := state.Assignment{Key: session.Key{Namespace: "default", Session: "s"}, AssignmentID: annDesigns}
	statetest.PutRounds(t, s.Store.State, of, session.RoundRecord{
		Round: 1, RoundLog: session.RoundLog{
			Basis:    &session.Basis{Input: from},
			Attempts: []session.AttemptReport{{Attempt: 1, Failure: failures.Failure{Category: failures.InvalidOutput}, Files: left}},
		},
	}, session.RoundRecord{
		Round: 2, Result: &session.RoundResult{BasedWork: session.BasedWork{Input: from}, Output: left, Attempts: 1},
	})
	ref := control.AttemptRef{AssignmentID: annDesigns, Pass: 1, Round: 1, Attempt: 1}
	failed, err := s.reviews().Diff(s.ctx, control.DiffInput{Session: "s", Attempt: &ref})
	require.NoError(t, err)
	ref.Round = 2
	done, err := s.reviews().Diff(s.ctx, control.DiffInput{Session: "s", Attempt: &ref})
	require.NoError(t, err)
	require.Equal(t, done.Files, failed.Files)
	require.Len(t, failed.Files, 3)
	one, err := s.reviews().DiffFile(s.ctx, control.DiffInput{Session: "s", Attempt: &ref}, "a")
	require.NoError(t, err)
	require.Contains(t, one.Files[0].Diff, "+more\n")
	ref.Attempt = 2
	_, err = s.reviews().Diff(s.ctx, control.DiffInput{Session: "s", Attempt: &ref})
	require.Equal(t, control.NotFound, kind(err))
}

func TestAnArchiveHasTheFiles(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.keep("s", session.Completed, nil, map[string]string{
		"run": gittest.Executable("#!/bin/sh\n"), "docs/a.md": "text\n", "latest": gittest.Link("docs/a.md"), "empty": "",
	})
	var first, second bytes.Buffer
	for _, b := range []*bytes.Buffer{&first, &second} {
		download(t, b)(s.reviews().Archive(s.ctx, control.ArchiveInput{Session: "s"}))
	}
	require.Equal(t, first.Bytes(), second.Bytes())
	want := map[string]string{"s/run": "#!/bin/sh\n", "s/docs/a.md": "text\n", "s/latest": "docs/a.md", "s/empty": ""}
	require.Equal(t, want, unpacked(t, &first))

	first.Reset()
	download(t, &first)(s.reviews().Archive(s.ctx, control.ArchiveInput{Session: "s", Paths: []string{"docs", "latest"}}))
	require.Equal(t, map[string]string{"s/docs/a.md": "text\n", "s/latest": "docs/a.md"}, unpacked(t, &first))

	// Names that Windows takes for something else than files, and a link to one.
	s.keep("hostile", session.Completed, nil, map[string]string{
		`..\..\autoexec.bat`: "x", "nul": gittest.Link(`..\x/..\..`), `C:\x`: "y",
	})
	download(t, &first)(s.reviews().Archive(s.ctx, control.ArchiveInput{Session: "hostile"}))
	require.Equal(t, map[string]string{
		"hostile/..%5C..%5Cautoexec.bat": "x", "hostile/%6Eul": "..%5Cx/..%5C.%2E",
		"hostile/C%3A%5Cx": "y",
	}, unpacked(t, &first))
}

// download reads what an operation answers with.
func download(t *testing.T, into *bytes.Buffer) func(control.Download, error) {
	t.Helper()
	return func(d control.Download, err error) {
		t.Helper()
		require.NoError(t, err)
		require.NoError(t, d.WriteTo(t.Context(), into))
	}
}

// unpacked returns the contents, or targets, of an archive by name.
func unpacked(t *testing.T, r io.Reader) map[string]string {
	t.Helper()
	unzipped, err := gzip.NewReader(r)
	require.NoError(t, err)
	got := map[string]string{}
	for archive := tar.NewReader(unzipped); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return got
		}
		require.NoError(t, err)
		data, err := io.ReadAll(archive)
		require.NoError(t, err)
		got[h.Name] = string(data) + h.Linkname
		require.Equal(t, h.Name == "s/run", h.Mode == 0o755 && h.Linkname == "")
	}
}

func TestAPatchIsOfWhatIsWhole(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.keep("s", session.Failed, map[string]string{"a": "one\n"}, map[string]string{"a": "two\n"})
	var out bytes.Buffer
	_, err := s.reviews().Patch(s.ctx, control.PatchInput{Session: "s"})
	require.Equal(t, control.Conflict, kind(err))
	require.ErrorContains(t, err, "1 of 2 phases (design)")
	download(t, &out)(s.reviews().Patch(s.ctx, control.PatchInput{Session: "s", Partial: true}))
	require.Contains(t, out.String(), "-one\n+two\n")
}

// A session of a team that the caller may not view is no side of a comparison, either.
func TestACompareIsForThoseWhoMayViewBothTeams(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.keep("s", session.Completed, nil, map[string]string{"a": "one\n"})
	ctx := access.With(t.Context(),
		access.Actor{Name: "bob", Via: access.ViaToken, Roles: access.Roles{"craft": {access.RoleViewer}}})
	_, err := s.reviews().Diff(ctx, control.DiffInput{Session: "s", With: "other"})
	require.ErrorAs(t, err, new(*access.DeniedError))
}

// bench is a shelf with a session whose assignment build/dev is at work.
type bench struct {
	*shelf
	control.Attempts
	key session.Key
	dev spec.AssignmentID
}

func newBench(t *testing.T) *bench {
	t.Helper()
	s := newShelf(t)
	return &bench{
		shelf: s, Attempts: control.Attempts{Base: s.Base}, key: session.Key{Namespace: "default", Session: "s"},
		dev: spec.AssignmentID{Phase: "build", Persona: "dev"},
	}
}

// is sets the session's state.
func (s *bench) is(state session.State) {
	s.t.Helper()
	statetest.Put(s.t, s.shelf.Store.State, s.key, func(e *session.Execution) {
		e.Team, e.Status.Status = "crew", state
		e.Phases = []session.PhaseStatus{{Name: "build", Status: session.Running, Assignments: []session.AssignmentStatus{
			{Persona: "dev", AssignmentSummary: session.AssignmentSummary{Status: session.Running}},
		}}}
	})
}

// puts changes the round of build/dev.
func (s *bench) puts(change func(*session.RoundRecord)) {
	s.t.Helper()
	of := state.Assignment{Key: s.key, AssignmentID: s.dev}
	round := session.RoundRecord{Round: 1}
	r, err := s.shelf.Store.State.Record(s.ctx, of)
	require.NoError(s.t, err)
	if len(r.Rounds) > 0 {
		round = r.Rounds[0]
	}
	change(&round)
	statetest.PutRounds(s.t, s.shelf.Store.State, of, round)
}

// begins begins an attempt.
func (s *bench) begins() {
	s.t.Helper()
	s.puts(func(r *session.RoundRecord) { r.AtWork, r.AttemptAt = true, time.Now().UTC() })
}

// fails ends an attempt with a transcript.
func (s *bench) fails(attempt int, transcript string) {
	s.t.Helper()
	log := worktest.Blob(s.t, s.shelf.Store, transcript)
	s.puts(func(r *session.RoundRecord) {
		now := time.Now().UTC()
		r.Attempts = append(r.Attempts, session.AttemptReport{
			Attempt: attempt, Failure: failures.Failure{Category: failures.TestFailure, Message: "it is red", Output: "want 1"}, Log: log,
			StartedAt: now, EndedAt: now,
		})
		r.AtWork, r.AttemptAt = false, time.Time{}
	})
}

// lists lists the attempts that ended after a time, and those in progress.
func (s *bench) lists(endedAfter time.Time) []control.Attempt {
	s.t.Helper()
	doc, err := s.List(s.ctx, control.AttemptFilter{Session: "s", EndedAfter: endedAfter})
	require.NoError(s.t, err)
	return doc.Attempts
}

// reads reads the output of an attempt from an offset.
func (s *bench) reads(attempt control.Attempt, from int64) control.TranscriptRange {
	s.t.Helper()
	part, err := s.Range(s.ctx, control.RangeInput{AttemptInput: attempt.Input("s"), From: from, Limit: 1 << 20})
	require.NoError(s.t, err)
	return part
}

// liveLog is the live log.
func (s *bench) liveLog() string {
	s.t.Helper()
	dirs, err := workdir.New(workdir.Options{Root: workdir.DefaultRoot(s.shelf.Store.Dir())}).Make(s.key, s.dev)
	require.NoError(s.t, err)
	return dirs.LiveLog
}

// replaces puts a new live log in the place of the one before.
func (s *bench) replaces(text string) {
	s.t.Helper()
	require.NoError(s.t, os.Remove(s.liveLog()))
	s.prints(text)
}

// prints appends to the live log.
func (s *bench) prints(text string) {
	s.t.Helper()
	f, err := os.OpenFile(s.liveLog(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(s.t, err)
	_, err = f.WriteString(text)
	require.NoError(s.t, err)
	require.NoError(s.t, f.Close())
	now := time.Now() // the clock of files is some milliseconds late
	require.NoError(s.t, os.Chtimes(s.liveLog(), now, now))
}

func TestATranscriptIsReadInPieces(t *testing.T) {
	t.Parallel()
	s := newBench(t)
	s.is(session.Running)
	long := strings.Repeat("-- a line of the transcript, with an é\n", 10<<20/40)
	s.fails(1, long)
	id := control.AttemptRef{AssignmentID: s.dev, Round: 1, Attempt: 1}.Input("s")
	var read strings.Builder
	for at := int64(0); ; {
		part, err := s.Range(s.ctx, control.RangeInput{AttemptInput: id, From: at, Limit: 1 << 20})
		require.NoError(t, err)
		require.Equal(t, int64(len(long)), part.Size)
		read.WriteString(part.Text)
		if at = part.To; at == part.Size {
			break
		}
	}
	require.Equal(t, sha256.Sum256([]byte(long)), sha256.Sum256([]byte(read.String())), "the parts are the whole")
	end, err := s.Range(s.ctx, control.RangeInput{AttemptInput: id, From: -1000, Limit: 4096})
	require.NoError(t, err)
	require.Equal(t, end.Size, end.To)
	require.True(t, strings.HasPrefix(end.Text, "-- a line"), "a part begins with a line")
	other := control.AttemptRef{AssignmentID: s.dev, Round: 7, Attempt: 1}.Input("s")
	_, err = s.Range(s.ctx, control.RangeInput{AttemptInput: other, Limit: 10})
	require.Equal(t, control.NotFound, kind(err))
	_, err = s.Range(context.Background(), control.RangeInput{AttemptInput: id, Limit: 10})
	require.ErrorIs(t, err, access.ErrNotSignedIn)
}

// TestAWaitingAttemptIsShown: what it has printed before it began to wait for a budget.
func TestAWaitingAttemptIsShown(t *testing.T) {
	t.Parallel()
	s := newBench(t)
	s.is(session.HelpIsNeeded)
	s.begins()
	s.prints("one\n")
	s.puts(func(r *session.RoundRecord) { r.AtWork = false })
	all := s.lists(time.Time{})
	require.Len(t, all, 1)
	require.Equal(t, session.Waiting, all[0].Status)
	require.Equal(t, "one\n", s.reads(all[0], 0).Text)
}

// TestOutputIsReadAsItGrows: each complete line once, and none of another attempt.
func TestOutputIsReadAsItGrows(t *testing.T) {
	t.Parallel()
	s := newBench(t)
	s.is(session.Running)
	s.begins()
	require.Zero(t, s.reads(s.lists(time.Time{})[0], 0), "it has printed nothing, or is on another host")
	s.prints("of the first attempt\n")
	s.fails(1, "first\n")
	time.Sleep(time.Millisecond)
	s.begins()
	all := s.lists(time.Time{})
	require.Len(t, all, 2)
	require.Equal(t, all[1:], s.lists(all[0].Ended()), "what has ended is left out")
	one := all[1]
	require.Equal(t, session.Running, one.Status)
	require.Zero(t, s.reads(one, 0), "the output is that of the attempt before")

	s.replaces("one\ntwo\nthr")
	part := s.reads(one, 0)
	require.Equal(t, control.TranscriptRange{Size: 11, To: 8, Text: "one\ntwo\n"}, part)
	require.Empty(t, s.reads(one, part.To).Text)
	s.prints("ee\n")
	require.Equal(t, control.TranscriptRange{Size: 14, From: 8, To: 14, Text: "three\n"}, s.reads(one, part.To))
	require.Equal(t, "three\n", s.reads(one, -8).Text, "the end begins with a line")
	status, err := control.Sessions{Base: s.shelf.Base}.Status(s.ctx, "s")
	require.NoError(t, err)
	dev := status.Phases[0].Assignments[0]
	require.Equal(t, []any{1, 1, 2, "three"}, []any{dev.Pass, dev.Round, dev.Attempt, dev.Progress})
	s.replaces("anew\n")
	require.Equal(t, control.TranscriptRange{Size: 5, To: 5, Text: "anew\n"}, s.reads(one, 14), "another worker has begun anew")

	s.fails(2, "anew\nfour\n")
	require.Equal(t, "four\n", s.reads(one, 5).Text, "the transcript")
	s.begins()
	s.is(session.Completed)
	require.Len(t, s.lists(time.Time{}), 2, "nothing is in progress in a session that has ended")
}
