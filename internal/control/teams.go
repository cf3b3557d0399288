package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/cas"
	"github.com/maestro-hive/maestro/internal/config"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// Teams are the teams that are registered with the store: sessions can be started by their names.
type Teams struct{ *Base }

// Registration is a team to register with the store.
type Registration struct {
	// Name is the required name of the team; empty: any.
	Name string
	// Text is that of the team file.
	Text string
	// Team is the parsed team; nil: the text is parsed, without files beside it.
	Team *spec.Team
}

// TeamList is the registered teams, sorted by name.
type TeamList struct {
	Teams []ListedTeam `json:"teams"`
}

// ListedTeam is the newest version of a registered team.
type ListedTeam struct {
	Name        string      `json:"name"`
	Digest      spec.Digest `json:"digest"`
	Description string      `json:"description"`
	Phases      []string    `json:"phases"`
	By          string      `json:"by"`
	At          time.Time   `json:"at"`
	Versions    int         `json:"versions"`
	// Damage describes data that cannot be read; empty: none.
	Damage string `json:"damage,omitempty"`
}

// RegisteredTeam is a version of a registered team.
type RegisteredTeam struct {
	Name string `json:"name"`
	session.TeamVersion
	// Newest: sessions that name no version get this one.
	Newest bool `json:"newest"`
	// File is the team file as it was written. Instructions that it had in other files are
	// in Team only.
	File string    `json:"file"`
	Team spec.Team `json:"team"`
	// Versions are all stored versions, newest first.
	Versions []session.TeamVersion `json:"versions"`
}

// TeamChange is the document of a change of the registered teams.
type TeamChange struct {
	Name   string      `json:"name"`
	Digest spec.Digest `json:"digest"`
	// Versions is the number of stored versions.
	Versions int `json:"versions"`
	// Changed is false if this version was the newest already.
	Changed bool `json:"changed"`
}

// Register registers a team with the store: a version of it, which is then the newest. Its name is
// the digest of its content; the same content again changes nothing.
func (t Teams) Register(ctx context.Context, in Registration) (doc TeamChange, err error) {
	s, err := t.stored()
	if err != nil {
		return doc, err
	}
	if in.Name != "" { // the name is checked before the text, so a denied caller gets no error about the text
		if err := t.mayRegister(ctx, in.Name); err != nil {
			return doc, err
		}
	}
	crew, err := in.team()
	if err != nil {
		return doc, err
	}
	doc.Name = crew.Name
	if in.Name != "" && in.Name != crew.Name {
		return doc, invalidf("name", "the file is of team %s, not %s", crew.Name, in.Name)
	}
	data, err := json.Marshal(crew)
	if err != nil {
		return doc, fmt.Errorf("encode the team: %w", err)
	}
	doc.Digest = cas.DigestOf(data)
	version := session.TeamVersion{Digest: doc.Digest, Text: cas.DigestOf([]byte(in.Text)), By: actor(ctx), At: t.Now().UTC()}
	event := access.Event{Action: "team.register", Team: crew.Name, Subject: doc.Digest.Short()}
	err = t.Audit.Change(ctx, access.Admin, event, func(ctx context.Context) error {
		for _, blob := range [][]byte{data, []byte(in.Text)} {
			if _, err := s.Content.PutBlob(ctx, blob); err != nil {
				return err
			}
		}
		r, err := s.UpdateTeam(crew.Name, func(r *session.TeamRecord) bool {
			doc.Changed = r.Register(version)
			return doc.Changed
		})
		doc.Versions = len(r.Versions)
		return err
	})
	return doc, err
}

// mayRegister returns an error, and records it, if the caller may not register the team.
func (t Teams) mayRegister(ctx context.Context, name string) error {
	if err := checkTeamName(name); err != nil {
		return err
	}
	return t.Audit.Check(ctx, access.Admin, access.Event{Action: "team.register", Team: name})
}

func (in Registration) team() (spec.Team, error) {
	if in.Team != nil {
		return *in.Team, nil
	}
	crew, err := config.ParseTeam("team file", []byte(in.Text))
	if err != nil {
		return crew, &Error{Kind: Invalid, Field: "file", err: err}
	}
	return crew, nil
}

// List lists the registered teams that the caller may see.
func (t Teams) List(ctx context.Context) (TeamList, error) {
	doc := TeamList{Teams: []ListedTeam{}}
	s, err := t.stored()
	if err == nil {
		err = access.Check(ctx, access.View, access.NoTeam)
	}
	if err != nil {
		return doc, err
	}
	names, err := t.names(ctx, s)
	if err != nil {
		return doc, err
	}
	for _, name := range names {
		listed, err := listTeam(ctx, s, name)
		if errors.Is(err, session.ErrNotFound) && listed.Versions == 0 { // removed meanwhile
			continue
		}
		if err != nil {
			listed.Damage = err.Error()
		}
		doc.Teams = append(doc.Teams, listed)
	}
	return doc, nil
}

