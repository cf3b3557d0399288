package preset

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/models/wire"
)

// codex is Codex, `codex exec --json`.
var codex = Program{
	API: wire.OpenAI, Package: "@openai/codex",
	// It may change files in its directory and run commands, both without access to other files or a network. /tmp is
	// not among its directories: outside of a room it is everyone's, and a killed Codex leaves its mount points there, one
	// of which is named .git.
	Argv: []string{
		"codex", "exec", "--sandbox", "workspace-write", "-c",
		"sandbox_workspace_write.exclude_slash_tmp=true",
	},
	ConversationFiles: []string{".codex/sessions/**"},
	unknown:           []string{"no rollout found for thread id", "thread/resume failed"},
	needsGit:          func(argv []string) bool { return !hasFlag(argv, "--skip-git-repo-check") },
	mounts: func(argv []string) bool {
		mode, _ := FlagValue(argv, "--sandbox", "-s")
		return mode != "danger-full-access" && !hasFlag(argv, "--dangerously-bypass-approvals-and-sandbox", "--yolo")
	},
	Command: codexCommand,
	Parser:  func(r Invocation) Parser { return &codexParser{invocation: r} },
	// It records a conversation's usage so far after each request. This is not a documented interface; a file that cannot
	// be found or read has no effect.
	Usage: UsageFiles{
		dir: ".codex/sessions", mark: `"token_count"`, Opening: 10_000,
		file: func(name string) bool { return rolloutName.MatchString(path.Base(name)) },
		line: func(name string, line []byte, t *Tally) {
			var e struct {
				Payload struct {
					Type string `json:"type"`
					Info struct {
						Total codexUsage `json:"total_token_usage"`
						Last  codexUsage `json:"last_token_usage"`
					} `json:"info"`
				} `json:"payload"`
			}
			id := rolloutName.FindStringSubmatch(path.Base(name))[1]
			if decodeEvent(line, &e) && e.Payload.Type == "token_count" && t.add(id, e.Payload.Info.Total.usage()) {
				t.answered(e.Payload.Info.Last.usage())
			}
		},
	},
}

// rolloutName matches Codex's file name of a conversation: its start and its id.
var rolloutName = regexp.MustCompile(`^rollout-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-(.+)\.jsonl$`)

func codexCommand(argv []string, r Invocation) []string {
	argv = slices.Clone(argv)
	if argv[len(argv)-1] == "-" {
		argv = argv[:len(argv)-1]
	}
	if !slices.Contains(argv, "exec") {
		argv = append(argv, "exec")
	}
	argv = addFlagWithoutValue(argv, "--json")
	argv = addFlag(argv, r.Model, "--model", "-m")
	if r.BaseURL != "" { // the last settings win
		const provider = "model_providers.maestro."
		for _, setting := range []string{
			"model_provider=maestro", provider + "name=maestro", provider + "base_url=" + r.BaseURL, provider + "env_key=" + r.KeyVariable,
			provider + "wire_api=responses",
		} {
			argv = append(argv, "-c", setting)
		}
		if r.Offline { // it is a part of each request otherwise
			argv = append(argv, "-c", "web_search=disabled")
		}
	}
	argv = append(argv, "--add-dir", r.ResultDir)
	if r.Conversation.ID != "" {
		argv = append(argv, "resume", r.Conversation.ID)
	}
	return append(argv, "-") // the prompt is on standard input
}

// codexParser reads the stream of Codex.
type codexParser struct {
	invocation Invocation
	// last is the last message about an error from which the program may recover.
	last string
	// offline counts consecutive messages that there is no network.
	offline int
}

// maxOffline bounds consecutive messages that Codex waits for the network. Its waits double
// without a limit: the fourth message comes after about 45 s.
const maxOffline = 4

