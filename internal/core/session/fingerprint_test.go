package session_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

func TestFingerprintIsTheSameForTheSameFailure(t *testing.T) {
	t.Parallel()
	id := spec.AssignmentID{Phase: "testing", Persona: "tester"}
	of := func(message string) string { return session.Fingerprint("web", id, failures.TestFailure, message) }
	for name, pair := range map[string][2]string{
		"numbers": {"3 of 12 tests failed after 4.2s", "5 of 13 tests failed after 0.9s"},
		"paths":   {"open /tmp/a1/x/go.mod: no such file", "open /var/lib/maestro/s-2/go.mod: no such file"},
		"hashes": {
			"commit 9fceb02d0ae598e95dc970b74767f19372d61af8 is bad",
			"commit 1b2c3d4e5f60718293a4b5c6d7e8f90011223344 is bad",
		},
		"identifiers": {"request req_011CSHoEeqs5C35K2UUqR7Fy failed", "request req_9z failed"},
		"uuids":       {"run 3f2a7c1e-91d2-4a54-b1f1-5be1a4b7f3aa is gone", "run 11111111-2222-3333-4444-555555555555 is gone"},
		"case, space": {"Connection  refused\n", "connection refused"},
	} {
		require.Equal(t, of(pair[0]), of(pair[1]), name)
	}
	base := of("go build failed")
	require.Len(t, base, 16)
	for name, other := range map[string]string{
		"message":  of("go vet failed"),
		"team":     session.Fingerprint("api", id, failures.TestFailure, "go build failed"),
		"category": session.Fingerprint("web", id, failures.Syntax, "go build failed"),
		"persona": session.Fingerprint("web", spec.AssignmentID{Phase: "testing", Persona: "dev"}, failures.TestFailure,
			"go build failed"),
		"phase": session.Fingerprint("web", spec.AssignmentID{Phase: "design", Persona: "tester"}, failures.TestFailure,
			"go build failed"),
	} {
		require.NotEqual(t, base, other, name)
	}
}
