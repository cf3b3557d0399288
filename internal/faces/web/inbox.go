package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/ops/control"
)

// inboxPage is the content of the inbox.
type inboxPage struct {
	filter
	// Total counts the requests that wait for a person, before the filter.
	Total  int
	Groups []cardGroup
	// Notices continue by themselves, and Others wait for others than the person who looks.
	Notices, Others []RequestCard
	Teams           []string
	Kinds           []session.RequestKind
	Filtered        bool
	// Bulk: there are requests that can be approved together.
	Bulk bool
	// Next is the address of the next page; empty: this is the last.
	Next string
	// Alerts are those of the last 24 hours.
	Alerts []control.RaisedAlert
	// Trouble says why alerts cannot be read.
	Trouble string
}

// cardGroup is a group of the inbox.
type cardGroup struct {
	Key, Name string
	Cards     []RequestCard
}

const (
	// inboxSize is how many requests a page of the inbox has, and how many are approved together at most.
	inboxSize = 50
	// unfolded is up to how many requests are open at first.
	unfolded = 5
)

func (s *site) inbox(r *http.Request) (page, error) {
	doc, err := s.Requests.Inbox(r.Context(), control.InboxFilter{})
	if err != nil {
		return page{}, err
	}
	content := inboxPage{filter: filterOf(r, "q", "team", "kind", "by", "page"), Kinds: session.RequestKinds()}
	content.Filtered = content.Get("q")+content.Get("team")+content.Get("kind") != ""
	alerts, err := s.Alerts.List(r.Context())
	if err != nil && !unavailable(err) {
		content.Trouble = "Alerts: " + err.Error()
	}
	content.Alerts = alerts.Alerts
	back := strings.TrimSuffix("/inbox"+content.With("page", content.Get("page")), "?")
	var cards []RequestCard
	for _, e := range doc.Waiting {
		if !slices.Contains(content.Teams, e.Team) && e.Team != "" {
			content.Teams = append(content.Teams, e.Team)
		}
		c := s.card(r.Context(), e, back)
		if !c.Notice && !c.Denied {
			content.Total++
		}
		switch {
		case !content.has(e):
		case c.Notice:
			c.Bulk = false
			content.Notices = append(content.Notices, c)
		case c.Denied:
			content.Others = append(content.Others, c)
		default:
			cards = append(cards, c)
		}
	}
	slices.Sort(content.Teams)
	content.group(content.paged(cards))
	return page{View: "inbox", Title: "Inbox", Content: content}, nil
}

// has reports whether the filter selects a request.
func (p *inboxPage) has(e control.InboxEntry) bool {
	text := strings.ToLower(strings.Join([]string{e.Session, e.Subject(), e.Requirement, e.Message, e.Summary}, "\n"))
	return (p.Get("team") == "" || e.Team == p.Get("team")) && (p.Get("kind") == "" || string(e.Kind) == p.Get("kind")) &&
		strings.Contains(text, strings.ToLower(p.Get("q")))
}

// paged are the requests of the page.
func (p *inboxPage) paged(cards []RequestCard) []RequestCard {
	number, _ := strconv.Atoi(p.Get("page"))
	number = min(max(number, 1), len(cards)/inboxSize+1)
	rest := cards[(number-1)*inboxSize:]
	if len(rest) > inboxSize {
		p.Next = p.With("page", strconv.Itoa(number+1))
	}
	return rest[:min(len(rest), inboxSize)]
}

// group puts requests into groups, by their kind if no other key is chosen. The group of the oldest is first.
func (p *inboxPage) group(cards []RequestCard) {
	at := map[string]int{}
	for _, c := range cards {
		name := map[string]string{"team": c.Team, "session": c.Session}[p.Get("by")]
		if name == "" {
			name = c.Word
		}
		if _, known := at[name]; !known {
			at[name] = len(p.Groups)
			p.Groups = append(p.Groups, cardGroup{Key: keyOf(name), Name: name})
		}
		c.Unfolded = len(cards) <= unfolded
		p.Bulk = p.Bulk || c.Bulk && len(cards) > 1
		p.Groups[at[name]].Cards = append(p.Groups[at[name]].Cards, c)
	}
}

// approvePage is the content of the page that approves phases together: first the phases, then what became of each, where not
// all of their sessions continue.
type approvePage struct {
	Cards           []RequestCard
	Failed, Waiting []string
}

// confirmMany shows the phases that were chosen in the inbox, before they are approved.
func (s *site) confirmMany(r *http.Request) (page, error) {
	cards, err := s.chosen(r.Context(), r.URL.Query()["request"])
	return page{View: "approve", Title: "Approve", Content: approvePage{Cards: cards}}, err
}

// chosen are the cards of requests, named SESSION/REQUEST, that are open and can be approved.
func (s *site) chosen(ctx context.Context, names []string) ([]RequestCard, error) {
	doc, err := s.Requests.Inbox(ctx, control.InboxFilter{})
	var cards []RequestCard
	for _, e := range doc.Waiting {
		if c := s.card(ctx, e, "/inbox"); c.Bulk && slices.Contains(names, e.Session+"/"+e.ID) && len(cards) < inboxSize {
			cards = append(cards, c)
		}
	}
	return cards, err
}

// approveMany approves phases. What fails does not keep the others from it. A request's id stands for one state of the work: if
// that was done again since it was looked at, the request is no longer open.
func (s *site) approveMany(r *http.Request) (page, error) {
	if err := r.ParseForm(); err != nil {
		return page{}, wrongInput("Please choose again", err)
	}
	cards, err := s.chosen(r.Context(), r.PostForm["request"])
	if err != nil {
		return page{}, err
	}
	var content approvePage
	for _, name := range r.PostForm["request"] {
		if !slices.ContainsFunc(cards, func(c RequestCard) bool { return c.Session+"/"+c.ID == name }) {
			content.Failed = append(content.Failed, name+" waits for no approval now")
		}
	}
	for _, c := range cards {
		in := control.AnswerInput{Session: c.Session, Request: c.ID, Body: control.AnswerBody{Action: session.AnswerApprove}}
		doc, err := s.Requests.Answer(r.Context(), in)
		if err != nil {
			content.Failed = append(content.Failed, c.Subject+" of "+c.Session+": "+err.Error())
		} else if what := became(doc); what != string(session.AnswerApprove) {
			content.Waiting = append(content.Waiting, fmt.Sprintf(saidTexts[what], c.Session))
		}
	}
	if len(content.Failed)+len(content.Waiting) == 0 {
		return done("/inbox", "approved", ""), nil
	}
	out := page{View: "approve", Title: "Approve", Content: content}
	if len(content.Failed) > 0 {
		out.Status = http.StatusConflict
	}
	return out, nil
}
