package apply_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/ops/apply"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/testkit/faulttest"
	"github.com/maestro-hive/maestro/internal/testkit/gittest"
	"github.com/maestro-hive/maestro/internal/testkit/worktest"
)

const repository = "acme/shop"

// began are the files of the repository when the session starts.
var began = map[string]string{
	"a.txt": "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "gone": "x\n", "run": gittest.Executable("#!/bin/sh\n"), "b/c": "c\n",
}

// desk has a repository and a session that was started on its first commit.
type desk struct {
	t       *testing.T
	host    *gittest.Server
	store   *store.Store
	started string
	target  apply.PushTarget
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	s, err := store.Create(t.TempDir(), store.Options{Clock: time.Now})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	host := gittest.New(t)
	started := host.Create(repository, began)
	return &desk{t, host, s, started, apply.PushTarget{
		URL: host.Remote(repository), User: gittest.User, Password: gittest.Password, Branch: "maestro/s", Base: "main",
		StartedOn: started, Name: "Maestro", Mail: "maestro@example.org", At: time.Unix(1_800_000_000, 0),
		Dir: filepath.Join(t.TempDir(), "clone"), Environ: os.Environ(),
	}}
}

// with are files with changes, of which [gittest.Removed] removes one.
func with(files, changes map[string]string) map[string]string {
	out := maps.Clone(files)
	maps.Copy(out, changes)
	maps.DeleteFunc(out, func(_, content string) bool { return content == gittest.Removed })
	return out
}

// work is that of a session which began with some files and has others.
func (d *desk) work(before, after map[string]string) apply.Work {
	d.t.Helper()
	c := session.Checkpoint{
		Session: "s", Requirement: "Make it so.\nPlease.", CurrentPhase: "make", Team: session.Ref{Name: "craft"},
		Workspace: worktest.Tree(d.t, d.store, before), Tree: worktest.Tree(d.t, d.store, after),
	}
	return apply.Work{StoredCheckpoint: store.StoredCheckpoint{Name: c.Tree, Checkpoint: c}, Store: d.store}
}

// push pushes the work of a session that began with the repository's files, and remembers that.
func (d *desk) push(changes map[string]string) apply.Pushed {
	d.t.Helper()
	out, err := d.try(changes)
	require.NoError(d.t, err)
	require.Equal(d.t, out.Head, d.host.Branch(repository, d.target.Branch))
	d.target.Previous = out.Head
	return out
}

func (d *desk) try(changes map[string]string) (apply.Pushed, error) {
	d.t.Helper()
	return apply.Push(d.t.Context(), d.work(began, with(began, changes)), d.target)
}

func (d *desk) files(commit string) map[string]string { return d.host.Files(repository, commit) }

func (d *desk) git(args ...string) string { return d.host.Git(repository, args...) }

func conflictOf(t *testing.T, err error) *apply.ConflictError {
	t.Helper()
	conflict, ok := errors.AsType[*apply.ConflictError](err)
	require.True(t, ok, "%v", err)
	return conflict
}

func failureOf(t *testing.T, err error) *failures.Failure {
	t.Helper()
	failure, ok := errors.AsType[*failures.Failure](err)
	require.True(t, ok, "%v", err)
	return failure
}

