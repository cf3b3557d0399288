package access

import (
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

// quota lets each key do something so many times at once, and then once in a while. It
// remembers a fixed number of keys and forgets those that it saw longest ago.
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
	return false, time.Duration(missing / float64(q.every) * float64(time.Second))
}

// inFlight counts the requests of each key that are in flight. Its zero value is ready.
type inFlight struct {
	mu    sync.Mutex
	count map[string]int
}

// begin counts one more request of a key, unless there are as many as allowed.
func (f *inFlight) begin(key string, allowed int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count == nil {
		f.count = map[string]int{}
	}
	if f.count[key] >= allowed {
		return false
	}
	f.count[key]++
	return true
}

func (f *inFlight) end(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count[key]--; f.count[key] == 0 {
		delete(f.count, key)
	}
}
