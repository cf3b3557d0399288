package apply

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/store/cas"
)

// maxExclude bounds a file of rules, in bytes.
const maxExclude = 256 << 10

// WithTracked adds what git knows of a directory to the options of its snapshot: tracked files, also of submodules, belong
// to it although a .gitignore names them, or their names look like those of secrets; and the rules of the repository's
// info/exclude and of the user count for the others. Outside of a repository, or without git, it adds nothing.
func WithTracked(ctx context.Context, dir string, environ []string, o cas.SnapshotOptions) cas.SnapshotOptions {
	g := gitIn(dir, environ)
	g.options = append(g.options, "-c", "core.fsmonitor=false") // which would run a program that the repository names
	listed, err := g.run(ctx, nil, "ls-files", "-z", "--cached", "--recurse-submodules")
	if err != nil { // a submodule may be broken
		listed, err = g.run(ctx, nil, "ls-files", "-z", "--cached")
	}
	if err != nil {
		return o
	}
	for p := range strings.SplitSeq(strings.TrimSuffix(listed, "\x00"), "\x00") {
		if p != "" {
			o.Tracked = append(o.Tracked, p)
		}
	}
	user := g.says(ctx, "config", "--path", "--get", "core.excludesFile")
	if user == "" {
		home := g.variable("XDG_CONFIG_HOME")
		if home == "" && g.variable("HOME") != "" {
			home = filepath.Join(g.variable("HOME"), ".config")
		}
		if home != "" {
			user = filepath.Join(home, "git", "ignore")
		}
	}
	own := g.says(ctx, "rev-parse", "--git-path", "info/exclude")
	for _, file := range []string{user, own} { // the later one decides
		if file != "" && !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() || info.Size() > maxExclude {
			continue
		}
		if text, err := os.ReadFile(file); err == nil {
			o.Beneath += string(text) + "\n"
		}
	}
	return o
}

// variable is the value of a variable of git's environment, in which the last of a name counts.
func (g git) variable(name string) string {
	for _, entry := range slices.Backward(g.env) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}
