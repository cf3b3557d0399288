package wire

import (
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/cost"
)

// API is the name of a provider's API in a worker file.
type API string

// The APIs.
const (
	Anthropic API = "anthropic"
	OpenAI    API = "openai"
	Gemini    API = "gemini"
)

// apis are the descriptions of all APIs. Each is in a file of its own.
var apis = map[API]*description{Anthropic: &anthropicAPI, OpenAI: &openaiAPI, Gemini: &geminiAPI}

// formats are the wire formats of all APIs.
var formats = map[Format]*format{
	Messages: &anthropicMessages, ChatCompletions: &chatCompletions, Responses: &openaiResponses, GenerateContent: &geminiContent,
}

// APIs lists all APIs.
func APIs() []API { return slices.Sorted(maps.Keys(apis)) }

// Formats lists all wire formats of paid calls.
func Formats() []Format { return slices.Sorted(maps.Keys(formats)) }

// description is what Maestro knows about an API apart from its wire formats.
type description struct {
	Programs
	// base is the public address. dropped is the end of other addresses to which paths are not appended.
	base, dropped string
	// clientPath is the end of the base address of programs.
	clientPath string
	// keyHeader is the header of requests that has the key, after keyPrefix.
	keyHeader, keyPrefix string
	// headers are others that a request needs.
	headers map[string]string
	// route returns the route of a plain path.
	route func(method, path string) (Route, bool)
	// refusals are the provider's words for refusals, and errorBody is its document for them.
	refusals  map[Refusal]words
	errorBody func(w words, message string, wait time.Duration) any
}

// Programs is what agents and worker files need to know about an API.
type Programs struct {
	// OwnPath is the path that is appended to a base_url. That of a spoken format is the path of its calls.
	OwnPath string
	// BaseURL and Key are the environment variables with a program's address and key, and Others those that would make a
	// program bypass the gateway, or give it a key.
	BaseURL, Key string
	Others       []string
	// WebSearch is the default price of a thousand searches.
	WebSearch cost.USD
	// Spoken is the format in which agents of kind model call the API. If it is empty, they cannot, and Instead says what
	// to do; %s is the provider's name.
	Spoken  Format
	Instead string
}

// DefaultWebSearch is the price of a thousand searches of most providers.
const DefaultWebSearch cost.USD = 10_000_000_000

// Programs returns what agents and worker files need to know about the API.
func (a API) Programs() Programs { return a.described().Programs }

// described returns the description of an API; an empty one if the API is not known.
func (a API) described() *description {
	if d := apis[a]; d != nil {
		return d
	}
	return &description{}
}

// Format is the name of one of the wire formats of paid calls.
type Format string

// The formats.
const (
	Messages        Format = "anthropic-messages"
	ChatCompletions Format = "openai-chat-completions"
	Responses       Format = "openai-responses"
	GenerateContent Format = "gemini-generate-content"
)

// format describes a wire format of paid calls. Fields without "optional" are required.
type format struct {
	// talk are the places of the conversation in a request.
	talk map[string]ItemKind
	// requestValue reads a value of a request, and requestObject the beginning of an object or a list (optional).
	requestValue  func(q *Request, path string, l leaf)
	requestObject func(q *Request, path string)
	// bound bounds the answer in the members of a request's body, and reports whether that changes them.
	bound func(q *Request, members map[string]json.RawMessage, most int64) bool
	// asksUsage: a streamed answer has its usage only if the request asks for it.
	asksUsage bool
	// count returns the path and the body of the free request that counts the prompt of a request, given the members of
	// its body (optional).
	count func(q *Request, members map[string]json.RawMessage) (path string, body any)
	// items splits a message, or the instructions, of a request into items.
	items func(kind ItemKind, raw []byte) []Item
	// write returns the body of a streamed request (optional). publicOpenAI: the provider is OpenAI itself.
	write func(p Prompt, publicOpenAI bool) any
	// repeatsThoughts: a request has the model's earlier thoughts.
	repeatsThoughts bool

	// answerValue reads a value of an answer, and content reports whether the model has written it.
	answerValue func(m *Meter, path string, l leaf)
	content     func(path string) bool
	// setEnded records after each document whether the answer has ended.
	setEnded func(m *Meter)
	// usage returns the usage of an answer from the provider's counts. differs says that these disagree.
	usage func(c counts) (u cost.Usage, differs string)
	// add adds the content of a document of an answer.
	add func(a *Answer, document []byte)
	// streamError returns an error within a stream: the line with the event's name (optional), and another body than
	// that of an answer (optional).
	streamErrorName string
	streamErrorBody func(w words, message string) any
	// breaksOff: a connection has to break off after an error in a stream, because programs take the error for the end.
	breaksOff bool
}

