package mcp

import (
	"context"
	"errors"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
)

// The limits of a wait.
const (
	maxWait   = 5 * time.Minute
	usualWait = time.Minute
	lookPause = time.Second
)

// operation is a tool that runs an operation for an actor.
func operation(of httpapi.Tool, actor access.Actor) (*mcp.Tool, mcp.ToolHandler) {
	tool := &mcp.Tool{
		Name: of.Name, Description: of.Doc, InputSchema: of.Schema, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: of.OnlyReads},
	}
	return tool, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		doc, err := of.Call(access.With(ctx, named(actor, r)), r.Params.Arguments)
		var result mcp.CallToolResult
		if err != nil {
			result.SetError(err)
			return &result, nil
		}
		result.StructuredContent, result.Content = doc, []mcp.Content{&mcp.TextContent{Text: string(doc)}}
		return &result, nil
	}
}

type waitInput struct {
	Session string `json:"session" jsonschema:"the session's id"`
	Seconds int    `json:"seconds,omitempty" jsonschema:"how long to wait at most, 1 to 300; 60 if left out"`
}

// waited is the state of a session after a wait.
type waited struct {
	sessionstatus.Session
	// Ready: the session has ended, or waits for a person. Otherwise the time was over.
	Ready bool `json:"ready"`
}

// addWait adds the tool that waits, which is no operation of the API.
func addWait(server *mcp.Server, s control.Sessions, actor access.Actor) {
	tool := &mcp.Tool{
		Name:        "wait_session",
		Description: "Wait until a session has ended or waits for a person, and read its status. Call it again while ready is false.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true},
	}
	mcp.AddTool(server, tool, func(ctx context.Context, r *mcp.CallToolRequest, in waitInput) (*mcp.CallToolResult, any, error) {
		limit := min(time.Duration(in.Seconds)*time.Second, maxWait)
		if in.Seconds <= 0 {
			limit = usualWait
		}
		doc, err := wait(access.With(ctx, named(actor, r)), s, in.Session, limit)
		if err != nil {
			return nil, nil, errors.New(safetext.Block(err.Error()))
		}
		return nil, doc, nil
	})
}

// wait looks at a session until it is ready or the time is over.
func wait(ctx context.Context, s control.Sessions, sessionID string, limit time.Duration) (waited, error) {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(lookPause)
	defer ticker.Stop()
	for {
		v, err := s.Read(ctx, sessionID)
		if err != nil {
			return waited{}, err
		}
		if ready(v.Status) || bounded.Err() != nil {
			v, err = s.Status(ctx, sessionID)
			return waited{v, ready(v.Status)}, err
		}
		select {
		case <-bounded.Done():
		case <-ticker.C:
		}
	}
}

// ready reports whether a session has ended, or waits for a person.
func ready(v session.Status) bool {
	for _, h := range v.Help {
		if !h.Kind.NoticeOnly() {
			return true
		}
	}
	return v.Status.Closed()
}
