package access

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/storage"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

const (
	hooksKey = "access/hooks.json"

	// HookSecretPrefix is what secrets of hooks begin with, as Standard Webhooks wants it.
	HookSecretPrefix = "whsec_"

	maxHooks = 200
	// maxSecrets bounds the secrets that a hook has at once.
	maxSecrets = 5
)

// HookKind is the format of a hook's calls and signatures.
type HookKind string

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

// SecretHook is a hook as it is stored. A signature is computed from the secret itself, so that
// its hash is not enough.
type SecretHook struct {
	Hook
	// Key is part of the ids of the hook's sessions. It stays when the secret changes, and is never shown.
	Key string `json:"key"`
	// Secrets are those that sign, the newest first.
	Secrets []HookSecret `json:"secrets"`
}

// HookSecret is a secret of a hook.
type HookSecret struct {
	Secret string `json:"secret"`
	// Until ends it; zero: it is the newest.
	Until time.Time `json:"until,omitzero"`
}

// Hooks are those of a store, by name.
type Hooks struct {
	known *register[SecretHook]
	audit *Audit
	now   func() time.Time
}

// NewHooks returns the hooks in a store's storage.
func NewHooks(docs storage.Storage, audit *Audit, now func() time.Time) *Hooks {
	return &Hooks{newRegister[SecretHook](docs, hooksKey, now), audit, now}
}

// Add adds a hook, for an admin of its team, and returns its secret, which is not shown again. What
// the hook is to do has been checked.
func (h *Hooks) Add(ctx context.Context, made Hook) (secret string, _ Hook, err error) {
	actor, _ := Of(ctx)
	made.By, made.CreatedAt = actor.Person(), h.now().UTC()
	secret = newHookSecret()
	event := Event{Action: "hook.add", Team: made.TeamName(), Subject: made.Name, Detail: string(made.Kind)}
	err = h.audit.Change(ctx, Admin, event, func(context.Context) error {
		return h.known.change(func(all map[string]SecretHook) error {
			if _, taken := all[made.Name]; taken {
				return &HookError{text: fmt.Sprintf("hook %s exists already; choose another name, or remove that one", made.Name)}
			}
			if len(all) >= maxHooks {
				return &HookError{text: fmt.Sprintf("the store has %d hooks already, and no more are allowed", len(all))}
			}
			all[made.Name] = SecretHook{made, newHookSecret(), []HookSecret{{Secret: secret}}}
			return nil
		})
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
	all, err := h.known.all()
	if err != nil {
		return nil, err
	}
	hooks := []Hook{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if Check(ctx, Admin, all[name].TeamName()) == nil {
			hooks = append(hooks, all[name].Hook)
		}
	}
	return hooks, nil
}

// Remove removes a hook, at once, for an admin of its team.
func (h *Hooks) Remove(ctx context.Context, name string) (Hook, error) {
	return h.change(ctx, "hook.remove", name, func(all map[string]SecretHook) error {
		delete(all, name)
		return nil
	})
}

// Rotate gives a hook a new secret, which is not shown again, for an admin of its team. The one before
// is accepted for as long as overlap.
func (h *Hooks) Rotate(ctx context.Context, name string, overlap time.Duration) (secret string, until time.Time, _ Hook, err error) {
	secret, until = newHookSecret(), h.now().UTC().Add(overlap)
	changed, err := h.change(ctx, "hook.rotate", name, func(all map[string]SecretHook) error {
		rotated := all[name]
		kept := []HookSecret{{Secret: secret}}
		for _, old := range rotated.Secrets {
			if old.Until.IsZero() || old.Until.After(until) {
				old.Until = until
			}
			if old.isAccepted(h.now()) {
				kept = append(kept, old)
			}
		}
		if len(kept) > maxSecrets {
			return &HookError{text: fmt.Sprintf("hook %s has %d secrets that are accepted already; wait until the oldest is not, or give a shorter overlap", name, maxSecrets)}
		}
		rotated.Secrets = kept
		all[name] = rotated
		return nil
	})
	return secret, until, changed, err
}

// isAccepted reports whether the secret is accepted.
func (s HookSecret) isAccepted(now time.Time) bool { return s.Until.IsZero() || now.Before(s.Until) }

// change changes a hook, for an admin of its team. A hook of another team looks like none.
func (h *Hooks) change(ctx context.Context, action, name string, change func(map[string]SecretHook) error) (Hook, error) {
	all, _, err := h.known.load()
	if err != nil {
		return Hook{}, err
	}
	found, ok := all[name]
	team := AllTeams
	if ok && Check(ctx, Admin, found.TeamName()) == nil {
		team = found.TeamName()
	}
	err = h.audit.Change(ctx, Admin, Event{Action: action, Team: team, Subject: name}, func(context.Context) error {
		return h.known.change(func(all map[string]SecretHook) error {
			// The name may be that of another team's hook by now.
			if now, known := all[name]; !ok || !known || now.Key != found.Key {
				return &HookError{Unknown: true, text: fmt.Sprintf("hook %q not found; `maestro hook list` lists them", textfmt.Shorten(name, 80))}
			}
			return change(all)
		})
	})
	if err != nil {
		return Hook{}, err
	}
	return found.Hook, nil
}

// Find returns a hook with the secrets that are accepted; for an unknown name, one with a secret that
// nobody knows, so that checking a signature takes as long.
func (h *Hooks) Find(name string) (found SecretHook, err error) {
	found, ok, err := h.known.find(name)
	if err != nil {
		return found, err
	}
	if !ok {
		return SecretHook{Hook: Hook{Kind: HookGeneric}, Secrets: []HookSecret{{Secret: newHookSecret()}}}, nil
	}
	now := h.now()
	found.Secrets = slices.DeleteFunc(slices.Clone(found.Secrets), func(s HookSecret) bool { return !s.isAccepted(now) })
	return found, nil
}