func TestPassesOfASessionAreCommitsOfItsBranch(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	base := d.host.Commit(repository, "main", map[string]string{"other": "o\n"}, "Other")
	changes := map[string]string{
		"a.txt": "one\n2\n3\n4\n5\n6\n7\n8\n9\n", "gone": gittest.Removed, "new/tool": gittest.Executable("x\n"),
		"link": gittest.Link("b/c"), "run": "no program\n", ".gitattributes": "* filter=evil\n",
	}
	first := d.push(changes)
	require.False(t, first.Unchanged)
	require.Equal(t, base, first.Base)
	require.Equal(t, d.started, d.git("rev-parse", first.Head+"^"), "it is made on the commit that the session began with")
	require.Equal(t, with(began, changes), d.files(first.Head))
	require.Equal(t, "Maestro <maestro@example.org> 1800000000 Maestro 1800000000 Make it so.",
		d.git("log", "-1", "--format=%an <%ae> %at %cn %ct %s", first.Head))
	require.Contains(t, d.git("log", "-1", "--format=%b", first.Head), "The work of session s of team craft, after phase make.")
	require.NotContains(t, d.git("log", "-1", "--format=%b", first.Head), "\x1b")
	require.Len(t, first.Files, 6)
	partial, err := filepath.Glob(filepath.Join(d.target.Dir, "objects/pack/*.promisor"))
	require.NoError(t, err)
	require.NotEmpty(t, partial, "the clone has not all files")

	again := d.push(changes)
	require.True(t, again.Unchanged)
	require.Equal(t, first.Head, again.Head)

	d.target.At, d.target.Title = d.target.At.Add(time.Hour), "Mend the check"
	delete(changes, "link")
	changes["b/c"] = "d\n"
	second := d.push(changes)
	require.Equal(t, first.Head, d.git("rev-parse", second.Head+"^"))
	require.Equal(t, with(began, changes), d.files(second.Head), "what the session does not change anymore is as it was")
	require.Equal(t, "Mend the check", d.git("log", "-1", "--format=%s", second.Head))

	d.target.Previous = ""
	require.NoError(t, os.RemoveAll(d.target.Dir))
	require.Equal(t, second.Head, d.push(changes).Head, "another worker finds what was pushed")

	d.target.Branch, d.target.Previous = "maestro/none", ""
	none, err := d.try(nil)
	require.NoError(t, err)
	require.Equal(t, apply.Pushed{Base: base, Unchanged: true}, none)
}

func TestACommitThatTheRemoteDoesNotHaveIsNotBuiltOn(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	head := d.host.Commit(repository, "main", map[string]string{"a.txt": "1\n2\n3\n4\n5\n6\n7\n8\n9\nten\n"}, "Ten")
	side := d.host.Commit(repository, "side", map[string]string{"side": "s\n"}, "Side")
	d.target.StartedOn = strings.Repeat("12345678", 5)
	out := d.push(map[string]string{"a.txt": "one\n2\n3\n4\n5\n6\n7\n8\n9\n"})
	require.Equal(t, head, d.git("rev-parse", out.Head+"^"))
	require.Equal(t, "one\n2\n3\n4\n5\n6\n7\n8\n9\nten\n", d.files(out.Head)["a.txt"],
		"what the base has changed since the session began is kept")

	d.target.Branch, d.target.Previous = "maestro/second", ""
	_, err := d.try(map[string]string{"a.txt": "1\n2\n3\n4\n5\n6\n7\n8\n9\nzehn\n"})
	conflict := conflictOf(t, err)
	require.Equal(t, []string{"a.txt"}, conflict.Paths)
	require.Equal(t, head, conflict.Theirs)
	require.Contains(t, conflict.Diff, "+ten")
	d.target.Resolved = []string{head}
	out = d.push(map[string]string{"a.txt": "1\n2\n3\n4\n5\n6\n7\n8\n9\nten, zehn\n"})
	require.Equal(t, "1\n2\n3\n4\n5\n6\n7\n8\n9\nten, zehn\n", d.files(out.Head)["a.txt"])

	d.target.Branch, d.target.Previous, d.target.StartedOn = "maestro/third", "", side
	out = d.push(map[string]string{"b/c": "d\n"})
	require.Equal(t, side, d.git("rev-parse", out.Head+"^"), "it is fetched although it is on neither branch")
}

