package transcript_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/models/transcript"
)

func TestATranscriptIsTakenApart(t *testing.T) {
	t.Parallel()
	text := written(func(w *transcript.Writer) {
		w.Turn("turn %d", 1)
		w.Asked("user", "Do it\nwell.")
		w.Thought("Hm.")
		w.Text("I look.\n\nThen I edit.")
		w.Call("edit a.md", "- old\n+ new\nplain")
		w.Result("edit a.md", "Wrote a.md.", false)
		w.Result("run make", "it\nbroke", true)
		w.Warn("again")
		w.Note("stopped")
	})
	items := transcript.WindowOf(text, 0, 100).Items
	require.Equal(t, []transcript.Item{
		{Kind: transcript.Turn, Line: 1, Head: "turn 1"},
		{Kind: transcript.Asked, Line: 2, Head: "user: Do it", Body: []transcript.BodyLine{{"", "well."}}},
		{Kind: transcript.Thought, Line: 4, Head: "Hm."},
		{Kind: transcript.Said, Line: 5, Head: "I look.\n\nThen I edit."},
		{Kind: transcript.Call, Line: 8, Head: "edit a.md", Body: []transcript.BodyLine{
			{"-", "- old"},
			{"+", "+ new"},
			{"", "plain"},
		}},
		{Kind: transcript.Result, Line: 12, Head: "edit a.md: Wrote a.md."},
		{
			Kind: transcript.Result, Line: 13, Head: "run make", Body: []transcript.BodyLine{{"", "failed: it"}, {"", "broke"}},
			Failed: true,
		},
		{Kind: transcript.Warning, Line: 16, Head: "again"},
		{Kind: transcript.Note, Line: 17, Head: "stopped"},
	}, items)
}

func TestWhatAProgramSendsIsOneItem(t *testing.T) {
	t.Parallel()
	text := written(func(w *transcript.Writer) {
		w.Asked("system", "Be brief.\nBe right.")
		w.Asked("tools", "read, edit")
		w.Asked("user", "Do it.")
		w.Asked("system", "x")
	})
	require.Equal(t, []transcript.Item{
		{
			Kind: transcript.Asked, Line: 1, Head: "system prompt, tools: 28 characters", Fold: true,
			Body: []transcript.BodyLine{{"", "? system: Be brief."}, {"", "Be right."}, {"", "? tools: read, edit"}},
		},
		{Kind: transcript.Asked, Line: 4, Head: "user: Do it."},
		{Kind: transcript.Asked, Line: 5, Head: "system: x"},
	}, transcript.WindowOf(text, 0, 100).Items)
}

func TestTextsOfAnyFormAreShown(t *testing.T) {
	t.Parallel()
	items := transcript.WindowOf("  │ no item above\n\x1b[2Jred\u202e\n"+strings.Repeat("é", 9000)+"\n", 0, 100).Items
	require.Len(t, items, 1)
	require.Contains(t, items[0].Head, "│ no item above\nred\né")
	require.Contains(t, items[0].Head, "… cut here")
	require.Empty(t, transcript.WindowOf("", 0, 10).Items)
}

func TestAWindowBeginsWithAnItem(t *testing.T) {
	t.Parallel()
	text := written(func(w *transcript.Writer) {
		for i := range 100 {
			w.Call(fmt.Sprint("call ", i), "a\nb\nc\nd")
		}
	})
	w := transcript.WindowOf(text, 0, 12)
	require.Equal(t, transcript.Window{Items: w.Items, First: 486, Last: 500, Total: 500}, w)
	require.Equal(t, "call 97", w.Items[0].Head)
	before := transcript.WindowOf(text, w.First-1, 12)
	require.Equal(t, 485, before.Last)
	require.Equal(t, "call 96", before.Items[len(before.Items)-1].Head)
	require.Equal(t, transcript.WindowOf(text, 0, 12), transcript.WindowOf(text, 9999, 12))
}

// Ten megabytes are cut and searched while a person waits.
func TestALongTranscriptIsUsable(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("< run make: "+strings.Repeat("x", 88)+"\n", 100_000) + "! the Needle\n"
	require.Equal(t, 100_001, transcript.WindowOf(text, 0, 2000).Total)
	found, more := transcript.Find(text, "needle", 10)
	require.Equal(t, []transcript.Match{{100_001, "! the Needle"}}, found)
	require.False(t, more)
	found, more = transcript.Find(text, "run", 10)
	require.Len(t, found, 10)
	require.True(t, more)
}
