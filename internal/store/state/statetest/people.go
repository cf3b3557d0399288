package statetest

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/store/state"
)

// invited is a person with an invitation that has the hash of the id.
func (b *bench) invited(t *testing.T, id string) (state.Person, state.Invitation) {
	t.Helper()
	inv := state.Invitation{Hash: "h" + id, Person: id, Purpose: state.ForAccount}
	p, taken, err := b.AddPerson(t.Context(), state.Person{
		ID: id, Name: "ann" + id, Roles: map[string][]state.Role{"*": {"viewer"}},
		Groups: []string{"leads"}, By: "bob",
	}, inv, time.Hour)
	require.NoError(t, err)
	require.False(t, taken)
	return p, inv
}

func (b *bench) signsIn(t *testing.T, person, proof, hash string) bool {
	t.Helper()
	err := b.AddBrowser(t.Context(), state.Browser{Hash: hash, PersonID: person, Via: state.ViaAccount}, proof, "", time.Hour,
		time.Hour, 100)
	if err != nil {
		require.ErrorIs(t, err, state.ErrNotFound)
	}
	return err == nil
}

// invitationsAreUsedOnce has many add one person, and many use one invitation at once.
func invitationsAreUsedOnce(t *testing.T, b *bench) {
	var added, used atomic.Int64
	atOnce(8, func(i int) {
		id := fmt.Sprint(i)
		_, taken, err := b.AddPerson(t.Context(), state.Person{ID: id, Name: "ann"},
			state.Invitation{Hash: "h" + id, Person: id, Purpose: state.ForAccount}, time.Hour)
		if assert.NoError(t, err) && !taken {
			added.Add(1)
		}
	})
	require.EqualValues(t, 1, added.Load())
	link := state.Link{Hash: "l", ID: "l", Name: "ANNX"}
	require.NoError(t, b.AddLink(t.Context(), link, time.Hour))
	require.NoError(t, b.AddBrowser(t.Context(), state.Browser{Hash: "l", Name: "ANNX", Via: "link"}, "", "", time.Hour, time.Hour,
		100))
	made, inv := b.invited(t, "x")
	_, err := b.UseLink(t.Context(), "l")
	require.ErrorIs(t, err, state.ErrNotFound, "the name is the account's now")
	_, err = b.UseBrowser(t.Context(), "l", time.Hour, time.Hour)
	require.ErrorIs(t, err, state.ErrNotFound)
	_, taken, err := b.AddPerson(t.Context(), state.Person{ID: "X", Name: "AnnX"},
		state.Invitation{Hash: "hX", Person: "X", Purpose: state.ForAccount}, time.Hour)
	require.NoError(t, err)
	require.True(t, taken, "capital letters make no other name")
	require.False(t, b.signsIn(t, "x", "", "c"), "without a password nobody signs in")
	found, p, err := b.Invitation(t.Context(), inv.Hash)
	require.NoError(t, err)
	require.Equal(t, inv, found)
	require.Equal(t, made, p)
	atOnce(8, func(i int) {
		if err := b.Join(t.Context(), inv, fmt.Sprint("p", i), state.Passkey{}); err == nil {
			used.Add(1)
		} else {
			assert.ErrorIs(t, err, state.ErrNotFound)
		}
	})
	require.EqualValues(t, 1, used.Load())
	joined, err := b.PersonNamed(t.Context(), "annx")
	require.NoError(t, err)
	require.Equal(t, "active", joined.State())
	require.True(t, b.signsIn(t, "x", joined.Password, "c"))
	require.False(t, b.signsIn(t, "x", "p", "d"))
	require.NoError(t, b.Invite(t.Context(), made, state.Invitation{Hash: "late", Person: "x", Purpose: state.ForDevice},
		time.Microsecond))
	b.clock.Pass(time.Microsecond)
	_, _, err = b.Invitation(t.Context(), "late")
	require.ErrorIs(t, err, state.ErrNotFound)
	require.ErrorIs(t, b.Join(t.Context(), state.Invitation{Hash: "late", Person: "x", Purpose: state.ForDevice}, "",
		state.Passkey{}), state.ErrNotFound)
}

