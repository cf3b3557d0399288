package budget

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

func turn(n int) *session.CallKey { return &session.CallKey{Round: 1, Attempt: 1, Turn: n} }

func spent(tokens int64) *cost.Usage {
	return &cost.Usage{InputTokens: tokens, CostUSD: cost.USD(tokens) * 3}
}

// applied makes a journal of entries that must fit.
func applied(t *testing.T, entries ...Entry) *Journal {
	t.Helper()
	j := &Journal{}
	for _, e := range entries {
		require.NoError(t, j.Apply(e))
	}
	return j
}

func TestACallBeginsOnceAndEndsOnce(t *testing.T) {
	t.Parallel()
	begin := Entry{Seq: 1, Kind: Begun, Key: turn(1)}
	end := func(kind Kind) Entry { return Entry{Seq: 2, Kind: kind, Call: 1} }
	for name, c := range map[string]struct {
		before []Entry
		entry  Entry
		says   string
	}{
		"a number twice":        {[]Entry{begin}, Entry{Seq: 1, Kind: Begun, Key: turn(2)}, "entry 1 follows entry 1; entry numbers must increase"},
		"no number":             {nil, Entry{Kind: Begun, Key: turn(1)}, "entry 0 follows entry 0"},
		"an unknown call":       {[]Entry{begin}, Entry{Seq: 2, Kind: Settled, Call: 7}, "about call 7, which never began"},
		"a key of no beginning": {nil, Entry{Seq: 1, Kind: Abandoned, Key: turn(1)}, `begins a call as "abandoned"`},
		"a second beginning":    {[]Entry{begin}, end(Begun), "call 1 is begun and cannot become begun"},
		"tools before answers":  {[]Entry{begin}, end(Tools), "call 1 is begun and cannot become tools"},
		"a second end":          {[]Entry{begin, end(Abandoned)}, Entry{Seq: 3, Kind: Settled, Call: 1}, "is abandoned and cannot become settled"},
		"a closed one again":    {[]Entry{begin, end(Unsettled), {Seq: 3, Kind: Closed, Call: 1}}, Entry{Seq: 4, Kind: Closed, Call: 1}, "is closed and cannot"},
		"closed while known":    {[]Entry{begin, end(Settled)}, Entry{Seq: 3, Kind: Closed, Call: 1}, "is settled and cannot become closed"},
		"an unknown kind":       {[]Entry{begin}, end("lost"), "cannot become lost"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := applied(t, c.before...)
			before, next := append([]Call{}, j.Calls()...), j.Next()
			require.ErrorContains(t, j.Apply(c.entry), c.says)
			require.Equal(t, before, append([]Call{}, j.Calls()...))
			require.Equal(t, next, j.Next())
		})
	}
}

func TestAJournalIsSummedUp(t *testing.T) {
	t.Parallel()
	next := noon.Add(12 * time.Hour)
	key := *turn(3)
	j := applied(t,
		Entry{Seq: 1, Kind: Begun, At: noon, Key: turn(1), Run: "r1", Agent: "a", Model: "m", Request: "q1", Estimate: spent(50)},
		Entry{Seq: 2, Kind: Settled, At: noon, Call: 1, Usage: spent(10), Answer: "first"},
		Entry{Seq: 3, Kind: Tools, At: next, Call: 1, Tools: "tools"},
		Entry{Seq: 4, Kind: Begun, At: noon, Key: turn(2), Run: "r1", Agent: "a", Model: "m", Estimate: spent(50)},
		Entry{Seq: 5, Kind: Settled, At: next, Call: 4, Usage: spent(30)},
		Entry{Seq: 7, Kind: Begun, At: noon, Key: &key, Run: "r1", Agent: "a", Model: "m", Estimate: spent(40)},
		Entry{Seq: 8, Kind: Unsettled, At: noon, Call: 7},
		Entry{Seq: 9, Kind: Settled, At: next, Key: &session.CallKey{Round: 1, Attempt: 2}, Run: "r2", Agent: "b", Usage: spent(7)},
		Entry{Seq: 10, Kind: Begun, At: next, Key: turn(4), Run: "r2", Agent: "a", Estimate: spent(60)},
		Entry{Seq: 11, Kind: Begun, At: next, Key: turn(5), Run: "r2", Agent: "a", Estimate: spent(5)},
		Entry{Seq: 12, Kind: Abandoned, At: next, Call: 11, Usage: spent(2)},
	)
	row := Row{
		Spent: []Spending{
			{Date: "2026-01-31", Agent: "a", Model: "m", Calls: 1, Usage: *spent(10), Largest: spent(10).Amount(), Answered: 1},
			{Date: "2026-02-01", Agent: "a", Model: "m", Calls: 1, Usage: *spent(30), Largest: spent(30).Amount(), Answered: 1},
			{Date: "2026-02-01", Agent: "b", Calls: 1, Usage: *spent(7), Largest: spent(7).Amount(), Answered: 1},
			{Date: "2026-02-01", Agent: "a", Calls: 1, Usage: *spent(2), Largest: spent(2).Amount()},
		},
		Unsettled: []UnsettledCall{{Call: 7, Date: "2026-01-31", Estimate: *spent(40)}}, Reserved: map[int64]cost.Amount{10: tokens(20)}, Entries: 12,
	}
	require.Equal(t, row, j.Row(map[int64]cost.Amount{10: tokens(20), 99: tokens(1)}))
	require.Equal(t, spent(60).Amount(), j.Row(nil).Reserved[10], "the estimate is what is set aside if nobody knows better")
	require.Equal(t, *spent(49), j.Spent())
	require.Equal(t, j.Spent(), row.Usage())
	require.Equal(t, *spent(40), j.SpentOn("r1", *turn(9)), "whatever the turn")
	require.Equal(t, *spent(2), j.SpentOn("r2", *turn(1)))
	require.Equal(t, *spent(7), j.SpentOn("r2", session.CallKey{Round: 1, Attempt: 2}))
	require.Len(t, j.Open(), 1)
	require.Len(t, j.Unsettled(), 1)

	require.NoError(t, j.Apply(Entry{Seq: 13, Kind: Closed, At: next, Call: 7, Usage: spent(33), By: "ann", Note: "by the bill"}))
	require.Equal(t, *spent(82), j.Spent())
	require.Empty(t, j.Row(nil).Unsettled)
	require.Equal(t, "ann", j.Calls()[2].By)
	require.Equal(t, next, j.Calls()[2].ClosedAt)
	require.Equal(t, *spent(43), j.Row(nil).Spent[0].Usage, "it counts for the day on which the call ended")
}

