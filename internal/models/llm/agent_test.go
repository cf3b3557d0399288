package llm_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/testkit/callstest"
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

// TestTurnsAreBounded ends a model that never does.
func TestTurnsAreBounded(t *testing.T) {
	t.Parallel()
	each(t, plays(use("list", args{})), nil, func(t *testing.T, b *bench, s *providertest.Server) {
		b.agent.MaxTurns = 4
		_, err := b.run()
		f := failed(t, err)
		require.Equal(t, failures.TurnLimit, f.Category)
		require.Contains(t, f.Message, "after 4 turns")
		require.Equal(t, 4, s.Count())
		b.job.MaxTurns, b.job.Calls = 2, callstest.New(-1)
		_, err = b.run()
		require.Contains(t, failed(t, err).Message, "after 2 turns")
	})
}

// TestAnswersThatAreCutOff are not done, and end after a few.
func TestAnswersThatAreCutOff(t *testing.T) {
	t.Parallel()
	cut := use("write", args{"path": "a", "content": "b"})
	cut.Stop = providertest.Truncated
	each(t, plays(cut), nil, func(t *testing.T, b *bench, s *providertest.Server) {
		_, err := b.run()
		f := failed(t, err)
		require.Equal(t, failures.InvalidOutput, f.Category)
		require.Contains(t, f.Message, "max_output_tokens")
		require.Equal(t, 4, s.Count())
		require.Empty(t, b.files())
		require.Contains(t, s.Requests()[1].Last().Text, "smaller steps")
	})
	each(t, plays(cut, cut, cut, use("list", args{}), cut, finish()), nil, func(t *testing.T, b *bench, _ *providertest.Server) {
		b.done() // three in a row are too few to give up
	})
}

// called is a call of a tool: its name, and its arguments as JSON.
func called(text string) providertest.Call {
	name, arguments, _ := strings.Cut(text, " ")
	return providertest.Call{Name: name, Arguments: arguments}
}

// TestCallsThatMakeNoSense are told to the model, and end after a few.
func TestCallsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	for call, told := range map[string]string{
		`bash {"command": "rm -rf /"}`:             `there is no tool "bash"; there are list, search, read`,
		`read {"path": "a`:                         "no JSON object",
		`read [1]`:                                 "no JSON object",
		`read {"path": 5}`:                         "path must not be a JSON number",
		`write {"path": "a"}`:                      "content is missing",
		`run_check {"name": "x"}`:                  `"x" is no check of this work`,
		`finish {"sends_back": ["it is bad"]}`:     "this work may not send any back",
		`decide {"name": "no/name", "value": "x"}`: "no/name",
	} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			server := providertest.New(t, plays(providertest.Use(called(call))))
			b := newBench(t, "openai", server.URL(), nil) // whose servers give out any text as arguments
			_, err := b.run()
			f := failed(t, err)
			require.Equal(t, failures.InvalidOutput, f.Category)
			require.Contains(t, f.Message, "6 tool calls in a row made no sense")
			require.Equal(t, 6, server.Count())
			require.Contains(t, server.Requests()[1].Last().Results[0].Text, told)
		})
	}
	wrong, right := use("bash", args{}), use("list", args{})
	each(t, plays(wrong, wrong, wrong, wrong, wrong, right, wrong, finish()), nil,
		func(t *testing.T, b *bench, s *providertest.Server) {
			b.done() // five in a row are too few to give up
			require.Equal(t, 8, s.Count())
		})
}

// TestSilence is an answer without a call.
func TestSilence(t *testing.T) {
	t.Parallel()
	each(t, plays(providertest.Say("Here is your design: ...")), nil, func(t *testing.T, b *bench, s *providertest.Server) {
		_, err := b.run()
		f := failed(t, err)
		require.Equal(t, failures.ContractViolation, f.Category)
		require.Contains(t, f.Output, "Here is your design")
		require.Equal(t, 4, s.Count())
		require.Contains(t, s.Requests()[1].Last().Text, "call finish")
	})
	each(t, plays(use("write", args{"path": "a", "content": "b"}), providertest.Say("I am done.")), nil,
		func(t *testing.T, b *bench, s *providertest.Server) {
			out := b.done() // what has worked is believed
			require.Equal(t, "I am done.", out.Summary)
			require.Equal(t, 5, s.Count())
		})
}

