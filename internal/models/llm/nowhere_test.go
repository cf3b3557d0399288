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
