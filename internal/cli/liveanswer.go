package cli

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/sessionstatus"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/textfmt"
	"github.com/maestro-hive/maestro/internal/tui"
)

// Answer sends an answer typed at the drawing, through the command for it.
func (c *closerLook) Answer(ctx context.Context, answer tui.Answer) (string, error) {
	var of func(*app) *cobra.Command
	args := []string{c.session}
	switch answer.Verb {
	case tui.Approve:
		of = newApprove
	case tui.Reject:
		of = newReject
	case tui.Retry:
		of, args = newResolve, append(args, string(session.AnswerRetry))
	case tui.Raise:
		of = newBudgetRaise
		amount, err := amountFlags(answer.Amount, answer.Request.Amounts)
		if err != nil {
			return "", err
		}
		if args = append(args, answer.Request.Scope...); slices.Contains(answer.Request.Scope, "--team") {
			args = args[1:] // it is no budget of the session's
		}
		args = append(args, amount...)
	}
	if answer.Verb != tui.Raise {
		args = append(args, "--request="+answer.Request.ID)
	}
	if answer.Note != "" {
		args = append(args, "--note="+answer.Note)
	}
	quiet, _ := c.quietly()
	var said bytes.Buffer
	quiet.env.Stdout, quiet.env.Stderr, quiet.palette.On = &said, &said, false
	flags := *quiet // of this command line: defining them anew resets them
	cmd := of(quiet)
	*quiet = flags
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(ctx)
	return said.String(), err
}

// amountFlags are the flags of `budget raise` for an amount as people write it: numbers
// of tokens, and dollars with a $ before or usd after them. unit is the unit of a number
// means.
func amountFlags(text, unit string) ([]string, error) {
	var flags []string
	words := strings.Fields(strings.ToLower(strings.ReplaceAll(text, ",", "")))
	for i := 0; i < len(words); i++ {
		number, money := strings.CutPrefix(words[i], "$")
		money = money || unit == unitUSD
		if i+1 < len(words) && slices.Contains([]string{"tokens", "token", "usd"}, words[i+1]) {
			money = words[i+1] == "usd"
			i++
		}
		if money {
			flags = append(flags, "--usd="+number)
			continue
		}
		factor := int64(1)
		for suffix, f := range map[string]int64{"k": 1_000, "m": 1_000_000} {
			if cut, ok := strings.CutSuffix(number, suffix); ok {
				number, factor = cut, f
			}
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n <= 0 || n > 1e15 {
			return nil, usagef("%q is not an amount; use a number of tokens like 50000, or dollars like $1.50", textfmt.Shorten(text, 40))
		}
		flags = append(flags, fmt.Sprintf("--tokens=%d", n*factor))
	}
	return flags, nil
}

// unitUSD is the unit of budgets that count dollars only.
const unitUSD = "USD"

// units names the units of a budget.
func units(tokens, usd bool) string {
	switch {
	case tokens && usd:
		return "tokens or $USD"
	case usd:
		return unitUSD
	}
	return "tokens"
}

// answerable adds to a request the verbs that keys can send.
func answerable(r *tui.Request, h session.HelpRequest) {
	r.ID, r.Of, r.Name = h.ID, spec.AssignmentID{Phase: h.Phase, Persona: h.Persona}, subject(h)
	for verb, key := range map[session.Verb]tui.Verb{session.AnswerApprove: tui.Approve, session.AnswerReject: tui.Reject, session.AnswerRetry: tui.Retry} {
		if h.Takes(verb) {
			r.Takes = append(r.Takes, key)
		}
	}
	words := strings.Fields(h.Command)
	if kindOf(h) != session.ForBudget || len(words) < 3 || strings.Join(words[:3], " ") != "maestro budget raise" {
		return
	}
	r.Takes = append(r.Takes, tui.Raise)
	r.Amounts = units(slices.Contains(words, "--tokens"), slices.Contains(words, "--usd"))
	for i, word := range words[:len(words)-1] {
		if slices.Contains([]string{"--persona", "--phase", "--team"}, word) {
			r.Scope = []string{word, words[i+1]}
		}
	}
}

// ownBudget is the budget of a session that a key may raise although no request is open.
func ownBudget(v sessionstatus.Session) []tui.Request {
	asked := slices.ContainsFunc(v.Help, func(h session.HelpRequest) bool { return kindOf(h) == session.ForBudget })
	if v.Status.Status.Closed() || asked || v.Limit == (spec.Cap{}) {
		return nil
	}
	return []tui.Request{{
		Name: "the session's budget", Takes: []tui.Verb{tui.Raise}, Amounts: units(v.Limit.Tokens > 0, v.Limit.USD > 0),
	}}
}