// TestFinishingWithAFailure does not end the work.
func TestFinishingWithAFailure(t *testing.T) {
	t.Parallel()
	hasty := providertest.Use(providertest.Tool("read", args{"path": "missing"}),
		providertest.Tool("finish", args{"summary": "hasty"}))
	each(t, plays(hasty, finish()), nil, func(t *testing.T, b *bench, s *providertest.Server) {
		require.Equal(t, "all done", b.done().Summary)
		results := s.Requests()[1].Last().Results
		require.Contains(t, results[0].Text, "missing does not exist")
		require.Contains(t, results[1].Text, "Not ended")
	})
}

// TestWhatIsMissingIsAskedForOnce, because a check may make it.
func TestWhatIsMissingIsAskedForOnce(t *testing.T) {
	t.Parallel()
	each(t, plays(finish()), map[string]string{"docs/a.md": ""}, func(t *testing.T, b *bench, s *providertest.Server) {
		b.job.Deliver.Produces = []string{"docs/*.md", "cmd/**/main.go"}
		b.done()
		require.Equal(t, 2, s.Count())
		require.Contains(t, s.Requests()[1].Last().Results[0].Text, "no file matches cmd/**/main.go")
	})
}

// TestTools is what tools say when they are used wrongly, and at their bounds.
func TestTools(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"a.txt": "one\ntwo\none\n", "binary": "a\x00b", "latin": "caf\xe9", "dos.txt": "a\r\nb\r\n", "empty": "", "dir/x": "y",
		"long.txt": strings.Repeat("0123456789abcdef\n", 5000),
	}
	for call, c := range map[string]struct{ says, file, content string }{
		`edit {"path": "a.txt", "old": "one", "new": "x"}`:         {says: "old occurs 2 times in a.txt"},
		`edit {"path": "a.txt", "old": "three", "new": "x"}`:       {says: "old does not occur in a.txt"},
		`edit {"path": "a.txt", "old": "two\n", "new": ""}`:        {"Wrote a.txt: 8 bytes", "a.txt", "one\none\n"},
		`edit {"path": "dos.txt", "old": "a\r\n", "new": "c\r\n"}`: {"Wrote", "dos.txt", "c\r\nb\r\n"},
		`read {"path": "binary"}`:                                  {says: "binary is not text in UTF-8 (3 bytes)"},
		`read {"path": "latin"}`:                                   {says: "not text in UTF-8"},
		`read {"path": "empty"}`:                                   {says: "(the file is empty)"},
		`read {"path": "dir"}`:                                     {says: "dir is a directory"},
		`read {"path": "a.txt", "from": 9}`:                        {says: "a.txt has 3 lines"},
		`read {"path": "long.txt"}`:                                {says: "of 5000; read on from there"},
		`search {"pattern": "("}`:                                  {says: "no regular expression"},
		`search {"pattern": "zzz"}`:                                {says: "No line matches"},
		`search {"pattern": "abc", "path": "long.txt"}`:            {says: "more than these 200"},
		`write {"path": "dir", "content": "x"}`:                    {says: "dir is a directory"},
		`write {"path": "a.txt/b", "content": "x"}`:                {says: "a.txt/b"},
		`read {}`: {says: "path is missing"},
		`write {"path": "x", "content": "` + strings.Repeat("x", 1<<20+1) + `"}`: {says: "at most 1048576"},
	} {
		t.Run(call[:min(len(call), 50)], func(t *testing.T) {
			t.Parallel()
			server := providertest.New(t, plays(providertest.Use(called(call)), finish()))
			b := newBench(t, "anthropic", server.URL(), files)
			b.agent.ContextTokens = 1_000_000
			b.done()
			said := server.Requests()[1].Last().Results[0].Text
			require.Contains(t, said, c.says)
			require.LessOrEqual(t, len(said), 48<<10)
			if c.file != "" {
				require.Equal(t, c.content, b.files()[c.file])
			}
		})
	}
}

