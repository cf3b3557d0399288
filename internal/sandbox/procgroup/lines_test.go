package procgroup

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

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
