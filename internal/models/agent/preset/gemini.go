package preset

import (
	"cmp"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/models/wire"
)

// gemini is Gemini CLI, `gemini --output-format stream-json`.
var gemini = Program{
	API: wire.Gemini, Package: "@google/gemini-cli",
	// It may use all of its tools: it has no setting between that and no tools that run commands. The directory is
	// Maestro's, and needs the flag that trusts it.
	Argv:        []string{"gemini", "--skip-trust", "--approval-mode", "yolo"},
	OutputFlags: []string{"--output-format", "-o"},
	// At another address it authenticates with a key only where a file says so.
	SettingsFile: ".gemini/settings.json", Settings: `{"security":{"auth":{"selectedType":"gemini-api-key"}}}` + "\n",
	ConversationFiles: []string{".gemini/tmp/**"},
	unknown:           []string{"Error resuming session"},
	Parser:            func(Invocation) Parser { return &geminiParser{} },
	Command: func(argv []string, r Invocation) []string {
		argv = addFlag(slices.Clone(argv), "stream-json", "--output-format", "-o")
		argv = addFlag(argv, r.Model, "--model", "-m")
		argv = append(argv, "--include-directories", r.ResultDir)
		if r.Conversation.ID != "" {
			argv = append(argv, "--resume", r.Conversation.ID)
		}
		return argv
	},
	// It records each message with its usage, as a line or in a list of all messages so far.
	Usage: UsageFiles{
		dir: ".gemini/tmp", mark: `"tokens"`, Opening: 12_000,
		file: func(name string) bool { return path.Ext(name) == ".jsonl" },
		line: func(_ string, line []byte, t *Tally) {
			var e struct {
				geminiMessage
				Set struct {
					Messages []geminiMessage `json:"messages"`
				} `json:"$set"`
			}
			if !decodeEvent(line, &e) {
				return
			}
			for _, m := range append(e.Set.Messages, e.geminiMessage) {
				if m.Tokens != nil && t.add(m.ID, geminiStats(*m.Tokens).usage()) {
					t.answered(t.Messages[m.ID])
				}
			}
		},
	},
}

// geminiMessage is a message in such a file.
type geminiMessage struct {
	ID     string        `json:"id"`
	Tokens *geminiTokens `json:"tokens"`
}

type geminiTokens struct {
	Total  int64 `json:"total"`
	Input  int64 `json:"input"`
	Output int64 `json:"output"`
	Cached int64 `json:"cached"`
}

// geminiParser reads the stream of Gemini CLI.
type geminiParser struct {
	// text is the incomplete text of the agent.
	text strings.Builder
}

type geminiEvent struct {
	Type       string          `json:"type"`
	SessionID  string          `json:"session_id"`
	Role       string          `json:"role"`
	Content    string          `json:"content"`
	ToolName   string          `json:"tool_name"`
	Parameters json.RawMessage `json:"parameters"`
	Status     string          `json:"status"`
	Output     string          `json:"output"`
	Message    string          `json:"message"`
	Error      struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
	Stats *geminiStats `json:"stats"`
}

type geminiStats struct {
	Total  int64 `json:"total_tokens"`
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
	Cached int64 `json:"cached"`
}

// usage converts a usage. Gemini's input tokens include its cached tokens. The total minus input
// and output is thinking, which is paid as output.
func (g geminiStats) usage() cost.Usage {
	thinking := max(g.Total-g.Input-g.Output, 0)
	return cost.Usage{
		InputTokens: max(g.Input-g.Cached, 0), CacheReadTokens: g.Cached,
		OutputTokens: g.Output + thinking, ReasoningTokens: thinking,
	}
}

func (r *geminiParser) Event(data []byte, s *Run) bool {
	var e geminiEvent
	if !decodeEvent(data, &e) || e.Type == "" {
		return false
	}
	if e.Type == "message" && e.Role == "assistant" {
		r.text.WriteString(e.Content[:min(len(e.Content), maxText-r.text.Len())])
		return true
	}
	s.text(r.text.String())
	r.text.Reset()
	switch e.Type {
	case "init":
		s.begin(e.SessionID)
	case "tool_use":
		s.toolCall(e.ToolName, e.Parameters)
		s.requestAnswered("")
	case "tool_result":
		s.toolResult(cmp.Or(e.Output, e.Error.Message), e.Status == "error")
		s.requestStarted("")
	case "error":
		s.Warn(e.Message)
	case "result":
		if e.Stats != nil {
			s.usage(e.Stats.usage(), cost.Usage{})
		}
		if e.Status == "success" {
			s.finish(nil)
		} else {
			s.finish(geminiFailure(e))
		}
	}
	return true
}

func geminiFailure(e geminiEvent) *failures.Failure {
	text := cmp.Or(e.Error.Message, "it failed ("+cmp.Or(e.Error.Type, e.Status)+")")
	otherwise := failures.Unknown
	if strings.Contains(text, "API Error") {
		otherwise = failures.APIError
	}
	return failureOfText(text, otherwise)
}

// The exit statuses of Gemini CLI without events in the stream.
const (
	geminiAuthentication = 41
	geminiTurnLimit      = 53
)

func (r *geminiParser) End(exit int, stderr string, s *Run) {
	s.text(r.text.String())
	if s.Done {
		return
	}
	switch exit {
	case geminiAuthentication:
		s.finish(failures.Failf(failures.Auth, "%s", cmp.Or(lastLine(stderr), "its credentials were refused")))
	case geminiTurnLimit:
		s.finish(failures.Failf(failures.TurnLimit, "%s", cmp.Or(lastLine(stderr), "its turn limit is reached")))
	}
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