type codexEvent struct {
	Type     string     `json:"type"`
	ThreadID string     `json:"thread_id"`
	Message  string     `json:"message"`
	Usage    codexUsage `json:"usage"`
	Error    struct {
		Message string `json:"message"`
	} `json:"error"`
	Item codexItem `json:"item"`
}

type codexItem struct {
	Type    string `json:"type"`
	Text    string `json:"text"`
	Message string `json:"message"`
	Command string `json:"command"`
	Output  string `json:"aggregated_output"`
	Exit    *int   `json:"exit_code"`
	Query   string `json:"query"`
	Server  string `json:"server"`
	Tool    string `json:"tool"`
	Changes []struct {
		Path string `json:"path"`
		Kind string `json:"kind"`
	} `json:"changes"`
}

type codexUsage struct {
	Input      int64 `json:"input_tokens"`
	Cached     int64 `json:"cached_input_tokens"`
	CacheWrite int64 `json:"cache_write_input_tokens"`
	Output     int64 `json:"output_tokens"`
	Reasoning  int64 `json:"reasoning_output_tokens"`
}

// usage converts a usage. OpenAI's input tokens include its cached tokens, and its output tokens
// include its reasoning tokens.
func (u codexUsage) usage() cost.Usage {
	return cost.Usage{
		InputTokens: max(u.Input-u.Cached-u.CacheWrite, 0), OutputTokens: u.Output,
		CacheReadTokens: u.Cached, CacheWriteTokens: u.CacheWrite, ReasoningTokens: u.Reasoning,
	}
}

func (r *codexParser) Event(data []byte, s *Run) bool {
	var e codexEvent
	if !decodeEvent(data, &e) || e.Type == "" {
		return false
	}
	if e.Type != "error" {
		r.offline = 0
	}
	switch e.Type {
	case "thread.started":
		s.begin(e.ThreadID)
	case "item.started":
		if e.Item.Type == "command_execution" {
			s.toolStarted("run", e.Item.Command)
			s.requestAnswered("")
		}
	case "item.completed":
		r.item(e.Item, s)
	case "turn.completed":
		r.counts(e.Usage, s)
		s.finish(nil)
	case "turn.failed":
		s.finish(codexFailure(cmp.Or(e.Error.Message, r.last)))
	case "error":
		r.last = e.Message
		s.Warn(e.Message)
		if !strings.Contains(e.Message, "waiting for network") {
			break
		}
		if r.offline++; r.offline == maxOffline {
			s.giveUp(failures.Failf(failures.APIError, "was stopped: it cannot reach its provider: %s", e.Message))
		}
	}
	return true
}

func (r *codexParser) item(item codexItem, s *Run) {
	switch item.Type {
	case "agent_message":
		s.text(item.Text)
	case "command_execution":
		s.toolResult(item.Output, item.Exit != nil && *item.Exit != 0)
		s.requestStarted("")
	case "file_change":
		for _, c := range item.Changes {
			s.toolStarted(cmp.Or(c.Kind, "change"), c.Path)
		}
	case "mcp_tool_call":
		s.toolStarted(item.Server+"."+item.Tool, "")
	case "web_search":
		s.toolStarted("search", item.Query)
	case "error":
		s.Warn(item.Message)
	}
}

// counts updates the usage. Codex reports the total of the conversation, which includes the
// booked usage of earlier runs.
func (r *codexParser) counts(total codexUsage, s *Run) {
	used := total.usage()
	s.Total = used
	s.usage(used.Minus(r.invocation.Conversation.Booked).Max(cost.Usage{}), cost.Usage{})
}

// codexFailure returns the reason for which Codex gave up. A turn fails only by the provider,
// and has a text but no code.
func codexFailure(text string) *failures.Failure {
	return failureOfText(cmp.Or(text, "its turn failed"), failures.APIError)
}

func (r *codexParser) End(exit int, _ string, s *Run) {
	if exit != 0 && !s.Done && r.last != "" {
		s.finish(codexFailure(r.last))
	}
}
