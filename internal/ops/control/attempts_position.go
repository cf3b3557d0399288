package control

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"hash/fnv"
	"slices"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

const (
	// maxPosition limits a position, in bytes: it returns in a header of a request, and proxies permit
	// 8 KiB for all of them.
	maxPosition = 4 << 10
	// maxRecentEnds and maxPlaces bound the attempts and the live logs that a position names.
	maxRecentEnds = 32
	maxPlaces     = 32
)

// followPosition is what a reader has received of a session. It is text, which the reader keeps, and does
// not grow with the session.
type followPosition struct {
	// Before: all attempts up to this one were received, in the order of their ends. Recent are those that
	// were received besides, the oldest first: an end may be noticed late.
	Before attemptEnd   `json:"b"`
	Recent []attemptEnd `json:"r,omitempty"`
	// Places are where the reader is in the live logs, the one that was last read at the end. Of more than
	// maxPlaces, the others are read from their beginning again.
	Places []livePlace `json:"l,omitempty"`
}

// attemptEnd is the end of an attempt: its time in nanoseconds, and a hash of the attempt.
type attemptEnd [2]int64

// livePlace is the place in the live log of an assignment: the hash of its name and the offset.
type livePlace [2]int64

func nameHash(name string) int64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // never fails
	return int64(h.Sum32())
}

func endOf(a Attempt) attemptEnd {
	return attemptEnd{a.Ended().UnixNano(), nameHash(a.String())}
}

func (e attemptEnd) compare(o attemptEnd) int {
	return cmp.Or(cmp.Compare(e[0], o[0]), cmp.Compare(e[1], o[1]))
}

// has reports whether the reader has received an attempt.
func (p *followPosition) has(e attemptEnd) bool {
	return e.compare(p.Before) <= 0 || slices.Contains(p.Recent, e)
}

// passed notes that the reader has received an attempt. Its assignment begins another live log.
func (p *followPosition) passed(id spec.AssignmentID, e attemptEnd) {
	if i, _ := slices.BinarySearchFunc(p.Recent, e, attemptEnd.compare); !p.has(e) {
		p.Recent = slices.Insert(p.Recent, i, e)
	}
	for len(p.Recent) > maxRecentEnds {
		p.Before, p.Recent = p.Recent[0], p.Recent[1:]
	}
	p.put(id, 0)
}

// put notes the offset of the reader in a live log; zero removes it.
func (p *followPosition) put(id spec.AssignmentID, offset int64) {
	of := nameHash(id.String())
	p.Places = slices.DeleteFunc(p.Places, func(l livePlace) bool { return l[0] == of })
	if offset > 0 {
		p.Places = append(p.Places, livePlace{of, offset})
		p.Places = p.Places[max(0, len(p.Places)-maxPlaces):]
	}
}

// offset is the offset of the reader in a live log.
func (p *followPosition) offset(id spec.AssignmentID) int64 {
	of := nameHash(id.String())
	for _, l := range p.Places {
		if l[0] == of {
			return max(l[1], 0)
		}
	}
	return 0
}

// String is the position as text.
func (p *followPosition) String() string {
	data, _ := json.Marshal(p) // plain data
	return base64.RawURLEncoding.EncodeToString(data)
}

func followPositionOf(text string) (p followPosition, err error) {
	if text == "" || text == FollowNew {
		return p, nil
	}
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(data, &p)
	}
	if err != nil || len(text) > maxPosition || len(p.Recent) > maxRecentEnds || len(p.Places) > maxPlaces {
		return p, invalidf("from", "%q is not a position of these events; start without one", textfmt.Shorten(text, 40))
	}
	return p, nil
}
