package gateway

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/transcript"
	"github.com/maestro-hive/maestro/internal/models/wire"
)

const (
	// maxSeen bounds the items of conversations that are remembered, and maxGists the tool calls
	// without a result.
	maxSeen, maxGists = 1 << 17, 1 << 10
)

// transcriber writes the transcript of an attempt's calls. A request repeats its conversation: an
// item is written once.
type transcriber struct {
	now       func() time.Time
	continues bool

	mu  sync.Mutex
	log *transcript.Writer
	// calls counts the calls, and last is the one that the last lines are about.
	calls, last int
	seed        maphash.Seed
	seen        map[uint64]bool
	// gists are short texts of tool calls, by their ids, until their results come.
	gists map[string]string
}

func newTranscriber(a Attempt, now func() time.Time) *transcriber {
	if a.Log == nil {
		a.Log = io.Discard
	}
	return &transcriber{
		now: now, continues: a.Continues, log: transcript.New(a.Log, a.Mask),
		seed: maphash.MakeSeed(), seen: map[uint64]bool{}, gists: map[string]string{},
	}
}

// callTranscript is the part of a transcript that is about a call.
type callTranscript struct {
	*transcriber
	format wire.Format
	number int
	begun  time.Time
}

// writeRequest writes the new items of a request.
func (r *transcriber) writeRequest(provider string, q *wire.Request) *callTranscript {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	r.last = r.calls
	c := &callTranscript{transcriber: r, format: q.Format, number: r.calls, begun: r.now()}
	items, known := r.newItems(q)
	before := ""
	if known > 0 {
		before = "; " + textfmt.Count(known, "item") + " as before"
	}
	r.log.Turn("call %d at %s to %s: %s%s", c.number, c.begun.UTC().Format(time.TimeOnly), provider, q.Model, before)
	for _, it := range items {
		r.writeItem(it)
	}
	return c
}

// newItems returns the items of a request that are not written yet. known counts the others.
func (r *transcriber) newItems(q *wire.Request) (items []wire.Item, known int) {
	times := map[uint64]int{}
	for it := range q.Items() {
		if !r.isNew(it, times) {
			known++
			continue
		}
		if r.continues && it.Kind.OfModel() { // an earlier attempt wrote it, and the items before it
			known, items = known+len(items)+1, nil
			continue
		}
		if len(it.Text) > 2*transcript.MaxItem { // the rest of it is not written
			it.Text = strings.Clone(it.Text[:2*transcript.MaxItem])
		}
		items = append(items, it)
	}
	return items, known
}

// isNew remembers an item, and reports whether it is new. times counts how often a conversation
// has the item: one that the program repeats is new. Items of the model are noted with its answer.
func (r *transcriber) isNew(it wire.Item, times map[uint64]int) bool {
	key := maphash.Comparable(r.seed, [4]string{string(it.Kind), it.ID, it.Name, strings.TrimSpace(it.Text)})
	switch {
	case it.Kind == wire.ToolCall:
		// Programs write arguments in other ways than the model, and give calls ids of their own.
		named := r.mark(maphash.Comparable(r.seed, it.ID))
		written := r.mark(maphash.Comparable(r.seed, [2]string{it.Name, canonical(it.Text)}))
		return (named || it.ID == "") && written
	case it.Kind.OfModel():
		return r.mark(key)
	}
	times[key]++
	return r.mark(maphash.Comparable(r.seed, [2]uint64{key, uint64(times[key])})) //nolint:gosec // positive
}

// mark remembers a key, and reports whether it is new.
func (r *transcriber) mark(key uint64) bool {
	if r.seen[key] {
		return false
	}
	if len(r.seen) >= maxSeen {
		clear(r.seen)
	}
	r.seen[key] = true
	return true
}

// canonical returns a JSON text in a uniform format; any other text unchanged.
func canonical(text string) string {
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return text
	}
	data, _ := json.Marshal(v) // it was JSON
	return string(data)
}

// writeItem writes an item of a request.
func (r *transcriber) writeItem(it wire.Item) {
	switch it.Kind {
	case wire.ToolResult:
		gist := r.gists[it.ID]
		if delete(r.gists, it.ID); gist == "" {
			gist = it.Name
		}
		r.log.Result(gist, it.Text, it.Failed)
	case wire.ToolCall:
		gist, detail := transcript.Gist(it.Name, json.RawMessage(it.Text))
		r.log.Asked("earlier call", gist+"\n"+detail)
	default:
		r.log.Asked(string(it.Kind), it.Text)
	}
}

// writeAnswer writes the answer, how it has ended, and its cost.
func (c *callTranscript) writeAnswer(contentType string, body []byte, how string, used cost.Usage) {
	items := wire.ReadAnswer(c.format, contentType, body)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last != c.number {
		c.log.Turn("call %d is answered", c.number)
		c.last = c.number
	}
	times := map[uint64]int{}
	for _, it := range items {
		c.isNew(it, times)
		switch it.Kind {
		case wire.Thought:
			if it.Text != "" {
				c.log.Thought(it.Text)
			}
		case wire.ToolCall:
			gist, detail := transcript.Gist(it.Name, json.RawMessage(it.Text))
			if len(c.gists) >= maxGists {
				clear(c.gists)
			}
			if it.ID != "" {
				c.gists[it.ID] = gist
			}
			c.log.Call(gist, detail)
		default:
			c.log.Text(it.Text)
		}
	}
	c.log.Turn("call %d: %s after %s; %s", c.number, how, c.now().Sub(c.begun).Round(time.Millisecond), used.Text())
}

// writeFailed writes why a try of the call has no answer.
func (c *callTranscript) writeFailed(message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log.Warn(fmt.Sprintf("call %d: %s", c.number, message))
}

// writeRefused writes why a request was refused that is no call.
func (r *transcriber) writeRefused(provider string, why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log.Warn(fmt.Sprintf("the gateway refuses a request to %s: %v", provider, why))
}
