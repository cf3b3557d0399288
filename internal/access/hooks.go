package access

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/store/state"
)

const (
	// HookSecretPrefix is what secrets of hooks begin with, as Standard Webhooks wants it.
	HookSecretPrefix = "whsec_"
)

// HookKind is the format of a hook's calls and signatures.
type HookKind = state.HookKind

// The kinds of hooks.
const (
	// HookGeneric is called as Standard Webhooks says.
	HookGeneric HookKind = "generic"
	// HookGitHub is called by GitHub, with events of issues and pull requests.
	HookGitHub HookKind = "github"
	// HookGitLab is called by GitLab, with events of issues and merge requests.
	HookGitLab HookKind = "gitlab"
)

// Hook is an address at which another system starts sessions of one team with signed calls. It does
// not have the hook's secret.
type Hook = state.Hook

// SecretHook is a hook with its secret.
type SecretHook = state.SecretHook

// HookActor returns the actor of a hook's calls: an operator of its team.
func HookActor(h Hook) Actor {
	return Actor{Name: "hook " + h.Name, Via: ViaHook, Roles: Roles{h.TeamName(): {RoleOperator}}}
}

// ErrSignature means that a call has no valid signature of an existing hook. It has no details on purpose.
var ErrSignature = errors.New("the hook is unknown, or the signature or its time is wrong")

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
		taken, err := h.db.AddHook(ctx, SecretHook{Hook: made, Secret: secret})
		if taken {
			return &NameError{text: fmt.Sprintf("hook %s exists already; choose another name, or remove that one", made.Name)}
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
		if Check(ctx, Admin, found.TeamName()) == nil {
			hooks = append(hooks, found.Hook)
		}
	}
	return hooks, err
}

// Remove removes a hook, at once, for an admin of its team. A hook of another team looks like none. Between the check and the
// removal the name may become that of another team's hook, which has another secret.
func (h *Hooks) Remove(ctx context.Context, name string) (Hook, error) {
	found, err := h.db.Hook(ctx, name)
	if err != nil && !errors.Is(err, state.ErrNotFound) {
		return Hook{}, err
	}
	team := AllTeams
	if err == nil && Check(ctx, Admin, found.TeamName()) == nil {
		team = found.TeamName()
	}
	err = h.audit.Change(ctx, Admin, Event{Action: "hook.remove", Team: team, Subject: name}, func(ctx context.Context) error {
		err := h.db.RemoveHook(ctx, name, found.Secret)
		if errors.Is(err, state.ErrNotFound) {
			return &NameError{Unknown: true, text: fmt.Sprintf("hook %q not found; `maestro hook list` lists them",
				textfmt.Shorten(name, 80))}
		}
		return err
	})
	return found.Hook, err
}

// Find returns a hook with its secret; for an unknown name, one with a secret that
// nobody knows, so that checking a signature takes as long.
func (h *Hooks) Find(ctx context.Context, name string) (SecretHook, error) {
	found, err := h.db.Hook(ctx, name)
	if errors.Is(err, state.ErrNotFound) {
		return SecretHook{Hook: Hook{Kind: HookGeneric}, Secret: newHookSecret()}, nil
	}
	return found, err
}
