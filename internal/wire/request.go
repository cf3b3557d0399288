package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// UnstatedOutput is the assumed bound of an answer, in tokens, if none is known.
const UnstatedOutput = 32 << 10

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
	// cost is not in any answer; empty: none. Hour: the prompt may be cached for an hour.
	// Searches is the largest number of searches, if the request states it.
	Tier, Unpriced string
	Hour           bool
	Searches       int64
	// Elsewhere is the largest number of tokens of content that the body only refers to, like an
	// earlier answer or a file.
	Elsewhere int64

	format   format
	body     []byte
	bounds   []bounded
	seen     map[string]bool
	twice    string
	settings int64 // the place after the brace of Gemini's generationConfig; zero: there is none
	// parts are the messages of the conversation, and head its instructions and tools. begun are
	// the positions of the open containers.
	parts, head []part
	begun       [4]int64

	tiers         [3]string
	usageAsked    bool
	usageAt       span
	streamOptions span // a null, or the place after the brace
}

// metered are the keys of a body that affect its cost. Some servers accept them in other upper
// and lower case, too.
var metered = []string{
	"model", "stream", "stream_options", "service_tier", "speed", "inference_geo", "max_tokens", "max_completion_tokens", "max_output_tokens", "n", "thinking", "background",
}

// span is a range of the body, from its first byte to the one after its last.
type span struct{ from, to int64 }

// bounded is the position of a bound of the answer; negative: it is null.
type bounded struct {
	at span
	n  int64
}

// format has the differences between the wire formats.
type format interface {
	// requestValue reads a value of a request.
	requestValue(q *Request, path string, l leaf)
	// outputKey returns the key with which to bound an answer that has no bound.
	outputKey(q *Request) string
	// answerValue reads a value of an answer; content reports whether the model has written it.
	answerValue(m *Meter, path string, l leaf)
	content(path string) bool
	// setEnded records after each document whether the answer has ended.
	setEnded(m *Meter)
	// items splits a message, or the instructions, of a request into items.
	items(kind ItemKind, raw []byte) []Item
	// addDocument adds the content of a document of an answer.
	addDocument(a *answer, document []byte)
	usage(c counts) (u usageOf, differs string)
}

var formats = map[Format]format{
	Messages: anthropicMessages{}, ChatCompletions: chatCompletions{}, Responses: openaiResponses{}, GenerateContent: geminiContent{},
}

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
	q.Tier = tierOf(joinTiers(q.tiers[:]))
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
	case "stream_options":
		q.streamOptions = span{l.start, l.start + l.size}
	case "service_tier", "serviceTier":
		q.tiers[0] = l.word()
	case "speed":
		q.tiers[1] = l.word()
	case "inference_geo":
		q.tiers[2] = l.word()
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
		if q.Format == GenerateContent && (path == "tools[].googleMaps" || path == "tools[].google_maps") {
			q.Unpriced = "googleMaps"
		}
	}
	if !opens || path == "" || strings.ContainsAny(path, ".[") {
		return
	}
	q.once(path)
	switch path {
	case "generationConfig", "generation_config":
		q.once("generationConfig in both spellings")
		q.settings = at + 1
	case "stream_options":
		q.streamOptions = span{at + 1, at + 1}
	case "web_search_options":
		q.Unpriced = path
	}
}

// bound records a bound of the answer.
func (q *Request) bound(name string, l leaf) {
	if strings.Contains(name, ".") {
		q.once(name)
	}
	at := span{l.start, l.start + l.size}
	if l.quoted {
		at.to += 2
	}
	n := l.number()
	q.bounds = append(q.bounds, bounded{at, n})
	q.MaxOutput = max(q.MaxOutput, min(n, maxOutput)) // servers differ in which of two bounds they use
}

// change is a range of the body and its replacement.
type change struct {
	at   span
	text string
}

// Body returns the body with the tokens of all choices together bounded by most, but not below
// the provider's minimum; zero keeps the program's bound. It asks for the usage of a stream;
// added reports whether the program had not. All other bytes are unchanged.
func (q *Request) Body(most int64) (body []byte, added bool) {
	var changes []change
	if most > 0 {
		changes = q.lower(max(most/q.Choices, q.Floor, 1))
	}
	if q.Format == ChatCompletions && q.Stream && !q.usageAsked {
		changes, added = append(changes, q.askUsage()), true
	}
	return apply(q.body, changes), added
}

func (q *Request) lower(most int64) []change {
	number := strconv.FormatInt(most, 10)
	var out []change
	for _, b := range q.bounds {
		if b.n > most || b.n < 0 {
			out = append(out, change{b.at, number})
		}
	}
	if len(q.bounds) > 0 {
		return out
	}
	member := `"` + q.format.outputKey(q) + `":` + number
	switch {
	case q.Format == GenerateContent && q.settings > 0:
		return []change{q.insert(q.settings, member)}
	case q.Format == GenerateContent:
		member = `"generationConfig":{` + member + `}`
	}
	return []change{q.insert(q.first(), member)}
}

func (q *Request) askUsage() change {
	switch {
	case q.usageAt != (span{}):
		return change{q.usageAt, "true"}
	case q.streamOptions == (span{}):
		return q.insert(q.first(), `"stream_options":{"include_usage":true}`)
	case q.streamOptions.from < q.streamOptions.to:
		return change{q.streamOptions, `{"include_usage":true}`}
	}
	return q.insert(q.streamOptions.from, `"include_usage":true`)
}

// first returns the position after the opening brace of the body.
func (q *Request) first() int64 { return int64(bytes.IndexByte(q.body, '{')) + 1 }

// insert adds a member at the beginning of an object.
func (q *Request) insert(at int64, member string) change {
	if rest := bytes.TrimLeft(q.body[at:], " \t\r\n"); rest[0] != '}' {
		member += ","
	}
	return change{span{at, at}, member}
}

// apply makes changes that do not overlap.
func apply(body []byte, changes []change) []byte {
	for i, c := range changes {
		out := make([]byte, 0, len(body)+len(c.text))
		out = append(append(append(out, body[:c.at.from]...), c.text...), body[c.at.to:]...)
		body = out
		moved := int64(len(c.text)) - (c.at.to - c.at.from)
		for j := i + 1; j < len(changes); j++ {
			if changes[j].at.from >= c.at.to {
				changes[j].at = span{changes[j].at.from + moved, changes[j].at.to + moved}
			}
		}
	}
	return body
}