// TestSendingBack ends the work with reasons in place of files, and is found among the
// stored answers like any other end.
func TestSendingBack(t *testing.T) {
	t.Parallel()
	back := args{"summary": "no", "sends_back": []string{"it does not build", "it holds " + secret}}
	each(t, plays(use("finish", args{"sends_back": []string{" "}}), use("finish", back)), nil,
		func(t *testing.T, b *bench, s *providertest.Server) {
			b.job.Deliver.Produces = []string{"report.md"}
			b.job.Brief.MaySendBack = &session.MaySendBack{To: "build", Left: 2}
			want := []string{"it does not build", "it holds ***"}
			for range 2 {
				out := b.done()
				require.Equal(t, want, out.SendsBack, "and no file is asked for")
				require.Equal(t, "no", out.Summary)
			}
			require.Equal(t, 2, s.Count(), "nothing is asked twice")
			first, second := s.Requests()[0], s.Requests()[1]
			require.Contains(t, string(first.Body), "sends_back")
			require.Contains(t, string(first.Body), "This is possible 2 more times")
			require.Contains(t, second.Last().Results[0].Text, "reason 1 is empty")
		})
}

// TestSecrets plants a secret in everything that a conversation is made of, and
// looks for it in everything that comes of it.
func TestSecrets(t *testing.T) {
	t.Parallel()
	call := providertest.Tool
	escaped := `{"path":"leak2","content":"` + strings.ReplaceAll(secret, "s", `\u0073`) + `"}`
	script := plays(
		providertest.Reply{Thinking: "the key is " + secret, Text: "I saw " + secret, Calls: []providertest.Call{
			call("read", args{"path": "env"}), call("search", args{"pattern": "KEY"}), call("list", args{}),
			call("read", args{"path": "long", "from": 1, "to": 1}),
			call("write", args{"path": "leak", "content": "key=" + secret}),
			{Name: "write", Arguments: escaped},
			call("write", args{"path": secret, "content": "x"}),
			call("run_check", args{"name": "test"}), call("decide", args{"name": "key", "value": secret}),
			call("read", args{"path": "/" + secret}), call(secret, args{}),
		}},
		use("edit", args{"path": "env", "old": "other", "new": "another"}),
		providertest.Use(call("finish", args{"summary": "the key is " + secret})),
	)
	files := map[string]string{
		"env": "KEY=" + secret + "\nother\n", "long": strings.Repeat("x", 48<<10-110) + secret + "\n",
		secret + ".txt": "",
	}
	each(t, script, files, func(t *testing.T, b *bench, s *providertest.Server) {
		b.job.Brief.Requirement += " The key is " + secret
		b.job.Brief.Instructions += secret
		b.job.Brief.Decisions["key"] = secret
		b.job.Brief.Feedback = &session.Feedback{Category: failures.TestFailure, Message: secret, Output: secret, Diff: "+" + secret}
		b.job.Deliver.Checks = []string{"test"}
		b.job.Try = func(context.Context, string) ([]byte, error) {
			return []byte("using " + secret), failures.Failf(failures.TestFailure, "no %s", secret)
		}
		out := b.done()
		require.Equal(t, 3, s.Count())
		clean := func(where, text string) {
			t.Helper()
			require.NotContains(t, text, secret, where)
			require.NotContains(t, text, secret[:len(secret)-2], where)
		}
		clean("what the provider got", s.Log())
		clean("the stored calls", b.calls.Text())
		clean("the transcript", string(out.Log))
		clean("the summary", out.Summary)
		clean("progress", strings.Join(b.said, "\n"))
		require.NotContains(t, out.Decisions, "key")
		require.Contains(t, b.files()["leak"], "key=***")
		require.Contains(t, b.files()["leak2"], "***")
		require.Equal(t, files["env"], b.files()["env"], "what holds a secret is not changed")
		require.Contains(t, s.Requests()[2].Last().Results[0].Text, "env holds a secret")
	})
	// In the words of an error.
	each(t, plays(providertest.Failing(providertest.Fault{Status: 500, Type: "api_error", Message: "bad key " + secret})), nil,
		func(t *testing.T, b *bench, _ *providertest.Server) {
			out, err := b.run()
			f := failed(t, err)
			require.NotContains(t, f.Message+f.Output+string(out.Log), secret)
			require.Contains(t, f.Message, "bad key ***")
		})
}
