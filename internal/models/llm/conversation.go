package llm

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/wire"
)

// conversation is the messages so far, and what is known of their length.
type conversation struct {
	// input is the manifest that the work starts from: files of the same names may have other contents.
	input spec.Digest
	kind  string
	// prompt has the messages so far.
	prompt wire.Prompt

	// head is the size of everything but the messages, and sizes are those of the messages, in
	// bytes.
	head  int64
	sizes []int64
	// counted is the tokens of the first known messages, as the provider has counted them; cached
	// and caches are as in [wire.Forecast].
	counted, cached int64
	known           int
	caches          bool
	// removed is the number of bytes that were removed from those messages since.
	removed int64
}

func newConversation(input spec.Digest, kind string, prompt wire.Prompt, first string) *conversation {
	c := &conversation{input: input, kind: kind, prompt: prompt}
	c.head = int64(len(wire.Encode(prompt)))
	c.add(wire.Message{Role: wire.User, Text: first})
	return c
}

// digest identifies everything that the next answer depends on.
func (c *conversation) digest() spec.Digest {
	return spec.DigestOf(wire.Encode(struct {
		Input spec.Digest `json:"input"`
		Kind  string      `json:"kind"`
		wire.Prompt
	}{c.input, c.kind, c.prompt}))
}

func (c *conversation) add(m wire.Message) {
	c.prompt.Messages = append(c.prompt.Messages, m)
	c.sizes = append(c.sizes, int64(len(wire.Encode(m))))
}

// answered adds an answer and the provider's count for it, if it has counted.
func (c *conversation) answered(m wire.Message, used cost.Usage, counted bool) {
	c.add(m)
	if !counted {
		return
	}
	c.counted = used.Tokens()
	c.cached, c.caches = used.CacheReadTokens+used.CacheWriteTokens, used.CacheWriteTokens > 0 || c.caches
	c.known, c.removed = len(c.prompt.Messages), 0
}

// forecast returns the forecast of the next call's cost.
func (c *conversation) forecast(maxOutput int64, prices *cost.Prices) wire.Forecast {
	f := wire.Forecast{
		Counted: c.counted, Cached: c.cached, Caches: c.caches, Removed: c.removed, Total: c.head,
		MaxOutput: maxOutput, Prices: prices,
	}
	for i, size := range c.sizes {
		f.Total += size
		if i >= c.known {
			f.Fresh += size
		}
	}
	if c.known == 0 {
		f.Fresh += c.head
	}
	return f
}

// shrink removes tool results from the conversation, the largest first and the older of two equal
// ones, until the next prompt is estimated at no more than the given tokens. It keeps the newest
// message, and reports whether it succeeded. The removed results depend on the conversation only.
func (c *conversation) shrink(tokens int64) bool {
	type place struct{ message, result, size int }
	var places []place
	for i, m := range c.prompt.Messages[:len(c.prompt.Messages)-1] {
		for j, r := range m.Results {
			if note := leftOut(r); len(note) < len(r.Text) {
				places = append(places, place{i, j, len(r.Text)})
			}
		}
	}
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Compare(b.size, a.size) })
	for _, p := range places {
		if c.forecast(0, nil).Guess() <= tokens {
			return true
		}
		c.leaveOut(p.message, p.result)
	}
	return c.forecast(0, nil).Guess() <= tokens
}

// leaveOut replaces a result by a note.
func (c *conversation) leaveOut(message, result int) {
	m := c.prompt.Messages[message]
	m.Results = slices.Clone(m.Results)
	m.Results[result].Text = leftOut(m.Results[result])
	before := c.sizes[message]
	c.prompt.Messages[message], c.sizes[message] = m, int64(len(wire.Encode(m)))
	if message < c.known {
		c.removed += before - c.sizes[message]
		c.cached = 0 // a provider caches prefixes, and this prefix has changed
	}
}

func leftOut(r wire.Result) string {
	return fmt.Sprintf("(%d bytes omitted to save space; call the tool again if you need them)", len(r.Text))
}
