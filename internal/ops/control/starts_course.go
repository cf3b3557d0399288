package control

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store"
)

// PhaseSelection selects the phases of a team that run: all, those of Only, or those between From
// and Until.
type PhaseSelection struct {
	Only []string `json:"only,omitempty" doc:"run only these phases"`
	// From runs with all phases that depend on it, Until with all phases that it depends on.
	From  string `json:"from,omitempty" doc:"run this phase and all that depend on it"`
	Until string `json:"until,omitempty" doc:"run this phase and all that it depends on"`
	// PauseAfter names phases after which the session pauses until it is resumed.
	PauseAfter []string `json:"pause_after,omitempty" doc:"pause after these phases until the session is resumed"`
}

// Check rejects a selection of phases that a team does not have.
func (p PhaseSelection) Check(t spec.Team) error {
	_, err := p.course(t)
	return err
}

// given reports whether phases are selected.
func (p PhaseSelection) given() bool { return len(p.Only) > 0 || p.From != "" || p.Until != "" }

// course is the part of a team's work that is selected.
func (p PhaseSelection) course(t spec.Team) (session.Course, error) {
	if len(p.Only) > 0 && (p.From != "" || p.Until != "") {
		return session.Course{}, invalidf("only", "excludes from and until; leave one out")
	}
	for _, named := range []struct {
		field  string
		phases []string
	}{{"only", p.Only}, {"from", []string{p.From}}, {"until", []string{p.Until}}, {"pause_after", p.PauseAfter}} {
		for _, phase := range named.phases {
			if err := CheckPhase(t, named.field, phase); phase != "" && err != nil {
				return session.Course{}, err
			}
		}
	}
	c := session.Course{Only: slices.Clone(p.Only), PauseAfter: p.PauseAfter}
	if p.From != "" || p.Until != "" {
		if c.Only = t.Between(p.From, p.Until); len(c.Only) == 0 {
			return c, invalidf("from", "no phase lies between %s and %s; choose other phases", p.From, p.Until)
		}
	}
	return c, nil
}

// supply adds files that are used as the work of phases to a course.
func (s Starts) supply(ctx context.Context, t spec.Team, course *session.Course, files map[string]spec.Digest) error {
	selects := len(course.Only) > 0
	for _, phase := range slices.Sorted(maps.Keys(files)) {
		if err := CheckPhase(t, "supplied", phase); err != nil {
			return err
		}
		if err := s.checkFiles(ctx, t.Name, "supplied", files[phase]); err != nil {
			return err
		}
		course.Supplied = append(course.Supplied, session.SuppliedWork{Phase: phase, Files: files[phase]})
		course.Only = slices.DeleteFunc(course.Only, func(p string) bool { return p == phase })
	}
	if selects && len(course.Only) == 0 { // an empty selection would be all
		return invalidf("only", "every selected phase is supplied, so nothing is left to run; select phases that depend on them")
	}
	return problems(t, course)
}

// edit adds changes of a session's files to a course. Only files that differ from the session's
// tree are used, so the input may be a copy of all its files.
func (s Starts) edit(ctx context.Context, sessionID string, t spec.Team, tree spec.Digest, course *session.Course,
	edits map[string]spec.Digest,
) error {
	for _, phase := range slices.Sorted(maps.Keys(edits)) {
		if err := CheckPhase(t, "edits", phase); err != nil {
			return err
		}
		if err := s.checkFiles(ctx, s.teamName(ctx, sessionID), "edits", edits[phase]); err != nil {
			return err
		}
		files, err := changedFiles(ctx, s.Store, tree, edits[phase])
		if err != nil {
			return err
		}
		course.Supplied = append(course.Supplied, session.SuppliedWork{Phase: phase, Files: files, Edit: true})
	}
	return problems(t, course)
}

func problems(t spec.Team, course *session.Course) error {
	if faults := course.Problems(t); len(faults) > 0 {
		return invalidf("", "%s", strings.Join(faults, "\n  "))
	}
	return nil
}

// changedFiles is the manifest of the files that differ from a tree's.
func changedFiles(ctx context.Context, s *store.Store, tree, files spec.Digest) (spec.Digest, error) {
	before, err := s.Content.Tree(ctx, tree)
	if err != nil {
		return "", err
	}
	edited, err := s.Content.Manifest(ctx, files)
	if err != nil {
		return "", err
	}
	for p, e := range edited {
		old, had, err := before.Get(ctx, p)
		if err != nil {
			return "", err
		}
		if had && old == e {
			delete(edited, p)
		}
	}
	if len(edited) == 0 {
		return "", invalidf("edits", "no file differs from the session's; edit a file first")
	}
	return s.Content.PutManifest(ctx, edited)
}
