package agent

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/secrets"
	"github.com/maestro-hive/maestro/internal/session"
)

func TestSecretsAreMaskedAcrossPieces(t *testing.T) {
	t.Parallel()
	for cut := range len(secret) + 1 {
		c := newCapture(secrets.New([]string{secret}), 1<<20)
		for _, piece := range []string{"before " + secret[:cut], secret[cut:] + " after\n"} {
			_, err := c.out.Write([]byte(piece))
			require.NoError(t, err)
		}
		require.NoError(t, c.out.Close())
		require.Equal(t, "before *** after\n", string(c.transcript()))
	}
}

func TestSecretsAreFoundByName(t *testing.T) {
	t.Parallel()
	vars := map[string]string{"API_KEY": "value-of-api-key", "MY_TOKEN": "value-of-my-token", "NAMED": "value-named", "PLAIN": "value-plain", "PIN_SECRET": "1234"}
	b := newBench(t)
	b.vars = vars
	s := b.set(Config{
		Secrets: []string{"NAMED"},
		Agents:  map[string]Definition{"x": {Kind: KindCommand, Argv: []string{"/bin/true"}, Env: []string{"API_KEY", "PLAIN", "PIN_SECRET"}}},
		Checks:  map[string]CheckDefinition{"c": {Argv: []string{"/bin/true"}, Env: []string{"MY_TOKEN"}}},
	})
	require.Equal(t, []string{"value-named", "value-of-api-key", "value-of-my-token"}, s.Secrets())
	require.Equal(t, "*** *** *** value-plain 1234", s.Mask("value-of-api-key value-of-my-token value-named value-plain 1234"))
}

func TestLongLogKeepsItsEnds(t *testing.T) {
	t.Parallel()
	c := newCapture(secrets.New(nil), 1<<30)
	for i := range 200_000 {
		fmt.Fprintf(c.out, "line %d\n", i)
	}
	require.NoError(t, c.out.Close())
	log := string(c.transcript())
	require.Less(t, len(log), logHead+logTail+100)
	require.True(t, strings.HasPrefix(log, "line 0\n"))
	require.True(t, strings.HasSuffix(log, "line 199999\n"))
	require.Contains(t, log, "bytes omitted")
	require.LessOrEqual(t, len(c.evidence(&c.out.tail)), session.MaxOutput)
	require.True(t, strings.HasSuffix(c.evidence(&c.out.tail), "line 199999"))
}

func TestStreamsDoNotCutEachOthersLines(t *testing.T) {
	t.Parallel()
	c := newCapture(secrets.New(nil), 1<<20)
	for range 3 {
		_, _ = c.out.Write([]byte("out "))
		_, _ = c.err.Write([]byte("err "))
	}
	_, _ = c.err.Write([]byte("ends\n"))
	_, _ = c.out.Write([]byte("ends\n"))
	require.Equal(t, "err err err ends\nout out out ends\n", string(c.transcript()))
}

func TestOutputPastTheLimitIsDropped(t *testing.T) {
	t.Parallel()
	c := newCapture(secrets.New(nil), 10)
	_, _ = c.out.Write([]byte("1234567\n"))
	require.Empty(t, c.full)
	_, _ = c.out.Write([]byte("abcdefgh\n"))
	require.Len(t, c.full, 1)
	require.NoError(t, c.out.Close())
	require.Equal(t, "1234567\nab\n", string(c.transcript()))
}

func TestProgressIsReadable(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	secretInEscapes := secret[:10] + `\033[0m` + secret[10:]
	s := b.shell(`printf '\033[32mgreen\033[0m ` + secretInEscapes + ` %0300d\n' 7 >&2; printf '10%%\r50%%\r100%%\n' >&2; echo only stdout`)
	_, err := s.Run(t.Context(), b.job())
	require.NoError(t, err)
	require.Len(t, b.said, 2)
	require.True(t, strings.HasPrefix(b.said[0], "green *** 000"), b.said[0])
	require.LessOrEqual(t, len(b.said[0]), maxProgress)
	require.True(t, utf8.ValidString(b.said[0]))
	require.Equal(t, "100%", b.said[1])
}

func TestProgressIsRateLimited(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []string
	p := newProgress(func(line string) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, line)
	})
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(got)
	}
	for i := range 1000 {
		p.line(fmt.Sprint(i))
	}
	require.Less(t, count(), 10)
	require.Eventually(t, func() bool { return count() > 1 }, patience, time.Millisecond, "the newest comes without another")
	p.line("last")
	p.end()
	p.line("too late")
	p.end()
	require.Equal(t, "0", got[0])
	require.Equal(t, "last", got[len(got)-1])
	var none *progress
	none.line("x")
	none.end()
	require.Nil(t, newProgress(nil))
}
