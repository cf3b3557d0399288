package llm_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/testkit/callstest"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

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
		_, err := b.run()
		require.NoError(t, err, "three in a row are too few to give up")
	})
}

// TestCallsThatMakeNoSense are told to the model, and end after a few.
func TestCallsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		call providertest.Call
		told string
	}{
		"no such tool": {
			providertest.Tool("bash", args{"command": "rm -rf /"}),
			`there is no tool "bash"; there are list, search, read`,
		},
		"no JSON":        {providertest.Call{Name: "read", Arguments: `{"path": "a`}, "no JSON object"},
		"no object":      {providertest.Call{Name: "read", Arguments: `[1]`}, "no JSON object"},
		"the wrong type": {providertest.Tool("read", args{"path": 5}), "path must not be a JSON number"},
		"no content":     {providertest.Tool("write", args{"path": "a"}), "content is missing"},
		"no such check":  {providertest.Tool("run_check", args{"name": "x"}), `"x" is no check of this work`},
		"sends nothing":  {providertest.Tool("finish", args{"sends_back": []string{"it is bad"}}), "this work may not send any back"},
		"no decision":    {providertest.Tool("decide", args{"name": "no/name", "value": "x"}), "no/name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kind := "openai" // whose servers give out any text as arguments
			server := providertest.New(t, plays(providertest.Use(c.call)))
			b := newBench(t, kind, server.URL(), nil)
			_, err := b.run()
			f := failed(t, err)
			require.Equal(t, failures.InvalidOutput, f.Category)
			require.Contains(t, f.Message, "6 tool calls in a row made no sense")
			require.Equal(t, 6, server.Count())
			require.Contains(t, server.Requests()[1].Last().Results[0].Text, c.told)
		})
	}
	wrong, right := use("bash", args{}), use("list", args{})
	each(t, plays(wrong, wrong, wrong, wrong, wrong, right, wrong, finish()), nil,
		func(t *testing.T, b *bench, s *providertest.Server) {
			_, err := b.run()
			require.NoError(t, err, "five in a row are too few to give up")
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
			out, err := b.run()
			require.NoError(t, err, "what has worked is believed")
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
		out, err := b.run()
		require.NoError(t, err)
		require.Equal(t, "all done", out.Summary)
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
		_, err := b.run()
		require.NoError(t, err)
		require.Equal(t, 2, s.Count())
		require.Contains(t, s.Requests()[1].Last().Results[0].Text, "no file matches cmd/**/main.go")
	})
}

// TestTools is what tools say when they are used wrongly, and at their bounds.
func TestTools(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789abcdef\n", 5000)
	files := map[string]string{
		"a.txt": "one\ntwo\none\n", "binary": "a\x00b", "latin": "caf\xe9", "long.txt": long, "dos.txt": "a\r\nb\r\n", "empty": "",
	}
	for name, c := range map[string]struct {
		call providertest.Call
		says string
		file string
	}{
		"an edit that is not unique": {
			providertest.Tool("edit", args{"path": "a.txt", "old": "one", "new": "x"}),
			"old occurs 2 times in a.txt", "",
		},
		"an edit of nothing": {
			providertest.Tool("edit", args{"path": "a.txt", "old": "three", "new": "x"}),
			"old does not occur in a.txt", "",
		},
		"an edit that takes out": {
			providertest.Tool("edit", args{"path": "a.txt", "old": "two\n", "new": ""}),
			"Wrote a.txt: 8 bytes", "one\none\n",
		},
		"an edit of line ends": {
			providertest.Tool("edit", args{"path": "dos.txt", "old": "a\r\n", "new": "c\r\n"}), "Wrote",
			"c\r\nb\r\n",
		},
		"a binary file":          {providertest.Tool("read", args{"path": "binary"}), "binary is not text in UTF-8 (3 bytes)", ""},
		"another encoding":       {providertest.Tool("read", args{"path": "latin"}), "not text in UTF-8", ""},
		"an empty file":          {providertest.Tool("read", args{"path": "empty"}), "(the file is empty)", ""},
		"a directory":            {providertest.Tool("read", args{"path": "dir"}), "dir is a directory", ""},
		"past the end":           {providertest.Tool("read", args{"path": "a.txt", "from": 9}), "a.txt has 3 lines", ""},
		"a long file":            {providertest.Tool("read", args{"path": "long.txt"}), "of 5000; read on from there", ""},
		"a pattern that is none": {providertest.Tool("search", args{"pattern": "("}), "no regular expression", ""},
		"no match":               {providertest.Tool("search", args{"pattern": "zzz"}), "No line matches", ""},
		"many matches": {
			providertest.Tool("search", args{"pattern": "abc", "path": "long.txt"}), "more than these 200",
			"",
		},
		"a directory as a file": {providertest.Tool("write", args{"path": "dir", "content": "x"}), "dir is a directory", ""},
		"a file as a directory": {providertest.Tool("write", args{"path": "a.txt/b", "content": "x"}), "a.txt/b", ""},
		"too much": {
			providertest.Tool("write", args{"path": "x", "content": strings.Repeat("x", 1<<20+1)}),
			"at most 1048576", "",
		},
		"no path": {providertest.Tool("read", args{}), "path is missing", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := providertest.New(t, plays(providertest.Use(c.call), finish()))
			b := newBench(t, "anthropic", server.URL(), files)
			b.agent.ContextTokens = 1_000_000
			b.fill(map[string]string{"dir/x": "y"})
			for name, content := range files {
				writeFile(t, b.dir, name, content)
			}
			_, err := b.run()
			require.NoError(t, err)
			said := server.Requests()[1].Last().Results[0].Text
			require.Contains(t, said, c.says)
			require.LessOrEqual(t, len(said), 48<<10)
			if c.file != "" {
				require.Contains(t, b.files(), strings.Fields(said)[1][:strings.Index(strings.Fields(said)[1], ":")])
				require.Contains(t, mapValues(b.files()), c.file)
			}
		})
	}
}
