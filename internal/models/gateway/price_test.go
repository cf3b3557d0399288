package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/models/gateway"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

// priceList has all that a price list can say.
var priceList = cost.Prices{
	Input: 3e9, Output: 15e9, CacheRead: 3e8, CacheWrite: 375e7, CacheWrite1h: 6e9, WebSearch: 10e9,
	When: []cost.When{
		{Above: 200_000, Input: 6e9, Output: 225e8, CacheRead: 6e8, CacheWrite: 75e8, CacheWrite1h: 12e9},
		{Tier: "priority", Input: 6e9, Output: 30e9},
	},
}.WithDefaults(0)

func priced(_ *gateway.Options, providers []gateway.Provider) {
	for i := range providers {
		providers[i].Models = cost.PriceList{"*": priceList}
	}
}

// TestTheBillIsExact: what is booked is what the provider charges, to the billionth of a dollar.
func TestTheBillIsExact(t *testing.T) {
	t.Parallel()
	of := func(u cost.Usage) providertest.Reply { return providertest.Reply{Usage: u} }
	some := func(tier string) providertest.Reply {
		return providertest.Reply{Tier: tier, Usage: cost.Usage{InputTokens: 100, CacheReadTokens: 100, OutputTokens: 10}}
	}
	long := func(input int64) providertest.Reply {
		return of(cost.Usage{InputTokens: input, CacheReadTokens: 199_000, OutputTokens: 1})
	}
	hour := cost.Usage{InputTokens: 100, CacheReadTokens: 1000, CacheWriteTokens: 500, CacheWrite1hTokens: 200, OutputTokens: 10}
	for name, c := range map[string]struct {
		reply   providertest.Reply
		formats string
		want    cost.USD
	}{
		"a cache for an hour beside one for minutes": {
			of(hour), "messages", 100*3000 + 1000*300 + 300*3750 + 200*6000 + 10*15_000,
		},
		"the longest prompt at the usual price": {long(1000), "messages chat responses gemini", 1000*3000 + 199_000*300 + 15_000},
		"a token more":                          {long(1001), "messages chat responses gemini", 1001*6000 + 199_000*600 + 22_500},
		"a tier that the provider chose":        {some("priority"), "messages chat responses", 200*6000 + 10*30_000},
		"a tier without prices, as the usual one": {
			some("flex"), "messages chat responses", 100*3000 + 100*300 + 10*15_000,
		},
		"searches": {
			of(cost.Usage{InputTokens: 100, OutputTokens: 10, WebSearches: 3}), "messages responses gemini",
			3*10_000_000 + 100*3000 + 10*15_000,
		},
		"thoughts": {
			of(cost.Usage{InputTokens: 100, OutputTokens: 90, ReasoningTokens: 80}), "chat responses gemini", 100*3000 + 90*15_000,
		},
	} {
		for _, format := range strings.Fields(c.formats) {
			for _, stream := range []bool{false, true} {
				t.Run(fmt.Sprint(name, " ", format, " ", stream), func(t *testing.T) {
					t.Parallel()
					c.reply.Text = "some text"
					b := newBench(t, func(providertest.Request) providertest.Reply { return c.reply }, -1, priced)
					response, text := b.asked(t, formats[format], stream, "hello")
					require.Equal(t, http.StatusOK, response.StatusCode, text)
					require.Contains(t, text, "some text")
					require.NotContains(t, text, `"choices":[]`, "the program has not asked for the usage")
					settled, unsettled, open := b.account.Sum()
					want := c.reply.Usage
					want.CostUSD = c.want
					require.Equal(t, want, settled)
					require.Zero(t, unsettled)
					require.Zero(t, open)
				})
			}
		}
	}
}

