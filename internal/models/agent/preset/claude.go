package preset

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/transcript"
	"github.com/maestro-hive/maestro/internal/models/wire"
)

// claude is Claude Code, `claude -p --output-format stream-json`.
var claude = Program{
	API: wire.Anthropic, Package: "@anthropic-ai/claude-code",
	// It may edit files in its directory and run any command. Unlike --dangerously-skip-permissions that works for root, too.
	Argv:        []string{"claude", "--permission-mode", "acceptEdits", "--allowedTools", "Bash"},
	OutputFlags: []string{"--output-format"}, BoundsTurns: true, StatesCost: true,
	ConversationFiles: []string{".claude/projects/**"},
	unknown:           []string{"No conversation found with session ID"},
	Parser:            func(Invocation) Parser { return &claudeParser{open: map[string]string{}} },
	Command: func(argv []string, r Invocation) []string {
		argv = addFlagWithoutValue(slices.Clone(argv), "--print", "-p")
		argv = addFlag(argv, "stream-json", "--output-format")
		argv = addFlagWithoutValue(argv, "--verbose") // or it refuses stream-json
		// The only events with the cost of a call's output before the end.
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
	},
	// It records each message with its usage, those of subagents in separate files.
	Usage: UsageFiles{
		dir: ".claude/projects", mark: `"usage"`, Opening: 20_000,
		file: func(name string) bool { return path.Ext(name) == ".jsonl" },
		line: func(_ string, line []byte, t *Tally) {
			var e claudeEvent
			if decodeEvent(line, &e) && e.Type == "assistant" && t.add(e.Message.ID, e.Message.Usage.usage()) {
				t.answered(t.Messages[e.Message.ID])
			}
		},
	},
}

// claudeParser reads the stream of Claude Code.
type claudeParser struct {
	// Tally sums the usage of messages. A message has several events, each with its usage.
	Tally
	// open has the incomplete message of each tool call; the key of the main conversation is
	// empty.
	open map[string]string
	// fault is the program's name for the last error.
	fault string
	// wait is the program's last wait before it called an overloaded provider again.
	wait textfmt.Duration
}

// claudeEvent has the used fields of all events of the stream.
type claudeEvent struct {
	Type      string `json:"type"`
	Subtype   string `json:"subtype"`
	SessionID string `json:"session_id"`
	Status    string `json:"status"`
	claudeTask
	// Tasks are all that are in the background.
	Tasks   []claudeTask  `json:"tasks"`
	Parent  string        `json:"parent_tool_use_id"`
	Message claudeMessage `json:"message"`
	// Error is the program's name for an error.
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
	// Denials are the calls of tools that it was not permitted to make.
	Denials []struct {
		Tool  string          `json:"tool_name"`
		Input json.RawMessage `json:"tool_input"`
	} `json:"permission_denials"`
	// RateLimit has the limits of a subscription.
	RateLimit struct {
		Status   string  `json:"status"`
		ResetsAt float64 `json:"resetsAt"`
	} `json:"rate_limit_info"`
}

// claudeTask is what Claude Code runs in the background: a subagent, or a command of a shell.
type claudeTask struct {
	ID       string `json:"task_id"`
	TaskType string `json:"task_type"`
}

// awaited says whether Claude Code goes on when the task has ended. It waits for subagents and workflows, and ends commands
// of a shell 5 s after its result.
func (t claudeTask) awaited() bool {
	return strings.HasSuffix(t.TaskType, "_agent") || strings.HasSuffix(t.TaskType, "_workflow")
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
	CacheCreation            struct {
		Hour int64 `json:"ephemeral_1h_input_tokens"`
	} `json:"cache_creation"`
}

// usage converts a usage. Anthropic's input tokens do not include its cache tokens.
func (u claudeUsage) usage() cost.Usage {
	return cost.Usage{
		InputTokens: u.InputTokens, OutputTokens: u.OutputTokens,
		CacheReadTokens: u.CacheReadInputTokens, CacheWriteTokens: u.CacheCreationInputTokens,
		CacheWrite1hTokens: min(max(u.CacheCreation.Hour, 0), u.CacheCreationInputTokens),
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
				if e.Error == "" { // else it is the program's own text, which is repeated
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
				s.toolResult(wire.TextOf(c.Content), c.IsError)
			}
		}
	case "result":
		r.result(e, s)
	}
	return true
}

