package localdev

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhyAServerEnded(t *testing.T) {
	t.Parallel()
	for printed, want := range map[string]string{
		"": "",
		"a warning\nmaestro-server: no space left on device\n":                  "maestro-server: no space left on device",
		"panic: no listener\n\ngoroutine 7 [running]:\n\tserver.go:80 +0x188\n": "panic: no listener",
	} {
		messages := &startMessages{out: io.Discard}
		_, err := messages.Write([]byte(printed))
		require.NoError(t, err)
		require.Equal(t, want, messages.said())
	}
}