// TestALedgerThatIsLostKeepsWhatWasGranted: what calls under way may cost is set aside
// again in full, or others could spend it.
func TestALedgerThatIsLostKeepsWhatWasGranted(t *testing.T) {
	t.Parallel()
	j := applied(t, Entry{Seq: 1, Kind: Begun, At: noon, Key: turn(0), Run: "r1", Agent: "a", Estimate: spent(50), Granted: tokens(80)})
	require.EqualValues(t, 80, j.Row(nil).Reserved[1].Tokens)
	require.NoError(t, j.Apply(Entry{Seq: 2, Kind: Reported, At: noon, Call: 1, Usage: spent(60), Estimate: spent(40)}))
	require.EqualValues(t, 100, j.Row(nil).Reserved[1].Tokens, "it has passed what was granted")
}

func TestWhatAProgramReportedIsSpentThoughItsWorkerIsLost(t *testing.T) {
	t.Parallel()
	j := applied(t,
		Entry{Seq: 1, Kind: Begun, At: noon, Key: turn(0), Run: "r1", Agent: "a", Estimate: spent(50)},
		Entry{Seq: 2, Kind: Reported, At: noon, Call: 1, Usage: spent(10), Estimate: spent(12)},
		Entry{Seq: 3, Kind: Reported, At: noon, Call: 1, Usage: spent(30), Estimate: spent(32)},
	)
	require.Zero(t, j.Spent(), "it is under way")
	require.Equal(t, spent(62).Amount(), j.Row(nil).Reserved[1])
	lost := func(e Entry) Journal {
		t.Helper()
		c := applied(t,
			Entry{Seq: 1, Kind: Begun, At: noon, Key: turn(0), Run: "r1", Agent: "a", Estimate: spent(50)},
			Entry{Seq: 3, Kind: Reported, At: noon, Call: 1, Usage: spent(30), Estimate: spent(32)},
		)
		e.Seq, e.Kind, e.At, e.Call = 4, Unsettled, noon, 1
		require.NoError(t, c.Apply(e))
		return *c
	}
	known := lost(Entry{})
	require.Equal(t, *spent(30), known.Spent())
	require.Equal(t, *spent(30), known.SpentOn("r1", *turn(0)))
	require.Equal(t, *spent(32), known.Row(nil).Estimated())
	require.Equal(t, *spent(30), known.Row(nil).Usage())
	more := lost(Entry{Usage: spent(45), Estimate: spent(47)})
	require.Equal(t, *spent(45), more.Spent(), "what its files tell besides")
	require.Equal(t, *spent(47), more.Row(nil).Estimated())
	less := lost(Entry{Usage: spent(5)})
	require.Equal(t, *spent(30), less.Spent(), "what was reported stays known")
	require.NoError(t, less.Apply(Entry{Seq: 5, Kind: Closed, Call: 1, At: noon, Usage: spent(0)}))
	require.Equal(t, *spent(30), less.Spent(), "only the rest can be written off")
	require.ErrorContains(t, less.Apply(Entry{Seq: 6, Kind: Reported, Call: 1, Usage: spent(99)}), "cannot become reported")
}

