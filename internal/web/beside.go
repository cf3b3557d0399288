package web

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/sessionstatus"
)

// besidePage is the content of the page of two sessions side by side.
type besidePage struct {
	A, B string
	// Left and Right are nil where a session is not named yet.
	Left, Right *BesideSession
	Phases      []BesidePhase
	Now         time.Time
}

// BesideSession is one of the two sessions.
type BesideSession struct {
	sessionstatus.Session
	Attempts int
}

// BesidePhase is a phase of one or both.
type BesidePhase struct {
	Name        string
	Left, Right *BesideWork
}

// BesideWork is what a phase came to in one session.
type BesideWork struct {
	session.PhaseStatus
	Attempts int
}

func (s *site) beside(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	content := besidePage{A: strings.TrimSpace(q.Get("a")), B: strings.TrimSpace(q.Get("b")), Now: s.Now()}
	var err error
	if content.A != "" {
		content.Left, err = s.besideOf(r.Context(), content.A)
	}
	if err == nil && content.B != "" {
		content.Right, err = s.besideOf(r.Context(), content.B)
	}
	if err != nil {
		s.failed(w, r, err, "/compare")
		return
	}
	content.pair()
	s.show(w, r, http.StatusOK, page{View: "beside", Title: "Compare sessions", Tab: "history", Content: content})
}

func (s *site) besideOf(ctx context.Context, id string) (*BesideSession, error) {
	v, err := s.Sessions.Read(ctx, id)
	if err != nil {
		return nil, err
	}
	work, err := s.Attempts.Work(ctx, id)
	if err != nil && !unavailable(err) {
		return nil, err
	}
	control.AddTimes(&v.Status, work.Attempts, s.Now())
	b := &BesideSession{Session: v}
	for _, p := range v.Phases {
		b.Attempts += attemptsOf(p)
	}
	return b, nil
}

func attemptsOf(p session.PhaseStatus) (n int) {
	for _, a := range p.Assignments {
		n += a.Attempts
	}
	return n
}

// pair puts phases of the same name side by side, in the order of the first session.
func (p *besidePage) pair() {
	at := map[string]int{}
	for i, of := range []*BesideSession{p.Left, p.Right} {
		if of == nil {
			continue
		}
		for _, phase := range of.Phases {
			if _, ok := at[phase.Name]; !ok {
				at[phase.Name] = len(p.Phases)
				p.Phases = append(p.Phases, BesidePhase{Name: phase.Name})
			}
			work := &BesideWork{phase, attemptsOf(phase)}
			if i == 0 {
				p.Phases[at[phase.Name]].Left = work
			} else {
				p.Phases[at[phase.Name]].Right = work
			}
		}
	}
}
