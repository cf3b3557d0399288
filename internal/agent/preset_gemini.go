package agent

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/failures"
)

// gemini is Gemini CLI, `gemini --output-format stream-json`.
type gemini struct{}

// usual lets Gemini CLI use all of its tools; it knows no bounds between that
// and none that run commands. The directory is Maestro's, so that nobody has
// told the program to trust it.
func (gemini) usual() []string { return []string{"gemini", "--skip-trust", "--approval-mode", "yolo"} }

func (gemini) complete(argv []string, r run) []string {
	argv = addFlag(slices.Clone(argv), "stream-json", "--output-format", "-o")
	argv = addFlag(argv, r.model, "--model", "-m")
	argv = append(argv, "--include-directories", r.results)
	if r.goesOn.ID != "" {
		argv = append(argv, "--resume", r.goesOn.ID)
	}
	return argv
}

func (gemini) unknown(stderr string) bool { return strings.Contains(stderr, "Error resuming session") }

func (gemini) reader(run) reader { return &geminiReader{} }

// usage: Gemini CLI notes every message with its usage, on a line of its own or among
// all messages so far.
func (gemini) usage() usageNotes {
	return usageNotes{
		dir: ".gemini/tmp", mark: `"tokens"`, opening: 12_000,
		file: func(name string) bool { return path.Ext(name) == ".jsonl" },
		line: func(_ string, line []byte, t *tally) {
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
				if m.Tokens != nil && t.add(m.ID, m.Tokens.stats().usage()) {
					t.answered(t.messages[m.ID])
				}
			}
		},
	}
}

// geminiMessage is a message as Gemini CLI notes it.
type geminiMessage struct {
	ID     string        `json:"id"`
	Tokens *geminiTokens `json:"tokens"`
}

type geminiTokens struct {
	Input  int64 `json:"input"`
	Output int64 `json:"output"`
	Cached int64 `json:"cached"`
	Total  int64 `json:"total"`
}

func (t geminiTokens) stats() geminiStats {
	return geminiStats{Total: t.Total, Input: t.Input, Output: t.Output, Cached: t.Cached}
}

// geminiReader reads the stream of Gemini CLI.
type geminiReader struct {
	// text is what the agent is saying: it comes in pieces.
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

// usage is the same in our words: Gemini's cached tokens are a part of its input
// tokens, and what the total has beyond input and output is its thinking, which
// is paid as output.
func (g geminiStats) usage() cost.Usage {
	thinking := max(g.Total-g.Input-g.Output, 0)
	return cost.Usage{
		InputTokens: max(g.Input-g.Cached, 0), CacheReadTokens: g.Cached,
		OutputTokens: g.Output + thinking, ReasoningTokens: thinking,
	}
}

func (r *geminiReader) event(data []byte, s *story) bool {
	var e geminiEvent
	if !decodeEvent(data, &e) || e.Type == "" {
		return false
	}
	if e.Type == "message" && e.Role == "assistant" {
		r.text.WriteString(e.Content)
		return true
	}
	s.says(r.text.String())
	r.text.Reset()
	switch e.Type {
	case "init":
		s.begin(e.SessionID)
	case "tool_use":
		s.calls(e.ToolName, e.Parameters)
		s.answered("")
	case "tool_result":
		s.brought(or(e.Output, e.Error.Message), e.Status == "error")
		s.asks("")
	case "error":
		s.warns(e.Message)
	case "result":
		if e.Stats != nil {
			s.uses(e.Stats.usage(), cost.Usage{})
		}
		if e.Status == "success" {
			s.ends(nil)
		} else {
			s.ends(geminiFailure(e))
		}
	}
	return true
}

func geminiFailure(e geminiEvent) *failures.Failure {
	text := or(e.Error.Message, "it failed ("+or(e.Error.Type, e.Status)+")")
	otherwise := failures.Unknown
	if strings.Contains(text, "API Error") {
		otherwise = failures.APIError
	}
	return failureOfText(text, otherwise)
}

// The exit statuses with which Gemini CLI ends before its stream begins, or
// without a word in it.
const (
	geminiAuthentication = 41
	geminiTurnLimit      = 53
)

func (r *geminiReader) end(exit int, stderr string, s *story) {
	s.says(r.text.String())
	if s.done {
		return
	}
	switch exit {
	case geminiAuthentication:
		s.ends(&failures.Failure{Category: failures.Auth, Message: or(lastLine(stderr), "its credentials were refused"), Final: true})
	case geminiTurnLimit:
		s.ends(failures.Failf(failures.TurnLimit, "%s", or(lastLine(stderr), "its turn limit is reached")))
	}
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
