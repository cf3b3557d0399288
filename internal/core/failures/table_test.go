package failures

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryCategoryHasOneRow compares the constants with the table.
func TestEveryCategoryHasOneRow(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "failures.go", nil, 0)
	require.NoError(t, err)
	var constants []Category
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if of, ok := spec.Type.(*ast.Ident); ok && of.Name == "Category" {
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			constants = append(constants, Category(value))
		}
		return true
	})
	rows := Categories()
	slices.Sort(rows)
	slices.Sort(constants)
	require.Equal(t, constants, rows)
}

func TestFailureTable(t *testing.T) {
	t.Parallel()
	for _, c := range Categories() {
		require.NotEmpty(t, RuleFor(c).Advice, c)
		require.NotEmpty(t, Failf(c, "m").Remedy(), c)
		require.NotEmpty(t, RuleFor(c).Breaker, c)
		require.NotEmpty(t, RuleFor(c).Owner, c)
		require.NotEmpty(t, RuleFor(c).Start, c)
	}
	require.Equal(t, RuleFor(Unknown), RuleFor("never heard of"))
	require.False(t, Failf(Auth, "x").RetryAttempt())
	require.True(t, Failf(TestFailure, "x").RetryAttempt())
	final := Failf(TestFailure, "x")
	final.Final = true
	require.False(t, final.RetryAttempt())
	require.False(t, final.RetryRound())
}

// TestWhetherAnotherRoundFollows is one decision for the session, the round and a resume.
func TestWhetherAnotherRoundFollows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		failure       Failure
		round, rounds int
		follows       bool
	}{
		{Failure{Category: TestFailure}, 1, 2, true},
		{Failure{Category: TestFailure}, 2, 2, false},
		{Failure{Category: TestFailure}, 3, 2, false},
		{Failure{Category: TestFailure, Final: true}, 1, 2, false},
		{Failure{Category: Auth}, 1, 2, false},
	} {
		require.Equal(t, c.follows, c.failure.AnotherRound(c.round, c.rounds), "%+v", c)
	}
}
