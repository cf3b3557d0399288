package wire

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
)

// Facts is what an answer has stated so far.
type Facts struct {
	// Usage is what the provider has counted, without money. Counted says whether it has counted the input.
	Usage   cost.Usage
	Counted bool
	// Cost is what the provider says that the call costs, and zero if it does not say. Differs says how its
	// total of tokens differs from their sum; it is empty if they agree.
	Cost    cost.USD
	Differs string
	// Bytes is the size of the content since the output was last counted.
	Bytes int64
	// Stop is the provider's word for why the answer ends. Whole says that the content is complete, and Ended that
	// nothing follows according to the format.
	Stop         string
	Whole, Ended bool
	// ID is the provider's name for the answer, and Model the model that wrote it; empty: not
	// stated.
	ID, Model string
	// Tier is the service tier that was used, in the provider's words; empty: not stated.
	Tier string
	// Fault is an error instead of an answer, or within one; nil: none.
	Fault *Fault
}

// Answer returns the facts that traces need.
func (f Facts) Answer() session.CallAnswer {
	a := session.CallAnswer{ID: f.ID, Model: f.Model, Stop: f.Stop, Tier: f.Tier, Differs: f.Differs}
	if f.Fault != nil {
		a.Category = f.Fault.failure("").Category
	}
	return a
}

// Meter reads an answer while it is received, a stream of events or one document. It never fails,
// and its memory is bounded. The facts do not depend on how the bytes are split.
type Meter struct {
	format  *format
	choices int64
	lines   lines
	json    scanner
	counts  counts
	facts   Facts
	// event is the type of the current document; counted is set when it has counted the output.
	event   string
	counted bool
	// tiers are those that the answer states. searched is the number of searches in
	// the current document, and each is the sum of the separately counted parts.
	tiers    tiers
	searched int64
	each     counts
	// stated is the cost that the provider states.
	stated statedCost
	// loose is an error at the top of the current document. A document with objects or lists is none.
	loose    Fault
	nested   bool
	finished int64
	progress int64
}

// counts are the provider's counts, under its own names.
type counts struct {
	input, tools, output, cacheRead, cacheWrite, cacheHour, reasoning, searches, total count
	// beside: the names of cached tokens are those of Anthropic, for which they are not part of the input.
	beside bool
}

type count struct {
	n     int64
	known bool
}

// set sets a number. An invalid number is ignored.
func (c *count) set(l leaf) {
	if n := l.number(); n >= 0 && n <= cost.MaxReported {
		*c = count{max(c.n, n), true} // counts of one answer never decrease
	}
}

// add adds a number. An invalid number is ignored.
func (c *count) add(l leaf) {
	if n := l.number(); n >= 0 && n <= cost.MaxReported-c.n {
		*c = count{c.n + n, true}
	}
}

// atLeast raises the count to a number that was counted locally.
func (c *count) atLeast(n int64) { c.n = max(c.n, n) }

// NewMeter returns the meter of an answer with this many choices. The content type distinguishes
// a stream of events from one or more documents.
func NewMeter(f Format, choices int64, contentType string) *Meter {
	m := &Meter{format: formats[f], choices: choices}
	m.lines.on = strings.HasPrefix(contentType, "text/event-stream")
	m.json = scanner{leaf: m.leaf, container: m.container}
	return m
}

// Header reads what the header of the answer says of its cost, as LiteLLM's proxy does.
func (m *Meter) Header(h http.Header) {
	m.readCost("cost", "cost", leaf{raw: []byte(h.Get("X-Litellm-Response-Cost"))})
}

// Write reads the next part. It always accepts all of it.
func (m *Meter) Write(p []byte) (int, error) {
	if m.lines.on {
		m.lines.write(p, &m.json)
	} else {
		m.json.write(p)
	}
	return len(p), nil
}

// Facts returns the facts known so far.
func (m *Meter) Facts() Facts {
	f := m.facts
	if path, n := m.json.pending(); n > 0 && m.format.content(path) {
		f.Bytes += n
	}
	u, differs := m.format.usage(m.counts)
	f.Cost, f.Differs = m.stated.total(), differs
	u.ReasoningTokens, u.CacheWrite1hTokens = min(u.ReasoningTokens, u.OutputTokens), min(m.counts.cacheHour.n, u.CacheWriteTokens)
	u.WebSearches = m.counts.searches.n
	f.Usage = u
	f.Tier = m.tiers.joined()
	f.Counted = f.Usage.Prompt() > 0 // servers that do not count say 0
	if f.Fault != nil {
		fault := *f.Fault
		f.Fault = &fault
	}
	return f
}

