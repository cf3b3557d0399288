package cli

import (
	"cmp"
	"embed"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/examples"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

//go:embed scaffold
var scaffold embed.FS

// template is a set of files of `init`.
type template struct {
	// about is a short description.
	about string
	// files has its files below root.
	files fs.FS
	root  string
	// try is what is typed after the team file to run a session.
	try string
}

// templates are those of `init`, by name.
var templates = map[string]template{
	"software": {
		about: "three personas build and test a small program",
		files: scaffold, root: "scaffold/software", try: `"Greet people by name"`,
	},
	"audit": {
		about: "the Go toolchain checks a Go module and writes a report",
		files: examples.Audit, root: "audit", try: `"Audit this module" --workspace PATH/TO/MODULE`,
	},
	"blank": {
		about: "one persona, one phase",
		files: scaffold, root: "scaffold/blank", try: `"Greet people by name"`,
	},
}

const defaultTemplate = "software"

// initDocument is the document of `init -o json`.
type initDocument struct {
	Dir      string `json:"dir"`
	Template string `json:"template"`
	// Team is the name that the team was given.
	Team string `json:"team"`
	// Files are those that were written, relative to the directory.
	Files []string `json:"files"`
}

// initCommand is `init`.
type initCommand struct {
	*app
	template string
}

func newInit(a *app) *cobra.Command {
	c := initCommand{a, defaultTemplate}
	known := slices.Sorted(maps.Keys(templates))
	var described []string
	for _, name := range known {
		described = append(described, cobra.CompletionWithDesc(name, templates[name].about))
	}
	cmd := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Create a team file and a worker file from a template",
		Long: "Create a commented team file and worker file. The agents are programs, so a session runs without a model or a key. " +
			"Existing files are not overwritten.\n\nTemplates:\n" + templateList(known),
		Example: "  maestro init\n  maestro init greeter --template blank\n  maestro init audit --template audit",
		RunE: func(_ *cobra.Command, args []string) error {
			return c.run(cmp.Or(strings.Join(args, ""), c.env.Dir))
		},
	}
	cmd.Flags().StringVar(&c.template, "template", c.template, terminal.Enumeration(known, "or"))
	_ = cmd.RegisterFlagCompletionFunc("template", cobra.FixedCompletions(described, noFiles))
	return a.addOutputFlag(cmd)
}

func templateList(known []string) string {
	var lines []string
	for _, name := range known {
		lines = append(lines, "  "+name+": "+templates[name].about)
	}
	return strings.Join(lines, "\n")
}

func (c *initCommand) run(dir string) error {
	from, ok := templates[c.template]
	if !ok {
		known := slices.Sorted(maps.Keys(templates))
		return usagef("template %q not found; use %s%s", textfmt.Shorten(c.template, 80), terminal.Enumeration(known, "or"), textfmt.DidYouMean(c.template, known))
	}
	named, err := filepath.Abs(dir)
	if err != nil {
		return usagef("%s cannot be found: %w", dir, err)
	}
	doc := initDocument{Dir: dir, Template: c.template, Team: teamName(filepath.Base(named))}
	files, err := from.filled(doc.Team)
	if err != nil {
		return err
	}
	doc.Files = slices.Sorted(maps.Keys(files))
	if err := writeNew(dir, files); err != nil {
		return err
	}
	if c.output == outputJSON {
		return c.printJSON(doc)
	}
	for _, file := range doc.Files {
		c.print("%s", filepath.Join(dir, filepath.FromSlash(file)))
	}
	at := func(file string) string {
		if dir == c.env.Dir {
			return file
		}
		return agent.ShellWord(filepath.Join(dir, file))
	}
	c.printErr("\nShow the plan:   maestro plan %[1]s\nStart a worker:  maestro dev --agents %[2]s\nRun a session:   maestro run %[1]s %[3]s --watch    (in another terminal)",
		at("team.yaml"), at("agents.yaml"), from.try)
	return nil
}

var unfitForName = regexp.MustCompile(`[^A-Za-z0-9]+`)

// teamName makes a directory's name a team's.
func teamName(dir string) string {
	name := strings.Trim(unfitForName.ReplaceAllString(dir, "-"), "-")
	if spec.CheckName(name) != nil {
		return "team"
	}
	return name
}

var (
	// ownName is the line of a team file that names the team, ownSchema those that name an editor's schema where the
	// template is kept.
	ownName   = regexp.MustCompile(`(?m)^name: .*$`)
	ownSchema = regexp.MustCompile(`(?m)^# yaml-language-server: .*\n(#\n)?`)
)

// filled are the template's files by path, with slashes, without its tests.
func (t template) filled(name string) (map[string][]byte, error) {
	files := map[string][]byte{}
	err := fs.WalkDir(t.files, t.root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(file, "_test.go") {
			return err
		}
		data, err := fs.ReadFile(t.files, file)
		if err != nil {
			return err
		}
		if path.Ext(file) == ".yaml" {
			data = ownSchema.ReplaceAll(data, nil)
		}
		if path.Base(file) == "team.yaml" {
			data = ownName.ReplaceAll(data, []byte("name: "+name))
		}
		files[strings.TrimPrefix(file, t.root+"/")] = data
		return nil
	})
	return files, err
}

// writeNew writes files into a directory, all of them or, where one is there
// already, none.
func writeNew(dir string, files map[string][]byte) error {
	names := slices.Sorted(maps.Keys(files))
	var taken []string
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(name))); err == nil {
			taken = append(taken, name)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return usagef("%s cannot be written to: %w", dir, err)
		}
	}
	if len(taken) > 0 {
		return usagef("%s already has %s, which is not overwritten; choose another directory, like `maestro init my-team`", dir, textfmt.FirstOf(taken, 5))
	}
	for _, name := range names {
		if err := writeFile(filepath.Join(dir, filepath.FromSlash(name)), files[name], os.O_EXCL); err != nil {
			return failf("%w; check the directory's owner and the free disk space", err)
		}
	}
	return nil
}
