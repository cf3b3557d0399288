package preset

import (
	"cmp"
	"encoding/json"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// claude is Claude Code, `claude -p --output-format stream-json`.
type claude struct{}

func (claude) NeedsGit([]string) bool { return false }

// DefaultArgv lets Claude Code edit files in its directory and run any command. Unlike
// --dangerously-skip-permissions it works for root, too.
func (claude) DefaultArgv() []string {
	return []string{"claude", "--permission-mode", "acceptEdits", "--allowedTools", "Bash"}
}

func (claude) Argv(argv []string, r Invocation) []string {
	argv = addFlagWithoutValue(slices.Clone(argv), "--print", "-p")
	argv = addFlag(argv, "stream-json", "--output-format")
	argv = addFlagWithoutValue(argv, "--verbose") // or it refuses stream-json
	// The only events that tell what a call's output has cost before the end.
	argv = addFlagWithoutValue(argv, "--include-partial-messages")
	argv = addFlag(argv, r.Model, "--model")
	if r.MaxTurns > 0 {
		argv = addFlag(argv, strconv.Itoa(r.MaxTurns), "--max-turns")
	}
	argv = append(argv, "--add-dir", r.ResultDir)
	if r.Conversation.ID != "" {
		argv = append(argv, "--resume", r.Conversation.ID)
	}
	return argv
}

func (claude) ConversationUnknown(stderr string) bool {
	return strings.Contains(stderr, "No conversation found with session ID")
}

func (claude) Parser(Invocation) Parser { return &claudeParser{open: map[string]string{}} }

// UsageFiles: Claude Code notes every message with its usage, those of subagents in files
// of their own.
func (claude) UsageFiles() UsageFiles {
	return UsageFiles{
		dir: ".claude/projects", mark: `"usage"`, Opening: 20_000,
		file: func(name string) bool { return path.Ext(name) == ".jsonl" },
		line: func(_ string, line []byte, t *Tally) {
			var e claudeEvent
			if decodeEvent(line, &e) && e.Type == "assistant" && t.add(e.Message.ID, e.Message.Usage.usage()) {
				t.answered(t.Messages[e.Message.ID])
			}
		},
	}
}

// claudeParser reads the stream of Claude Code.
type claudeParser struct {
	// Tally counts the messages. One comes in several events, each with its usage.
	Tally
	// open is the message that is being written, by the tool call that it
	// belongs to; that of the main conversation is empty.
	open map[string]string
	// fault is how the program calls what went wrong last.
	fault string
	// wait is how long it last waited before it asked an overloaded provider
	// again.
	wait textfmt.Duration
}

// claudeEvent is every event of the stream, with the fields that matter.
type claudeEvent struct {
	Type      string        `json:"type"`
	Subtype   string        `json:"subtype"`
	SessionID string        `json:"session_id"`
	Parent    string        `json:"parent_tool_use_id"`
	Message   claudeMessage `json:"message"`
	// Error is the program's word for what went wrong.
	Error string `json:"error"`
	Event struct {
		Type    string        `json:"type"`
		Message claudeMessage `json:"message"`
		Usage   claudeUsage   `json:"usage"`
	} `json:"event"`

	ErrorStatus  int     `json:"error_status"`
	RetryDelayMS float64 `json:"retry_delay_ms"`

	IsError        bool    `json:"is_error"`
	APIErrorStatus int     `json:"api_error_status"`
	StopReason     string  `json:"stop_reason"`
	TerminalReason string  `json:"terminal_reason"`
	Result         string  `json:"result"`
	TotalCostUSD   float64 `json:"total_cost_usd"`
	// Usage is that of the main conversation, ModelUsage of everything.
	Usage      claudeUsage `json:"usage"`
	ModelUsage map[string]struct {
		InputTokens              int64 `json:"inputTokens"`
		OutputTokens             int64 `json:"outputTokens"`
		CacheReadInputTokens     int64 `json:"cacheReadInputTokens"`
		CacheCreationInputTokens int64 `json:"cacheCreationInputTokens"`
	} `json:"modelUsage"`
	Errors []string `json:"errors"`
	// RateLimit tells of the limits of a subscription.
	RateLimit struct {
		Status   string  `json:"status"`
		ResetsAt float64 `json:"resetsAt"`
	} `json:"rate_limit_info"`
}

type claudeMessage struct {
	ID      string `json:"id"`
	Content []struct {
		Type    string          `json:"type"`
		Text    string          `json:"text"`
		Name    string          `json:"name"`
		Input   json.RawMessage `json:"input"`
		Content json.RawMessage `json:"content"`
		IsError bool            `json:"is_error"`
	} `json:"content"`
	Usage claudeUsage `json:"usage"`
}

type claudeUsage struct {
	InputTokens              int64 `json:"input_tokens"`
	OutputTokens             int64 `json:"output_tokens"`
	CacheReadInputTokens     int64 `json:"cache_read_input_tokens"`
	CacheCreationInputTokens int64 `json:"cache_creation_input_tokens"`
}

// usage is the same in our words: Anthropic's cache tokens are none of its input
// tokens.
func (u claudeUsage) usage() cost.Usage {
	return cost.Usage{
		InputTokens: u.InputTokens, OutputTokens: u.OutputTokens,
		CacheReadTokens: u.CacheReadInputTokens, CacheWriteTokens: u.CacheCreationInputTokens,
	}
}

func (r *claudeParser) Event(data []byte, s *Run) bool {
	var e claudeEvent
	if !decodeEvent(data, &e) || e.Type == "" {
		return false
	}
	switch e.Type {
	case "system":
		r.system(e, s)
	case "stream_event":
		r.partial(e, s)
	case "rate_limit_event":
		s.ResetsAt = time.Time{}
		if at := e.RateLimit.ResetsAt; e.RateLimit.Status == "rejected" && at > 0 && at < math.MaxInt32 {
			s.ResetsAt = time.Unix(int64(at), 0)
		}
	case "assistant":
		r.fault = e.Error
		r.counts(e.Message.ID, e.Message.Usage, s)
		for _, c := range e.Message.Content {
			switch c.Type {
			case "text":
				if e.Error == "" { // that is the program's own text, and comes again
					s.text(c.Text)
				}
			case "tool_use":
				s.toolCall(c.Name, c.Input)
			}
		}
	case "user":
		s.requestStarted(e.Parent)
		for _, c := range e.Message.Content {
			if c.Type == "tool_result" {
				s.toolResult(toolOutput(c.Content), c.IsError)
			}
		}
	case "result":
		r.result(e, s)
	}
	return true
}

func (r *claudeParser) system(e claudeEvent, s *Run) {
	switch e.Subtype {
	case "init":
		s.begin(e.SessionID)
	case "api_retry":
		if e.ErrorStatus == 429 {
			r.wait = milliseconds(e.RetryDelayMS)
		}
		s.Warn("the provider failed (" + cmp.Or(e.Error, "unknown") + "); asking again")
	}
}

// partial reads an event of the provider's stream: the end of a message tells
// how many tokens it had.
func (r *claudeParser) partial(e claudeEvent, s *Run) {
	switch e.Event.Type {
	case "message_start":
		s.requestStarted(e.Parent)
		r.open[e.Parent] = e.Event.Message.ID
		r.counts(e.Event.Message.ID, e.Event.Message.Usage, s)
	case "message_delta":
		s.requestAnswered(e.Parent)
		r.counts(r.open[e.Parent], e.Event.Usage, s)
	}
}

// counts takes the usage of a message. What it says grows while the message is
// written, and some events have only a part of it.
func (r *claudeParser) counts(id string, u claudeUsage, s *Run) {
	if r.add(id, u.usage()) {
		r.answered(r.Messages[id])
		s.usage(r.Sum, r.Next())
	}
}

// result reads the last event, which sums everything up.
func (r *claudeParser) result(e claudeEvent, s *Run) {
	used := e.Usage.usage()
	if len(e.ModelUsage) > 0 {
		used = cost.Usage{}
		for _, u := range e.ModelUsage {
			used = used.Add(cost.Usage{
				InputTokens: u.InputTokens, OutputTokens: u.OutputTokens,
				CacheReadTokens: u.CacheReadInputTokens, CacheWriteTokens: u.CacheCreationInputTokens,
			})
		}
	}
	if used.Tokens() < r.Sum.Tokens() { // it forgot some: they are paid all the same
		used = r.Sum
	}
	used.CostUSD = dollars(e.TotalCostUSD)
	s.usage(used, cost.Usage{})
	if !e.IsError && e.Subtype == "success" {
		s.Summary = cmp.Or(strings.TrimSpace(e.Result), s.Summary)
		s.finish(nil)
		return
	}
	s.finish(r.failure(e))
}

// failure says why the program gave up.
func (r *claudeParser) failure(e claudeEvent) *failures.Failure {
	why := cmp.Or(e.Result, strings.Join(e.Errors, "; "))
	f := failures.Failf(failures.Unknown, "%s", cmp.Or(why, "it failed ("+e.Subtype+")"))
	switch {
	case e.Subtype == "error_max_turns":
		f.Category = failures.TurnLimit
	case e.Subtype == "error_max_budget_usd":
		f.Category = failures.TokenBudget
	case e.StopReason == "refusal":
		f.Category = failures.Refused
	case e.TerminalReason == "prompt_too_long":
		f.Category = failures.ContextOverflow
	case r.fault == "max_output_tokens":
		f.Category = failures.InvalidOutput
	case r.fault == "authentication_failed", r.fault == "billing_error", r.fault == "oauth_org_not_allowed", unpaid(why):
		f.Category = failures.Auth
	case e.APIErrorStatus != 0:
		blame(f, e.APIErrorStatus)
	case r.fault == "rate_limit", claudeLimit.MatchString(why):
		f.Category = failures.RateLimited
	case r.fault == "server_error", r.fault == "overloaded", r.fault == "unknown", strings.HasPrefix(why, "API Error"):
		f.Category = failures.APIError
	}
	if f.Category == failures.RateLimited {
		f.RetryAfter = r.wait
	}
	return f
}

// claudeLimit is how Claude Code says that a subscription's limit is reached.
var claudeLimit = regexp.MustCompile(`(?i)you've (?:hit|reached) your .{0,40}limit|usage limit reached`)

func (*claudeParser) End(int, string, *Run) {}

// dollars makes an amount of what a program printed; zero for what is none.
func dollars(usd float64) cost.USD {
	const most = 1e6
	if usd <= 0 || usd > most {
		return 0
	}
	return cost.USD(math.Round(usd * 1e9))
}
