package temporalutil_test

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil/temporaltest"
)

func TestDialReachesAServer(t *testing.T) {
	t.Parallel()
	address := temporaltest.Start(t)
	c, err := temporalutil.Dial(t.Context(), &temporalutil.Options{Address: address}, env{"TEMPORAL_CONFIG_FILE": "/absent"}, nil)
	require.NoError(t, err)
	defer c.Close()
	require.Equal(t, address, c.Address)
	require.Equal(t, "default", c.Namespace)

	_, err = c.DescribeWorkflowExecution(t.Context(), "nobody", "")
	require.True(t, temporalutil.NotFound(err), "%v", err)

	other, err := temporalutil.DialAddress(t.Context(), address, "nowhere", nil)
	require.NoError(t, err)
	defer other.Close()
	_, err = other.DescribeWorkflowExecution(t.Context(), "nobody", "")
	require.True(t, temporalutil.NoNamespace(err), "%v", err)
}

func TestDialSaysInTimeThatNobodyAnswers(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts and never says a word
	require.NoError(t, err)
	defer func() { _ = silent.Close() }()
	refusing, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, refusing.Close())
	for _, address := range []string{silent.Addr().String(), refusing.Addr().String()} {
		t.Run(address, func(t *testing.T) {
			t.Parallel()
			_, err := temporalutil.DialAddress(t.Context(), address, "default", nil)
			var unreachable *temporalutil.UnreachableError
			require.ErrorAs(t, err, &unreachable)
			require.Equal(t, address, unreachable.Address)
			require.ErrorContains(t, err, "cannot reach Temporal at "+address)
			require.True(t, temporalutil.Unreachable(err))
		})
	}
}

func TestSearchAttributesAreAddedOnce(t *testing.T) {
	t.Parallel()
	keys := []temporal.SearchAttributeKey{
		temporal.NewSearchAttributeKeyKeyword("TestWord"), temporal.NewSearchAttributeKeyKeywordList("TestWords"),
		temporal.NewSearchAttributeKeyInt64("TestNumber"),
	}
	c, err := temporalutil.DialAddress(t.Context(), temporaltest.Start(t), "default", nil)
	require.NoError(t, err)
	defer c.Close()
	now := time.Now()
	clock := func() time.Time { return now }
	s := temporalutil.NewSearchAttributes(c, "default", clock, keys...)
	missing, err := s.Missing(t.Context())
	require.NoError(t, err)
	require.Equal(t, keys, missing)
	require.Equal(t, "temporal operator search-attribute create --namespace default --name TestWord --type Keyword"+
		" --name TestWords --type KeywordList --name TestNumber --type Int", temporalutil.AddCommand("default", missing))

	require.Eventually(t, func() bool {
		now = now.Add(time.Hour) // a "no" is not believed for ever
		return s.Ready(t.Context())
	}, time.Minute, 10*time.Millisecond)
	missing, err = s.Missing(t.Context())
	require.NoError(t, err)
	require.Empty(t, missing)
	require.NoError(t, s.Add(t.Context(), keys), "adding what is there is no error")
}
