package localdev

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheServersProgramIsBesideOurOwn(t *testing.T) {
	t.Parallel()
	_, err := FindServer(filepath.Join(t.TempDir(), "maestro"))
	require.ErrorContains(t, err, "maestro-server is not in the directory of this program")
}
