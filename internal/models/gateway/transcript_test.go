package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/models/gateway"
	"github.com/maestro-hive/maestro/internal/models/transcript"
	"github.com/maestro-hive/maestro/internal/models/wire"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

// notes is a log in memory.
type notes struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(p)
}

var varying = regexp.MustCompile(`\d\d:\d\d:\d\dZ?|after [0-9.µnm]+s`)

// String is the log without what differs from run to run.
func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return varying.ReplaceAllString(n.text.String(), "…")
}

// has returns a channel that is closed when the log has a text, or after a minute.
func (n *notes) has(text string) <-chan struct{} {
	found := make(chan struct{})
	go func() {
		defer close(found)
		for end := time.Now().Add(time.Minute); !strings.Contains(n.String(), text) && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
	}()
	return found
}

// recorded opens an attempt whose transcript is returned.
func (b *bench) recorded(t testing.TB, change func(*gateway.Attempt)) *notes {
	t.Helper()
	log := &notes{}
	a := gateway.Attempt{
		Agent: "x", Calls: b.account, Providers: providers(), Log: log,
		Mask: func(s string) string { return strings.ReplaceAll(s, "swordfish", "***") }, Failed: b.fail,
	}
	if change != nil {
		change(&a)
	}
	b.access = b.gateway.Open(context.Background(), a)
	b.address = b.serve(t, b.access)
	return log
}

// talk is a conversation of two requests in a format, of which the second repeats the first one in
// other words, as programs do.
type talk struct {
	provider, path, streamPath string
	first, second              string
	// id: the format names tool calls, so that a result has the words of its call.
	id bool
}

var talks = map[string]talk{
	"messages": {
		provider: "anthropic", path: "/v1/messages", id: true,
		first: `{"model":"m","max_tokens":1000,"stream":%v,"messages":[{"role":"user","content":[{"type":"text","text":"Fix\nit. swordfish","cache_control":{"type":"ephemeral"}}]}],` +
			`"tools":[{"name":"read"},{"name":"edit"}],"system":[{"type":"text","text":"Be brief."}]}`,
		second: `{"model":"m","max_tokens":1000,"stream":%v,"system":"Be brief.","messages":[{"role":"user","content":"Fix\nit. swordfish"},` +
			`{"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":"s"},{"type":"text","text":"I look."},{"type":"tool_use","id":"c1","name":"read","input":{"path": "a.go"}}]},` +
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"one\ntwo"}],"is_error":true}]}],"tools":[{"name":"read"},{"name":"edit"}]}`,
	},
	"chat": {
		provider: "openai", path: "/chat/completions", id: true,
		first: `{"model":"m","stream":%v,"tools":[{"type":"function","function":{"name":"read"}},{"type":"function","function":{"name":"edit"}}],` +
			`"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Fix\nit. swordfish"}]}`,
		second: `{"model":"m","stream":%v,"tools":[{"type":"function","function":{"name":"read"}},{"type":"function","function":{"name":"edit"}}],` +
			`"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":[{"type":"text","text":"Fix\nit. swordfish"}]},` +
			`{"role":"assistant","content":"I look.","tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":"{ \"path\":\"a.go\"}"}}]},` +
			`{"role":"tool","tool_call_id":"c1","content":"failed: one\ntwo"}]}`,
	},
	"responses": {
		provider: "openai", path: "/responses", id: true,
		first: `{"model":"m","stream":%v,"tools":[{"type":"function","name":"read"},{"type":"edit"}],"instructions":"Be brief.","input":"Fix\nit. swordfish"}`,
		second: `{"model":"m","stream":%v,"instructions":"Be brief.","tools":[{"type":"function","name":"read"},{"type":"edit"}],` +
			`"input":[{"role":"user","content":[{"type":"input_text","text":"Fix\nit. swordfish"}]},` +
			`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look."}]},` +
			`{"type":"function_call","call_id":"c1","name":"read","arguments":"{\"path\":\"a.go\"}"},{"type":"function_call_output","call_id":"c1","output":"failed: one\ntwo"}]}`,
	},
	"gemini": {
		provider: "gemini", path: "/v1beta/models/m:generateContent", streamPath: "/v1beta/models/m:streamGenerateContent?alt=sse",
		first: `{"unused":%v,"contents":[{"role":"user","parts":[{"text":"Fix\nit. swordfish"}]}],` +
			`"tools":[{"functionDeclarations":[{"name":"read"},{"name":"edit"}]}],"systemInstruction":{"parts":[{"text":"Be brief."}]}}`,
		second: `{"unused":%v,"systemInstruction":{"parts":[{"text":"Be brief."}]},"tools":[{"functionDeclarations":[{"name":"read"},{"name":"edit"}]}],` +
			`"contents":[{"role":"user","parts":[{"text":"Fix\nit. swordfish"}]},{"role":"model","parts":[{"text":"I look."},{"functionCall":{"id":"of-the-program","name":"read","args":{ "path":"a.go"}}}]},` +
			`{"role":"user","parts":[{"functionResponse":{"name":"read","response":{"output":"failed: one\ntwo"}}}]}]}`,
	},
}

