package access

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/state"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

const (
	// HookSecretPrefix is what secrets of hooks begin with, as Standard Webhooks wants it.
	HookSecretPrefix = "whsec_"

	maxHooks = 200
	// maxSecrets bounds the secrets that a hook has at once.
	maxSecrets = 5
)

// HookKind is the format of a hook's calls and signatures.
type HookKind = state.HookKind

// The kinds of hooks.
const (
	// HookGeneric is called as Standard Webhooks says.
	HookGeneric HookKind = "generic"
	// HookGitHub is called by GitHub, with events of issues and their comments.
	HookGitHub HookKind = "github"
)

// Hook is an address at which another system starts sessions of one team with signed calls. It does
// not have the hook's secrets.
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
	Map map[string]string `json:"map,omitempty"`
	// On are the events of GitHub that start a session.
	On []string `json:"on,omitempty"`
	// EachEvent starts a session for each event of GitHub; false: one for each issue, and one for each
	// comment with a command.
	EachEvent bool `json:"each_event,omitempty"`
	// By is who added it.
	By        string    `json:"by"`
	CreatedAt time.Time `json:"created_at"`
}

// TeamName is the name of the hook's team, without a version.
func (h Hook) TeamName() string {
	name, _, _ := strings.Cut(h.Team, "@")
	return name
}

// Actor returns the actor of a hook's calls: an operator of its team.
func (h Hook) Actor() Actor {
	return Actor{Name: "hook " + h.Name, Via: ViaHook, Roles: Roles{h.TeamName(): {RoleOperator}}}
}

// ErrSignature means that a call has no valid signature of an existing hook. It has no details on purpose.
var ErrSignature = errors.New("the hook is unknown, or the signature or its time is wrong")

// HookError means that a hook does not exist, or that a new one is not valid.
type HookError struct {
	// Unknown: there is no such hook.
	Unknown bool
	text    string
}

// Error says what is wrong.
func (e *HookError) Error() string { return e.text }

// SecretHook is a hook with what only the server knows.
type SecretHook struct {
	Hook
	// Key is part of the ids of the hook's sessions. It stays when the secret changes, and is never shown.
	Key string
	// Secrets are those that are accepted, the newest first.
	Secrets []state.HookSecret
}

// Hooks are those of an installation, by name.
type Hooks struct {
	db    *state.DB
	audit *Audit
	now   func() time.Time
}

// NewHooks returns the hooks in a database.
func NewHooks(db *state.DB, audit *Audit, now func() time.Time) *Hooks { return &Hooks{db, audit, now} }

// Add adds a hook, for an admin of its team, and returns its secret, which is not shown again. What
// the hook is to do has been checked.
func (h *Hooks) Add(ctx context.Context, made Hook) (secret string, _ Hook, err error) {
	actor, _ := Of(ctx)
	made.By, made.CreatedAt = actor.Person(), h.now().UTC().Truncate(time.Microsecond)
	secret = newHookSecret()
	event := Event{Action: "hook.add", Team: made.TeamName(), Subject: made.Name, Detail: string(made.Kind)}
	err = h.audit.Change(ctx, Admin, event, func(ctx context.Context) error {
		taken, err := h.db.AddHook(ctx, state.SecretHook{Hook: state.Hook(made), Key: newHookSecret(), Secrets: []state.HookSecret{{Secret: secret}}}, maxHooks)
		switch {
		case errors.Is(err, state.ErrFull):
			return &HookError{text: fmt.Sprintf("the store has %d hooks already, and no more are allowed", maxHooks)}
		case taken:
			return &HookError{text: fmt.Sprintf("hook %s exists already; choose another name, or remove that one", made.Name)}
		}
		return err
	})
	if err != nil {
		return "", Hook{}, err
	}
	return secret, made, nil
}

// newHookSecret returns 256 random bits as Standard Webhooks writes them.
func newHookSecret() string {
	bits, _ := base64.RawURLEncoding.DecodeString(newSecret())
	return HookSecretPrefix + base64.StdEncoding.EncodeToString(bits)
}

