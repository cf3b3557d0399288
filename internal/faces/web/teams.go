package web

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/ops/control"
)

// teamPage is the content of the page of a registered team.
type teamPage struct {
	control.RegisteredTeam
	Graph Graph
	// MayRegister: the person may register another version.
	MayRegister bool
}

// teamsPage is the content of the page of all registered teams.
type teamsPage struct {
	control.TeamList
	MayRegister bool
}

func (s *site) teams(r *http.Request) (page, error) {
	content, err := s.Teams.List(r.Context())
	mayRegister := may(r.Context(), access.Admin, access.AllTeams)
	return page{View: "teams", Title: "Teams", Content: teamsPage{content, mayRegister}}, err
}

func (s *site) team(r *http.Request) (page, error) {
	doc, err := s.Teams.Read(r.Context(), r.PathValue("team"), r.URL.Query().Get("version"))
	if err != nil {
		return page{}, err
	}
	content := teamPage{doc, teamGraph(doc.Team), may(r.Context(), access.Admin, doc.Name)}
	return page{View: "team", Title: "Team " + doc.Name, Content: content}, nil
}

// teamGraph draws the phases of a team. Each leads to its line in the table.
func teamGraph(t spec.Team) Graph {
	g := graphOf(session.NewStatus("", t), t.Phases)
	for i := range g.Nodes {
		n, p := &g.Nodes[i], t.Phases[i]
		n.Word, n.URL = textfmt.Count(len(p.Personas), "persona"), "#phase-"+url.PathEscape(p.Name)
		if p.Deliver != nil {
			n.Word = "delivers"
		}
		if p.Approve.Wanted() {
			n.Figures = "needs approval"
		}
		n.Label = strings.Join(nonEmpty(p.Name, n.Word, n.Figures), ", ")
		for j := range n.Marks {
			n.Marks[j].Word = "works here"
		}
	}
	return g
}

func teamURL(name string) string { return "/teams/" + url.PathEscape(name) }