// Route is the destination of a request.
type Route struct {
	// Path is the path of the request below [API.Base].
	Path string
	// Format is the format of a paid call; empty if the request is free.
	Format Format
	// Model and Stream are the values in the path of a paid call of Gemini.
	Model  string
	Stream bool
}

// Route returns the route of a request. ok is false unless the request calls a model, counts
// tokens for one, or lists models. The path must be as received, not decoded.
func (a API) Route(method, path string) (r Route, ok bool) {
	d := apis[a]
	if d == nil || !plain(path) {
		return Route{}, false
	}
	return d.route(method, path)
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

// lists reports whether a request lists models, or describes one: a GET of the path, or directly below it.
func lists(method, path, models string) bool {
	rest, ok := strings.CutPrefix(path, models)
	return method == http.MethodGet && ok && (rest == "" || strings.LastIndexByte(rest, '/') == 0)
}

// Base returns the address to which the paths of routes are appended: the address from the worker
// file, or the public one if that is empty.
func (a API) Base(address string) string {
	d := a.described()
	if address = strings.TrimRight(address, "/"); address == "" {
		return d.base
	}
	return strings.TrimSuffix(address, d.dropped)
}

// Host returns the host of the address; empty if the address is not valid.
func (a API) Host(address string) string {
	u, err := url.Parse(a.Base(address))
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// ClientBase returns the base address that a program needs for an API that is served at an
// address.
func (a API) ClientBase(address string) string { return address + a.described().clientPath }

// PublicOpenAI reports whether an address of OpenAI's API is OpenAI's own. Its newer models
// accept only the newer name of the answer's bound, which compatible servers may not support.
func PublicOpenAI(address string) bool {
	u, err := url.Parse(address)
	return address == "" || err == nil && strings.HasSuffix(u.Hostname(), ".openai.com")
}

// Authorize adds the key to the header of a request.
func (a API) Authorize(header http.Header, key string) {
	if d := a.described(); key != "" {
		header.Set(d.keyHeader, d.keyPrefix+key)
	}
}

// RemoveKeys removes the keys of all APIs from a header.
func RemoveKeys(header http.Header) {
	for _, d := range apis {
		header.Del(d.keyHeader)
	}
}

// Credential returns the key of a request, in the place of any of the APIs.
func Credential(r *http.Request) string {
	for _, a := range APIs() {
		d := apis[a]
		value := r.Header.Get(d.keyHeader)
		if n := len(d.keyPrefix); len(value) > n && strings.EqualFold(value[:n], d.keyPrefix) {
			return strings.TrimSpace(value[n:])
		}
	}
	return r.URL.Query().Get("key")
}

// Refusal is the reason why the gateway rejects a call itself.
type Refusal int

// The refusals.
const (
	// BudgetSpent: the budget cannot pay for the call. Programs do not retry.
	BudgetSpent Refusal = iota
	// RateLimited and Overloaded: the call may succeed later.
	RateLimited
	Overloaded
	// Unauthorized: the token is not valid.
	Unauthorized
	// NotFound: there is nothing at the path.
	NotFound
	// Invalid: the request is not one that the provider takes.
	Invalid
	// TooLarge: the request is too large.
	TooLarge
)

// words are a provider's words for a refusal.
type words struct {
	status int
	kind   string
}

// Refuse returns the provider's own error response for a refusal. wait is when to retry; zero if that is not known.
func (a API) Refuse(why Refusal, message string, wait time.Duration) (status int, header http.Header, body []byte) {
	d := a.described()
	w := d.refusals[why]
	header = http.Header{"Content-Type": {"application/json"}}
	again := why == RateLimited || why == Overloaded
	// The libraries of Anthropic and OpenAI follow this header.
	header.Set("X-Should-Retry", strconv.FormatBool(again))
	if again && wait > 0 {
		header.Set("Retry-After", strconv.FormatInt(int64(math.Ceil(wait.Seconds())), 10))
	}
	body, _ = json.Marshal(d.errorBody(w, message, wait)) // texts and numbers only
	return w.status, header, body
}

// RefuseInStream returns the error as an event in a stream that has begun.
func (a API) RefuseInStream(to Format, why Refusal, message string) []byte {
	d, f := a.described(), formats[to]
	w := d.refusals[why]
	document := d.errorBody(w, message, 0)
	if f.streamErrorBody != nil {
		document = f.streamErrorBody(w, message)
	}
	body, _ := json.Marshal(document) // texts and numbers only
	return []byte(f.streamErrorName + "data: " + string(body) + "\n\n")
}

// BreaksOff reports whether a connection has to break off after an error in a stream, because programs take the error
// for the end.
func (f Format) BreaksOff() bool { return formats[f].breaksOff }
