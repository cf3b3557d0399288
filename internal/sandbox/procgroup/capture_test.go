package procgroup

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/secrets"
	"github.com/maestro-hive/maestro/internal/core/session"
)

func TestSecretsAreMaskedAcrossPieces(t *testing.T) {
	t.Parallel()
	const hidden = "swordfish-0123456789"
	for cut := range len(hidden) + 1 {
		c := NewCapture(secrets.New([]secrets.Secret{{Value: hidden}}), 1<<20)
		for _, piece := range []string{"before " + hidden[:cut], hidden[cut:] + " after\n"} {
			_, err := c.Stdout.Write([]byte(piece))
			require.NoError(t, err)
		}
		require.NoError(t, c.Stdout.Close())
		require.Equal(t, "before *** after\n", string(c.Log()))
	}
}

func TestLongLogKeepsItsEnds(t *testing.T) {
	t.Parallel()
	c := NewCapture(secrets.New(nil), 1<<30)
	for i := range 200_000 {
		fmt.Fprintf(c.Stdout, "line %d\n", i)
	}
	require.NoError(t, c.Stdout.Close())
	log := string(c.Log())
	require.Less(t, len(log), logHead+logTail+100)
	require.True(t, strings.HasPrefix(log, "line 0\n"))
	require.True(t, strings.HasSuffix(log, "line 199999\n"))
	require.Contains(t, log, "bytes omitted")
	require.LessOrEqual(t, len(c.Stdout.Tail()), session.MaxOutput)
	require.True(t, strings.HasSuffix(c.Stdout.Tail(), "line 199999"))
}

func TestStreamsDoNotCutEachOthersLines(t *testing.T) {
	t.Parallel()
	c := NewCapture(secrets.New(nil), 1<<20)
	for range 3 {
		_, _ = c.Stdout.Write([]byte("out "))
		_, _ = c.Stderr.Write([]byte("err "))
	}
	_, _ = c.Stderr.Write([]byte("ends\n"))
	_, _ = c.Stdout.Write([]byte("ends\n"))
	require.Equal(t, "err err err ends\nout out out ends\n", string(c.Log()))
}

func TestOutputPastTheLimitIsDropped(t *testing.T) {
	t.Parallel()
	c := NewCapture(secrets.New(nil), 10)
	_, _ = c.Stdout.Write([]byte("1234567\n"))
	require.Empty(t, c.full)
	_, _ = c.Stdout.Write([]byte("abcdefgh\n"))
	require.Len(t, c.full, 1)
	require.NoError(t, c.Stdout.Close())
	require.Equal(t, "1234567\nab\n", string(c.Log()))
}

func TestEventLines(t *testing.T) {
	t.Parallel()
	var got []string
	l := &Lines{OnLine: func(line []byte) { got = append(got, string(line)) }}
	for _, piece := range []string{"{\"a\"", ":1}\r\n\n", "  {}\nlas", "t"} {
		l.Add([]byte(piece))
	}
	l.End()
	require.Equal(t, []string{`{"a":1}`, "{}", "last"}, got)

	got = nil
	l.Add(bytes.Repeat([]byte("x"), maxEventLine))
	l.Add([]byte("x\n{}\n"))
	l.End()
	require.Equal(t, []string{"… an oversized event is omitted …", "{}"}, got)
	require.LessOrEqual(t, cap(l.line), 2*maxEventLine)
}
