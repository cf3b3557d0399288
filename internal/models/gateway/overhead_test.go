package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

// processor is the processor time of this process so far.
func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkOverhead streams answers of 500 tokens, an event each, from the provider and through
// the gateway. It reports the median that the gateway adds to the first byte, and the share of a
// processor that it adds to a stream of 100 tokens a second.
func BenchmarkOverhead(b *testing.B) {
	const tokens = 500
	s := newBench(b, func(providertest.Request) providertest.Reply {
		reply := providertest.Say(strings.Repeat("four and twenty letters ", tokens)) // a piece has 24 bytes
		reply.Fault.Hold = func(sent int) <-chan struct{} {                           // an event comes alone, as tokens do
			over := make(chan struct{})
			if time.AfterFunc(2*time.Millisecond, func() { close(over) }); sent == 0 {
				return nil
			}
			return over
		}
		return reply
	}, -1, nil)
	prompt := strings.Repeat("x", 100<<10)
	n := 0
	stream := func(url, token string) (first time.Duration) {
		n++
		body := fmt.Sprintf(`{"model":"m","max_tokens":9000,"stream":true,"messages":[{"role":"user","content":"%d %s"}]}`, n, prompt)
		request, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url, strings.NewReader(body))
		require.NoError(b, err)
		request.Header.Set("X-Api-Key", token)
		begun := time.Now()
		response, err := http.DefaultClient.Do(request)
		require.NoError(b, err)
		defer response.Body.Close()
		_, err = response.Body.Read(make([]byte, 1))
		require.NoError(b, err)
		first = time.Since(begun)
		_, err = io.Copy(io.Discard, response.Body)
		require.NoError(b, err)
		return first
	}
	var direct, through []time.Duration
	var directCPU, throughCPU time.Duration
	for b.Loop() {
		at := processor(b)
		direct = append(direct, stream(s.provider.URL()+"/v1/messages", ""))
		between := processor(b)
		through = append(through, stream(s.address+"/anthropic/v1/messages", s.access.Token))
		directCPU, throughCPU = directCPU+between-at, throughCPU+processor(b)-between
	}
	median := func(d []time.Duration) time.Duration { slices.Sort(d); return d[len(d)/2] }
	b.ReportMetric(float64(median(through)-median(direct))/1e6, "added-ms/first-byte")
	perToken := (throughCPU - directCPU).Seconds() / float64(len(through)) / tokens
	b.ReportMetric(100*100*perToken, "%cpu/100-tokens/s")
	b.ReportMetric(float64(throughCPU)/float64(directCPU), "x-direct-cpu")
	b.ReportMetric(0, "ns/op")
}