// List returns the hooks of teams that the actor is an admin of, sorted by name.
func (h *Hooks) List(ctx context.Context) ([]Hook, error) {
	if err := checkAdmin(ctx); err != nil {
		return nil, err
	}
	all, err := h.db.Hooks(ctx)
	hooks := []Hook{}
	for _, found := range all {
		if one := Hook(found.Hook); Check(ctx, Admin, one.TeamName()) == nil {
			hooks = append(hooks, one)
		}
	}
	return hooks, err
}

// Remove removes a hook, at once, for an admin of its team.
func (h *Hooks) Remove(ctx context.Context, name string) (Hook, error) {
	return h.change(ctx, "hook.remove", name, func(ctx context.Context, key string) error {
		return h.db.RemoveHook(ctx, name, key)
	})
}

// Rotate gives a hook a new secret, which is not shown again, for an admin of its team. The one before
// is accepted for as long as overlap.
func (h *Hooks) Rotate(ctx context.Context, name string, overlap time.Duration) (secret string, until time.Time, _ Hook, err error) {
	secret, until = newHookSecret(), h.now().UTC().Add(overlap)
	changed, err := h.change(ctx, "hook.rotate", name, func(ctx context.Context, key string) error {
		return h.db.RotateHook(ctx, name, key, func(before []state.HookSecret) ([]state.HookSecret, error) {
			kept := []state.HookSecret{{Secret: secret}}
			for _, old := range before {
				if old.Until.IsZero() || old.Until.After(until) {
					old.Until = until
				}
				kept = append(kept, old)
			}
			if kept = h.accepted(kept); len(kept) > maxSecrets {
				return nil, &HookError{text: fmt.Sprintf("hook %s has %d secrets that are accepted already; wait until the oldest is not, or give a shorter overlap", name, maxSecrets)}
			}
			return kept, nil
		})
	})
	return secret, until, changed, err
}

// accepted returns the secrets that are accepted now.
func (h *Hooks) accepted(secrets []state.HookSecret) []state.HookSecret {
	now := h.now()
	return slices.DeleteFunc(secrets, func(s state.HookSecret) bool { return !s.Until.IsZero() && !now.Before(s.Until) })
}

// change changes a hook, for an admin of its team. A hook of another team looks like none. Between the check and the change
// the name may become that of another team's hook, which has another key.
func (h *Hooks) change(ctx context.Context, action, name string, change func(ctx context.Context, key string) error) (Hook, error) {
	stored, err := h.db.Hook(ctx, name)
	if err != nil && !errors.Is(err, state.ErrNotFound) {
		return Hook{}, err
	}
	found, team := Hook(stored.Hook), AllTeams
	if err == nil && Check(ctx, Admin, found.TeamName()) == nil {
		team = found.TeamName()
	}
	err = h.audit.Change(ctx, Admin, Event{Action: action, Team: team, Subject: name}, func(ctx context.Context) error {
		err := change(ctx, stored.Key)
		if errors.Is(err, state.ErrNotFound) {
			return &HookError{Unknown: true, text: fmt.Sprintf("hook %q not found; `maestro hook list` lists them", textfmt.Shorten(name, 80))}
		}
		return err
	})
	if err != nil {
		return Hook{}, err
	}
	return found, nil
}

// Find returns a hook with the secrets that are accepted; for an unknown name, one with a secret that
// nobody knows, so that checking a signature takes as long.
func (h *Hooks) Find(ctx context.Context, name string) (found SecretHook, err error) {
	stored, err := h.db.Hook(ctx, name)
	if errors.Is(err, state.ErrNotFound) {
		return SecretHook{Hook: Hook{Kind: HookGeneric}, Secrets: []state.HookSecret{{Secret: newHookSecret()}}}, nil
	}
	return SecretHook{Hook(stored.Hook), stored.Key, h.accepted(stored.Secrets)}, err
}
