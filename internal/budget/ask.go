package budget

import (
	"slices"

	"github.com/maestro-hive/maestro/internal/team"
)

// spareShare is the part of what is left, one in so many, that a session gets
// beyond its need.
const spareShare = 8

// ask is what a session asks of a day, and what there is to give.
type ask struct {
	// left is what nobody was granted; negative is a dimension that is not
	// limited. others is what other sessions may give back.
	left, others team.Amount
	want, least  team.Amount
}

// atLeast is what a call needs: something of what it wants, in any case.
func atLeast(r Draw) team.Amount {
	return team.Amount{Tokens: max(r.Least.Tokens, min(r.Want.Tokens, 1)), USD: max(r.Least.USD, min(r.Want.USD, 1))}
}

// know puts what the agent's dearest call has cost in the place of what nobody
// knows.
func (a *ask) know(costs []Cost, agent string) {
	i := slices.IndexFunc(costs, func(c Cost) bool { return c.Agent == agent })
	if i < 0 {
		return
	}
	if a.want.Tokens >= whatever {
		a.want.Tokens = max(costs[i].Largest.Tokens, a.least.Tokens)
		a.least.Tokens = a.want.Tokens
	}
	if a.want.USD >= whatever {
		a.want.USD = max(costs[i].Largest.USD, a.least.USD)
		a.least.USD = a.want.USD
	}
}

// decide tells what comes of it: all that is wanted if it is there; a wait, while
// others may give back what is missing; and then what is left, as long as that
// covers the least.
func (a ask) decide() DrawEffect {
	enough := a.enough()
	both := team.Amount{Tokens: a.left.Tokens + a.others.Tokens, USD: a.left.USD + a.others.USD}
	if a.left.Tokens < 0 {
		both.Tokens = -1
	}
	if a.left.USD < 0 {
		both.USD = -1
	}
	missing := func(left, enough, others int64) bool { return left >= 0 && left < enough && others > 0 }
	may := missing(a.left.Tokens, enough.Tokens, a.others.Tokens) ||
		missing(int64(a.left.USD), int64(enough.USD), int64(a.others.USD))
	switch {
	case covers(a.left, enough):
		return Drawn
	case may && covers(both, a.least):
		return DrawWaits
	case covers(a.left, a.least):
		return Drawn
	}
	return DrawRefused
}

// enough is what has to be left for a call to begin at once. For one of unknown
// cost that is as much as others hold: the rest of a day that is nearly spent is
// gathered before somebody begins on it.
func (a ask) enough() team.Amount {
	enough := a.want
	if enough.Tokens >= whatever {
		enough.Tokens = max(a.least.Tokens, a.others.Tokens)
	}
	if enough.USD >= whatever {
		enough.USD = max(a.least.USD, a.others.USD)
	}
	return enough
}

// need is what the call gets of what is left.
func (a ask) need() team.Amount {
	get := func(left, want int64) int64 { return max(min(want, left), 0) }
	return team.Amount{Tokens: get(a.left.Tokens, a.want.Tokens), USD: team.USD(get(int64(a.left.USD), int64(a.want.USD)))}
}

// spare is what the session gets beyond that, so that it draws seldom.
func (a ask) spare() team.Amount {
	rest := minus(a.left, a.need())
	return team.Amount{Tokens: rest.Tokens / spareShare, USD: rest.USD / spareShare}
}

// left is what a cap leaves; negative is a dimension that is not limited.
func left(limit team.Cap, used team.Amount) team.Amount {
	free := func(limit, used int64) int64 {
		if limit <= 0 {
			return -1
		}
		return max(limit-used, 0)
	}
	return team.Amount{Tokens: free(limit.Tokens, used.Tokens), USD: team.USD(free(int64(limit.USD), int64(used.USD)))}
}

// limited is an amount with what a cap does not limit marked by being negative.
func limited(a team.Amount, limit team.Cap) team.Amount {
	if limit.Tokens <= 0 {
		a.Tokens = -1
	}
	if limit.USD <= 0 {
		a.USD = -1
	}
	return a
}

// most is the larger of both, each dimension by itself.
func most(a, b team.Amount) team.Amount {
	return team.Amount{Tokens: max(a.Tokens, b.Tokens), USD: max(a.USD, b.USD)}
}

// minus is what b leaves of a, and never negative.
func minus(a, b team.Amount) team.Amount {
	return most(team.Amount{Tokens: a.Tokens - b.Tokens, USD: a.USD - b.USD}, team.Amount{})
}

// unspent is what a session may have under way, or may yet give back.
func unspent(g Grant) team.Amount { return minus(g.Granted, g.Spent) }
