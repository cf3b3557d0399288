package wire_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/models/wire"
)

func TestWhatReachesTheWeb(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		// Anthropic
		`{"model":"claude","tools":[{"name":"x","input_schema":{}},{"type":"web_search_20250305","name":"web_search"}]}`:     "web_search_20250305",
		`{"tools":[{"type":"web_fetch_20250910","name":"web_fetch"}]}`:                                                       "web_fetch_20250910",
		`{"tools":[{"type":"custom","type":"web\u005fsearch_20250305"}]}`:                                                    "web_search_20250305",
		`{"Tools":[{"Type":"Web_Search"}]}`:                                                                                  "Web_Search",
		`{"mcp_servers":[{"type":"url","url":"https://x.test","name":"x"}],"tools":[]}`:                                      "mcp_servers",
		`{"tools":[{"type":"mcp_toolset","mcp_server_name":"x"}]}`:                                                           "mcp_toolset",
		`{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://x.test/?secret"}}]}]}`: "content by its address (url)",
		// OpenAI
		`{"tools":[{"type":"web_search"}]}`:                             "web_search",
		`{"tools":[{"type":"web_search_preview"}]}`:                     "web_search_preview",
		`{"tools":[{"type":"web_search","external_web_access":false}]}`: "web_search",
		`{"web_search_options":{}}`:                                     "web_search_options",
		`{"model":"gpt-4o-search-preview"}`:                             "model gpt-4o-search-preview",
		`{"model":"o3-deep-research"}`:                                  "model o3-deep-research",
		`{"tools":[{"type":"mcp","server_url":"https://x.test"}]}`:      "mcp",
		`{"tools":[{"type":"code_interpreter","container":{"type":"auto","network_policy":{"type":"allowlist"}}}]}`:      "network_policy",
		`{"input":[{"type":"tool_search_output","tools":[{"type":"web_search"}]}]}`:                                      "web_search",
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":" HTTPS://x.test/?secret"}}]}]}`:  "content by its address (url)",
		`{"input":[{"role":"user","content":[{"type":"input_image","image_url":"http://x.test"}]}]}`:                     "content by its address (image_url)",
		`{"input":[{"type":"function_call_output","output":[{"type":"input_file","file_url":"https://x.test/a.pdf"}]}]}`: "content by its address (file_url)",
		// Gemini
		`{"tools":[{"functionDeclarations":[]},{"googleSearch":{}}]}`:                             "googleSearch",
		`{"tools":[{"google_search":{}}]}`:                                                        "google_search",
		`{"tools":[{"googleSearchRetrieval":{"x":1}}]}`:                                           "googleSearchRetrieval",
		`{"tools":[{"url_context":{}}]}`:                                                          "url_context",
		`{"tools":[{"urlContext":{}}]}`:                                                           "urlContext",
		`{"tools":[{"google\u004daps":{}}]}`:                                                      "googleMaps",
		`{"contents":[{"parts":[{"fileData":{"fileUri":"https://www.youtube.com/watch?v=x"}}]}]}`: "content by its address (fileUri)",
		`{"contents":[{"parts":[{"fileData":{"fileUri":"gs://x/secret"}}]}]}`:                     "content by its address (fileUri)",
		`{"input":[{"role":"user","content":[{"type":"input_image","image_url":"//x.test"}]}]}`: "content by its address " +
			"(image_url)",
		`{"input":[{"role":"user","content":[{"type":"input_image","image_url":"https:x.test"}]}]}`: "content by its address " +
			"(image_url)",
		// xAI, OpenRouter, Perplexity, Moonshot, Qwen, Groq, Cohere
		`{"search_parameters":{"mode":"auto"}}`:                                     "search_parameters",
		`{"tools":[{"type":"x_search"}]}`:                                           "x_search",
		`{"tools":[{"type":"live_search"}]}`:                                        "live_search",
		`{"model":"openai/gpt-5:online"}`:                                           "model openai/gpt-5:online",
		`{"model":"a","models":["b","c:online"]}`:                                   "model c:online",
		`{"plugins":[{"id":"file-parser"},{"id":"web"}]}`:                           "web",
		`{"model":"perplexity/sonar-pro"}`:                                          "model perplexity/sonar-pro",
		`{"tools":[{"type":"builtin_function","function":{"name":"$web_search"}}]}`: "$web_search",
		`{"enable_search":true}`:                                                    "enable_search",
		`{"model":"groq/compound"}`:                                                 "model groq/compound",
		`{"connectors":[{"id":"web-search"}]}`:                                      "connectors",
		// What the program runs itself, or what reads nothing from the web.
		`{"model":"claude","tools":[{"name":"web_search","input_schema":{"properties":{"url":{"type":"web_search"}}}},{"type":"custom","name":"fetch_url"}]}`:                     "",
		`{"tools":[{"type":"function","function":{"name":"web_search","parameters":{"type":"object"}}},{"type":"function","name":"google"}]}`:                                     "",
		`{"tools":[{"type":"bash_20250124","name":"bash"},{"type":"text_editor_20250728"},{"type":"tool_search_tool_regex_20251119"},{"type":"code_execution_20250825"}]}`:        "",
		`{"tools":[{"type":"file_search"},{"type":"local_shell"},{"type":"apply_patch"},{"type":"computer_use_preview"},{"type":"image_generation"}]}`:                            "",
		`{"tools":[{"type":"code_interpreter","container":{"type":"auto","network_policy":{"type":"disabled"}}}]}`:                                                                "",
		`{"tools":[{"functionDeclarations":[{"name":"google_search"}]},{"codeExecution":{}},{"fileSearch":{}}]}`:                                                                  "",
		`{"mcp_servers":[],"plugins":[],"enable_search":false,"search_parameters":null}`:                                                                                          "",
		`{"messages":[{"role":"assistant","content":[{"type":"tool_use","input":{"url":"https://x.test","source":{"url":"https://x.test"}}}]}]}`:                                  "",
		`{"messages":[{"role":"user","content":[{"type":"text","text":"https://x.test web_search"},{"type":"image_url","image_url":{"url":"data:image/png;base64,x"}}]}]}`:        "",
		`{"messages":[{"role":"user","content":[{"type":"file","file":{"file_data":"/9j/4AAQ//x+"}}]}]}`:                                                                          "",
		`{"contents":[{"parts":[{"functionCall":{"args":{"image_url":"https://x.test"}}},{"fileData":{"fileUri":"https://generativelanguage.googleapis.com/v1beta/files/x"}}]}]}`: "",
		`{"metadata":{"search":"x"},"model":"my-research-model"}`:                                                                                                                 "",
		`not JSON`: "",
	} {
		require.Equal(t, want, wire.Web("", []byte(body)), body)
	}
	require.Equal(t, "model gemini-x-search", wire.Web("gemini-x-search", nil))
}