// TestATranscriptHasEachItemOnce has a program ask twice in every format.
func TestATranscriptHasEachItemOnce(t *testing.T) {
	t.Parallel()
	all := maps.Clone(talks)
	list := all["gemini"]
	list.streamPath, _, _ = strings.Cut(list.streamPath, "?") // a list, whose end comes after the answer is booked
	all["gemini as a list"] = list
	for name, c := range all {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprint(name, " ", stream), func(t *testing.T) {
				t.Parallel()
				var log *notes
				b := newBench(t, func(r providertest.Request) providertest.Reply {
					if r.N > 1 {
						reply := providertest.Say("It is " + strings.Repeat("done. ", 20) + "swordfish")
						if name == "gemini as a list" {
							reply.Fault.Hold = func(int) <-chan struct{} { return log.has("-- call 2: ") }
						}
						return reply
					}
					call := providertest.Tool("read", map[string]string{"path": "a.go"})
					if call.ID = "c1"; c.provider == "gemini" {
						call.ID = ""
					}
					reply := providertest.Reply{Text: "I look.", Calls: []providertest.Call{call}}
					if name == "messages" {
						reply.Thinking = "Hm."
					}
					return reply
				}, -1, nil)
				log = b.recorded(t, nil)
				path := c.path
				if stream && c.streamPath != "" {
					path = c.streamPath
				}
				base, err := b.access.URL(b.address, c.provider)
				require.NoError(t, err)
				for _, body := range []string{c.first, c.second} {
					response, text := posted(t, base+path, b.access.Token, fmt.Sprintf(body, stream))
					require.Equal(t, http.StatusOK, response.StatusCode, text)
				}
				thought := ""
				if name == "messages" {
					thought = "~ Hm.\n"
				}
				known, gist := 5, "read a.go"
				if thought != "" {
					known++
				}
				if !c.id {
					gist = "read"
				}
				got := log.String()
				lines := regexp.MustCompile(`(?m)^-- call (\d): .*`).ReplaceAllString(got, "-- call $1 ended")
				require.Equal(t, "-- call 1 at … to "+c.provider+": m\n? tools: read, edit\n? system: Be brief.\n? user: Fix\n  │ "+
					"it. ***\n"+
					thought+"I look.\n> read a.go\n-- call 1 ended\n"+
					fmt.Sprintf("-- call 2 at … to %s: m; %d items as before\n", c.provider, known)+"< "+gist+
					"\n  │ failed: one\n  │ two\n"+
					"It is "+strings.Repeat("done. ", 20)+"***\n-- call 2 ended\n", lines)
				b.account.Locked(func() {
					require.Contains(t, got, b.account.Each[0].Text())
					require.Contains(t, got, b.account.Each[1].Text())
				})
			})
		}
	}
}