func TestMoneyCountsThoughABeginningIsLost(t *testing.T) {
	t.Parallel()
	j := applied(t,
		Entry{Seq: 2, Kind: Settled, At: noon, Call: 1, Usage: spent(10), Answer: "x"},
		Entry{Seq: 3, Kind: Tools, At: noon, Call: 1, Tools: "y"},
		Entry{Seq: 5, Kind: Unsettled, At: noon, Call: 4, Estimate: spent(5)},
		Entry{Seq: 6, Kind: Closed, At: noon, Call: 4, Usage: spent(3)},
	)
	require.Equal(t, *spent(13), j.Spent())
	require.Nil(t, j.Find(session.CallKey{}, "q"), "nobody knows what it answered")
	require.ErrorContains(t, j.Apply(Entry{Seq: 9, Kind: Tools, Call: 8}), "never began")
}

func TestTheNewestAnswerToARequestIsFound(t *testing.T) {
	t.Parallel()
	j := applied(t,
		Entry{Seq: 1, Kind: Settled, Key: turn(1), Request: "q", Answer: "old"},
		Entry{Seq: 2, Kind: Settled, Key: turn(1), Request: "q", Answer: "new"},
		Entry{Seq: 3, Kind: Settled, Key: turn(1), Request: "other", Answer: "other"},
		Entry{Seq: 4, Kind: Begun, Key: turn(1), Request: "q"},
		Entry{Seq: 5, Kind: Begun, Key: turn(2), Request: "q"},
		Entry{Seq: 6, Kind: Settled, Key: turn(1), Request: "q"},
	)
	require.Equal(t, spec.Digest("new"), j.Find(*turn(1), "q").Answer)
	require.Nil(t, j.Find(*turn(1), "another"))
	require.Nil(t, j.Find(*turn(2), "q"), "it has no answer yet")
	require.Nil(t, j.Find(session.CallKey{Epoch: 1, Round: 1, Attempt: 1, Turn: 1}, "q"))
}

// FuzzJournal holds the journal against entries in any order: one that is refused
// changes nothing, and the sums always agree.
func FuzzJournal(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Add([]byte("\x00\x10\x01\x20\x02\x30\x03"))
	kinds := []Kind{Begun, Settled, Abandoned, Unsettled, Tools, Closed, "other"}
	f.Fuzz(func(t *testing.T, data []byte) {
		j := &Journal{}
		for len(data) >= 4 {
			e := Entry{
				Seq: j.Next() + int64(data[0]%3) - 1, Kind: kinds[int(data[1])%len(kinds)], Call: int64(data[2] % 16),
				At: noon.Add(time.Duration(data[3]) * time.Hour), Agent: string(rune('a' + data[3]%3)),
			}
			if data[2]&16 != 0 {
				e.Key, e.Estimate = turn(int(data[3])), spent(int64(data[3]))
			}
			if data[2]&32 != 0 {
				e.Usage = spent(int64(data[3]))
			}
			before, next := append([]Call{}, j.Calls()...), j.Next()
			if err := j.Apply(e); err != nil {
				require.Equal(t, before, append([]Call{}, j.Calls()...))
				require.Equal(t, next, j.Next())
			} else {
				require.Equal(t, e.Seq+1, j.Next())
			}
			data = data[4:]
		}
		row, calls := j.Row(nil), 0
		require.Equal(t, j.Spent(), row.Usage())
		for _, s := range row.Spent {
			calls += s.Calls
		}
		require.Len(t, j.Calls(), calls+len(row.Reserved)+len(row.Unsettled), "each call is in one place")
		require.Len(t, j.Open(), len(row.Reserved))
		require.Len(t, j.Unsettled(), len(row.Unsettled))
	})
}

func TestAJournalSurvivesBeingWritten(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	j, again := &Journal{}, &Journal{}
	for range 200 {
		e := Entry{Seq: j.Next(), Kind: Settled, Key: turn(random.IntN(9)), At: noon, Agent: "a", Usage: &cost.Usage{
			InputTokens: random.Int64N(1e12), ReasoningTokens: random.Int64N(1e12), CostUSD: cost.USD(random.Int64N(1e15)),
		}}
		data, err := json.Marshal(e)
		require.NoError(t, err)
		var read Entry
		require.NoError(t, json.Unmarshal(data, &read))
		require.NoError(t, j.Apply(e))
		require.NoError(t, again.Apply(read))
	}
	require.Equal(t, j.Row(nil), again.Row(nil))
}
