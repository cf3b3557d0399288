package web

import (
	"fmt"
	"html/template"
	"io/fs"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/faces/web/diffview"
)

var allStates = []session.State{
	session.Admitted, session.Running, session.Waiting, session.WaitingForBreaker, session.AwaitingApproval, session.HelpIsNeeded,
	session.Completed,
	session.Restored, session.Supplied, session.Skipped, session.Failed, session.WasCancelled, session.Pending,
}

// components is the content of the page of all components.
type components struct {
	States    []session.State
	Sentences []Sentence
	Graph     Graph
	Timeline  Timeline
	Budgets   []BudgetRow
	Files     []diffview.File
}

func componentsPage(t *testing.T) []byte {
	t.Helper()
	s, phases := sampleSession()
	running := s
	running.Status = session.Running
	parsed := template.Must(template.New("").Funcs(functions()).ParseFS(templateFiles, "templates/layout.html",
		"templates/parts*.html"))
	template.Must(parsed.ParseFiles("testdata/page_components.html"))
	text, err := views{"components": parsed}.render("components", frame{
		Tab: "inbox", Open: 3, Who: "alice", Now: testNow,
		page: page{Title: "Components", Content: components{
			States: allStates, Sentences: []Sentence{sentenceOf(s, testNow), sentenceOf(running, testNow)},
			Graph: graphOf(s, phases), Timeline: timelineOf(sampleCourse(), testNow), Budgets: budgetRows(sampleBudgets()),
			Files: diffview.Read(sampleFiles(), diffview.Limits{Lines: 1000, FileLines: 1000}),
		}},
	})
	require.NoError(t, err)
	return text
}

func TestComponentsAreRendered(t *testing.T) {
	t.Parallel()
	text := string(componentsPage(t))
	inert(t, text)
	require.Contains(t, text, "Needs approval")
	require.Contains(t, text, `data-key="node-integration-and-acceptance"`)
}

// inert fails for a page that has anything active besides the two scripts of the layout, or an
// inline style.
func inert(t *testing.T, text string) {
	t.Helper()
	page, err := html.Parse(strings.NewReader(text))
	require.NoError(t, err)
	ids := map[string]bool{}
	for n := range page.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		require.NotContains(t, []string{"iframe", "object", "embed", "style", "base", "img", "foreignObject"}, n.Data)
		if n.Data == "script" {
			require.Nil(t, n.FirstChild, "an inline script")
		}
		for _, a := range n.Attr {
			require.False(t, strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key == "srcdoc", "%s=%q", a.Key, a.Val)
			switch a.Key {
			case "href", "src", "action", "formaction":
				require.Regexp(t, `^(/|#|\?|https?://)`, a.Val)
				require.False(t, strings.HasPrefix(a.Val, "//"), a.Val)
			case "id":
				require.False(t, ids[a.Val], "two elements have the id %q", a.Val)
				ids[a.Val] = true
			}
		}
	}
}

var token = regexp.MustCompile(`--([a-z0-9-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)`)

// TestColoursCanBeRead holds the tokens of text against the backgrounds that they stand on: the
// contrast is at least 4.5 to 1, that of lines which mean something at least 3 to 1.
func TestColoursCanBeRead(t *testing.T) {
	t.Parallel()
	css, err := assetFiles.ReadFile("assets/app.css")
	require.NoError(t, err)
	tokens := map[string][2]string{}
	for _, m := range token.FindAllStringSubmatch(string(css), -1) {
		tokens[m[1]] = [2]string{m[2], m[3]}
	}
	check := func(text, ground string, least float64) {
		for mode, name := range []string{"light", "dark"} {
			ratio := contrast(t, tokens[text][mode], tokens[ground][mode])
			require.GreaterOrEqual(t, ratio, least, "%s on %s, %s", text, ground, name)
		}
	}
	for _, ground := range []string{"bg", "surface", "raised", "sunken", "hover"} {
		for _, text := range []string{"text", "text-2", "text-3", "accent", "good", "active", "slow", "ask", "bad", "quiet"} {
			check(text, ground, 4.5)
		}
		check("line-strong", ground, 3)
		check("focus", ground, 3)
	}
	for _, tone := range []string{"good", "active", "slow", "ask", "bad", "quiet"} {
		check(tone, tone+"-bg", 4.5)
		check("text", tone+"-bg", 4.5)
		check(tone+"-line", "surface", 3)
	}
	check("on-accent", "accent-solid", 4.5)
	check("on-accent", "accent-hover", 4.5)
	check("accent", "accent-bg", 4.5)
	for _, line := range []string{"add-bg", "del-bg"} {
		check("text", line, 4.5)
	}
}

// contrast is that of two colours by WCAG.
func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + .05) / (min(x, y) + .05)
}

func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	require.Len(t, colour, 7)
	sum := 0.0
	for i, weight := range []float64{.2126, .7152, .0722} {
		n, err := strconv.ParseUint(colour[1+2*i:3+2*i], 16, 8)
		require.NoError(t, err)
		c := float64(n) / 255
		if c <= .04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

func TestIconsOfAllLooksExist(t *testing.T) {
	t.Parallel()
	for _, s := range allStates {
		require.Contains(t, icons, lookOf(s).Icon, s)
	}
	for _, k := range session.RequestKinds() {
		require.Contains(t, icons, lookOf(k).Icon, k)
	}
	names := regexp.MustCompile(`(?:icon|"Icon") "([a-z]+)"`)
	files, err := templateFiles.ReadDir("templates")
	require.NoError(t, err)
	for _, f := range files {
		text, err := templateFiles.ReadFile("templates/" + f.Name())
		require.NoError(t, err)
		for _, m := range names.FindAllStringSubmatch(string(text), -1) {
			require.Contains(t, icons, m[1], fmt.Sprint(f.Name()))
		}
	}
}

// Templates are read as code is: their lines have at most 130 columns.
func TestLinesOfTemplatesAreShort(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(templateFiles, "templates/*.html")
	require.NoError(t, err)
	for _, file := range files {
		text, err := fs.ReadFile(templateFiles, file)
		require.NoError(t, err)
		n := 0
		for line := range strings.Lines(string(text)) {
			n++
			require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 130,
				"%s:%d: break the line between two elements", file, n)
		}
	}
}