func TestWhatOthersPushToTheBranchIsMerged(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	first := d.push(map[string]string{"a.txt": "one\n2\n3\n4\n5\n6\n7\n8\n9\n"})
	theirs := d.host.Commit(repository, d.target.Branch, map[string]string{
		"a.txt": "one\n2\n3\n4\n5\n6\n7\n8\nnine\n", "mine": "m\n",
	}, "Mine")
	kept := d.push(map[string]string{"a.txt": "one\n2\n3\n4\n5\n6\n7\n8\n9\n"})
	require.Equal(t, theirs, kept.Head)
	require.True(t, kept.Unchanged)

	second := d.push(map[string]string{"a.txt": "one\ntwo\n3\n4\n5\n6\n7\n8\n9\n"})
	want := with(began, map[string]string{"a.txt": "one\ntwo\n3\n4\n5\n6\n7\n8\nnine\n", "mine": "m\n"})
	require.Equal(t, want, d.files(second.Head))
	require.Equal(t, theirs, d.git("rev-parse", second.Head+"^2"))
	require.Equal(t, first.Head, d.git("rev-parse", second.Head+"^1^"))

	third := d.push(map[string]string{"a.txt": "one\ntwo\nthree\n4\n5\n6\n7\n8\n9\n"})
	want["a.txt"] = "one\ntwo\nthree\n4\n5\n6\n7\n8\nnine\n"
	require.Equal(t, want, d.files(third.Head))

	theirs = d.host.Commit(repository, d.target.Branch, map[string]string{
		"a.txt": "one\ntwo\nthree\nfour\n5\n6\n7\n8\nnine\n",
	}, "Four")
	changes := map[string]string{"a.txt": "one\ntwo\nthree\nVIER\n5\n6\n7\n8\n9\n"}
	_, err := d.try(changes)
	conflict := conflictOf(t, err)
	require.Equal(t, theirs, conflict.Theirs)
	require.Equal(t, []string{"a.txt"}, conflict.Paths)
	require.Contains(t, conflict.Diff, "+four")
	require.Equal(t, theirs, d.host.Branch(repository, d.target.Branch), "nothing was pushed")

	d.target.Resolved = append(d.target.Resolved, conflict.Theirs)
	d.host.Commit(repository, d.target.Branch, map[string]string{"late": "l\n"}, "Late")
	want["late"] = "l\n"
	changes["a.txt"] = "one\ntwo\nthree\nfour, VIER\n5\n6\n7\n8\n9\n"
	resolved := d.push(changes)
	want["a.txt"] = "one\ntwo\nthree\nfour, VIER\n5\n6\n7\n8\nnine\n"
	require.Equal(t, want, d.files(resolved.Head), "lines that are not in conflict are still theirs")

	changes["a.txt"] = "one\ntwo\nthree\nfour, VIER, quatre\n5\n6\n7\n8\n9\n"
	want["a.txt"] = "one\ntwo\nthree\nfour, VIER, quatre\n5\n6\n7\n8\nnine\n"
	require.Equal(t, want, d.files(d.push(changes).Head), "a conflict that was resolved does not come back")
}

func TestTheBaseIsMergedOnDemand(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	changes := map[string]string{"a.txt": "one\n2\n3\n4\n5\n6\n7\n8\n9\n"}
	first := d.push(changes)
	base := d.host.Commit(repository, "main", map[string]string{"a.txt": "1\n2\n3\n4\n5\n6\n7\n8\nnine\n", "base": "b\n"}, "Base")
	require.True(t, d.push(changes).Unchanged, "nobody has asked for it")
	d.target.MergeBase = true
	second := d.push(changes)
	want := with(began, map[string]string{"a.txt": "one\n2\n3\n4\n5\n6\n7\n8\nnine\n", "base": "b\n"})
	require.Equal(t, want, d.files(second.Head))
	require.Equal(t, first.Head+"\n"+base, d.git("rev-parse", second.Head+"^1", second.Head+"^2"))
	require.Equal(t, "Merge branch 'main' into maestro/s", d.git("log", "-1", "--format=%s", second.Head))
	require.True(t, d.push(changes).Unchanged)

	d.target.MergeBase = false
	changes["b/c"] = "d\n"
	want["b/c"] = "d\n"
	require.Equal(t, want, d.files(d.push(changes).Head), "the next pass does not undo the merge")

	base = d.host.Commit(repository, "main", map[string]string{
		"a.txt": "uno\n2\n3\n4\n5\n6\n7\n8\nneun\n", "gone": gittest.Removed, "run": gittest.Removed,
	}, "Uno")
	d.target.MergeBase = true
	changes["run"] = gittest.Executable("#!/bin/sh\necho\n")
	_, err := d.try(changes)
	conflict := conflictOf(t, err)
	require.Equal(t, []string{"a.txt", "run"}, conflict.Paths)
	require.Equal(t, base, conflict.Theirs)
	require.Contains(t, conflict.Diff, "+uno")
	require.ErrorContains(t, err, "have changed the same lines of a.txt, run")

	d.target.Resolved = []string{base}
	changes["a.txt"] = "one, uno\n2\n3\n4\n5\n6\n7\n8\n9\n"
	last := d.push(changes)
	want = with(want, map[string]string{
		"a.txt": "one, uno\n2\n3\n4\n5\n6\n7\n8\nneun\n", "gone": gittest.Removed, "run": changes["run"],
	})
	require.Equal(t, want, d.files(last.Head))
	require.Empty(t, d.git("log", "--format=%s", last.Head+"..main"))
}