// peopleEnd changes, recovers and revokes a person who is signed in.
func peopleEnd(t *testing.T, b *bench) {
	made, inv := b.invited(t, "1")
	require.NoError(t, b.Join(t.Context(), inv, "first", state.Passkey{ID: "k1", Credential: json.RawMessage(`{}`)}))
	require.True(t, b.signsIn(t, "1", "first", "c1"))
	require.True(t, b.signsIn(t, "1", "k1", "c2"))
	use := func(hash string) (state.Browser, error) { return b.UseBrowser(t.Context(), hash, time.Hour, time.Hour) }
	invited := func(hash string) error { _, _, err := b.Invitation(t.Context(), hash); return err }
	held, device := state.Invitation{Hash: "held", Person: "1", Purpose: state.ForRecovery},
		state.Invitation{Hash: "d", Person: "1", Purpose: state.ForDevice}
	require.NoError(t, b.Invite(t.Context(), made, held, time.Hour))
	require.NoError(t, b.Invite(t.Context(), made, device, time.Hour))
	until, err := b.SetRoles(t.Context(), made, map[string][]state.Role{"web": {"approver"}}, nil, "renewed")
	require.False(t, until.IsZero(), "%v", err)
	require.NoError(t, invited("renewed"), "it is as good as the link before")
	require.ErrorIs(t, b.Join(t.Context(), held, "stolen", state.Passkey{}), state.ErrNotFound, "it gives no later roles")
	require.NoError(t, invited("d"))
	_, err = b.SetRoles(t.Context(), made, made.Roles, nil, "late")
	require.ErrorIs(t, err, state.ErrNotFound, "the roles were others when the rights were checked")
	require.ErrorIs(t, b.Invite(t.Context(), made, held, time.Hour), state.ErrNotFound)
	made.Roles, made.Groups = map[string][]state.Role{"web": {"approver"}}, nil
	who, err := use("c1")
	require.NoError(t, err)
	require.Equal(t, "ann1", who.Name)
	require.Equal(t, map[string][]state.Role{"web": {"approver"}}, who.Roles)
	require.Empty(t, who.Groups)
	require.ErrorIs(t, b.SetPassword(t.Context(), "1", "other", "second", "c1"), state.ErrNotFound)
	require.NoError(t, b.SetPassword(t.Context(), "1", "first", "second", "c1"))
	require.ErrorIs(t, invited("d"), state.ErrNotFound, "the link for another device ends with the password")
	all, err := b.BrowsersOf(t.Context(), "1", time.Hour)
	require.NoError(t, err)
	require.Len(t, all, 1, "the other browser is signed out")

	recovery := state.Invitation{Hash: "r", Person: "1", Purpose: state.ForRecovery}
	require.NoError(t, b.Invite(t.Context(), made, recovery, time.Hour))
	require.NoError(t, b.Invite(t.Context(), made, device, time.Hour))
	_, err = use("c1")
	require.NoError(t, err, "until the link is used")
	require.NoError(t, b.Join(t.Context(), recovery, "third", state.Passkey{}))
	_, err = use("c1")
	require.ErrorIs(t, err, state.ErrNotFound)
	for _, proof := range []string{"first", "second", "k1"} {
		require.False(t, b.signsIn(t, "1", proof, "c"+proof))
	}
	require.ErrorIs(t, invited("d"), state.ErrNotFound, "other links end, too")

	require.True(t, b.signsIn(t, "1", "third", "c3"))
	revoked, err := b.RevokePerson(t.Context(), "1", "bob")
	require.NoError(t, err)
	require.Equal(t, "revoked", revoked.State())
	_, err = use("c3")
	require.ErrorIs(t, err, state.ErrNotFound)
	require.False(t, b.signsIn(t, "1", "third", "c4"))
	require.NoError(t, b.Invite(t.Context(), made, recovery, time.Hour))
	again, err := b.RevokePerson(t.Context(), "1", "carl")
	require.NoError(t, err)
	require.Equal(t, revoked, again)
	require.ErrorIs(t, b.Join(t.Context(), recovery, "fourth", state.Passkey{}), state.ErrNotFound,
		"a repetition ends the link made since")
	has, err := b.HasPeople(t.Context())
	require.NoError(t, err)
	require.False(t, has)
}

// passkeysCount uses a passkey several times at once, with counters that differ.
func passkeysCount(t *testing.T, b *bench) {
	_, inv := b.invited(t, "1")
	key := state.Passkey{ID: "k", Person: "1", Credential: json.RawMessage(`{"count":0}`)}
	require.NoError(t, b.Join(t.Context(), inv, "", key))
	var used atomic.Int64
	atOnce(6, func(i int) {
		if err := b.UsePasskey(t.Context(), key, json.RawMessage(fmt.Sprintf(`{"count":%d}`, i+1))); err == nil {
			used.Add(1)
		} else {
			assert.ErrorIs(t, err, state.ErrNotFound)
		}
	})
	require.EqualValues(t, 1, used.Load())
	b.invited(t, "2")
	require.ErrorIs(t, b.AddPasskey(t.Context(), state.Passkey{ID: "k", Person: "2", Credential: json.RawMessage(`{}`)}),
		state.ErrNotFound, "it is somebody else's")
	require.ErrorIs(t, b.RemovePasskey(t.Context(), "2", "k", ""), state.ErrNotFound, "of somebody else")
	require.True(t, b.signsIn(t, "1", "k", "kept"))
	require.True(t, b.signsIn(t, "1", "k", "other"))
	require.NoError(t, b.RemovePasskey(t.Context(), "1", "k", "kept"))
	left, err := b.BrowsersOf(t.Context(), "1", time.Hour)
	require.NoError(t, err)
	require.Len(t, left, 1, "who had the passkey is signed out")
	require.Equal(t, "kept", left[0].Hash)

	require.NoError(t, b.AddCeremony(t.Context(), "c", json.RawMessage(`{"a":1}`), time.Hour, 2))
	used.Store(0)
	atOnce(6, func(int) {
		if data, err := b.UseCeremony(t.Context(), "c"); err == nil {
			used.Add(1)
			assert.JSONEq(t, `{"a":1}`, string(data))
		}
	})
	require.EqualValues(t, 1, used.Load())
	for i := range 2 {
		require.NoError(t, b.AddCeremony(t.Context(), fmt.Sprint(i), json.RawMessage(`{}`), time.Duration(i+1)*time.Hour, 2))
	}
	require.NoError(t, b.AddCeremony(t.Context(), "2", json.RawMessage(`{}`), 3*time.Hour, 2), "who comes later gets in")
	_, err = b.UseCeremony(t.Context(), "0")
	require.ErrorIs(t, err, state.ErrNotFound, "the oldest has ended")
	for _, kept := range []string{"1", "2"} {
		_, err = b.UseCeremony(t.Context(), kept)
		require.NoError(t, err)
	}
}
