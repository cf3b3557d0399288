package access

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// Role is the role of an actor for a team.
type Role = state.Role

// The roles. Each may view; an admin may do everything.
const (
	RoleViewer   Role = "viewer"
	RoleApprover Role = "approver"
	RoleOperator Role = "operator"
	RoleAdmin    Role = "admin"
)

// AllRoles are the roles, the least powerful first.
var AllRoles = []Role{RoleViewer, RoleApprover, RoleOperator, RoleAdmin}

// Permission is a kind of operation.
type Permission string

// The permissions.
const (
	// View permits reading.
	View Permission = "view"
	// Approve approves and rejects phases.
	Approve Permission = "approve"
	// Operate starts, cancels, resumes and forks sessions, answers requests for help, raises
	// and settles budgets, and trips and resets breakers.
	Operate Permission = "operate"
	// Admin registers teams, which decides what others run, manages tokens, people and hooks, and
	// reads the audit log.
	Admin Permission = "administer"
)

// permitted has the roles that have each permission.
var permitted = map[Permission][]Role{
	View:    AllRoles,
	Approve: {RoleApprover, RoleAdmin},
	Operate: {RoleOperator, RoleAdmin},
	Admin:   {RoleAdmin},
}

// What a permission is checked for besides the name of a team.
const (
	// NoTeam is what belongs to no team: workers, breakers, the store. Any role may view it,
	// of whatever team; a change needs a role for all teams.
	NoTeam = ""
	// AllTeams is what concerns every team, or one that is not known: a role for all teams
	// is needed.
	AllTeams = "*"
	// hiddenTeam is, in a denial, the team of what the actor may not know to exist.
	hiddenTeam = "?"
)

// Roles are the roles that somebody has, by team; those of [AllTeams] hold for every team.
type Roles map[string][]Role

// Has reports whether the roles include one for a team, or for all teams.
func (r Roles) Has(role Role, team string) bool {
	return slices.Contains(r[AllTeams], role) || team != NoTeam && slices.Contains(r[team], role)
}

// capped are roles that permit what both permit.
func (r Roles) capped(most Roles) Roles {
	both := Roles{}
	for _, team := range slices.AppendSeq(slices.Collect(maps.Keys(r)), maps.Keys(most)) {
		both[team] = nil
		for _, role := range AllRoles {
			if r.covers(role, team) && most.covers(role, team) {
				both[team] = append(both[team], role)
			}
		}
	}
	return both
}

// covers reports whether the roles have each permission of a role.
func (r Roles) covers(role Role, team string) bool {
	for p, roles := range permitted {
		if slices.Contains(roles, role) && !r.Allow(p, team) {
			return false
		}
	}
	return true
}

// Allow reports whether the roles have a permission for a team, [NoTeam] or [AllTeams].
func (r Roles) Allow(p Permission, team string) bool {
	for _, role := range permitted[p] {
		if r.Has(role, team) || p == View && team == NoTeam && r.anywhere(role) {
			return true
		}
	}
	return false
}

// anywhere reports whether some team has the role.
func (r Roles) anywhere(role Role) bool {
	for _, roles := range r {
		if slices.Contains(roles, role) {
			return true
		}
	}
	return false
}

// Grants are the roles as people write them, ROLE or ROLE:TEAM, sorted.
func (r Roles) Grants() []string {
	grants := []string{}
	for team, roles := range r {
		for _, role := range roles {
			if team == AllTeams {
				grants = append(grants, string(role))
			} else {
				grants = append(grants, string(role)+":"+team)
			}
		}
	}
	slices.Sort(grants)
	return slices.Compact(grants)
}

// ParseRoles reads grants: ROLE for all teams, ROLE:TEAM for one.
func ParseRoles(grants ...string) (Roles, error) {
	roles := Roles{}
	for _, grant := range grants {
		name, team, one := strings.Cut(grant, ":")
		role := Role(name)
		if !slices.Contains(AllRoles, role) {
			return nil, fmt.Errorf("%q is not a role; use viewer, approver, operator or admin, and ROLE:TEAM for one team",
				textfmt.Shorten(grant, 80))
		}
		if !one {
			team = AllTeams
		} else if err := spec.CheckName(team); err != nil {
			return nil, fmt.Errorf("role %q: team: %w", textfmt.Shorten(grant, 80), err)
		}
		if !slices.Contains(roles[team], role) {
			roles[team] = append(roles[team], role)
		}
	}
	return roles, nil
}

// Merge returns the roles of both.
func (r Roles) Merge(more Roles) Roles {
	merged, _ := ParseRoles(append(r.Grants(), more.Grants()...)...) // those of a grant are good
	return merged
}
