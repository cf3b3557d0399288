package cli_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSchema(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for kind, title := range map[string]string{"team": "A Maestro team file", "worker": "A Maestro worker file"} {
		var schema struct{ Title string }
		require.NoError(t, json.Unmarshal([]byte(d.must(0, "schema", kind)), &schema))
		require.Equal(t, title, schema.Title)
	}
	c := d.run("schema", "teem")
	require.Equal(t, 2, c.code)
	require.Contains(t, c.stderr.String(), `did you mean "team"?`)
	require.Equal(t, 2, d.run("schema").code)
	require.Equal(t, "team\nworker\n:4\n", d.must(0, "__complete", "schema", ""))
}
