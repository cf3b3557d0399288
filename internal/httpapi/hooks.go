package httpapi

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/control"
)

// hooksPath is that of hooks; as tokensPath.
const hooksPath = "/hooks"

// hookInput says what hook to add.
type hookInput struct {
	Body struct {
		Name      string            `json:"name" minLength:"1" maxLength:"63" doc:"letters, digits, - and _"`
		Kind      access.HookKind   `json:"kind,omitempty" enum:"generic,github" doc:"who calls it; left out: generic"`
		Team      string            `json:"team" minLength:"1" maxLength:"200" doc:"the registered team whose sessions it starts: NAME, or NAME@DIGEST for a version"`
		Directory string            `json:"directory,omitempty" maxLength:"63" doc:"the directory of the server's host that sessions start from, by its name"`
		Labels    map[string]string `json:"labels,omitempty" doc:"labels of its sessions"`
		Map       map[string]string `json:"map,omitempty" doc:"kind generic: where the requirement, decision.NAME and label.KEY are, as JSON pointers; left out: the requirement at /requirement"`
		On        []string          `json:"on,omitempty" maxItems:"20" doc:"kind github: issues.labeled:LABEL, issues.opened or issue_comment.created:COMMAND; left out: the label maestro and the command /maestro"`
		EachEvent bool              `json:"each_event,omitempty" doc:"kind github: start a session for each event; left out: one for each issue, and one for each comment with the command"`
	}
}

// ofHook is the input of an operation on a hook.
type ofHook struct {
	Name string `path:"name" maxLength:"63" doc:"the hook's name"`
}

func hooks(api huma.API, h control.Hooks) {
	register(api, operation("GET "+hooksPath, "list-hooks", "List hooks, without their secrets; for admins"),
		func(ctx context.Context, _ *none) (control.HookList, error) { return h.List(ctx) })
	register(api, operation("POST "+hooksPath, "add-hook", "Add an address by which another system starts sessions of a team; its secret is in this answer only. An Idempotency-Key does not count"),
		func(ctx context.Context, in *hookInput) (control.AddedHook, error) {
			return h.Add(ctx, control.NewHook(in.Body))
		})
	register(api, operation("DELETE "+hooksPath+"/{name}", "remove-hook", "Remove a hook at once; its sessions continue"),
		func(ctx context.Context, in *ofHook) (access.Hook, error) { return h.Remove(ctx, in.Name) })
}
