package session_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
)

// TestEveryKindOfRequestHasOneRow compares the constants with the table.
func TestEveryKindOfRequestHasOneRow(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "request.go", nil, 0)
	require.NoError(t, err)
	var constants []session.RequestKind
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if of, ok := spec.Type.(*ast.Ident); ok && of.Name == "RequestKind" {
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			constants = append(constants, session.RequestKind(value))
		}
		return true
	})
	rows := session.RequestKinds()
	for _, k := range rows {
		rule := k.Rule()
		require.Equal(t, k, rule.Kind)
		require.NotEmpty(t, rule.Need, k)
		require.NotEmpty(t, rule.Actions, k)
		for _, v := range rule.Actions {
			require.Equal(t, rule.OfPhase, v.OfPhase(), "%s takes %s", k, v)
		}
	}
	slices.Sort(rows)
	slices.Sort(constants)
	require.Equal(t, constants, rows)
}

// TestARequestTakesWhatItsKindTakes whatever it lists.
func TestARequestTakesWhatItsKindTakes(t *testing.T) {
	t.Parallel()
	h := session.Request{Kind: session.ForApproval, Actions: []session.Action{session.AnswerApprove, session.AnswerSkip}}
	require.True(t, h.Takes(session.AnswerApprove))
	require.False(t, h.Takes(session.AnswerSkip))
	require.False(t, h.Takes(session.AnswerReject))
}
