package llm

import (
	"slices"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/models/wire"
)

// The names of the tools.
const (
	toolList   = "list"
	toolSearch = "search"
	toolRead   = "read"
	toolWrite  = "write"
	toolEdit   = "edit"
	toolDelete = "delete"
	toolCheck  = "run_check"
	toolDecide = "decide"
	toolFinish = "finish"
)

func text(description string) map[string]any {
	return map[string]any{"type": "string", "description": description}
}

func number(description string) map[string]any {
	return map[string]any{"type": "integer", "minimum": 1, "description": description}
}

// toolsFor returns the tools of a job. The tool that runs a check is included only if there is a
// check, and finish can send work back only if the job permits it.
func toolsFor(job session.Job) []wire.Tool {
	checks := job.Deliver.Checks
	tools := append(lookingTools(), changingTools()...)
	if len(checks) > 0 {
		tools = append(tools, wire.Tool{
			Name: toolCheck, Description: "Run a check on the files as they are. The work is accepted only if every check passes.",
			Properties: map[string]any{"name": map[string]any{
				"type": "string",
				"enum": slices.Compact(slices.Sorted(slices.Values(checks))), "description": "The check.",
			}},
			Required: []string{"name"},
		})
	}
	return append(tools,
		wire.Tool{
			Name: toolDecide, Description: "Record a decision that those who work after you need to know, like the database that " +
				"was chosen.",
			Properties: map[string]any{"name": text("A short name, like database."), "value": text("What was decided, in a few words.")},
			Required:   []string{"name", "value"},
		},
		finishTool(job.Brief),
	)
}

func finishTool(b session.Brief) wire.Tool {
	t := wire.Tool{
		Name: toolFinish, Description: "End the work, when all of it is done. Nothing can be changed after it.",
		Properties: map[string]any{"summary": text("What was done, in one or two sentences.")},
		Required:   []string{"summary"},
	}
	if len(b.Conflicts) > 0 {
		t.Properties["kept"] = map[string]any{
			"type": "object",
			"additionalProperties": map[string]any{
				"type": "object", "properties": map[string]any{"from": text("The persona, " + session.KeptAll + " or " + session.KeptNone +
					"."), "why": text("Why.")}, "required": []string{"from", "why"},
			},
			"description": "Only for conflicts of which one version is right as it is: by path or decision, whose version is " +
				"kept, and why.",
		}
	}
	if back := b.MaySendBack; back != nil {
		t.Properties["sends_back"] = map[string]any{
			"type": "array", "items": map[string]any{"type": "string"},
			"description": "Only to send the work of the phase " + back.To +
				" back instead of handing in: the reasons, each saying what is wrong, where, and what would be right.",
		}
	}
	return t
}

func lookingTools() []wire.Tool {
	return []wire.Tool{
		{
			Name: toolList, Description: "List the files in and below a directory, with their sizes in bytes.",
			Properties: map[string]any{"path": text("The directory; left out: all of it.")},
		},
		{
			Name: toolSearch, Description: "Search the files for lines that match a regular expression (RE2 syntax). Gives " +
				"path:line: text.",
			Properties: map[string]any{
				"pattern": text("The regular expression."),
				"path":    text("A file or directory to search in; left out: everywhere."),
			},
			Required: []string{"pattern"},
		},
		{
			Name: toolRead, Description: "Read a text file, or some lines of it.",
			Properties: map[string]any{
				"path": text("The file."),
				"from": number("The first line, counting from 1."),
				"to":   number("The last line."),
			},
			Required: []string{"path"},
		},
	}
}

func changingTools() []wire.Tool {
	return []wire.Tool{
		{
			Name: toolWrite, Description: "Create a text file, or replace all of one. To change a part of a file, use edit.",
			Properties: map[string]any{
				"path":       text("The file; missing directories are made."),
				"content":    text("The whole content."),
				"executable": map[string]any{"type": "boolean", "description": "Whether it may be executed; left out: as it was."},
			},
			Required: []string{"path", "content"},
		},
		{
			Name: toolEdit, Description: "Change a part of a text file: replace a text that occurs exactly once in it.",
			Properties: map[string]any{
				"path": text("The file."),
				"old":  text("The text to replace, exactly as it is in the file, with enough around it to be unique."),
				"new":  text("What stands there instead."),
			},
			Required: []string{"path", "old", "new"},
		},
		{
			Name: toolDelete, Description: "Delete a file.",
			Properties: map[string]any{"path": text("The file.")}, Required: []string{"path"},
		},
	}
}

// arguments is the union of all tools' arguments.
type arguments struct {
	Path       string  `json:"path"`
	Pattern    string  `json:"pattern"`
	From       int     `json:"from"`
	To         int     `json:"to"`
	Content    *string `json:"content"`
	Executable *bool   `json:"executable"`
	Old        *string `json:"old"`
	New        *string `json:"new"`
	Name       string  `json:"name"`
	Value      *string `json:"value"`
	Summary    string  `json:"summary"`
	// SendsBack is nil if the call has no such argument.
	SendsBack []string `json:"sends_back"`
	// Kept says which versions of conflicts are kept.
	Kept map[string]session.Kept `json:"kept"`
}
