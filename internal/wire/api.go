package wire

import (
	"net/http"
	"net/url"
	"strings"
)

// API is the API of a provider.
type API string

// The APIs.
const (
	Anthropic API = "anthropic"
	OpenAI    API = "openai"
	Gemini    API = "gemini"
)

// Format is one of the wire formats of paid calls.
type Format string

// The formats.
const (
	Messages        Format = "anthropic-messages"
	ChatCompletions Format = "openai-chat-completions"
	Responses       Format = "openai-responses"
	GenerateContent Format = "gemini-generate-content"
)

// Route is the destination of a request.
type Route struct {
	// Path is the path of the request below [API.Base].
	Path string
	// Format is the format of a paid call; empty: the request is free.
	Format Format
	// Model and Stream are the values in the path of a paid call of Gemini.
	Model  string
	Stream bool
}

// Route returns the route of a request. ok is false unless the request calls a model, counts
// tokens for one, or lists models. The path must be as received, not decoded.
func (a API) Route(method, path string) (Route, bool) {
	if !plain(path) {
		return Route{}, false
	}
	switch a {
	case Anthropic:
		return routeAnthropic(method, path)
	case OpenAI:
		return routeOpenAI(method, path)
	case Gemini:
		return routeGemini(method, path)
	}
	return Route{}, false
}

// plain reports whether all servers interpret the path in the same way: it has no escapes, empty
// segments or dots.
func plain(path string) bool {
	if !strings.HasPrefix(path, "/") || len(path) > 256 {
		return false
	}
	for segment := range strings.SplitSeq(path[1:], "/") {
		if segment == "" || segment == "." || segment == ".." {
			return false
		}
		for _, c := range []byte(segment) {
			known := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._:@", c) >= 0
			if !known {
				return false
			}
		}
	}
	return true
}

// read reports whether a request does not change anything.
func read(method string) bool { return method == http.MethodGet }

// below returns the last segment of a path if it is directly below a prefix.
func below(path, prefix string) (string, bool) {
	rest, ok := strings.CutPrefix(path, prefix)
	return rest, ok && !strings.Contains(rest, "/")
}

// Base returns the address to which the paths of routes are appended: the address from the worker
// file, or the public one if that is empty.
func (a API) Base(address string) string {
	address = strings.TrimRight(address, "/")
	switch {
	case a == Anthropic && address == "":
		return "https://api.anthropic.com"
	case a == Anthropic: // the address often ends in /v1, as for OpenAI
		return strings.TrimSuffix(address, "/v1")
	case a == OpenAI && address == "":
		return "https://api.openai.com/v1"
	case a == Gemini && address == "":
		return "https://generativelanguage.googleapis.com"
	}
	return address
}

// Host returns the host of the address; empty: the address is not valid.
func (a API) Host(address string) string {
	u, err := url.Parse(a.Base(address))
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// ClientBase returns the base address that a program needs for an API that is served at an
// address.
func (a API) ClientBase(address string) string {
	if a == OpenAI {
		return address + "/v1"
	}
	return address
}

// PublicOpenAI reports whether an address of OpenAI's API is OpenAI's own. Its newer models
// accept only the newer name of the answer's bound, which compatible servers may not support.
func PublicOpenAI(address string) bool {
	u, err := url.Parse(address)
	return address == "" || err == nil && strings.HasSuffix(u.Hostname(), ".openai.com")
}

// Authorize adds the key to the header of a request.
func (a API) Authorize(header http.Header, key string) {
	switch {
	case key == "":
	case a == Anthropic:
		header.Set("X-Api-Key", key)
	case a == Gemini:
		header.Set("X-Goog-Api-Key", key)
	default:
		header.Set("Authorization", "Bearer "+key)
	}
}

// Credential returns the key of a request, in the place of any of the APIs.
func Credential(r *http.Request) string {
	for _, name := range []string{"X-Api-Key", "X-Goog-Api-Key"} {
		if key := r.Header.Get(name); key != "" {
			return key
		}
	}
	if scheme, key, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "bearer") {
		return strings.TrimSpace(key)
	}
	return r.URL.Query().Get("key")
}
