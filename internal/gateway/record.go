package gateway

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/textfmt"
	"github.com/maestro-hive/maestro/internal/transcript"
	"github.com/maestro-hive/maestro/internal/wire"
)

const (
	// maxSeen is how many items of conversations are told from new ones, and maxGists how many
	// tool calls are without a result.
	maxSeen, maxGists = 1 << 17, 1 << 10
	// askAfter is when a request is taken apart, so that it is sent first.
	askAfter = 20 * time.Millisecond
)

// recorder writes the transcript of an attempt's calls. A request repeats its conversation: an
// item is written once.
type recorder struct {
	now       func() time.Time
	continues bool

	mu  sync.Mutex
	log *transcript.Writer
	// calls counts the calls, and last is the one that the last lines are about.
	calls, last int
	seed        maphash.Seed
	seen        map[uint64]bool
	// gists are tool calls in a few words, by their ids, until their results come.
	gists map[string]string
}

func newRecorder(a Attempt, now func() time.Time) *recorder {
	if a.Log == nil {
		a.Log = io.Discard
	}
	return &recorder{
		now: now, continues: a.Continues, log: transcript.New(a.Log, a.Mask),
		seed: maphash.MakeSeed(), seen: map[uint64]bool{}, gists: map[string]string{},
	}
}

// record is the part of a transcript that is about a call.
type record struct {
	*recorder
	format wire.Format
	number int
	begun  time.Time
	// ask writes the request, once, and timer calls it.
	ask   func()
	timer *time.Timer
}

// begin writes what is new in a request, while the provider is waited for.
func (r *recorder) begin(provider string, q *wire.Request) *record {
	c := &record{recorder: r, format: q.Format, begun: r.now()}
	c.ask = sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.calls++
		c.number, r.last = r.calls, r.calls
		items, known := r.news(q)
		before := ""
		if known > 0 {
			before = "; " + textfmt.Count(known, "item") + " as before"
		}
		r.log.Turn("call %d at %s to %s: %s%s", c.number, c.begun.UTC().Format(time.TimeOnly), provider, q.Model, before)
		for _, it := range items {
			r.request(it)
		}
	})
	c.timer = time.AfterFunc(askAfter, c.ask)
	return c
}

// end returns when the request is written.
func (c *record) end() {
	c.timer.Stop()
	c.ask()
}

// news are the items of a request that are not written yet, and how many are.
func (r *recorder) news(q *wire.Request) (items []wire.Item, known int) {
	times := map[uint64]int{}
	for it := range q.Items() {
		if !r.isNew(it, times) {
			known++
			continue
		}
		if r.continues && it.Kind.OfModel() { // an earlier attempt has got it, and asked what is before it
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

// isNew notes an item. times counts how often a conversation has the item: what is asked again is
// another item. What the model writes is known by any answer.
func (r *recorder) isNew(it wire.Item, times map[uint64]int) bool {
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

// mark notes a key, and reports whether it is new.
func (r *recorder) mark(key uint64) bool {
	if r.seen[key] {
		return false
	}
	if len(r.seen) >= maxSeen {
		clear(r.seen)
	}
	r.seen[key] = true
	return true
}

// canonical is a JSON text without what makes no difference; any other text as it is.
func canonical(text string) string {
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return text
	}
	data, _ := json.Marshal(v) // it was JSON
	return string(data)
}

// request writes an item of a request.
func (r *recorder) request(it wire.Item) {
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

// answered writes what the answer says, how it has ended, and what is booked for it.
func (c *record) answered(contentType string, body []byte, how string, used cost.Usage) {
	c.ask()
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
			c.log.Thought(it.Text)
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

// failed writes why a try of the call has no answer.
func (c *record) failed(message string) {
	c.ask()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log.Warn(fmt.Sprintf("call %d: %s", c.number, message))
}

// refused writes why a request was refused that is no call.
func (r *recorder) refused(provider string, why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log.Warn(fmt.Sprintf("the gateway refuses a request to %s: %v", provider, why))
}
