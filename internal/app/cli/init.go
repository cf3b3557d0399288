package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/app/project"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/agent"
)

// initDocument is the document of `init -o json`.
type initDocument struct {
	// Dir is the directory of the repository, and Team the name that the team was given.
	Dir  string `json:"dir"`
	Team string `json:"team"`
	// Files are those that were written.
	Files []string `json:"files"`
}

func newInit(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write the team and the worker file of this repository, to be edited",
		Long: "Write what `maestro run TEXT` has found for this Git repository into two files, .maestro/team.yaml and " +
			".maestro/agents.yaml. " +
			"From then on `run` uses them. Existing files are not overwritten.",
		RunE: func(*cobra.Command, []string) error { return a.init() },
	}
	return a.addOutputFlag(cmd)
}

func (a *app) init() error {
	root, err := project.Root(a.env.Dir)
	if err != nil {
		return usagef("%w; run `git init` first", err)
	}
	p, err := a.findProject(root)
	if err != nil {
		return err
	}
	team, agents := ownFiles(root)
	doc := initDocument{Dir: root, Team: p.Name, Files: []string{team, agents}}
	for _, file := range doc.Files {
		if isFile(file) {
			return usagef("%s exists, and is not overwritten", file)
		}
	}
	if err := writeProject(p, team, agents, os.O_EXCL); err != nil {
		return err
	}
	return a.result(doc, func() {
		for _, file := range doc.Files {
			a.print("%s", file)
		}
		a.printErr("\nEdit them, and check them: maestro validate %s --agents %s", agent.ShellWord(team), agent.ShellWord(agents))
	})
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

// writeProject writes both files of a project. flag says what is done if there are such files.
func writeProject(p project.Project, team, agents string, flag int) error {
	for file, content := range map[string]func() ([]byte, error){team: p.TeamFile, agents: p.WorkerFile} {
		data, err := content()
		if err == nil {
			err = writeFile(file, data, flag)
		}
		if err != nil {
			return failf("%w", err)
		}
	}
	return nil
}

// findProject looks at a repository and at the programs of this machine.
func (c *connector) findProject(root string) (project.Project, error) {
	p, err := project.Find(root, project.Host{LookPath: c.lookPath, Getenv: c.environ.get}, teamName)
	if err != nil {
		return p, usagef("%w", err)
	}
	return p, nil
}

// lookPath finds a program in the PATH of the command's environment.
func (c *connector) lookPath(program string) (path string, err error) {
	for _, dir := range filepath.SplitList(c.environ.get("PATH")) {
		if path, err = exec.LookPath(filepath.Join(dir, program)); err == nil && filepath.IsAbs(path) {
			return path, nil
		}
	}
	return "", exec.ErrNotFound
}
