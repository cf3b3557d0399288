package agent

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
)

// section is what the page on agents says below a heading, or below a line.
func section(t *testing.T, page, after string) string {
	t.Helper()
	_, rest, ok := strings.Cut(page, "\n"+after+"\n")
	require.True(t, ok, "the page has no line %q", after)
	rest, _, _ = strings.Cut(rest, "\n#")
	return rest
}

// fields are the names that a type has in JSON.
func fields(of any) []string {
	var names []string
	for f := range reflect.TypeOf(of).Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// TestThePageHasTheContract holds the page on agents against the types that are read
// and written.
func TestThePageHasTheContract(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../../docs/writing-an-agent.md")
	require.NoError(t, err)
	page := string(data)
	for after, types := range map[string][]any{
		"### The brief": {session.Brief{}, session.MaySendBack{}}, "`feedback` has": {session.Feedback{}},
		"### The result": {result{}, cost.Usage{}, sentBack{}, resultError{}},
	} {
		for _, of := range types {
			for _, name := range fields(of) {
				require.Contains(t, section(t, page, after), "`"+name+"`", after)
			}
		}
	}
	categories := section(t, page, "### Categories")
	for _, c := range failures.Categories() {
		never := (&resultError{Category: c}).check() != nil
		require.Contains(t, categories, "`"+string(c)+"`")
		require.Equal(t, never, regexp.MustCompile("(?m)^\\| [^|]*`"+string(c)+"`[^|]* \\| never").MatchString(categories), c)
	}
}
