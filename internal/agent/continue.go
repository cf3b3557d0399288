package agent

import "github.com/maestro-hive/maestro/internal/team"

// Continuable tells whether there is a conversation of the agent in an
// assignment's directory that could go on.
func (s *Set) Continuable(string, team.WorkDir) bool { return false }
