package agent

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/failures"
)

// codex is Codex, `codex exec --json`.
type codex struct{}

// codexSkipsGit is the flag with which it works outside of a repository, too.
const codexSkipsGit = "--skip-git-repo-check"

// usual lets Codex change its directory and run commands that reach nothing
// else, and no network.
func (codex) usual() []string { return []string{"codex", "exec", "--sandbox", "workspace-write"} }

func (codex) complete(argv []string, r run) []string {
	argv = slices.Clone(argv)
	if argv[len(argv)-1] == "-" {
		argv = argv[:len(argv)-1]
	}
	if !slices.Contains(argv, "exec") {
		argv = append(argv, "exec")
	}
	argv = addSwitch(argv, "--json")
	argv = addFlag(argv, r.model, "--model", "-m")
	argv = append(argv, "--add-dir", r.results)
	if r.goesOn.ID != "" {
		argv = append(argv, "resume", r.goesOn.ID)
	}
	return append(argv, "-") // the prompt comes on its standard input
}

func (codex) unknown(stderr string) bool {
	return strings.Contains(stderr, "no rollout found for thread id") || strings.Contains(stderr, "thread/resume failed")
}

func (codex) reader(r run) reader { return &codexReader{run: r} }

// rolloutName is how Codex names the file of a conversation: by its beginning and
// its id.
var rolloutName = regexp.MustCompile(`^rollout-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-(.+)\.jsonl$`)

// usage: Codex notes what a conversation has used so far after each request. That is
// no interface of Codex; a file that cannot be found or read says nothing.
func (codex) usage() usageNotes {
	return usageNotes{
		dir: ".codex/sessions", mark: `"token_count"`, opening: 10_000,
		file: func(name string) bool { return rolloutName.MatchString(path.Base(name)) },
		line: func(name string, line []byte, t *tally) {
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
	}
}

// codexReader reads the stream of Codex.
type codexReader struct {
	run run
	// last is what it last said of an error that it may get over.
	last string
	// offline counts how often in a row it has said that there is no network.
	offline int
}

// maxOffline is how often in a row Codex may say that it waits for the network.
// Its pauses double, and it never gives up by itself: the fourth time comes
// after about 45 s.
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

// usage is the same in our words: OpenAI's cached tokens are a part of its input
// tokens, and its reasoning tokens one of its output tokens.
func (u codexUsage) usage() cost.Usage {
	return cost.Usage{
		InputTokens: max(u.Input-u.Cached-u.CacheWrite, 0), OutputTokens: u.Output,
		CacheReadTokens: u.Cached, CacheWriteTokens: u.CacheWrite, ReasoningTokens: u.Reasoning,
	}
}

func (r *codexReader) event(data []byte, s *story) bool {
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
			s.does("run", e.Item.Command)
			s.answered("")
		}
	case "item.completed":
		r.item(e.Item, s)
	case "turn.completed":
		r.counts(e.Usage, s)
		s.ends(nil)
	case "turn.failed":
		s.ends(codexFailure(or(e.Error.Message, r.last)))
	case "error":
		r.last = e.Message
		s.warns(e.Message)
		if !strings.Contains(e.Message, "waiting for network") {
			break
		}
		if r.offline++; r.offline == maxOffline {
			s.giveUp(failures.Failf(failures.APIError, "was stopped: it cannot reach its provider: %s", e.Message))
		}
	}
	return true
}

func (r *codexReader) item(item codexItem, s *story) {
	switch item.Type {
	case "agent_message":
		s.says(item.Text)
	case "command_execution":
		s.brought(item.Output, item.Exit != nil && *item.Exit != 0)
		s.asks("")
	case "file_change":
		for _, c := range item.Changes {
			s.does(or(c.Kind, "change"), c.Path)
		}
	case "mcp_tool_call":
		s.does(item.Server+"."+item.Tool, "")
	case "web_search":
		s.does("search", item.Query)
	case "error":
		s.warns(item.Message)
	}
}

// counts takes a usage that Codex tells: it is that of the whole conversation,
// of which earlier runs have booked a part.
func (r *codexReader) counts(total codexUsage, s *story) {
	used := total.usage()
	s.total = used
	s.uses(used.Minus(r.run.goesOn.Booked).Max(cost.Usage{}), cost.Usage{})
}

// codexFailure says why Codex gave up. It fails a turn only for what its
// provider did, and has no word but text for it.
func codexFailure(text string) *failures.Failure {
	return failureOfText(or(text, "its turn failed"), failures.APIError)
}

func (r *codexReader) end(exit int, _ string, s *story) {
	if exit != 0 && !s.done && r.last != "" {
		s.ends(codexFailure(r.last))
	}
}