// TestWhatHasNoPriceIsRefused: before anything is sent. Without a price list everything passes.
func TestWhatHasNoPriceIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ provider, path, member, why string }{
		{"anthropic", "/v1/messages", `"speed":"f\u0061st"`, `the service tier \"fast\"`},
		{"anthropic", "/v1/messages", `"service_tier":"priority","inference_geo":"us"`, `the service tier \"priority+us\"`},
		{
			"anthropic", "/v1/messages", `"tools":[{"name":"x","type":"code_execution_20250825"}]`,
			"code_execution_20250825 has a cost that no answer reports",
		},
		{"openai", "/responses", `"service_tier":"scale"`, `the service tier \"scale\"`},
		{"openai", "/responses", `"tools":[{"type":"file_search"}]`, "file_search has a cost"},
		{"openai", "/chat/completions", `"web_search_options":{}`, "web_search_options has a cost"},
		{"gemini", "/v1beta/models/m:generateContent", `"tools":[{"googleMaps":{}}]`, "googleMaps has a cost"},
		{"gemini", "/v1beta/models/m:generateContent", `"serviceTier":"PRIORITY2"`, `the service tier \"priority2\"`},
	} {
		t.Run(c.member, func(t *testing.T) {
			t.Parallel()
			body := `{"model":"m","max_tokens":9,"input":"x",` + c.member + `}`
			b := newBench(t, say("x"), -1, priced)
			log := b.recorded(t, nil)
			response, text := posted(t, b.address+"/"+c.provider+c.path, b.access.Token, body)
			require.Equal(t, http.StatusBadRequest, response.StatusCode)
			require.Contains(t, log.String(), "! the gateway refuses a request to "+c.provider)
			require.Contains(t, text, c.why)
			require.Zero(t, b.provider.Count())

			b = newBench(t, say("x"), -1, nil)
			response, text = posted(t, b.address+"/"+c.provider+c.path, b.access.Token, body)
			require.Equal(t, http.StatusOK, response.StatusCode, text)
		})
	}
}

// TestWhatARequestRefersToIsReserved: a cap pays for the longest prompt, unless the provider counts it
// before the call.
func TestWhatARequestRefersToIsReserved(t *testing.T) {
	t.Parallel()
	const chat, responses, gemini = "openai/chat/completions", "openai/responses", "gemini/v1beta/models/m:generateContent"
	for member, path := range map[string]string{
		`"input":"go on","previous_response_id":"resp_1"`:                                                             responses,
		`"input":"go on","conversation":{"id":"c"}`:                                                                   responses,
		`"input":[{"role":"user","content":[{"type":"input_file","file_id":"f"}]}]`:                                   responses,
		`"input":[{"type":"message","role":"user","content":[{"type":"input_image","image_url":"https://x/y.png"}]}]`: responses,
		`"messages":[{"role":"user","content":[{"type":"document","source":{"type":"url","url":"u"}}]}]`:              "anthropic/v1/messages",
		`"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x/y.png"}}]}]`:         chat,
		`"contents":[{"parts":[{"fileData":{"fileUri":"https://x"}}]}]`:                                               gemini,
		`"cachedContent":"cachedContents/x"`:                                                                          gemini,
	} {
		t.Run(member, func(t *testing.T) {
			t.Parallel()
			body := `{"model":"m","max_tokens":9,"max_output_tokens":9,` + member + `}`
			b := newBench(t, say("x"), 60_000, nil)
			response, text := posted(t, b.address+"/"+path, b.access.Token, body)
			if path != chat { // the provider has a count of tokens
				require.Equal(t, http.StatusOK, response.StatusCode, text)
				require.Len(t, b.provider.Others(), 1, "the provider was asked to count")
			} else {
				require.Zero(t, b.provider.Count())
				require.Contains(t, b.failures()[0].Message, "65536 tokens of that are for what the request refers to")
			}

			b = newBench(t, say("x"), -1, nil)
			response, text = posted(t, b.address+"/"+path, b.access.Token, body)
			require.Equal(t, http.StatusOK, response.StatusCode, text)
			require.Empty(t, b.provider.Others(), "nothing limits the call")
		})
	}
}