// TestATranscriptSaysWhatWentWrong has a provider fail, and a budget end.
func TestATranscriptSaysWhatWentWrong(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(r providertest.Request) providertest.Reply {
		switch r.N {
		case 1:
			return providertest.Failing(providertest.Fault{Status: 529, Message: "too busy", Header: http.Header{"Retry-After-Ms": {"1"}}})
		case 2:
			return providertest.Reply{Text: strings.Repeat("half an answer ", 50), Fault: providertest.Fault{CutAfter: 900}}
		}
		return providertest.Say("whole")
	}, -1, nil)
	log := b.recorded(t, nil)
	_, _, err := b.ask(t.Context(), t, formats["messages"], true, "hello")
	require.Error(t, err)
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "-- call 1: ") }, time.Minute, time.Millisecond)
	require.Regexp(t, `(?s)^-- call 1 at … to anthropic: m\n\? user: hello\n! call 1: .*too busy.*\nhalf an answer half.*\n-- call 1: broken off …; tokens: .*\n$`, log.String())

	before := len(log.String())
	b.account.Locked(func() { b.account.Left = 0 })
	b.asked(t, formats["messages"], true, "hello")
	require.Equal(t, "-- call 2 at … to anthropic: m; 1 item as before\n! call 2: the budget of the team is spent\n",
		log.String()[before:])
}

// TestAnEarlierAttemptsConversationIsNotWrittenAgain continues one.
func TestAnEarlierAttemptsConversationIsNotWrittenAgain(t *testing.T) {
	t.Parallel()
	for _, continues := range []bool{true, false} {
		b := newBench(t, say("Done."), -1, nil)
		log := b.recorded(t, func(a *gateway.Attempt) { a.Continues = continues })
		_, _, err := post(t.Context(), t, b.address+"/anthropic/v1/messages", b.access.Token,
			strings.Replace(fmt.Sprintf(talks["messages"].second, true), `"is_error":true}`,
				`"is_error":true},{"type":"text","text":"Go on."}`, 1))
		require.NoError(t, err)
		if got := log.String(); continues {
			require.Contains(t, got, ": m; 6 items as before\n< failed: one\n  │ two\n? user: Go on.\nDone.\n")
		} else {
			require.Contains(t, got, ": m\n? system: Be brief.\n? tools: read, edit\n? user: Fix\n  │ it. ***\n? thinking: Hm.\n? "+
				"assistant: I look.\n? earlier call: read a.go\n")
		}
	}
}

// TestATranscriptIsBounded has a program ask with messages that nobody reads, and a provider flood it.
func TestATranscriptIsBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(providertest.Request) providertest.Reply {
		return providertest.Reply{Text: "x", Fault: providertest.Fault{Flood: 1 << 30}}
	}, -1, func(o *gateway.Options, _ []gateway.Provider) { o.MaxAnswer = 16 << 20 })
	log := b.recorded(t, nil)
	deep := strings.Repeat(`{"content":[`, 4000) + strings.Repeat(`]}`, 4000)
	_, _, _ = post(t.Context(), t, b.address+"/anthropic/v1/messages", b.access.Token, `{"model":"m","stream":true,"messages":[`+
		deep+
		`,{"role":"user","content":"`+strings.Repeat("\xff", 20<<20)+`"},{"role":"user","content":"`+strings.Repeat("long ", 1<<16)+
		`"},{"role":"user","content":"the end"}]}`)
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "-- call 1: ") }, time.Minute, time.Millisecond)
	require.Contains(t, log.String(), "(20971548 bytes, not kept)")
	require.Contains(t, log.String(), "more bytes are not kept …\n? user: the end\n")
	require.Less(t, len(log.String()), 5*transcript.MaxItem)
}

// TestEveryFormatIsTried by the tests of faults and budgets, and by those of transcripts.
func TestEveryFormatIsTried(t *testing.T) {
	t.Parallel()
	tried, told := map[wire.Format]bool{}, map[wire.Format]bool{}
	for _, f := range formats {
		of, _ := f.wire(t)
		tried[of] = true
	}
	for _, c := range talks {
		to, ok := wire.API(c.provider).Route(http.MethodPost, programPath(c.provider, c.path))
		require.True(t, ok, c.path)
		told[to.Format] = true
	}
	for _, of := range wire.Formats() {
		require.True(t, tried[of], "%s has no row in formats", of)
		require.True(t, told[of], "%s has no row in talks", of)
	}
}
