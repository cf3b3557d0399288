package egress

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/maestro-hive/maestro/internal/textfmt"
)

// maxRecorded bounds the different targets that a room's record has, and maxSummed those in its
// last line.
const maxRecorded, maxSummed = 200, 20

// Outcome is what a request came to.
type Outcome string

// The outcomes of requests.
const (
	Permitted Outcome = "permitted"
	Refused   Outcome = "refused"
	// Failed: the host was permitted and could not be reached.
	Failed Outcome = "failed"
)

// Observer gets what is counted; its methods return at once.
type Observer interface {
	// EgressAsked: a request of a room, or a tunnel, had an outcome.
	EgressAsked(Outcome)
	// EgressBytes: a room that has ended has received and sent so many bytes.
	EgressBytes(received, sent int64)
}

type noObserver struct{}

func (noObserver) EgressAsked(Outcome)      {}
func (noObserver) EgressBytes(int64, int64) {}

// record is what one room has asked for. Each target is logged when it is asked for first.
type record struct {
	log     func(format string, args ...any)
	observe Observer
	traffic traffic

	mu     sync.Mutex
	counts map[Outcome]map[string]int
	kept   int
	more   bool
}

// shown is a text of a room, fit for a log.
func shown(text string) string { return strconv.QuoteToASCII(textfmt.Shorten(text, 80)) }

// add counts a request for a target. why says why it was not fulfilled.
func (r *record) add(o Outcome, target, why string) {
	r.observe.EgressAsked(o)
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
	if r.kept == maxRecorded {
		if !r.more {
			r.log("network: more than %d different targets were asked for; further ones are not listed", maxRecorded)
		}
		r.more = true
		return
	}
	r.kept++
	of[target]++
	switch o {
	case Permitted:
		r.log("network: %s", target)
	case Refused, Failed:
		r.log("network: %s %s: %s", o, target, why)
	}
}

// end logs what there was in all.
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
