package agent

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/maestro-hive/maestro/internal/models/agent/preset"
	"github.com/maestro-hive/maestro/internal/sandbox/room"
)

// Shortage is something that a worker file requires and that the machine or its environment does
// not have.
type Shortage struct {
	// Of is what requires it: agent NAME or check NAME.
	Of string
	// Fatal: the agent or check cannot work without it. A missing variable is not fatal, because
	// it may be set in the worker's environment.
	Fatal bool
	// Message says what is missing, and Remedy what to do. Command is a command that does it; may
	// be empty.
	Message, Remedy, Command string
}

// InstallGit is the command that installs git.
var InstallGit = map[string]string{"linux": "sudo apt-get install git", "darwin": "xcode-select --install"}[runtime.GOOS]

// Shortages lists what the config requires and this machine does not have: programs, scripts, and
// environment variables, which getenv returns. It starts no program.
func (c Config) Shortages(getenv func(string) string) (out []Shortage) {
	c = c.WithDefaults()
	path := []string{"PATH=" + cmp.Or(getenv("PATH"), defaultPath)}
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		d, of := c.Agents[name], "agent "+name
		out = append(out, variables(of, d.Env, getenv)...)
		if d.Kind == KindCommand {
			out = append(out, c.program(of, d.Argv[0], d.Preset, path)...)
			out = append(out, scriptOf(of, d.Argv)...)
			if d.Git {
				out = append(out, c.program(of+", which has git: true,", "git", "", path)...)
			}
		}
		if d.Kind == KindDelivery {
			out = append(out, c.program(of, "git", "", path)...)
			env, file := d.credential()
			out = append(out, c.secretShortage(of, env, file, getenv)...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Providers)) {
		p := c.Providers[name]
		out = append(out, c.secretShortage("provider "+name, p.KeyEnv, p.KeyFile, getenv)...)
	}
	for _, d := range c.Credentials {
		out = append(out, variables("credential for "+d.Host, []string{d.SecretEnv}, getenv)...)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Checks)) {
		d, of := c.Checks[name], "check "+name
		out = append(out, variables(of, d.Env, getenv)...)
		if strings.Contains(d.Argv[0], "/") && !filepath.IsAbs(d.Argv[0]) {
			continue // belongs to the trees
		}
		out = append(out, c.program(of, d.Argv[0], "", path)...)
		out = append(out, scriptOf(of, d.Argv)...)
	}
	return out
}

// secretShortage checks a secret in a variable or in a file.
func (c Config) secretShortage(of, env, file string, getenv func(string) string) []Shortage {
	if env != "" {
		return variables(of, []string{env}, getenv)
	}
	if _, err := c.secret("", "", file, getenv); err != nil {
		return []Shortage{{
			Of: of, Message: "its key cannot be read: " + err.Error(),
			Remedy: "write the key to the file, readable by the worker's user",
		}}
	}
	return nil
}

func variables(of string, names []string, getenv func(string) string) (out []Shortage) {
	for _, name := range names {
		if strings.TrimSpace(getenv(name)) == "" {
			out = append(out, Shortage{
				Of: of, Message: "variable " + name + " is not set", Remedy: "set " + name + " in the environment of the worker",
			})
		}
	}
	return out
}

// program checks a program that is to be started.
func (c Config) program(of, program, ofPreset string, path []string) []Shortage {
	if strings.Contains(program, "/") {
		program = c.relative(program)
	}
	_, err := room.LookUp(program, c.Dir, path)
	lack := Shortage{Of: of, Fatal: true, Message: "its program cannot be started: " + program + " is not in PATH"}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EACCES):
		lack.Message = "its program cannot be started: " + program + " is not executable"
		lack.Remedy, lack.Command = "make it executable", "chmod +x "+ShellWord(program)
	case strings.Contains(program, "/"):
		lack.Message = "its program cannot be started: " + program + " does not exist"
		lack.Remedy = "install it there, or fix argv in the worker file"
	case ofPreset != "" && filepath.Base(program) == ofPreset:
		lack.Remedy, lack.Command = "install it, or use its full path in argv", "npm install --global "+preset.For(ofPreset).Package
	case program == "git":
		lack.Remedy, lack.Command = "install it", InstallGit
	default:
		lack.Remedy = "install " + program + ", or use its full path in argv"
	}
	return []Shortage{lack}
}

// interpreters run a program from a file, unless one of these flags is given.
var interpreters = map[string][]string{
	"sh": {"-c", "-s"}, "bash": {"-c", "-s"}, "dash": {"-c", "-s"}, "zsh": {"-c", "-s"},
	"python": {"-c", "-m"}, "python3": {"-c", "-m"}, "node": {"-e", "-p"}, "perl": {"-e", "-E"}, "ruby": {"-e"},
}

// scriptOf checks the script that an interpreter is to run. A relative path belongs to the tree.
func scriptOf(of string, argv []string) []Shortage {
	file := script(argv)
	if !filepath.IsAbs(file) {
		return nil
	}
	f, err := os.Open(file)
	if err == nil {
		_ = f.Close()
		return nil
	}
	lack := Shortage{
		Of: of, Fatal: true, Message: fmt.Sprintf("its script %s does not exist", file),
		Remedy: "create it, or fix the worker file",
	}
	if !errors.Is(err, fs.ErrNotExist) {
		lack.Message = fmt.Sprintf("its script cannot be read: %s", err)
		lack.Remedy, lack.Command = "make it readable by the worker's user", "chmod a+r "+ShellWord(file)
	}
	return []Shortage{lack}
}

// script returns the script that an interpreter is to run; empty: none.
func script(argv []string) string {
	otherwise, known := interpreters[filepath.Base(argv[0])]
	if !known {
		return ""
	}
	for _, arg := range argv[1:] {
		if slices.Contains(otherwise, arg) {
			return ""
		}
		if !strings.HasPrefix(arg, "-") {
			return arg
		}
	}
	return ""
}

// ShellWord quotes a word for a shell if necessary.
func ShellWord(word string) string {
	if !strings.ContainsAny(word, " \t\n'\"\\$`&|;<>()*?[]#~!{}") {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Presets returns the agents that start their preset's own program, with that program.
func (c Config) Presets() map[string]string {
	out := map[string]string{}
	for name, d := range c.WithDefaults().Agents {
		if d.Preset != "" && d.Kind == KindCommand && filepath.Base(d.Argv[0]) == d.Preset {
			out[name] = d.Argv[0]
			if strings.Contains(d.Argv[0], "/") {
				out[name] = c.relative(d.Argv[0])
			}
		}
	}
	return out
}
