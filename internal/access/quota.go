package access

import (
	"hash/maphash"
	"strconv"
	"sync"
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
	now := q.now()
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

// nameQuota is a quota for keys that anybody can make up: none is dropped for others, because there are no more keys than places.
// The few whose hashes are alike share theirs, and nobody can foresee which.
type nameQuota struct {
	quota *quota
	seed  maphash.Seed
}

func newNameQuota(burst int, every time.Duration, now func() time.Time) *nameQuota {
	return &nameQuota{newQuota(1<<16, burst, every, now), maphash.MakeSeed()}
}

func (q *nameQuota) key(name string) string {
	return strconv.Itoa(int(uint16(maphash.String(q.seed, name)))) //nolint:gosec // a part of the hash is enough
}

// take is that of a [quota].
func (q *nameQuota) take(name string) (ok bool, after time.Duration) {
	return q.quota.take(q.key(name))
}

// forget lets a name begin anew.
func (q *nameQuota) forget(name string) { q.quota.keys.Remove(q.key(name)) }

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
