package state

import (
	"context"
	"errors"
	"time"
)

// HookKind is the format of a hook's calls and signatures.
type HookKind string

// Hook is a row of the hooks.
type Hook struct {
	Name      string
	Kind      HookKind
	Team      string
	Directory string
	Labels    map[string]string
	Map       map[string]string
	On        []string
	EachEvent bool
	By        string
	CreatedAt time.Time
}

// HookSecret is a secret of a hook.
type HookSecret struct {
	Secret string `json:"secret"`
	// Until ends it; zero: it is the newest.
	Until time.Time `json:"until,omitzero"`
}

// SecretHook is a hook with its secrets, the newest first.
type SecretHook struct {
	Hook
	Key     string
	Secrets []HookSecret
}

func (h *SecretHook) columns() columns {
	return columns{
		{"name", &h.Name},
		{"kind", &h.Kind},
		{"team", &h.Team},
		{"directory", &h.Directory},
		{"labels", document{&h.Labels}},
		{"places", document{&h.Map}},
		{"events", document{&h.On}},
		{"each_event", &h.EachEvent},
		{"key", &h.Key},
		{"secrets", document{&h.Secrets}},
		{"by_person", &h.By},
		{"created_at", moment{&h.CreatedAt}},
	}
}

// AddHook adds a hook. taken: there is one with this name, and nothing is added. The error is [ErrFull] if there are as
// many hooks as there may be.
func (d *DB) AddHook(ctx context.Context, h SecretHook, most int) (taken bool, err error) {
	err = d.Write(ctx, func(t *Tx) error {
		if err := t.lock("hooks"); err != nil {
			return err
		}
		var named, all int
		if err := t.row(`select count(case when name = $1 then 1 end), count(*) from hooks`, h.Name).Scan(&named, &all); err != nil {
			return err
		}
		if taken = named > 0; taken {
			return nil
		}
		if all >= most {
			return ErrFull
		}
		return t.insert("hooks", h.columns())
	})
	return taken, err
}

// Hooks lists the hooks by name.
func (d *DB) Hooks(ctx context.Context) ([]SecretHook, error) {
	return list(ctx, d, "hooks", (*SecretHook).columns, "order by name")
}

// Hook reads the hook with a name.
func (d *DB) Hook(ctx context.Context, name string) (SecretHook, error) {
	return one(ctx, d, "hooks", (*SecretHook).columns, "where name = $1", name)
}

// RemoveHook deletes the hook with a name and a key. The error is [ErrNotFound] if there is none.
func (d *DB) RemoveHook(ctx context.Context, name, key string) error {
	removed, err := d.exec(ctx, `delete from hooks where name = $1 and key = $2`, name, key)
	if err == nil && removed == 0 {
		err = ErrNotFound
	}
	return err
}

// RotateHook replaces the secrets of the hook with a name and a key by what rotate makes of them. The error is that of
// rotate, or [ErrNotFound] if there is no such hook.
func (d *DB) RotateHook(ctx context.Context, name, key string, rotate func([]HookSecret) ([]HookSecret, error)) error {
	return d.Write(ctx, func(t *Tx) error {
		var before []HookSecret
		if err := t.row(`select secrets from hooks where name = $1 and key = $2`+t.lockRows, name, key).Scan(document{&before}); err != nil {
			return err
		}
		after, err := rotate(before)
		if err != nil {
			return err
		}
		text, err := document{after}.Value()
		_, failed := t.exec(`update hooks set secrets = $2 where name = $1`, name, text)
		return errors.Join(err, failed)
	})
}
