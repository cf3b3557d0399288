package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// unstatedOutput is the assumed bound of an answer, in tokens, if none is known.
const unstatedOutput = 32 << 10

// maxOutput is more than the tokens of any answer. Larger bounds are reduced to it, so that sums
// do not overflow.
const maxOutput = 1 << 30

// maxKeys is the largest number of keys of a body, not counting those of its parts.
const maxKeys = 1000

// maxModel is the longest name of a model, in bytes.
const maxModel = 200

// Request is a parsed paid call.
type Request struct {
	Route
	// MaxOutput bounds the tokens of all Choices together; zero: the request has no bound.
	MaxOutput int64
	// Floor is the smallest bound that the provider accepts.
	Floor int64
	// Choices is the number of requested answers.
	Choices int64
	// Size is the size of the body in bytes.
	Size int64
	// PublicOpenAI: the provider is OpenAI itself.
	PublicOpenAI bool
	// Refused is why the cost of the call cannot be metered; empty: it can.
	Refused string
	// Tier is the requested service tier, as [cost.Prices] names it. Unpriced is a tool whose
	// cost is not in any answer; empty: none. HourCache says that the prompt may be cached for an hour.
	// Searches is the largest number of searches, if the request states it.
	Tier, Unpriced string
	HourCache      bool
	Searches       int64
	// Elsewhere is the largest number of tokens of content that the body only refers to, like an
	// earlier answer or a file.
	Elsewhere int64

	format *format
	body   []byte
	seen   map[string]bool
	twice  string
	// parts are the messages of the conversation, and head its instructions and tools. begun are
	// the positions of the open containers.
	parts, head []part
	begun       [4]int64

	tiers      tiers
	usageAsked bool
}

// metered are the keys of a body that affect its cost. Some servers accept them in other upper
// and lower case, too.
var metered = []string{
	"model", "stream", "stream_options", "service_tier", "speed", "inference_geo", "max_tokens", "max_completion_tokens",
	"max_output_tokens", "n", "thinking", "background",
}

// span is a range of the body, from its first byte to the one after its last.
type span struct{ from, to int64 }

// ReadRequest parses the body of a paid call. The error says that it is not a JSON object, or has
// a key twice, which servers interpret in different ways. The body is kept and must not be
// changed.
func ReadRequest(to Route, publicOpenAI bool, body []byte) (*Request, error) {
	if !json.Valid(body) || !bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) {
		return nil, errors.New("the body is not a JSON object")
	}
	q := &Request{
		Route: to, Choices: 1, Size: int64(len(body)), PublicOpenAI: publicOpenAI,
		format: formats[to.Format], body: body, seen: map[string]bool{},
	}
	s := scanner{leaf: q.leaf, container: q.container}
	s.write(body)
	switch {
	case q.twice != "":
		return nil, fmt.Errorf("the body has the key %q twice", q.twice)
	case q.Refused != "":
		return nil, errors.New(q.Refused)
	case len(q.Model) > maxModel:
		return nil, fmt.Errorf("the name of the model has %d bytes, and at most %d are allowed", len(q.Model), maxModel)
	case q.Choices < 1 || q.Choices > 128:
		return nil, errors.New("the body asks for no answers or too many; use 1 to 128")
	}
	q.Tier = tierOf(q.tiers.joined())
	q.MaxOutput *= q.Choices
	return q, nil
}

// once records a key that may occur only once, in any spelling of the API.
func (q *Request) once(path string) {
	if len(q.seen) == maxKeys {
		q.Refused = "the body has too many keys"
		return
	}
	if small := strings.ToLower(path); small != path && slices.Contains(metered, small) {
		q.Refused = fmt.Sprintf("the API has key %s in small letters", small)
	}
	if q.seen[path] && path != "?" && q.twice == "" {
		q.twice = path
	}
	q.seen[path] = true
}

func (q *Request) leaf(path string, l leaf) {
	if !strings.ContainsAny(path, ".[") {
		q.once(path)
	}
	switch path {
	case "model":
		if q.Model == "" { // not in the path
			q.Model = l.text()
		}
	case "stream":
		q.Stream = q.Stream || l.is("true") && !l.quoted
	case "service_tier", "serviceTier":
		q.tiers.service = l.word()
	case "speed":
		q.tiers.speed = l.word()
	case "inference_geo":
		q.tiers.place = l.word()
	}
	if l.quoted {
		q.note(path, span{l.start, l.start + l.size + 2})
	}
	q.format.requestValue(q, path, l)
}