func TestABranchOfOthersIsLeftAlone(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	changes := map[string]string{"b/c": "d\n"}
	d.host.SetBranch(repository, d.target.Branch, d.started)
	taken := func(want string) {
		t.Helper()
		_, err := d.try(changes)
		e, ok := errors.AsType[*apply.TakenError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, want, e.Session)
	}
	taken("")
	d.host.Commit(repository, d.target.Branch, map[string]string{"x": "x"}, "Mine")
	taken("")
	d.host.Commit(repository, d.target.Branch, map[string]string{"x": "y"}, "Theirs\n\nMaestro-Session: other\n")
	taken("other")
	d.host.DeleteBranch(repository, d.target.Branch)
	first := d.push(changes)

	d.host.SetBranch(repository, d.target.Branch, d.started)
	rewritten := d.host.Commit(repository, d.target.Branch, map[string]string{"b/c": "e\n"}, "Better")
	_, err := d.try(changes)
	e, ok := errors.AsType[*apply.RewrittenError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, apply.RewrittenError{Branch: d.target.Branch, Previous: first.Head, Head: rewritten}, *e)
	require.Equal(t, rewritten, d.host.Branch(repository, d.target.Branch))

	d.host.DeleteBranch(repository, d.target.Branch)
	require.Equal(t, first.Head, d.push(changes).Head, "a branch that was deleted is made anew")
}

func TestARaceOverwritesNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var races atomic.Int32
	d.host.Fail(faulttest.Fault{If: func(r faulttest.Request) bool {
		if strings.HasSuffix(r.Path, "/git-receive-pack") && races.Add(1) == 1 {
			d.host.SetBranch(repository, d.target.Branch, d.host.Commit(repository, "side", map[string]string{"x": "x"}, "Side"))
		}
		return false
	}})
	_, err := d.try(map[string]string{"b/c": "d\n"})
	e, ok := errors.AsType[*apply.TakenError](err)
	require.True(t, ok, "it has looked again: %v", err)
	require.Empty(t, e.Session)

	d.host.DeleteBranch(repository, d.target.Branch)
	d.push(map[string]string{"b/c": "d\n"})
	d.host.Fail(faulttest.Fault{If: func(r faulttest.Request) bool {
		if strings.HasSuffix(r.Path, "/git-receive-pack") {
			d.host.Commit(repository, d.target.Branch, map[string]string{"y": time.Now().String()}, "Again")
		}
		return false
	}})
	_, err = d.try(map[string]string{"b/c": "e\n"})
	require.Equal(t, failures.APIError, failureOf(t, err).Category)
	require.ErrorContains(t, err, "push to branch maestro/s of "+d.target.URL+": the branch has changed")
	require.Equal(t, "d\n", d.files(d.target.Branch)["b/c"])
	require.Equal(t, "Again\nAgain\nAgain\nMake it so.\nFirst", d.git("log", "--format=%s", d.target.Branch),
		"it has tried three times")
}
