package access

import (
	"cmp"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

// quota is a rate limit for each key: a burst, and then one in each interval. It has a fixed
// number of keys, and drops the least recently used one.
type quota struct {
	keys  *lru.Cache[string, *rate.Limiter]
	every rate.Limit
	burst int
	now   func() time.Time
}

func newQuota(keys, burst int, every time.Duration, now func() time.Time) *quota {
	cache, err := lru.New[string, *rate.Limiter](keys)
	if err != nil {
		panic(err) // the number of keys is a constant
	}
	return &quota{keys: cache, every: rate.Every(every), burst: burst, now: now}
}

// take reports whether a key may do it now, and otherwise after what time it may.
func (q *quota) take(key string) (ok bool, after time.Duration) {
	limiter := rate.NewLimiter(q.every, q.burst)
	if known, found, _ := q.keys.PeekOrAdd(key, limiter); found {
		limiter = known
		q.keys.Get(key) // it was seen now
	}
	return allow(limiter, q.now())
}

// allow takes one of a limiter, or says after what time there is one.
func allow(limiter *rate.Limiter, now time.Time) (ok bool, after time.Duration) {
	if limiter.AllowN(now, 1) {
		return true, 0
	}
	missing := 1 - limiter.TokensAt(now)
	return false, time.Duration(missing / float64(limiter.Limit()) * float64(time.Second))
}

// giveBack undoes one take of a key.
func (q *quota) giveBack(key string) {
	if limiter, known := q.keys.Get(key); known {
		limiter.AllowN(q.now(), -1)
	}
}

// nameQuota is a quota for keys that anybody can make up: none is dropped for others. The few whose hashes are alike share
// theirs, and nobody can foresee which.
type nameQuota struct {
	limiters [1 << 16]atomic.Pointer[rate.Limiter]
	seed     maphash.Seed
	every    rate.Limit
	burst    int
	now      func() time.Time
}

func newNameQuota(burst int, every time.Duration, now func() time.Time) *nameQuota {
	return &nameQuota{seed: maphash.MakeSeed(), every: rate.Every(every), burst: burst, now: now}
}

func (q *nameQuota) of(key string) *atomic.Pointer[rate.Limiter] {
	return &q.limiters[maphash.String(q.seed, key)%uint64(len(q.limiters))]
}

// take reports whether a key may do it now, and otherwise after what time it may.
func (q *nameQuota) take(key string) (ok bool, after time.Duration) {
	place, limiter := q.of(key), rate.NewLimiter(q.every, q.burst)
	if !place.CompareAndSwap(nil, limiter) {
		limiter = cmp.Or(place.Load(), limiter)
	}
	return allow(limiter, q.now())
}

// forget lets a key begin anew.
func (q *nameQuota) forget(key string) { q.of(key).Store(nil) }

// InFlight counts what is in flight, of each key and in all.
type InFlight struct {
	own, all int

	mu    sync.Mutex
	count map[string]int
	total int
}

// NewInFlight allows so much of each key, and so much in all.
func NewInFlight(own, all int) *InFlight {
	return &InFlight{own: own, all: all, count: map[string]int{}}
}

// Begin counts one more of a key, until done is called. done is nil if there are as many as allowed: of
// the key, or of others.
func (f *InFlight) Begin(key string) (done func(), ofKey bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ofKey = f.count[key] >= f.own; ofKey || f.total >= f.all {
		return nil, ofKey
	}
	f.count[key]++
	f.total++
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.total--
		if f.count[key]--; f.count[key] == 0 {
			delete(f.count, key)
		}
	}, false
}