func (r *claudeParser) system(e claudeEvent, s *Run) {
	switch e.Subtype {
	case "init": // of each turn, which begins with a request
		s.begin(e.SessionID)
		s.requestStarted("")
	case "status":
		s.resumed = s.resumed || e.Status == "requesting"
	case "task_started":
		s.task(e.ID, e.awaited())
	case "task_notification":
		s.task(e.ID, false)
	case "background_tasks_changed":
		clear(s.Tasks)
		for _, t := range e.Tasks {
			s.task(t.ID, t.awaited())
		}
	case "api_retry":
		if e.ErrorStatus == 429 {
			r.wait = milliseconds(e.RetryDelayMS)
		}
		s.Warn("the provider failed (" + cmp.Or(e.Error, "unknown") + "); asking again")
	}
}

// partial reads an event of the provider's stream. A message's last event has its tokens.
func (r *claudeParser) partial(e claudeEvent, s *Run) {
	switch e.Event.Type {
	case "message_start":
		s.requestStarted(e.Parent)
		if len(e.Parent) <= maxID && len(e.Event.Message.ID) <= maxID && len(r.open) < maxConversations {
			r.open[e.Parent] = e.Event.Message.ID
		}
		r.counts(e.Event.Message.ID, e.Event.Message.Usage, s)
	case "message_delta":
		s.requestAnswered(e.Parent)
		r.counts(r.open[e.Parent], e.Event.Usage, s)
	}
}

// counts updates the usage of a message. The numbers grow during the message, and some events
// have only some of them.
func (r *claudeParser) counts(id string, u claudeUsage, s *Run) {
	if r.add(id, u.usage()) {
		r.answered(r.Messages[id])
		s.usage(r.Sum, r.Next())
	}
}

// maxDenials is how many denied calls are named.
const maxDenials = 10

// result reads the last event, which has the totals.
func (r *claudeParser) result(e claudeEvent, s *Run) {
	used := e.Usage.usage()
	if len(e.ModelUsage) > 0 {
		used = cost.Usage{CacheWrite1hTokens: max(used.CacheWrite1hTokens, r.Sum.CacheWrite1hTokens)} // they leave it out
		for _, u := range e.ModelUsage {
			used = used.Add(cost.Usage{
				InputTokens: u.InputTokens, OutputTokens: u.OutputTokens,
				CacheReadTokens: u.CacheReadInputTokens, CacheWriteTokens: u.CacheCreationInputTokens,
			})
		}
	}
	used.CacheWrite1hTokens = min(used.CacheWrite1hTokens, used.CacheWriteTokens)
	if used.Tokens() < r.Sum.Tokens() { // its total is too low: all calls were paid
		used = r.Sum
	}
	for i, denied := range e.Denials {
		if i == maxDenials {
			s.Warn(fmt.Sprintf("%d more calls of tools were denied", len(e.Denials)-i))
			break
		}
		gist, _ := transcript.Gist(denied.Tool, denied.Input)
		s.Warn("a call of a tool was denied: " + firstLine(gist))
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

// failure returns the reason for which the program gave up.
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
	case e.APIErrorStatus >= http.StatusBadRequest:
		f.Category = statusCategory(e.APIErrorStatus)
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

// claudeLimit matches Claude Code's message that a subscription's limit is reached.
var claudeLimit = regexp.MustCompile(`(?i)you've (?:hit|reached) your .{0,40}limit|usage limit reached`)

func (*claudeParser) End(int, string, *Run) {}

// dollars parses an amount that a program printed; zero if it is invalid.
func dollars(usd float64) cost.USD {
	const most = 1e6
	if usd <= 0 || usd > most {
		return 0
	}
	return cost.USD(math.Round(usd * 1e9))
}
