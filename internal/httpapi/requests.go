package httpapi

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// answerInput is an answer to a request. Who answers is who calls.
type answerInput struct {
	Session string `path:"session" maxLength:"200"`
	Request string `path:"request" maxLength:"300" doc:"the request's id"`
	Body    struct {
		Action session.Action `json:"action" enum:"retry,skip,supply,abort,approve,reject" doc:"one of the request's actions"`
		Note   string         `json:"note,omitempty" maxLength:"4096" doc:"the reason, for the agents that work next"`
		Files  spec.Digest    `json:"files,omitempty" doc:"the manifest of supplied files"`
	}
}

// openRequests is what a session waits for.
type openRequests struct {
	Session  string            `json:"session"`
	Requests []session.Request `json:"requests"`
	// Known is false where neither a worker nor the store says what the session waits for.
	Known bool `json:"known"`
}

func requests(api huma.API, r control.Requests) {
	register(api, operation("GET /requests", "list-requests", "List the open requests of all sessions, those that wait longest first"),
		func(ctx context.Context, _ *none) (control.Inbox, error) { return r.Inbox(ctx) })
	register(api, operation("GET /sessions/{session}/requests", "list-session-requests", "List the open requests of a session"),
		func(ctx context.Context, in *ofSession) (openRequests, error) {
			open, known, err := r.Open(ctx, in.Session)
			return openRequests{in.Session, append([]session.Request{}, open...), known}, err
		})
	register(api, operation("POST /sessions/{session}/requests/{request}/answer", "answer-request", "Answer an open request; the second of two answers is a conflict"),
		func(ctx context.Context, in *answerInput) (control.Answered, error) {
			return r.Answer(ctx, in.Session, session.Answer{Request: in.Request, Action: in.Body.Action, Note: in.Body.Note, Files: in.Body.Files})
		})
}
