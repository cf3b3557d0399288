package jira

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// markdownOf is a document's content as Markdown.
func markdownOf(t *testing.T, content string) string {
	t.Helper()
	text, err := descriptionText(json.RawMessage(`{"type":"doc","version":1,"content":[`+content+`]}`), map[string]string{"a b.png": "a-b.png"})
	require.NoError(t, err)
	return text
}

// para is a paragraph of nodes.
func para(nodes string) string { return `{"type":"paragraph","content":[` + nodes + `]}` }

// word is a text with marks.
func word(text string, marks ...string) string {
	data, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	for i, m := range marks {
		if !strings.HasPrefix(m, "{") {
			marks[i] = `{"type":"` + m + `"}`
		}
	}
	return `{"type":"text","text":` + string(data) + `,"marks":[` + strings.Join(marks, ",") + `]}`
}

func TestMarkdownOfADF(t *testing.T) {
	t.Parallel()
	link := `{"type":"link","attrs":{"href":"https://x.org/a (b)"}}`
	item := func(content string) string { return `{"type":"listItem","content":[` + content + `]}` }
	bullets := func(content string) string { return `{"type":"bulletList","content":[` + content + `]}` }
	cell := func(kind, content string) string {
		return `{"type":"` + kind + `","attrs":{},"content":[` + content + `]}`
	}
	for name, tt := range map[string]struct{ content, want string }{
		"nothing":          {``, ""},
		"paragraphs":       {para(word("one")) + "," + para(``) + "," + para(word("two")), "one\n\ntwo"},
		"headings":         {`{"type":"heading","attrs":{"level":2},"content":[` + word("A") + `,{"type":"hardBreak"},` + word("B") + `]}`, "## A B"},
		"a level past all": {`{"type":"heading","attrs":{"level":9},"content":[` + word("A") + `]}`, "###### A"},
		"marks":            {para(word("a ") + "," + word("bold ", "strong") + "," + word("both", "strong", "em") + "," + word(" end", "em") + "," + word("x", "strike") + "," + word("y", "underline")), "a **bold *both*** *end*~~x~~y"},
		"code":             {para(word("use `x`", "code") + "," + word(" and ") + "," + word("*y*", "code")), "`` use `x` `` and `*y*`"},
		"a link":           {para(word("see ") + "," + word("the ", link) + "," + word("page", link, "strong")), "see [the **page**](https://x.org/a%20%28b%29)"},
		"sub and sup":      {para(word("H") + "," + word("2", `{"type":"subsup","attrs":{"type":"sub"}}`) + "," + word("O")), "H<sub>2</sub>O"},
		"a break":          {para(word("a") + `,{"type":"hardBreak"},` + word("- b")), "a\\\n\\- b"},
		"no marks":         {para(word(`*a* _b_ snake_case [c](d) <e> a < b & &amp; c:\x`)), `\*a\* \_b\_ snake_case \[c\](d) \<e> a < b & \&amp; c:\\x`},
		"no blocks":        {para(word("# a")) + "," + para(word("1. b")) + "," + para(word("> c")) + "," + para(word("---")) + "," + para(word("#5 is fine")), "\\# a\n\n1\\. b\n\n\\> c\n\n\\---\n\n#5 is fine"},
		"lists": {
			bullets(item(para(word("a"))+","+bullets(item(para(word("b")))+","+item(para(word("c"))))) + "," + item(para(word("d")))),
			"- a\n  - b\n  - c\n- d",
		},
		"numbers": {
			`{"type":"orderedList","attrs":{"order":9},"content":[` + item(para(word("a"))+","+para(word("more"))) + "," + item(para(word("b"))+`,{"type":"codeBlock","content":[`+`{"type":"text","text":"x\ny"}`+`]}`) + `]}`,
			"9. a\n\n   more\n10. b\n\n    ```\n    x\n    y\n    ```",
		},
		"tasks": {
			`{"type":"taskList","content":[{"type":"taskItem","attrs":{"state":"DONE"},"content":[` + word("a") + `]},{"type":"taskItem","attrs":{"state":"TODO"},"content":[` + word("b", "strong") + `]},{"type":"taskList","content":[{"type":"taskItem","attrs":{},"content":[` + word("c") + `]}]},{"type":"blockTaskItem","attrs":{"state":"DONE"},"content":[` + para(word("d")) + `]}]}`,
			"- [x] a\n- [ ] **b**\n  - [ ] c\n- [x] d",
		},
		"decisions":       {`{"type":"decisionList","content":[{"type":"decisionItem","attrs":{"state":"DECIDED"},"content":[` + word("go") + `]}]}`, "- go"},
		"a code block":    {`{"type":"codeBlock","attrs":{"language":"go"},"content":[{"type":"text","text":"a := 1\n"}]}`, "```go\na := 1\n```"},
		"a fence in code": {"{\"type\":\"codeBlock\",\"content\":[{\"type\":\"text\",\"text\":\"```\\nx\\n```\"}]}", "````\n```\nx\n```\n````"},
		"empty code":      {`{"type":"codeBlock"}`, "```\n\n```"},
		"a quote":         {`{"type":"blockquote","content":[` + para(word("a")) + "," + para(word("b")) + `]}`, "> a\n>\n> b"},
		"a panel":         {`{"type":"panel","attrs":{"panelType":"warning"},"content":[` + para(word("hot")) + `]}`, "> **Warning**\n>\n> hot"},
		"an own panel":    {`{"type":"panel","attrs":{"panelType":"custom"},"content":[` + para(word("hot")) + `]}`, "> hot"},
		"expand":          {`{"type":"expand","attrs":{"title":"More*"},"content":[` + para(word("a")) + `]}`, "**More\\***\n\na"},
		"a rule":          {para(word("a")) + `,{"type":"rule"},` + para(word("b")), "a\n\n---\n\nb"},
		"a table": {
			`{"type":"table","content":[{"type":"tableRow","content":[` + cell("tableHeader", para(word("A"))) + "," + cell("tableHeader", para(word("B|C"))) + `]},` +
				`{"type":"tableRow","content":[` + cell("tableCell", para(word("1"))+","+para(word("2"))) + "," + cell("tableCell", ``) + `]}]}`,
			"| A | B\\|C |\n| --- | --- |\n| 1<br>2 |  |",
		},
		"a table without a head": {
			`{"type":"table","content":[{"type":"tableRow","content":[{"type":"tableCell","attrs":{"colspan":2},"content":[` + para(word("1")) + `]},` + cell("tableCell", para(word("2")+`,{"type":"hardBreak"},`+word("3"))) + `]}]}`,
			"|  |  |  |\n| --- | --- | --- |\n| 1 |  | 2<br>3 |",
		},
		"an empty table": {`{"type":"table","content":[]}`, ""},
		"things in a line": {
			para(`{"type":"mention","attrs":{"id":"1","text":"@Ada"}},` + word(" ") + `,{"type":"mention","attrs":{"id":"712020:x"}},` + word(" ") +
				`,{"type":"emoji","attrs":{"shortName":":smile:","text":"😀"}},{"type":"emoji","attrs":{"shortName":":own_one:"}},` + word(" ") +
				`,{"type":"date","attrs":{"timestamp":"1795219200000"}},` + word(" ") + `,{"type":"status","attrs":{"text":"In review","color":"blue"}},` + word(" ") +
				`,{"type":"inlineCard","attrs":{"url":"https://x.org/1"}},` + word(" ") + `,{"type":"inlineCard","attrs":{"data":{"url":"https://x.org/2"}}},` + word(" ") + `,{"type":"placeholder","attrs":{"text":"type here"}}`),
			"@Ada @712020:x 😀:own_one: 2026-11-21 **In review** <https://x.org/1> <https://x.org/2> type here",
		},
		"media": {
			`{"type":"mediaSingle","content":[{"type":"media","attrs":{"type":"file","id":"f-1","alt":"a b.png"}}]},` +
				`{"type":"mediaGroup","content":[{"type":"media","attrs":{"type":"file","id":"f-2"}},{"type":"media","attrs":{"type":"external","url":"https://x.org/p.png","alt":"p"}}]},` +
				para(`{"type":"mediaInline","attrs":{"id":"f-1","alt":"other.pdf"}}`),
			"(attachment: a-b.png)\n\n(an attachment)\n\n![p](https://x.org/p.png)\n\n(attachment: other.pdf)",
		},
		"cards":             {`{"type":"blockCard","attrs":{"url":"https://x.org/1"}},{"type":"embedCard","attrs":{"url":"https://x.org/2"}}`, "<https://x.org/1>\n\n<https://x.org/2>"},
		"layout":            {`{"type":"layoutSection","content":[{"type":"layoutColumn","content":[` + para(word("l")) + `]},{"type":"layoutColumn","content":[` + para(word("r")) + `]}]}`, "l\n\nr"},
		"unknown blocks":    {`{"type":"syncedBlock","content":[{"type":"novelty","content":[` + para(word("deep")) + `]}]},{"type":"macro","attrs":{"text":"seen"}}`, "deep\n\nseen"},
		"unknown in a line": {para(word("a ") + `,{"type":"sparkle","attrs":{"text":"b"}},` + word(" c")), "a b c"},
		"text alone":        {word("loose") + "," + word(" ends"), "loose ends"},
		"wrong forms":       {`{"type":"heading","attrs":[1],"content":[` + word("A") + `]},{"type":"paragraph","content":"x"},` + para(word("b")), "# A\n\nb"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, markdownOf(t, tt.content))
		})
	}
}