func (q *Request) container(path string, depth int, at int64, opens bool) {
	if opens {
		q.begun[depth] = at
	} else {
		q.note(path, span{q.begun[depth], at + 1})
		return
	}
	if path != "" && !strings.ContainsAny(path, ".[") {
		q.once(path)
	}
	if path == "web_search_options" {
		q.Unpriced = path
	}
	if q.format.requestObject != nil {
		q.format.requestObject(q, path)
	}
}

// bound records a bound of the answer.
func (q *Request) bound(name string, l leaf) {
	if strings.Contains(name, ".") {
		q.once(name)
	}
	q.MaxOutput = max(q.MaxOutput, min(l.number(), maxOutput)) // servers differ in which of two bounds they use
}

// Count returns the free request with which the provider counts the tokens of the prompt: its
// path below [API.Base], and its body. ok is false for a format without such a request.
func (q *Request) Count() (path string, body []byte, ok bool) {
	if q.format.count == nil {
		return "", nil, false
	}
	path, document := q.format.count(q, membersOf(q.body))
	body, err := json.Marshal(document)
	return path, body, err == nil
}

// only removes the members that have none of the names.
func only(members map[string]json.RawMessage, names ...string) map[string]json.RawMessage {
	maps.DeleteFunc(members, func(name string, _ json.RawMessage) bool { return !slices.Contains(names, name) })
	return members
}

// ReadCount returns the number of tokens in the answer to such a request; zero if there is none.
func ReadCount(body []byte) int64 {
	var n int64
	scan(body, func(path string, l leaf) {
		if path == "input_tokens" || path == "totalTokens" {
			n = max(l.number(), 0)
		}
	})
	return n
}

// AddsUsage reports whether [Request.Body] asks for the usage of a stream because the program has not.
func (q *Request) AddsUsage() bool { return q.format.asksUsage && q.Stream && !q.usageAsked }

// Body returns the body with the tokens of all choices together bounded by most, but not below
// the provider's minimum; zero keeps the program's bound. It asks for the usage of a stream;
// added reports whether the program had not. A body in which nothing is to be changed keeps its bytes.
func (q *Request) Body(most int64) (body []byte, added bool) {
	added = q.AddsUsage()
	if most <= 0 && !added { // the usual case: nothing is decoded
		return q.body, false
	}
	members := membersOf(q.body)
	changed := most > 0 && q.format.bound(q, members, max(most/q.Choices, q.Floor, 1))
	if added {
		options := membersOf(members["stream_options"])
		options["include_usage"] = json.RawMessage("true")
		members["stream_options"] = Encode(options)
	}
	if !changed && !added {
		return q.body, false
	}
	return Encode(members), added
}

// membersOf are the members of a JSON object; none of anything else.
func membersOf(document []byte) map[string]json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(document, &members) != nil || members == nil {
		return map[string]json.RawMessage{}
	}
	return members
}

// lower lowers the bounds that are larger than most, or no number. If there is none, it adds the first one. It reports whether it
// has changed anything.
func lower(members map[string]json.RawMessage, most int64, names ...string) (changed bool) {
	bound, found := strconv.AppendInt(nil, most, 10), false
	for _, name := range names {
		if stated, ok := members[name]; ok {
			found = true
			if n := (leaf{raw: bytes.Trim(stated, `"`)}).number(); n > most || n < 0 {
				members[name], changed = bound, true
			}
		}
	}
	if !found {
		members[names[0]] = bound
	}
	return changed || !found
}

// refers records that the body refers to a part of the prompt with at most this many tokens.
func (q *Request) refers(l leaf, tokens int64) {
	if l.quoted && l.size > 0 && !bytes.HasPrefix(l.raw, []byte("data:")) {
		q.Elsewhere = min(q.Elsewhere+tokens, maxWindow)
	}
}

const (
	// maxSearches is an upper bound of the searches of an answer.
	maxSearches = 1000
	// maxWindow bounds the tokens of a prompt, and maxImage those of an image.
	maxWindow, maxImage = 1 << 20, 1 << 16
)
