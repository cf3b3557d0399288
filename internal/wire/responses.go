package wire

import "strings"

// openaiResponses is OpenAI's Responses.
type openaiResponses struct{}

func (openaiResponses) ask(q *Request, path string, l leaf) {
	switch path {
	case "max_output_tokens":
		q.bound(path, l)
	case "background":
		if l.is("true") { // its answer is fetched by other requests, which count nothing
			q.Refused = "background responses are not supported by the gateway"
		}
	}
}

func (openaiResponses) outputKey(*Request) string { return "max_output_tokens" }

func (openaiResponses) take(m *Meter, path string, l leaf) {
	if path == "type" {
		m.event = l.text()
	}
	// Events of a stream have the response, or an error, as a part; a whole answer is one.
	if rest, ok := strings.CutPrefix(path, "response."); ok {
		path = rest
	} else if m.lines.on && strings.HasPrefix(path, "usage.") {
		return
	}
	switch path {
	case "usage.input_tokens":
		m.counts.input.set(l)
	case "usage.input_tokens_details.cached_tokens":
		m.counts.cacheRead.set(l)
	case "usage.output_tokens":
		m.countOutput(l)
	case "usage.output_tokens_details.reasoning_tokens":
		m.counts.reasoning.set(l)
	case "status":
		if l.is("completed") || l.is("incomplete") {
			m.stopped(l)
		}
	case "object":
		if l.is("response.compaction") { // it has no status
			m.stopped(l)
		}
	case "code":
		m.loose.Code = l.text()
	case "message":
		m.loose.Message = l.text()
	case "error.code":
		if l.quoted {
			m.fault().Code = l.text()
		}
	case "error.type":
		m.fault().Type = l.text()
	case "error.message":
		m.fault().Message = l.text()
	}
}

func (openaiResponses) content(path string) bool {
	switch path {
	case "delta", "output[].content[].text", "output[].content[].refusal", "output[].arguments", "output[].input", "output[].summary[].text":
		return true
	}
	return false
}

func (openaiResponses) ended(m *Meter) {
	if m.event == "error" && m.loose != (looseError{}) {
		m.fault().Code, m.fault().Message = m.loose.Code, m.loose.Message
	}
	switch m.event {
	case "response.completed", "response.incomplete", "response.failed":
		m.facts.Ended = true
	case "":
		m.facts.Ended = m.facts.Ended || m.facts.Whole && !m.lines.on
	}
}

func (openaiResponses) usage(c counts) usageOf { return partOfInput(c) }