// names are those of the registered teams that the caller may view.
func (t Teams) names(ctx context.Context, s *store.Store) ([]string, error) {
	names, err := s.RegisteredTeams(ctx)
	may := access.Visible(ctx)
	return slices.DeleteFunc(names, func(name string) bool { return !may(name) }), err
}

func listTeam(ctx context.Context, s *store.Store, name string) (ListedTeam, error) {
	listed := ListedTeam{Name: name, Phases: []string{}}
	r, err := s.RegisteredTeam(name)
	if err != nil {
		return listed, err
	}
	newest := r.Versions[0]
	listed.Digest, listed.By, listed.At, listed.Versions = newest.Digest, newest.By, newest.At, len(r.Versions)
	crew, err := teamOf(ctx, s, newest.Digest)
	listed.Description, listed.Phases = crew.Description, append(listed.Phases, crew.PhaseNames()...)
	return listed, err
}

// Read reads a version of a registered team: the one whose digest begins so, or the newest.
func (t Teams) Read(ctx context.Context, name, digest string) (doc RegisteredTeam, err error) {
	r, version, crew, err := t.version(ctx, name, digest)
	if err != nil {
		return doc, err
	}
	text, err := t.Store.Content.Blob(ctx, version.Text)
	return RegisteredTeam{
		Name: name, TeamVersion: version, Newest: version.Digest == r.Versions[0].Digest, File: string(text), Team: crew, Versions: r.Versions,
	}, err
}

// Remove removes a registered team, with all its versions. Sessions keep their team.
func (t Teams) Remove(ctx context.Context, name string) (TeamChange, error) {
	doc := TeamChange{Name: name}
	if err := checkTeamName(name); err != nil {
		return doc, err
	}
	err := t.Audit.Change(ctx, access.Admin, access.Event{Action: "team.remove", Team: name}, func(ctx context.Context) error {
		s, r, err := t.record(ctx, name)
		if err == nil {
			doc.Digest, doc.Changed = r.Versions[0].Digest, true
			err = s.RemoveTeam(name)
		}
		return err
	})
	return doc, err
}

// Named is the version of a registered team that a reference names: NAME, or NAME@DIGEST with the
// beginning of a digest.
func (t Teams) Named(ctx context.Context, reference string) (spec.Team, error) {
	name, digest, _ := strings.Cut(reference, "@")
	_, _, crew, err := t.version(ctx, name, digest)
	return crew, err
}

// version reads the version of a registered team whose digest begins so, or the newest.
func (t Teams) version(ctx context.Context, name, digest string) (r session.TeamRecord, v session.TeamVersion, crew spec.Team, err error) {
	s, r, err := t.record(ctx, name)
	if err == nil {
		v, err = versionOf(r, digest)
	}
	if err == nil {
		crew, err = teamOf(ctx, s, v.Digest)
	}
	return r, v, crew, err
}

func checkTeamName(name string) error {
	if err := spec.CheckName(name); err != nil {
		return &Error{Kind: Invalid, Field: "name", err: err}
	}
	return nil
}

// record is that of a registered team that the caller may see.
func (t Teams) record(ctx context.Context, name string) (*store.Store, session.TeamRecord, error) {
	s, err := t.stored()
	if err == nil {
		err = checkTeamName(name)
	}
	if err == nil {
		err = access.Check(ctx, access.View, name)
	}
	if err != nil {
		return nil, session.TeamRecord{}, err
	}
	r, err := s.RegisteredTeam(name)
	if errors.Is(err, session.ErrNotFound) {
		known, err := t.names(ctx, s)
		if err != nil {
			return nil, r, err
		}
		return nil, r, notFoundf("team %q is not registered in the store in %s%s", name, s.Dir(), textfmt.Suggest(name, known, "it has"))
	}
	return s, r, err
}

// versionOf is the version whose digest begins so; the newest, if it is empty.
func versionOf(r session.TeamRecord, digest string) (session.TeamVersion, error) {
	if digest == "" {
		return r.Versions[0], nil
	}
	var found []session.TeamVersion
	for _, v := range r.Versions {
		if strings.HasPrefix(string(v.Digest), strings.ToLower(digest)) {
			found = append(found, v)
		}
	}
	switch len(found) {
	case 0:
		return session.TeamVersion{}, notFoundf("team %s has no version %s; the newest is %s", r.Name, textfmt.Shorten(digest, 80), r.Versions[0].Digest.Short())
	case 1:
		return found[0], nil
	}
	return session.TeamVersion{}, invalidf("version", "%d versions of team %s begin with %s; use more of the digest", len(found), r.Name, digest)
}

// teamOf reads a team from the store.
func teamOf(ctx context.Context, s *store.Store, digest spec.Digest) (crew spec.Team, err error) {
	data, err := s.Content.Blob(ctx, digest)
	if err == nil {
		err = json.Unmarshal(data, &crew)
	}
	return crew, err
}