// End returns the facts at the regular end of the answer. A document without anything in it, or a stream that has nothing
// but its end, is no answer.
func (m *Meter) End() Facts {
	if f := m.Facts(); f.empty() && (f.Ended || !m.lines.on) {
		m.fault().NoAnswer, m.facts.Fault.Message = true, "an answer without anything in it"
	}
	return m.Facts()
}

// empty reports whether nothing of an answer has come yet.
func (f Facts) empty() bool {
	return !f.Counted && f.Bytes == 0 && f.Stop == "" && f.Fault == nil && f.ID == ""
}

// Progress is the size of the content so far: pings, comments and empty pieces are none.
func (m *Meter) Progress() int64 {
	if path, n := m.json.pending(); m.format.content(path) {
		return m.progress + n
	}
	return m.progress
}

func (m *Meter) leaf(path string, l leaf) {
	if m.format.content(path) {
		m.facts.Bytes += l.size
		m.progress += l.size
	}
	if !strings.ContainsAny(path, ".[") {
		m.loose.take(path, l)
	} else if !strings.HasPrefix(path, "detail[].") {
		m.nested = true
	}
	m.format.answerValue(m, path, l)
}

// container handles the end of a document: the data of an event, the whole answer, or an element
// of a list.
func (m *Meter) container(path string, _ int, _ int64, opens bool) {
	if opens || path != "" && path != "[]" {
		return
	}
	if m.loose.Message != "" && !m.nested && (m.facts.Fault == nil || m.facts.Fault.Message == m.loose.Message) {
		*m.fault() = m.loose
		m.facts.Fault.Status = http.StatusOK
	}
	if m.facts.Fault != nil {
		m.facts.Fault.readQuoted()
	}
	m.facts.Whole = m.facts.Whole || m.finished >= m.choices
	m.format.setEnded(m)
	if m.counted && m.counts.output.n+m.counts.reasoning.n > 0 {
		m.facts.Bytes = 0
	}
	m.counted = false
	m.event, m.loose, m.nested, m.searched, m.each = "", Fault{}, false, 0, counts{}
}

// readCommon reads a value that answers of several formats have under the same name, or an error.
func (m *Meter) readCommon(path string, l leaf) {
	switch path {
	case "id", "responseId":
		m.facts.ID = l.text()
	case "model", "modelVersion":
		m.facts.Model = l.text()
	case "service_tier", "usage.service_tier":
		m.tiers.service = l.word()
	default:
		m.readError(path, l)
	}
}

func (m *Meter) stopped(l leaf) {
	if !l.quoted {
		return // null: the answer continues
	}
	m.facts.Stop = l.text()
	m.finished++
	m.failedBy(l)
}

// failedBy makes an answer a failed one if a word for its end says so. Unless that word is a general one, it names the
// fault.
func (m *Meter) failedBy(l leaf) {
	if l.quoted && EndingOf(l.text()) == Failed {
		if f := m.fault(); !l.is("error") {
			f.Code = l.text()
		}
	}
}

func (m *Meter) fault() *Fault {
	if m.facts.Fault == nil {
		m.facts.Fault = &Fault{Status: http.StatusOK}
	}
	return m.facts.Fault
}

// lines extracts the data of a stream of server-sent events.
type lines struct {
	on bool
	// field is the beginning of the line, up to its colon; data: the line's data follows.
	field []byte
	data  bool
	named bool
}

func (l *lines) write(p []byte, to *scanner) {
	for len(p) > 0 {
		part := p
		end := bytes.IndexByte(p, '\n')
		if end >= 0 {
			part = p[:end]
		}
		p = p[len(part):]
		if !l.named {
			part = l.name(part)
		}
		if l.data {
			to.write(part)
		}
		if end >= 0 {
			p = p[1:]
			l.newline(to)
		}
	}
}

// name reads the name of the field, and returns the rest of the part.
func (l *lines) name(part []byte) []byte {
	for i, b := range part {
		if b == ':' {
			l.named, l.data = true, string(l.field) == "data"
			return part[i+1:]
		}
		if len(l.field) < len("data")+1 {
			l.field = append(l.field, b)
		}
	}
	return nil
}

func (l *lines) newline(to *scanner) {
	blank := !l.named && (len(l.field) == 0 || string(l.field) == "\r")
	if blank {
		to.end()
	} else if l.data {
		to.write([]byte{'\n'})
	}
	l.field, l.named, l.data = l.field[:0], false, false
}
