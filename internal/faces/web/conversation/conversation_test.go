package conversation_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/faces/web/conversation"
	"github.com/maestro-hive/maestro/internal/models/transcript"
)

func written(do func(*transcript.Writer)) string {
	var b strings.Builder
	do(transcript.New(&b, func(s string) string { return s }))
	return b.String()
}

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
	items := conversation.WindowOf(text, 0, 100).Items
	require.Equal(t, []conversation.Item{
		{Kind: conversation.Turn, Line: 1, Head: "turn 1"},
		{Kind: conversation.Asked, Line: 2, Head: "user: Do it", Body: []conversation.BodyLine{{"", "well."}}},
		{Kind: conversation.Thought, Line: 4, Head: "Hm."},
		{Kind: conversation.Said, Line: 5, Head: "I look.\n\nThen I edit."},
		{Kind: conversation.Call, Line: 8, Head: "edit a.md", Body: []conversation.BodyLine{
			{"-", "- old"},
			{"+", "+ new"},
			{"", "plain"},
		}},
		{Kind: conversation.Result, Line: 12, Head: "edit a.md: Wrote a.md."},
		{
			Kind: conversation.Result, Line: 13, Head: "run make", Body: []conversation.BodyLine{{"", "failed: it"}, {"", "broke"}},
			Failed: true,
		},
		{Kind: conversation.Warning, Line: 16, Head: "again"},
		{Kind: conversation.Note, Line: 17, Head: "stopped"},
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
	require.Equal(t, []conversation.Item{
		{
			Kind: conversation.Asked, Line: 1, Head: "system prompt, tools: 28 characters", Fold: true,
			Body: []conversation.BodyLine{{"", "? system: Be brief."}, {"", "Be right."}, {"", "? tools: read, edit"}},
		},
		{Kind: conversation.Asked, Line: 4, Head: "user: Do it."},
		{Kind: conversation.Asked, Line: 5, Head: "system: x"},
	}, conversation.WindowOf(text, 0, 100).Items)
}

func TestTextsOfAnyFormAreShown(t *testing.T) {
	t.Parallel()
	items := conversation.WindowOf("  │ no item above\n\x1b[2Jred\u202e\n"+strings.Repeat("é", 9000)+"\n", 0, 100).Items
	require.Len(t, items, 1)
	require.Contains(t, items[0].Head, "│ no item above\nred\né")
	require.Contains(t, items[0].Head, "… cut here")
	require.Empty(t, conversation.WindowOf("", 0, 10).Items)
}

func TestAWindowBeginsWithAnItem(t *testing.T) {
	t.Parallel()
	text := written(func(w *transcript.Writer) {
		for i := range 100 {
			w.Call(fmt.Sprint("call ", i), "a\nb\nc\nd")
		}
	})
	w := conversation.WindowOf(text, 0, 12)
	require.Equal(t, conversation.Window{Items: w.Items, First: 486, Last: 500, Total: 500}, w)
	require.Equal(t, "call 97", w.Items[0].Head)
	before := conversation.WindowOf(text, w.First-1, 12)
	require.Equal(t, 485, before.Last)
	require.Equal(t, "call 96", before.Items[len(before.Items)-1].Head)
	require.Equal(t, conversation.WindowOf(text, 0, 12), conversation.WindowOf(text, 9999, 12))
}

// Ten megabytes are cut and searched while a person waits.
func TestALongTranscriptIsUsable(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("< run make: "+strings.Repeat("x", 88)+"\n", 100_000) + "! the Needle\n"
	require.Equal(t, 100_001, conversation.WindowOf(text, 0, 2000).Total)
	found, more := conversation.Find(text, "needle", 10)
	require.Equal(t, []conversation.Match{{100_001, "! the Needle"}}, found)
	require.False(t, more)
	found, more = conversation.Find(text, "run", 10)
	require.Len(t, found, 10)
	require.True(t, more)
}
