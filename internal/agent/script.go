package agent

import (
	"github.com/maestro-hive/maestro/internal/team"
)

// script is the file that a scripted agent plays.
//
//	version: 1
//	plays:
//	  implementation/backend:   # or a persona's name, or "*" for anyone
//	    - attempt: 1            # played in the first attempt of any round
//	      turns:
//	        - say: writing the store
//	          delay: 500ms
//	          files:
//	            store.go: "package store // on ${decision.database}\n"
//	          usage: {input_tokens: 1200, output_tokens: 300, cost_usd: 0.01}
//	      decisions: {eviction: lru}
//	      summary: Wrote the store.
//	    - fail: {category: auth, message: no more credit, retryable: false}
//
// Every text, path and decision may refer to ${decision.NAME}, ${requirement},
// ${session}, ${phase}, ${persona}, ${role}, ${instructions}, ${round},
// ${attempt} and ${feedback.category}, .message, .output, .advice and .note. A default
// follows ":-", as in ${decision.database:-sqlite}; $${...} stands for itself
// without the first dollar. Whatever else is between ${ and } stays.
type script struct {
	// Version of the format; 1 is the only one.
	Version int `yaml:"version"`
	// Plays by "phase/persona", "persona" or "*"; the most precise key that
	// the assignment has is used.
	Plays map[string][]scriptPlay `yaml:"plays"`
}

// scriptPlay is what the agent does in one attempt.
type scriptPlay struct {
	// Round and Attempt restrict the play; zero: any. The first play that
	// fits is played, the last one where none does.
	Round   int `yaml:"round,omitempty"`
	Attempt int `yaml:"attempt,omitempty"`
	// Feedback restricts the play to attempts whose feedback is of this category:
	// rejected for all in which work is done again that was sent back.
	Feedback team.Category `yaml:"feedback,omitempty"`
	// Turns are played in order.
	Turns []scriptTurn `yaml:"turns,omitempty"`
	// Summary, Decisions and Usage are reported at the end; the usage is
	// added to that of the turns.
	Summary   string            `yaml:"summary,omitempty"`
	Decisions map[string]string `yaml:"decisions,omitempty"`
	Usage     scriptUsage       `yaml:"usage,omitempty"`
	// SendsBack has the attempt send an earlier phase's work back.
	SendsBack *sentBack `yaml:"sends_back,omitempty"`
	// Fail has the attempt fail after its turns.
	Fail *scriptFailure `yaml:"fail,omitempty"`
}

// scriptTurn is one step of a play.
type scriptTurn struct {
	// Say is a progress line.
	Say string `yaml:"say,omitempty"`
	// Delay is how long the turn takes.
	Delay team.Duration `yaml:"delay,omitempty"`
	// Files are written at the end of the turn.
	Files map[string]scriptFile `yaml:"files,omitempty"`
	Usage scriptUsage           `yaml:"usage,omitempty"`
	// Crash has the agent kill itself after the turn, Hang has it do nothing
	// more without ending: what tests of retries and timeouts need.
	Crash bool `yaml:"crash,omitempty"`
	Hang  bool `yaml:"hang,omitempty"`
}

// scriptFile is a file's content, or more about it.
type scriptFile struct {
	Content    string `yaml:"content,omitempty" json:"content,omitempty"`
	Executable bool   `yaml:"executable,omitempty" json:"executable,omitempty"`
	// Append adds to the file instead of replacing it.
	Append bool `yaml:"append,omitempty" json:"append,omitempty"`
	// Link makes a symbolic link with this target.
	Link string `yaml:"link,omitempty" json:"link,omitempty"`
	// Delete removes the path and all below it.
	Delete bool `yaml:"delete,omitempty" json:"delete,omitempty"`
}

// UnmarshalYAML takes a bare text as the content.
func (f *scriptFile) UnmarshalYAML(decode func(any) error) error {
	var text string
	if err := decode(&text); err == nil {
		*f = scriptFile{Content: text}
		return nil
	}
	type full scriptFile
	return decode((*full)(f))
}

// scriptUsage is [team.Usage] under its names in YAML.
type scriptUsage struct {
	InputTokens      int64    `yaml:"input_tokens,omitempty"`
	OutputTokens     int64    `yaml:"output_tokens,omitempty"`
	CacheReadTokens  int64    `yaml:"cache_read_tokens,omitempty"`
	CacheWriteTokens int64    `yaml:"cache_write_tokens,omitempty"`
	CostUSD          team.USD `yaml:"cost_usd,omitempty"`
}

// scriptFailure is how a play fails.
type scriptFailure struct {
	// Category is unknown if it is left out.
	Category  team.Category `yaml:"category,omitempty"`
	Message   string        `yaml:"message,omitempty"`
	Output    string        `yaml:"output,omitempty"`
	Retryable *bool         `yaml:"retryable,omitempty"`
}

func (u scriptUsage) usage() team.Usage {
	return team.Usage{
		InputTokens: u.InputTokens, OutputTokens: u.OutputTokens,
		CacheReadTokens: u.CacheReadTokens, CacheWriteTokens: u.CacheWriteTokens, CostUSD: u.CostUSD,
	}
}

// choose returns the play for an attempt.
func (s *script) choose(b team.Brief) (scriptPlay, bool) {
	for _, key := range []string{b.Phase + "/" + b.Persona, b.Persona, "*"} {
		plays := s.Plays[key]
		for _, p := range plays {
			if p.fits(b) {
				return p, true
			}
		}
		if len(plays) > 0 {
			return plays[len(plays)-1], true
		}
	}
	return scriptPlay{}, false
}

// fits tells whether the play is for an attempt with this brief.
func (p scriptPlay) fits(b team.Brief) bool {
	if p.Round != 0 && p.Round != b.Round || p.Attempt != 0 && p.Attempt != b.Attempt {
		return false
	}
	switch f := b.Feedback; {
	case p.Feedback == "":
		return true
	case f == nil:
		return false
	default:
		return f.Category == p.Feedback || p.Feedback == team.Rejected && f.SentBack != ""
	}
}
