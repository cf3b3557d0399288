package wire

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
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

// Answer returns the facts that the row and traces need.
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

// Providers state the usage in dialects. The name of a count says what it is, wherever in the usage it stands, and whether it
// is written as input_tokens or as inputTokens. These are the names of OpenAI, DeepSeek, Moonshot (Kimi), Qwen, xAI, OpenRouter,
// LiteLLM, Perplexity, vLLM, and of Anthropic, Bedrock and Gemini, which also occur behind endpoints of OpenAI's format.
var usageNames = uniform(map[string]func(*counts) *count{
	"prompt_tokens": inputOf, "input_tokens": inputOf, "prompt_token_count": inputOf, "tool_use_prompt_token_count": toolInputOf,
	"completion_tokens": outputOf, "output_tokens": outputOf, "candidates_token_count": outputOf,
	"cached_tokens": cacheReadOf, "prompt_cache_hit_tokens": cacheReadOf, "cache_read_tokens": cacheReadOf,
	"cache_read_input_tokens": cacheReadOf,
	"cached_input_tokens":     cacheReadOf, "num_cached_tokens": cacheReadOf, "cached_creation_tokens": cacheWriteOf,
	"created_cache_tokens": cacheWriteOf,
	"cache_write_tokens":   cacheWriteOf, "cache_creation_tokens": cacheWriteOf, "cache_creation_input_tokens": cacheWriteOf,
	"cache_write_input_tokens": cacheWriteOf, "cached_content_token_count": cacheReadOf,
	"ephemeral_1h_input_tokens": cacheHourOf, "web_search_requests": searchesOf,
	"reasoning_tokens": reasoningOf, "thinking_tokens": reasoningOf, "thoughts_token_count": reasoningOf,
	"total_tokens": totalOf, "total_token_count": totalOf,
})

// uniform makes names uniform.
func uniform[T any](names map[string]T) map[string]T {
	out := map[string]T{}
	for name, value := range names {
		out[uniformName(name)] = value
	}
	return out
}

func uniformName(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }

func inputOf(c *counts) *count      { return &c.input }
func toolInputOf(c *counts) *count  { return &c.tools }
func outputOf(c *counts) *count     { return &c.output }
func cacheReadOf(c *counts) *count  { return &c.cacheRead }
func cacheWriteOf(c *counts) *count { return &c.cacheWrite }
func cacheHourOf(c *counts) *count  { return &c.cacheHour }
func reasoningOf(c *counts) *count  { return &c.reasoning }
func searchesOf(c *counts) *count   { return &c.searches }
func totalOf(c *counts) *count      { return &c.total }

// named returns the count with this name, which may be the end of a path; nil: there is none.
func (c *counts) named(name string) *count {
	if of := usageNames[uniformName(name[strings.LastIndexByte(name, '.')+1:])]; of != nil {
		return of(c)
	}
	return nil
}

// usagePlaces are the keys with a usage: that of OpenAI and Anthropic, Moonshot's of the last chunk, Groq's of a stream, and
// Gemini's.
var usagePlaces = []string{"usage.", "choices[].usage.", "x_groq.usage.", "usageMetadata."}

// readUsage reads a value of a usage; false: the path is not in one.
func (m *Meter) readUsage(path string, l leaf) bool {
	for _, place := range usagePlaces {
		rest, ok := strings.CutPrefix(path, place)
		if !ok {
			continue
		}
		if c := m.counts.named(rest); c != nil {
			c.set(l)
			m.counted = m.counted || l.number() >= 0 && (c == &m.counts.output || c == &m.counts.reasoning)
		}
		name := rest[strings.LastIndexByte(rest, '.')+1:]
		switch uniformName(name) {
		case "cachereadinputtokens", "cachecreationinputtokens", "cachewriteinputtokens":
			m.counts.beside = true
		}
		m.readCost(rest, name, l)
		return true
	}
	return false
}

// ticksPerDollar is xAI's unit of money.
const ticksPerDollar = 10_000_000_000

// readCost reads what a provider says that the call costs, in USD: OpenRouter's and Perplexity's cost,
// DeepInfra's estimated_cost, xAI's ticks. With a key of the user's own, OpenRouter states the price of
// the model apart.
func (m *Meter) readCost(rest, name string, l leaf) {
	if rest == "is_byok" {
		m.stated.ownKey = l.is("true")
	}
	amount, err := strconv.ParseFloat(string(l.raw), 64)
	if err != nil || !(amount >= 0 && amount < 1e6) && name != "cost_in_usd_ticks" {
		return
	}
	usd := cost.USD(amount * 1e9)
	switch {
	case rest == "cost", rest == "total_cost", rest == "cost.total_cost", rest == "estimated_cost":
		m.stated.charged = max(m.stated.charged, usd)
	case rest == "cost_in_usd_ticks" && amount >= 0 && amount < 1e6*ticksPerDollar:
		m.stated.charged = max(m.stated.charged, cost.USD(amount*1e9/ticksPerDollar))
	case rest == "cost_details.upstream_inference_cost":
		m.stated.upstream = max(m.stated.upstream, usd)
	}
}

// statedCost is the money that an answer names.
type statedCost struct {
	charged, upstream cost.USD
	// ownKey: upstream is charged by another provider, in addition.
	ownKey bool
}

func (s statedCost) total() cost.USD {
	if s.ownKey {
		return s.charged + s.upstream
	}
	return max(s.charged, s.upstream)
}

// usualTiers are the providers' words for tiers with the usual prices.
var usualTiers = []string{"auto", "default", "standard", "standard_only", "on_demand", "global", "not_available"}

// tierOf returns the service tier in the result of [tiers.joined], as [cost.Prices] names it; empty:
// the usual one.
func tierOf(joined string) string {
	words := slices.DeleteFunc(strings.Split(joined, "+"), func(word string) bool { return slices.Contains(usualTiers, word) })
	return strings.Join(words, "+")
}

// tiers are the words of a call for what changes its prices: the service tier, the speed and the place.
type tiers struct{ service, speed, place string }

// joined joins those that are stated.
func (t tiers) joined() string {
	return strings.Join(slices.DeleteFunc([]string{t.service, t.speed, t.place}, func(word string) bool { return word == "" }), "+")
}

// word returns the value as one word in lower case; empty: it is null.
func (l leaf) word() string {
	if !l.quoted {
		return ""
	}
	return textfmt.Shorten(strings.ToLower(l.text()), 80)
}
