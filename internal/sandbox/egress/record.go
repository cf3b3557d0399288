package egress

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// maxRecorded bounds the targets in a room's record, and maxSummed those in its last line for
// each outcome.
const maxRecorded, maxSummed = 200, 20

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

	mu       sync.Mutex
	counts   map[Outcome]map[string]int
	recorded int
	overflow bool
}

// quoted returns a text from a room for the log.
func quoted(text string) string { return strconv.QuoteToASCII(textfmt.Shorten(text, 80)) }

// add counts a request to a target. why is the reason why it was refused or failed.
func (r *record) add(o Outcome, target, why string) {
	r.observe.EgressRequest(o)
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.counts[o]
	if of == nil {
		of = map[string]int{}
		r.counts[o] = of
	}
	if of[target] > 0 {
		of[target]++
		return
	}
	if r.recorded == maxRecorded {
		if !r.overflow {
			r.log("network: requests to more than %d different targets; further ones are not listed", maxRecorded)
		}
		r.overflow = true
		return
	}
	r.recorded++
	of[target]++
	switch o {
	case Permitted:
		r.log("network: %s", target)
	case Refused, Failed:
		r.log("network: %s %s: %s", o, target, why)
	}
}

// end logs the summary.
func (r *record) end() {
	received, sent := r.traffic.received.Load(), r.traffic.sent.Load()
	r.observe.EgressBytes(received, sent)
	r.mu.Lock()
	defer r.mu.Unlock()
	var parts []string
	for _, o := range []Outcome{Permitted, Refused, Failed} {
		of := r.counts[o]
		if len(of) == 0 {
			continue
		}
		var list []string
		for _, t := range slices.Sorted(maps.Keys(of)) {
			if len(list) == maxSummed {
				list = append(list, fmt.Sprintf("%d more", len(of)-maxSummed))
				break
			}
			list = append(list, fmt.Sprintf("%s (%d)", t, of[t]))
		}
		parts = append(parts, string(o)+" "+strings.Join(list, ", "))
	}
	if len(parts) > 0 {
		r.log("network: %s; %s received, %s sent", strings.Join(parts, "; "), textfmt.ByteSize(received), textfmt.ByteSize(sent))
	}
}
