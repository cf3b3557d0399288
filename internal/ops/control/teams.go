package control

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/config"
	"github.com/maestro-hive/maestro/internal/store/state"
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

// MarshalJSON writes a loaded team as the text of a team file, unless the input names a registered one.
func (t TeamInput) MarshalJSON() ([]byte, error) {
	type written TeamInput
	if t.Loaded != nil && t.Name == "" {
		text, err := json.Marshal(t.Loaded.Written())
		if err != nil {
			return nil, err
		}
		t.File = string(text)
	}
	return json.Marshal(written(t))
}

// Crew is a registered team or that of a file, as files have it, and the digest of its version.
func (t Teams) Crew(ctx context.Context, in TeamInput) (spec.Team, spec.Digest, error) {
	crew, err := Starts(t).team(ctx, in)
	if err == nil {
		err = access.Check(ctx, access.View, crew.Name)
	}
	if err != nil {
		return spec.Team{}, "", err
	}
	data, err := json.Marshal(crew)
	return crew.Written(), spec.DigestOf(data), err
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
	state.TeamVersion
	// Newest: sessions that name no version get this one.
	Newest bool `json:"newest"`
	// File is the team file as it was written. Instructions that it had in other files are
	// in Team only.
	File string    `json:"file"`
	Team spec.Team `json:"team"`
	// Versions are all stored versions, newest first.
	Versions []state.TeamVersion `json:"versions"`
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
	if in.Name != "" { // the name is checked before the text, so a denied caller gets no error about the text
		err := invalid("name", spec.CheckName(in.Name))
		if err == nil {
			err = t.Audit.Check(ctx, access.Admin, access.Event{Action: "team.register", Team: in.Name})
		}
		if err != nil {
			return doc, err
		}
	}
	crew := in.Team
	if crew == nil {
		parsed, err := config.ParseTeam("team file", []byte(in.Text))
		if err != nil {
			return doc, invalid("file", err)
		}
		crew = &parsed
	}
	doc.Name = crew.Name
	if in.Name != "" && in.Name != crew.Name {
		return doc, invalidf("name", "the file is of team %s, not %s", crew.Name, in.Name)
	}
	data, err := json.Marshal(crew)
	if err != nil {
		return doc, fmt.Errorf("encode the team: %w", err)
	}
	doc.Digest = spec.DigestOf(data)
	version := state.TeamVersion{Team: crew.Name, Digest: doc.Digest, Text: spec.DigestOf([]byte(in.Text)), By: actor(ctx)}
	event := access.Event{Action: "team.register", Team: crew.Name, Subject: doc.Digest.Short()}
	err = t.Audit.Change(ctx, access.Admin, event, func(ctx context.Context) error {
		for _, blob := range [][]byte{data, []byte(in.Text)} {
			if _, err := t.Store.Content.PutBlob(ctx, blob); err != nil {
				return err
			}
		}
		doc.Changed, doc.Versions, err = t.Store.State.AddTeamVersion(ctx, version)
		return err
	})
	return doc, err
}

// List lists the registered teams that the caller may see.
func (t Teams) List(ctx context.Context) (TeamList, error) {
	doc := TeamList{Teams: []ListedTeam{}}
	if err := access.Check(ctx, access.View, access.NoTeam); err != nil {
		return doc, err
	}
	all, err := t.Store.State.TeamVersions(ctx, "")
	may := access.Visible(ctx)
	for i, v := range all {
		if !may(v.Team) {
			continue
		}
		if i > 0 && all[i-1].Team == v.Team {
			doc.Teams[len(doc.Teams)-1].Versions++
			continue
		}
		listed := ListedTeam{Name: v.Team, Digest: v.Digest, Phases: []string{}, By: v.By, At: v.At, Versions: 1}
		crew, err := t.Store.Team(ctx, v.Digest)
		if err != nil {
			listed.Damage = err.Error()
		}
		listed.Description, listed.Phases = crew.Description, append(listed.Phases, crew.PhaseNames()...)
		doc.Teams = append(doc.Teams, listed)
	}
	return doc, err
}

// Read reads a version of a registered team: the one whose digest begins so, or the newest.
func (t Teams) Read(ctx context.Context, name, digest string) (doc RegisteredTeam, err error) {
	versions, version, crew, err := t.version(ctx, name, digest)
	if err != nil {
		return doc, err
	}
	text, err := t.Store.Content.Blob(ctx, version.Text)
	return RegisteredTeam{
		Name: name, TeamVersion: version, Newest: version == versions[0], File: string(text), Team: crew.Written(),
		Versions: versions,
	}, err
}

// Remove removes a registered team, with all its versions. Sessions keep their team.
func (t Teams) Remove(ctx context.Context, name string) (TeamChange, error) {
	doc := TeamChange{Name: name}
	if err := invalid("name", spec.CheckName(name)); err != nil {
		return doc, err
	}
	err := t.Audit.Change(ctx, access.Admin, access.Event{Action: "team.remove", Team: name}, func(ctx context.Context) error {
		versions, err := t.versions(ctx, name)
		if err == nil {
			doc.Digest, doc.Changed = versions[0].Digest, true
			err = t.Store.State.RemoveTeam(ctx, name)
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
func (t Teams) version(ctx context.Context, name, digest string) (all []state.TeamVersion, v state.TeamVersion, crew spec.Team,
	err error,
) {
	all, err = t.versions(ctx, name)
	if err == nil {
		v, err = versionOf(all, digest)
	}
	if err == nil {
		crew, err = t.Store.Team(ctx, v.Digest)
	}
	return all, v, crew, err
}

// versions are those of a registered team that the caller may see, the newest first.
func (t Teams) versions(ctx context.Context, name string) ([]state.TeamVersion, error) {
	err := invalid("name", spec.CheckName(name))
	if err == nil {
		err = access.Check(ctx, access.View, name)
	}
	if err != nil {
		return nil, err
	}
	versions, err := t.Store.State.TeamVersions(ctx, name)
	if err != nil || len(versions) > 0 {
		return versions, err
	}
	all, err := t.Store.State.TeamVersions(ctx, "")
	if err != nil {
		return nil, err
	}
	may := access.Visible(ctx)
	var known []string
	for _, v := range all {
		if may(v.Team) && !slices.Contains(known, v.Team) {
			known = append(known, v.Team)
		}
	}
	return nil, notFoundf("team %q is not registered in the store in %s%s", name, t.Store.Dir(),
		textfmt.Suggest(name, known, "it has"))
}

// versionOf is the version whose digest begins so; the newest, if it is empty.
func versionOf(all []state.TeamVersion, digest string) (state.TeamVersion, error) {
	if digest == "" {
		return all[0], nil
	}
	var found []state.TeamVersion
	for _, v := range all {
		if strings.HasPrefix(string(v.Digest), strings.ToLower(digest)) {
			found = append(found, v)
		}
	}
	switch len(found) {
	case 0:
		return state.TeamVersion{}, notFoundf("team %s has no version %s; the newest is %s", all[0].Team, textfmt.Shorten(digest, 80),
			all[0].Digest.Short())
	case 1:
		return found[0], nil
	}
	return state.TeamVersion{}, invalidf("version", "%d versions of team %s begin with %s; use more of the digest", len(found),
		all[0].Team, digest)
}
