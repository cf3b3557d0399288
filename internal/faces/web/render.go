package web

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/faces/web/diffview"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

//go:embed templates/*.html
var templateFiles embed.FS

// views are the parsed pages, by the name of their file.
type views map[string]*template.Template

// frame is what all pages have around their content.
type frame struct {
	page
	// Tab is the open one: inbox, sessions, history or operate.
	Tab string
	// Open counts the requests that wait for the person, and Waiting is the page of the first; empty: there is none.
	Open    int
	Waiting string
	// Away says what cannot be reached now.
	Away []string
	// MayStart: the person may start sessions of some team. MayAudit: they may read the audit log.
	MayStart, MayAudit bool
	// Who is the person's name.
	Who string
	// Events is the address of the server's events; empty: the page does not update.
	Events  string
	Version string
	Now     time.Time
	// Said is what the form has done that led to the page; empty: none has.
	Said string
}

// loadViews parses each page together with the layout and the parts.
func loadViews() views {
	base := template.Must(template.New("").Funcs(functions()).ParseFS(templateFiles, "templates/layout.html",
		"templates/parts*.html"))
	pages, err := fs.Glob(templateFiles, "templates/page_*.html")
	if err != nil {
		panic(err) // the pattern is constant
	}
	v := views{}
	for _, name := range pages {
		page := template.Must(template.Must(base.Clone()).ParseFS(templateFiles, name))
		v[strings.TrimSuffix(strings.TrimPrefix(name, "templates/page_"), ".html")] = page
	}
	return v
}

// render writes a page.
func (v views) render(name string, f frame) ([]byte, error) {
	page, ok := v[name]
	if !ok {
		return nil, fmt.Errorf("page %q not found", name)
	}
	var b bytes.Buffer
	err := page.ExecuteTemplate(&b, "layout", f)
	return b.Bytes(), err
}

func functions() template.FuncMap {
	return template.FuncMap{
		"asset":   assetURL,
		"icon":    icon,
		"path":    func(name string) string { return icons[name] },
		"look":    lookOf,
		"line":    safetext.Line,
		"clip":    safetext.Clip,
		"lines":   safetext.Block,
		"name":    safetext.Name,
		"visible": diffview.Visible,
		"dollars": dollars,
		"short":   terminal.Short,
		"number":  terminal.Number,
		"count":   textfmt.Count,
		"size":    textfmt.Size,
		"seconds": seconds,
		"percent": percent,
		"rest":    func(x float64) float64 { return 100 - x },
		"age":     age,
		"time":    timeTag,
		"took":    took,
		"crumbs":  crumbs,
		"heads":   heads,
		"dict":    dict,
		"list":    func(all ...string) []string { return all },
		"add":     func(a, b int) int { return a + b },
		"sub":     func(a, b int) int { return a - b },
		"join":    strings.Join,

		"sessionURL": sessionURL, "teamURL": teamURL, "phaseURL": phaseURL, "assignmentURL": assignmentURL,
		"closed": session.State.Closed, "webLink": webLink,
	}
}

// icon draws an icon of the set. Words beside it say the same.
func icon(name string) template.HTML {
	class := "icon"
	if name == "run" {
		class += " spin"
	}
	return template.HTML(`<svg class="` + class + //nolint:gosec // constants
		`" viewBox="0 0 16 16" aria-hidden="true" focusable="false"><path d="` + icons[name] + `"/></svg>`)
}

// heads is the head of a table. A class of a column is behind its name, as in "Cost|r".
func heads(columns ...string) template.HTML {
	var b strings.Builder
	for _, c := range columns {
		name, class, _ := strings.Cut(c, "|")
		fmt.Fprintf(&b, `<th class="%s">%s</th>`, class, name)
	}
	return template.HTML("<thead><tr>" + b.String() + "</tr></thead>") //nolint:gosec // constants
}

// webLink returns the address of a page elsewhere if it may be a link: by https, or on this host. Others have written it.
func webLink(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.User != nil || u.Host == "" {
		return ""
	}
	here := u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()
	if u.Scheme != "https" && (u.Scheme != "http" || !here) {
		return ""
	}
	return u.String()
}

// age is a time that goes on: the script counts it.
func age(since any, now time.Time) template.HTML {
	t := timeOf(since)
	if t.IsZero() {
		return ""
	}
	return template.HTML(fmt.Sprintf( //nolint:gosec // digits only
		`<time class="num" datetime="%s" title="since %s" data-age>%s</time>`, t.UTC().Format(time.RFC3339), moment(t), terminal.Age(now.Sub(t))))
}

// timeTag is a moment. The script writes it in the zone of the person who looks.
func timeTag(at any) template.HTML {
	t := timeOf(at)
	if t.IsZero() {
		return ""
	}
	return template.HTML(fmt.Sprintf(`<time class="num" datetime="%s" title="%s" data-at>%s</time>`, //nolint:gosec // digits only
		t.UTC().Format(time.RFC3339), moment(t), t.UTC().Format("Jan 2, 15:04 UTC")))
}

func timeOf(t any) time.Time {
	switch t := t.(type) {
	case time.Time:
		return t
	case *time.Time:
		if t != nil {
			return *t
		}
	}
	return time.Time{}
}

// took is how long something took, or has taken so far.
func took(from, to any, now time.Time) string {
	start, end := timeOf(from), timeOf(to)
	if start.IsZero() {
		return ""
	}
	if !end.IsZero() {
		now = end
	}
	return terminal.Age(now.Sub(start))
}

// crumb is a page above the one that is shown.
type crumb struct{ Name, URL string }

// crumbs is the path to a page: names and addresses in turn.
func crumbs(pairs ...string) []crumb {
	var all []crumb
	for i := 0; i+1 < len(pairs); i += 2 {
		all = append(all, crumb{pairs[i], pairs[i+1]})
	}
	return all
}

// dict names the arguments of a part.
func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, fmt.Errorf("dict has %d arguments; it takes names and values", len(pairs))
	}
	m := make(map[string]any, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("argument %d of dict is no name", i+1)
		}
		m[name] = pairs[i+1]
	}
	return m, nil
}
