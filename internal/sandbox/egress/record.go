package egress

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// maxRecorded bounds the targets in a room's record.
const maxRecorded = 200

// Outcome is the result of a request.
type Outcome string

// The outcomes of requests.
const (
	Permitted Outcome = "permitted"
	Refused   Outcome = "refused"
	// Failed: the host was permitted and could not be reached.
	Failed Outcome = "failed"
)

// Observer counts requests and bytes. Its methods must return at once.
type Observer interface {
	// EgressRequest is called once for each request or tunnel of a room.
	EgressRequest(Outcome)
	// EgressBytes is called at the end of a room, with the bytes that it has received and sent.
	EgressBytes(received, sent int64)
}

type noObserver struct{}

func (noObserver) EgressRequest(Outcome)    {}
func (noObserver) EgressBytes(int64, int64) {}

// record has the requests of one room. Each target is logged at its first request.
type record struct {
	log     func(format string, args ...any)
	observe Observer
	traffic traffic

	mu     sync.Mutex
	counts map[Outcome]int
	// seen has each outcome with its target.
	seen map[string]bool
}

// quoted returns a text from a room for the log.
func quoted(text string) string { return strconv.QuoteToASCII(textfmt.Shorten(text, 80)) }

// add counts a request to a target. why is the reason why it was refused or failed.
func (r *record) add(o Outcome, target, why string) {
	r.observe.EgressRequest(o)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[o]++
	said := string(o) + " " + target
	switch {
	case r.seen[said], len(r.seen) > maxRecorded:
		return
	case len(r.seen) == maxRecorded:
		r.log("network: requests to more than %d different targets; further ones are not listed", maxRecorded)
	case o == Permitted:
		r.log("network: %s", target)
	default:
		r.log("network: %s: %s", said, why)
	}
	r.seen[said] = true
}

// end logs the summary.
func (r *record) end() {
	received, sent := r.traffic.received.Load(), r.traffic.sent.Load()
	r.observe.EgressBytes(received, sent)
	r.mu.Lock()
	defer r.mu.Unlock()
	var parts []string
	for _, o := range []Outcome{Permitted, Refused, Failed} {
		if n := r.counts[o]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, o))
		}
	}
	if len(parts) > 0 {
		r.log("network: %s; %s received, %s sent", strings.Join(parts, ", "), textfmt.ByteSize(received), textfmt.ByteSize(sent))
	}
}
