package wire

import (
	"net/http"
	"strings"
)

func routeAnthropic(method, path string) (Route, bool) {
	switch {
	case method == http.MethodPost && path == "/v1/messages":
		return Route{Path: path, Format: Messages}, true
	case method == http.MethodPost && path == "/v1/messages/count_tokens", read(method) && path == "/v1/models":
		return Route{Path: path}, true
	}
	_, one := below(path, "/v1/models/")
	return Route{Path: path}, one && read(method)
}

// anthropicMessages is Anthropic's Messages. Its counts are absolute, and cached tokens are
// apart from the input.
type anthropicMessages struct{}

func (anthropicMessages) ask(q *Request, path string, l leaf) {
	switch path {
	case "max_tokens":
		q.bound(path, l)
	case "thinking.budget_tokens": // the answer must be allowed more
		q.Floor = max(q.Floor, l.number()+1)
	}
}

func (anthropicMessages) outputKey(*Request) string { return "max_tokens" }

func (anthropicMessages) take(m *Meter, path string, l leaf) {
	if path == "type" {
		m.event = l.text()
	}
	switch strings.TrimPrefix(path, "message.") { // of message_start
	case "usage.input_tokens":
		m.counts.input.set(l)
	case "usage.cache_read_input_tokens":
		m.counts.cacheRead.set(l)
	case "usage.cache_creation_input_tokens":
		m.counts.cacheWrite.set(l)
	case "usage.output_tokens":
		m.countOutput(l)
	case "usage.output_tokens_details.thinking_tokens":
		m.counts.reasoning.set(l)
	case "stop_reason", "delta.stop_reason":
		m.stopped(l)
	case "error.type":
		m.fault().Type = l.text()
	case "error.message":
		m.fault().Message = l.text()
	}
}

func (anthropicMessages) content(path string) bool {
	switch path {
	case "delta.text", "delta.partial_json", "delta.thinking", "content[].text", "content[].thinking":
		return true
	}
	return strings.HasPrefix(path, "content[].input.")
}

func (anthropicMessages) ended(m *Meter) {
	m.facts.Ended = m.facts.Ended || m.event == "message_stop" || m.event == "message" && m.facts.Whole
}

func (anthropicMessages) usage(c counts) usageOf {
	return usageOf{input: c.input.n, output: c.output.n, read: c.cacheRead.n, write: c.cacheWrite.n, reasoning: c.reasoning.n}
}
