package transcript_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/models/transcript"
)

// written is what a writer makes of what is done to it.
func written(do func(w *transcript.Writer)) string {
	var b strings.Builder
	do(transcript.New(&b, func(s string) string { return strings.ReplaceAll(s, "BEGIN\nKEY", "***") }))
	return b.String()
}

func TestATranscriptHasItems(t *testing.T) {
	t.Parallel()
	got := written(func(w *transcript.Writer) {
		w.Turn("turn %d", 1)
		w.Text("\nI look.\n\nThen I edit.\n\n")
		w.Call("edit a.md", "- old\n+ new\n")
		w.Result("edit a.md", "Wrote a.md.", false)
		w.Result("read b.md", "one\n\ntwo", false)
		w.Result("", "it\nbroke", true)
		w.Call("run "+strings.Repeat("x", 300), "")
		w.Warn("again")
	})
	require.Equal(t, "-- turn 1\nI look.\n\nThen I edit.\n"+
		"> edit a.md\n  │ - old\n  │ + new\n< edit a.md: Wrote a.md.\n"+
		"< read b.md\n  │ one\n  │ \n  │ two\n< failed: it\n  │ broke\n"+
		"> run "+strings.Repeat("x", 193)+"…\n  │ run "+strings.Repeat("x", 300)+"\n! again\n", got)
}

// A secret of several lines is one also where lines get a mark.
func TestItemsAreMaskedAsAWhole(t *testing.T) {
	t.Parallel()
	got := written(func(w *transcript.Writer) {
		w.Call("write key", "BEGIN\nKEY\n")
		w.Result("read key", "x\nBEGIN\nKEY", false)
		w.Text("BEGIN\nKEY")
	})
	require.NotContains(t, got, "KEY")
	require.Equal(t, 3, strings.Count(got, "***"))
}

func TestWhatIsCutIsSaid(t *testing.T) {
	t.Parallel()
	got := written(func(w *transcript.Writer) { w.Call("write big", strings.Repeat("0123456\n", transcript.MaxItem/4)) })
	require.Contains(t, got, fmt.Sprintf("… %d more bytes are not kept …", transcript.MaxItem-1))
	whole := written(func(w *transcript.Writer) { w.Call("write big", strings.Repeat("0123456\n", 100)) })
	require.Equal(t, 100, strings.Count(whole, "0123456"))
}

func TestCallsOfProgramsHaveTheirTexts(t *testing.T) {
	t.Parallel()
	for arguments, want := range map[string][2]string{
		`{"command":"ls -l","description":"Lists"}`:                                   {"T ls -l", "description: Lists"},
		`{"file_path":"a.go","old_string":"x\ny\n","new_string":"z"}`:                 {"T a.go", "- x\n- y\n+ z"},
		`{"file_path":"a.go","content":"one\ntwo"}`:                                   {"T a.go", "one\ntwo"},
		`{"path":"a","edits":[{"old":1}]}`:                                            {"T a", `edits: [{"old":1}]`},
		`"text"`:                                                                      {"T text", ""},
		`{"file_path":"a.go","new_string":"","old_string":"gone","replace_all":true}`: {"T a.go", "replace_all: true\n- gone"},
	} {
		gist, detail := transcript.Gist("T", json.RawMessage(arguments))
		require.Equal(t, want, [2]string{gist, detail}, arguments)
	}
}

func TestInBriefItemsAreShort(t *testing.T) {
	t.Parallel()
	whole := written(func(w *transcript.Writer) {
		w.Text(strings.Repeat("I say this.\n", 50))
		w.Call("write a", strings.Repeat("line\n", 14))
		w.Call("write b", strings.Repeat("x", 1000))
	})
	brief := transcript.InBrief(whole)
	require.Equal(t, 50, strings.Count(brief, "I say this."))
	require.Equal(t, 12, strings.Count(brief, "  │ line\n"))
	require.Contains(t, brief, "  │ … 2 more lines: --full shows them\n> write b\n  │ xxx")
	require.Less(t, len(brief), len(whole)-700)
	require.Equal(t, "a\nb\n", transcript.InBrief("a\nb\n"))
	require.Empty(t, transcript.InBrief(""))
}

// TestInBriefWhatAProgramSendsIsOneLine has the items of two calls of Claude Code, in its order.
func TestInBriefWhatAProgramSendsIsOneLine(t *testing.T) {
	t.Parallel()
	whole := written(func(w *transcript.Writer) {
		w.Turn("call 1")
		w.Asked("system", "x-header: 1")
		w.Asked("system", strings.Repeat("Do it well.\n", 100))
		w.Asked("tools", strings.Repeat("tool, ", 50)+"tool")
		w.Asked("user", "<system-reminder>\nToday is Saturday.\n</system-reminder>")
		w.Asked("user", "You are the planner.\nPlan it.")
		w.Asked("system", "Available skills:\n- a")
		w.Text("I plan.")
		w.Turn("call 2; 5 items as before")
		w.Asked("system", "x-header: 2")
		w.Result("run make", "ok", false)
	})
	require.Equal(t, "-- call 1\n? system prompt, tools, context: 1,475 characters; --full shows them\n? user: You are the "+
		"planner.\n  │ Plan it.\n"+
		"? system prompt: 20 characters; --full shows them\nI plan.\n-- call 2; 5 items as before\n? system: x-header: 2\n< run "+
		"make: ok\n", transcript.InBrief(whole))
	require.Equal(t, "? tools: a, b\n", transcript.InBrief("? tools: a, b\n"))
}
