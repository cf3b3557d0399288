package state

import (
	"context"
	"strings"
	"time"
)

// HookKind is the format of a hook's calls and signatures.
type HookKind string

// Hook is an address at which another system starts sessions of one team with signed calls.
type Hook struct {
	Name string   `json:"name"`
	Kind HookKind `json:"kind"`
	// Team is a registered team, NAME or NAME@DIGEST.
	Team string `json:"team"`
	// Directory is one of the server's, by name, from whose files sessions start; empty: from none.
	Directory string `json:"directory,omitempty"`
	// Labels are those of its sessions, by key.
	Labels map[string]string `json:"labels,omitempty"`
	// Map says where in a generic call the texts are, as JSON pointers: of requirement, of
	// decision.NAME and of label.KEY.
	Map map[string]string `json:"map,omitempty" sql:"places"`
	// On are the events of GitHub or GitLab that start a session.
	On []string `json:"on,omitempty" sql:"events"`
	// Users are the names of the users of GitLab whose commands start a session.
	Users []string `json:"users,omitempty"`
	// By is who added it.
	By        string    `json:"by" sql:"by_person"`
	CreatedAt time.Time `json:"created_at"`
}

// TeamName is the name of the hook's team, without a version.
func (h Hook) TeamName() string {
	name, _, _ := strings.Cut(h.Team, "@")
	return name
}

// SecretHook is a row of the hooks: a hook with the secret that only the server and the caller know.
type SecretHook struct {
	Hook
	Secret string
}

// AddHook adds a hook. taken: there is one with this name, and nothing is added.
func (d *DB) AddHook(ctx context.Context, h SecretHook) (taken bool, err error) {
	err = d.Write(ctx, func(t *Tx) error {
		added, err := t.insertNew("hooks", columnsOf(&h))
		taken = err == nil && !added
		return err
	})
	return taken, err
}

// Hooks lists the hooks by name.
func (d *DB) Hooks(ctx context.Context) ([]SecretHook, error) {
	return list[SecretHook](ctx, d, "hooks", "order by name")
}

// Hook reads the hook with a name.
func (d *DB) Hook(ctx context.Context, name string) (SecretHook, error) {
	return one[SecretHook](ctx, d, "hooks", "where name = $1", name)
}

// RemoveHook deletes the hook with a name and a secret. The error is [ErrNotFound] if there is none.
func (d *DB) RemoveHook(ctx context.Context, name, secret string) error {
	return d.Write(ctx, func(t *Tx) error { return t.execOne(`delete from hooks where name = $1 and secret = $2`, name, secret) })
}
