package statetest

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// filler fills values: no two fields have the same text or number, and no field is empty.
type filler int64

func (f *filler) fill(v reflect.Value) {
	*f++
	n := int64(*f)
	if at, ok := v.Addr().Interface().(*time.Time); ok {
		*at = time.UnixMicro(1e15 + n).UTC()
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprint("text ", n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(n)
	case reflect.Float64:
		v.SetFloat(float64(n))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			f.fill(v.Index(i))
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		f.fill(key)
		f.fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				f.fill(v.Field(i))
			}
		}
	case reflect.Uint8:
		v.SetUint('x')
	default:
		panic("no value for a " + v.Type().String())
	}
}

func filled[T any](f *filler) (v T) {
	f.fill(reflect.ValueOf(&v).Elem())
	return v
}

// roundsAreReadAsWritten puts rounds with something in every field, one for each way in which a round ends.
func roundsAreReadAsWritten(t *testing.T, b *bench) {
	w := newWork(t, b)
	f := new(filler)
	for name, shape := range map[string]func(*session.RoundRecord){
		"succeeded": func(r *session.RoundRecord) {
			r.GaveUp, r.Last, r.Ended = false, false, nil
			r.Result.From, r.Result.RoundReport, r.Result.Basis = failures.FromFiles, session.RoundReport{Lost: r.Lost}, r.Basis
			r.Result.Attempts, r.Result.Failures, r.AttemptAt = len(r.Attempts)+1, r.Failures(), r.Result.StartedAt
			r.Supplied = false // whose attempts do not count
		},
		"supplied": func(r *session.RoundRecord) {
			r.GaveUp, r.Last, r.Ended, r.Attempts = false, false, nil, nil
			r.Result.From, r.Result.RoundReport, r.Result.Basis = failures.FromFiles, session.RoundReport{Lost: r.Lost}, nil
			r.Result.Attempts, r.Result.Failures, r.Result.Usage, r.AttemptAt = 0, nil, cost.Usage{}, r.Result.StartedAt
		},
		"failed": func(r *session.RoundRecord) {
			r.Result, r.Last, r.Ended, r.AtWork, r.AttemptAt = nil, false, nil, false, time.Time{}
		},
		"failed for good": func(r *session.RoundRecord) { r.Result, r.Ended, r.AtWork, r.AttemptAt = nil, nil, false, time.Time{} },
		"started":         func(r *session.RoundRecord) { r.Result, r.Ended, r.GaveUp, r.Last = nil, nil, false, false },
		"interrupted": func(r *session.RoundRecord) {
			r.Result, r.Ended, r.GaveUp, r.Last, r.AtWork = nil, nil, false, false, false
		},
		"agent ended": func(r *session.RoundRecord) { r.Result, r.GaveUp, r.Last, r.Ended.Files = nil, false, false, "" },
		"collected":   func(r *session.RoundRecord) { r.Result, r.GaveUp, r.Last = nil, false, false },
	} {
		w.again(session.BecauseRetried)
		w.begin()
		r := filled[session.RoundRecord](f)
		r.Order, r.Round, r.Seq, r.Spent = w.opened.Order, 1, w.seq, cost.Usage{}
		for i := range r.Attempts {
			r.Attempts[i].Attempt, r.Attempts[i].From = i+1, failures.FromInput
			r.Attempts[i].Usage = w.pays(t, r, i+1)
		}
		if r.Ended != nil {
			r.Ended.From, r.Ended.Outcome.Log = failures.FromConversation, nil // which is the transcript
		}
		shape(&r)
		if r.Result != nil && !r.Supplied {
			r.Result.Usage = r.Usage().Add(w.pays(t, r, len(r.Attempts)+1))
		}
		if r.ContinuableAttempt = len(r.Attempts) + 1; r.GaveUp {
			r.ContinuableAttempt = len(r.Attempts)
		}
		talk := filled[session.Conversation](f)
		require.NoError(t, w.PutRound(t.Context(), w.opened.Fence, dev("s"), r, &talk))
		record := w.record()
		require.Equal(t, r, record.Rounds[len(record.Rounds)-1], name)
		require.Equal(t, &talk, record.Conversation)
		all, err := w.Records(t.Context(), sessionOf("s"))
		require.NoError(t, err)
		require.Equal(t, []session.Record{record}, all)
	}
	r := w.record().Rounds[0]
	w.begin()
	r.Attempts = r.Attempts[:min(1, len(r.Attempts))]
	require.NoError(t, w.PutRound(t.Context(), w.opened.Fence, dev("s"), r, nil))
	require.Nil(t, w.record().Conversation, "it is over")
	require.Len(t, w.record().Rounds[0].Attempts, len(r.Attempts), "an attempt that does not count after all")
	empty, err := w.Record(t.Context(), lead("s"))
	require.NoError(t, err)
	require.Equal(t, session.Record{Assignment: lead("s").AssignmentID}, empty)
}

// pays books a call of an attempt.
func (w *work) pays(t *testing.T, r session.RoundRecord, attempt int) cost.Usage {
	t.Helper()
	n := w.call(dev("s"), w.opened.Fence.Run, 40)
	n.Pass, n.Round, n.Attempt = int64(r.Pass), int64(r.Round), int64(attempt)
	w.bench.begin(t, n)
	used := cost.Usage{
		InputTokens: 1, OutputTokens: 6, ReasoningTokens: 2, CacheReadTokens: 3, CacheWriteTokens: 5,
		CacheWrite1hTokens: 4, WebSearches: 7, CostUSD: cost.USD(attempt),
	}
	require.NoError(t, w.End(t.Context(), n.ID, state.CallEnd{State: state.CallFailed, Usage: used}))
	return used
}

// statusesAreReadAsWritten puts a status with something in every field.
func statusesAreReadAsWritten(t *testing.T, b *bench) {
	w := newWork(t, b)
	s := filled[session.Status](new(filler))
	s.Session, s.Run, s.Status = "s", 1, session.HelpIsNeeded
	s.Usage, s.Dropped, s.Unsettled, s.Reserved = cost.Usage{}, cost.Usage{}, cost.Usage{}, cost.Amount{} // sums over calls
	// readers add them; the newest checkpoint is a row of its own
	s.LeftOut, s.HistoryEvents, s.Checkpoint = nil, 0, ""
	for i := range s.Phases {
		p := &s.Phases[i]
		p.Status, p.Seconds, p.Needs, p.SentBack, p.PullRequest = session.HelpIsNeeded, 0, nil, false, nil
		for j := range p.Assignments {
			a := &p.Assignments[j]
			a.Status, a.Usage, a.Seconds, a.Progress = session.Waiting, cost.Usage{}, 0, ""
			a.Pass, a.Round, a.Attempt = 0, 0, 0
		}
	}
	for i := range s.Help {
		s.Help[i].Usage = cost.Usage{}
	}
	at := w.clock.Now().UTC()
	opened, late, err := w.PutBoundary(t.Context(), state.Boundary{
		Key: sessionOf("s"), TemporalRun: w.run, FirstRun: "first",
		At: at, Status: s,
	})
	require.NoError(t, err)
	require.False(t, late)
	require.Equal(t, s.Help, opened)
	e := w.execution()
	require.Equal(t, s, e.Status)
	require.Equal(t, session.Execution{
		Status: s, Revision: 1, Namespace: sessionOf("s").Namespace, RunID: w.run, OriginalRun: w.run, FirstRun: "first", First: 1,
		UpdatedAt: e.UpdatedAt, BoundaryAt: at,
	}, e)
}
