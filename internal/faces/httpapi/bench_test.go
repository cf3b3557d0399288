package httpapi_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/maestro-hive/maestro/internal/core/session"
)

// BenchmarkFollowers compares how long a change of a session takes to reach 200 browsers with how
// long it takes to reach one, and tells the memory of each. 500 sessions are in the store.
func BenchmarkFollowers(b *testing.B) {
	one := 0.0
	for _, readers := range []int{1, 200} {
		b.Run(map[int]string{1: "one", 200: "all"}[readers], func(b *testing.B) {
			h := serviceOf(b, b.TempDir())
			for i := range 500 {
				h.session(fmt.Sprintf("s%d", i), "web", time.Now(), nil)
			}
			h.call("GET", "/sessions", nil) // fills the index
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			var streams []<-chan event
			for range readers {
				streams = append(streams, h.follow(""))
			}
			for _, s := range streams {
				receive(b, s) // the first is one of all sessions
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			n := int64(0)
			for b.Loop() {
				n++
				h.session("s7", "web", time.Now(), func(e *session.Execution) { e.HistoryEvents = n })
				for _, s := range streams {
					for !strings.Contains(receive(b, s).data, `"s7"`) {
						continue // found late by the index
					}
				}
			}
			ms := float64(b.Elapsed().Microseconds()) / 1000 / float64(b.N)
			if readers == 1 {
				one = ms
			}
			b.ReportMetric(ms, "ms/change")
			b.ReportMetric(ms/one, "x_one")
			b.ReportMetric(float64(after.HeapInuse+after.StackInuse-before.HeapInuse-before.StackInuse)/1024/float64(readers),
				"KiB/reader")
			b.ReportMetric(0, "ns/op")
		})
	}
}
