package mcp

import (
	"context"
	"encoding/base64"
	"net/http"
	"regexp"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/safetext"
)

const (
	// maxName is how much of a client's name is kept, in characters.
	maxName = 40
	// sessionHeader is what a client sends back with each request over HTTP. The server keeps no sessions: it has the
	// client's name, which only the first request states.
	sessionHeader = "Mcp-Session-Id"
	sessionPrefix = "client."
)

// headerKey is the key of the header of the answer in the context of a request.
type headerKey struct{}

func withHeader(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), headerKey{}, w.Header())))
	})
}

// rememberName gives a client its name as the id of its session.
func rememberName(of context.Context) mcp.Middleware {
	answer, _ := of.Value(headerKey{}).(http.Header)
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			if in, ok := r.GetParams().(*mcp.InitializeParams); ok && answer != nil && in != nil && in.ClientInfo != nil {
				answer.Set(sessionHeader, sessionPrefix+base64.RawURLEncoding.EncodeToString([]byte(harmless(in.ClientInfo.Name))))
			}
			return next(ctx, method, r)
		}
	}
}

// named is the actor of a call, with the name that the client states. Nobody checks this name.
func named(actor access.Actor, r *mcp.CallToolRequest) access.Actor {
	name := ""
	if info := r.ClientInfo(); info != nil {
		name = info.Name
	} else if extra := r.GetExtra(); extra != nil {
		id, _ := strings.CutPrefix(extra.Header.Get(sessionHeader), sessionPrefix)
		text, _ := base64.RawURLEncoding.DecodeString(id)
		name = string(text)
	}
	if name = harmless(name); name != "" {
		actor.Program += "/" + name
	}
	return actor
}

// deceptive is what a name may not have: other characters than those of usual names, and the word between a program and its
// person.
var deceptive = regexp.MustCompile(`[^A-Za-z0-9 ._/…-]|(?i: for )`)

func harmless(name string) string {
	return strings.TrimSpace(deceptive.ReplaceAllString(safetext.Clip(name, maxName), "-"))
}
