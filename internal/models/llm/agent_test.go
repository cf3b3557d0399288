package llm_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

// TestWork has a model use every tool.
func TestWork(t *testing.T) {
	t.Parallel()
	call := providertest.Tool
	script := plays(
		providertest.Reply{Thinking: "hm", Text: "I look around.", Calls: []providertest.Call{
			call("list", args{}), call("search", args{"pattern": "TO.O"}), call("read", args{"path": "docs/a.md", "from": 2, "to": 3}),
		}},
		providertest.Use(
			call("write", args{"path": "bin/run.sh", "content": "#!/bin/sh\n", "executable": true}),
			call("edit", args{"path": "docs/a.md", "old": "TODO", "new": "DONE"}),
			call("delete", args{"path": "old.txt"}),
			call("run_check", args{"name": "test"}),
		),
		providertest.Use(call("write", args{"path": "ok", "content": ""}), call("run_check", args{"name": "test"}),
			call("decide", args{"name": "database", "value": "sqlite"})),
		finish(),
	)
	files := map[string]string{"docs/a.md": "one\ntwo\nTODO\nfour\n", "old.txt": "x"}
	each(t, script, files, func(t *testing.T, b *bench, s *providertest.Server) {
		b.job.Deliver = spec.Contract{Produces: []string{"docs/*.md"}, Checks: []string{"test"}}
		b.job.Try = b.try
		b.agent.Prices = &cost.Prices{Input: 3e9, Output: 15e9, CacheRead: 3e8, CacheWrite: 3.75e9}
		out := b.done()
		require.Equal(t, map[string]string{"docs/a.md": "one\ntwo\nDONE\nfour\n", "bin/run.sh": "#!/bin/sh\n", "ok": ""}, b.files())
		program, err := os.Stat(filepath.Join(b.dir, "bin/run.sh"))
		require.NoError(t, err)
		require.NotZero(t, program.Mode()&0o100)
		require.Equal(t, "all done", out.Summary)
		require.Equal(t, map[string]string{"database": "sqlite"}, out.Decisions)
		require.Equal(t, 4, s.Count())
		require.Equal(t, b.booked(), out.Usage)
		require.Positive(t, out.Usage.CostUSD)

		requests := s.Requests()
		first := requests[0]
		require.Contains(t, first.System, "Solution architect")
		require.Contains(t, first.System, "Be brief.")
		require.Contains(t, first.System, "docs/*.md")
		require.Contains(t, first.Last().Text, "Write the design.")
		require.Contains(t, first.Last().Text, "language: Go")
		require.Contains(t, first.Last().Text, "old.txt")
		require.Contains(t, first.Tools, "run_check")
		require.Equal(t, int64(8192), first.MaxTokens)
		results := requests[1].Last().Results
		require.Len(t, results, 3, "answered together")
		require.Equal(t, "docs/\ndocs/a.md (18)\nold.txt (1)\n", results[0].Text)
		require.Equal(t, "docs/a.md:3: TODO\n", results[1].Text)
		require.Equal(t, "two\nTODO\n", results[2].Text)
		require.Contains(t, requests[2].Last().Results[3].Text, "wants the file ok")
		require.Contains(t, requests[3].Last().Results[1].Text, "passed")
		require.Equal(t, requests[1].Messages[1].Calls[2].ID, results[2].ID, "in order")

		log := string(out.Log)
		for _, want := range []string{"turn 1", "I look around.", "edit docs/a.md", "wants the file ok", "USD"} {
			require.Contains(t, log, want)
		}
		require.Contains(t, strings.Join(b.said, "\n"), "edit docs/a.md")
	})
}

// TestEscapes tries to leave the directory.
func TestEscapes(t *testing.T) {
	t.Parallel()
	call := providertest.Tool
	var calls []providertest.Call
	for _, path := range []string{
		"../outside", "/etc/passwd", "link", "dir/../../outside", "dirlink/outside", ".git/config",
		"a\x00b",
	} {
		calls = append(calls,
			call("read", args{"path": path}), call("write", args{"path": path, "content": "pwned"}),
			call("edit", args{"path": path, "old": "o", "new": "pwned"}), call("delete", args{"path": path + "/x"}),
			call("list", args{"path": path}))
	}
	each(t, plays(providertest.Use(calls...), finish()), map[string]string{"dir/a": "a"},
		func(t *testing.T, b *bench, s *providertest.Server) {
			dir := t.TempDir() // with links that lead to it
			require.NoError(t, os.WriteFile(filepath.Join(dir, "outside"), []byte("private"), 0o600))
			require.NoError(t, errors.Join(os.Symlink(filepath.Join(dir, "outside"), filepath.Join(b.dir, "link")),
				os.Symlink(dir, filepath.Join(b.dir, "dirlink"))))
			b.done()
			results := s.Requests()[1].Last().Results
			require.Len(t, results, len(calls))
			for i, r := range results {
				require.NotContains(t, r.Text, "private", "%s %s", calls[i].Name, calls[i].Arguments)
				require.NotContains(t, r.Text, "root:", "%s %s", calls[i].Name, calls[i].Arguments)
			}
			data, err := os.ReadFile(filepath.Join(dir, "outside"))
			require.NoError(t, err)
			require.Equal(t, "private", string(data))
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Len(t, entries, 1)
		})
}
