package wire

import (
	"net/http"
	"net/url"
	"strings"
)

// API is what a provider serves below one address.
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

// Route is where a request leads.
type Route struct {
	// Path is that of the request below [API.Base].
	Path string
	// Format is that of a paid call; empty: the request is free.
	Format Format
	// Model and Stream are what the path says of a paid call of Gemini.
	Model  string
	Stream bool
}

// Route returns where a request for a path leads. Everything else than calls of models, counts
// of their tokens, and lists of models is refused. The path must be as it came, not decoded.
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

// plain reports whether every server understands the path in the same way: without escapes,
// empty segments and dots.
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

// read reports whether a request only reads.
func read(method string) bool { return method == http.MethodGet }

// below returns the segment of a path below a prefix, if it is one.
func below(path, prefix string) (string, bool) {
	rest, ok := strings.CutPrefix(path, prefix)
	return rest, ok && !strings.Contains(rest, "/")
}

// Base is the address that routes are below: that of the provider's worker file entry, or the
// public one where that is empty.
func (a API) Base(address string) string {
	address = strings.TrimRight(address, "/")
	switch {
	case a == Anthropic && address == "":
		return "https://api.anthropic.com"
	case a == Anthropic: // many write the address as compatible servers of OpenAI want it
		return strings.TrimSuffix(address, "/v1")
	case a == OpenAI && address == "":
		return "https://api.openai.com/v1"
	case a == Gemini && address == "":
		return "https://generativelanguage.googleapis.com"
	}
	return address
}

// Host is the host of the address; empty: it is no address.
func (a API) Host(address string) string {
	u, err := url.Parse(a.Base(address))
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// ClientBase is the address that a program is given for an API that is served at an address.
func (a API) ClientBase(address string) string {
	if a == OpenAI {
		return address + "/v1"
	}
	return address
}

// PublicOpenAI reports whether an address of OpenAI's API is OpenAI's own: its newer models take
// only the newer name for the longest answer, which compatible servers may not know.
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

// Credential is the key that a request has, wherever one of the APIs has it.
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
