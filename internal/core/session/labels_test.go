package session

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLabelsAreBounded(t *testing.T) {
	t.Parallel()
	good, err := ParseLabels([]string{"area=web", "ticket.id=MD-1 = x, y", "k8s_io=ü"})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"area": "web", "ticket.id": "MD-1 = x, y", "k8s_io": "ü"}, good)
	none, err := ParseLabels(nil)
	require.NoError(t, err)
	require.Nil(t, none)
	for _, bad := range []string{"area", "=web", "area=", "-a=web", "a-=web", "a b=web", "a/b=web", "a=" +
		strings.Repeat("x", MaxLabelValue+1), "a=x\ny", "a=\x1b[31m", "a=\u202e", "a=\xff", strings.Repeat("a", 64) + "=x"} {
		_, err := ParseLabels([]string{bad})
		require.Error(t, err, bad)
	}
	_, err = ParseLabels([]string{"a=1", "a=2"})
	require.ErrorContains(t, err, "its key is given twice")
	many := map[string]string{}
	for i := range MaxLabels + 1 {
		many[fmt.Sprint(i)] = "x"
	}
	require.ErrorContains(t, CheckLabels(many), "17 labels are given; a session has 16 at most")
}
