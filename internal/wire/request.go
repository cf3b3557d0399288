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

// UnstatedOutput is how many tokens an answer is expected to have at most where neither the
// request nor anything else says it.
const UnstatedOutput = 32 << 10

// maxOutput is more tokens than any answer has. Larger bounds count as this one, so that no sum overflows.
const maxOutput = 1 << 30

// maxKeys is how many keys a body may have, those of its parts not counted.
const maxKeys = 1000

// Request is what a paid call asks for.
type Request struct {
	Route
	// MaxOutput bounds the tokens of the answer, over all Choices; zero: nothing is said.
	MaxOutput int64
	// Floor is the least bound that the provider accepts.
	Floor int64
	// Choices is how many answers are asked for.
	Choices int64
	// Size is the bytes of the body.
	Size int64
	// PublicOpenAI: the provider is OpenAI itself.
	PublicOpenAI bool
	// Refused is why the call cannot be metered; empty: it can.
	Refused string
	// Tier is the service tier that is asked for, as [cost.Prices] has it. Unpriced is a tool that
	// costs what no answer counts; empty: there is none. Hour: the prompt may be cached for an hour.
	// Searches is how many the provider may make, as far as the request says.
	Tier, Unpriced string
	Hour           bool
	Searches       int64
	// Elsewhere is how many tokens the prompt may have in what the body only refers to, like an earlier
	// answer or a file.
	Elsewhere int64

	format   format
	body     []byte
	bounds   []bounded
	seen     map[string]bool
	twice    string
	settings int64 // the place after the brace of Gemini's generationConfig; zero: there is none
	// parts are the messages of the conversation, head its instructions and tools, begun is where
	// the containers at hand begin.
	parts, head []part
	begun       [3]int64

	tiers         [3]string
	usageAsked    bool
	usageAt       span
	streamOptions span // a null, or the place after the brace
}

// metered are the keys of a body that cost depends on. Some servers take them in other cases, too.
var metered = []string{
	"model", "stream", "stream_options", "service_tier", "speed", "inference_geo", "max_tokens", "max_completion_tokens", "max_output_tokens", "n", "thinking", "background",
}

// span is a part of the body, from its first byte to the one after its last.
type span struct{ from, to int64 }

// bounded is where a bound of the answer is; negative: there is a null.
type bounded struct {
	at span
	n  int64
}

// format is what differs between the wire formats.
type format interface {
	// ask takes up a value of a request.
	ask(q *Request, path string, l leaf)
	// outputKey is the key to bound an answer by where there is none.
	outputKey(q *Request) string
	// take takes up a value of an answer; content reports whether it is what the model writes.
	take(m *Meter, path string, l leaf)
	content(path string) bool
	// ended notes whether the answer has ended, after each document of it.
	ended(m *Meter)
	// items takes apart a message, or the instructions, of a request.
	items(kind ItemKind, raw []byte) []Item
	// answered adds what a document of an answer says.
	answered(a *answer, document []byte)
	usage(c counts) usageOf
}

var formats = map[Format]format{
	Messages: anthropicMessages{}, ChatCompletions: chatCompletions{}, Responses: openaiResponses{}, GenerateContent: geminiContent{},
}

// ReadRequest reads the body of a paid call. It refuses what is no JSON object, and an object
// with a key twice, which servers read in different ways. It keeps the body, which must not change.
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
	case q.Choices < 1 || q.Choices > 128:
		return nil, errors.New("the body asks for no or too many answers; use 1 to 128")
	}
	q.Tier = tierOf(joinTiers(q.tiers[:]))
	q.MaxOutput *= q.Choices
	return q, nil
}

// once notes a key of which only one may be there, in the spelling of the API.
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
	q.format.ask(q, path, l)
}

func (q *Request) container(path string, depth int, at int64, opens bool) {
	if opens {
		q.begun[depth] = at
	} else {
		q.note(path, span{q.begun[depth], at + 1})
		if path == "tools" && q.Format == GenerateContent && googleMaps.Match(q.body[q.begun[depth]:at]) {
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

// bound notes a bound of the answer under a name of its own.
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
	q.MaxOutput = max(q.MaxOutput, min(n, maxOutput)) // servers differ in which of two they take
}

// change is a part of the body and what replaces it.
type change struct {
	at   span
	text string
}

// Body is the body with the answer bounded by so many tokens over all choices, but by no fewer
// than the provider accepts; zero: as the program has bounded it. A stream is asked to report
// its usage. added reports that the program has not asked for that. All other bytes stay.
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

// first is the place after the brace of the body.
func (q *Request) first() int64 { return int64(bytes.IndexByte(q.body, '{')) + 1 }

// insert puts a member in front of those of an object.
func (q *Request) insert(at int64, member string) change {
	if rest := bytes.TrimLeft(q.body[at:], " \t\r\n"); rest[0] != '}' {
		member += ","
	}
	return change{span{at, at}, member}
}

// apply makes changes to places that do not overlap.
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