// TestWholeDocument reads a document as a person would write one in Jira.
func TestWholeDocument(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile(filepath.Join("testdata", "requirement.adf.json"))
	require.NoError(t, err)
	text, err := descriptionText(doc, map[string]string{"mock up.png": "mock up.png"})
	require.NoError(t, err)
	golden(t, "requirement.md", text+"\n")
}

func TestDescriptionsThatAreNoDocument(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{``: "", `null`: "", `"h1. Title\r\n{code}x{code}"`: "h1. Title\n{code}x{code}"} {
		text, err := descriptionText(json.RawMessage(in), nil)
		require.NoError(t, err)
		require.Equal(t, want, text)
	}
	_, err := descriptionText(json.RawMessage(`{"type"`), nil)
	require.Error(t, err)
}

func TestNestingHasABound(t *testing.T) {
	t.Parallel()
	const levels = 1500
	deep := strings.Repeat(`{"type":"blockquote","content":[`, levels) + para(word("bottom")) + strings.Repeat(`]}`, levels)
	text := markdownOf(t, deep)
	require.Contains(t, text, "bottom", "what lies too deep keeps its text")
	require.Less(t, len(text), 1000)
	lists := strings.Repeat(`{"type":"bulletList","content":[{"type":"listItem","content":[`, levels) + para(word("bottom")) + strings.Repeat(`]}]}`, levels)
	text = markdownOf(t, lists)
	require.Contains(t, text, "bottom")
	require.Less(t, len(text), 10_000)
}

// FuzzMarkdown: whatever a document says, it is read, and its words are kept.
func FuzzMarkdown(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.json"))
	require.NoError(f, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Add([]byte(`{"type":"doc","content":[{"type":"table","content":[{"type":"tableRow","content":[{"type":"tableCell","attrs":{"colspan":1e300}}]}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		text, err := descriptionText(data, nil)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(text), 100*maxNesting*(len(data)+100))
	})
}
