package wire_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/models/wire"
)

// FuzzTalk takes anything apart as a request and as an answer: it has a kind for each item, and says
// no more than what came.
func FuzzTalk(f *testing.F) {
	all := []wire.Format{wire.Messages, wire.ChatCompletions, wire.Responses, wire.GenerateContent}
	for _, seed := range []string{
		`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image"},{"type":"tool_result","tool_use_id":1,"content":{"x":1}}]}],"system":[[]],"tools":[{"name":"a"},null]}`,
		`{"messages":[null,1,"x",{"role":[],"content":7,"tool_calls":[{"index":-9,"function":null},3]}],"tools":{"a":1}}`,
		`{"input":[{"type":"reasoning","summary":[{"text":"t"}]},{"type":"x_call","action":{"a":1}},{"type":"x_output","output":[1]}],"instructions":"i"}`,
		`{"contents":[{"role":"model","parts":[{"text":"a"},{"functionCall":{"args":[]}},{"functionResponse":{"response":{"output":"o"}}},null]}],"systemInstruction":{"parts":7}}`,
		"data: {\"type\":\"content_block_delta\",\"index\":99999999,\"delta\":{\"text\":\"x\"}}\ndata: {\n\ndata: " +
			"{\"choices\":[{\"index\":-1,\"delta\":{\"content\":[{\"text\":\"y\"}]}}]}\n\n",

		"data: {\"type\":\"response.output_item.done\",\"item\":{\"type\":\"message\",\"role\":\"assistant\"," +
			"\"content\":[{\"text\":\"z\"}]}}\r\n\r\n",
		`[{"candidates":[{"content":{"parts":[{"text":"x","thought":true},{"inlineData":{"mimeType":"image/png"}}]}}]},{"candidates":[]},7`,
		strings.Repeat(`{"messages":[`, 200), "\xff\x00{\"input\":\"\xff\\ud800\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, format := range all {
			var said int
			check := func(it wire.Item) {
				require.NotEmpty(t, it.Kind)
				said += len(it.Text)
			}
			if q, err := wire.ReadRequest(wire.Route{Format: format}, false, data); err == nil {
				for it := range q.Items() {
					check(it)
				}
			}
			for _, kind := range []string{"text/event-stream", "application/json"} {
				for _, it := range wire.ReadAnswer(format, kind, data) {
					check(it)
				}
			}
			require.LessOrEqual(t, said, 3*(100+12*len(data)), "a byte that is no UTF-8 becomes three")
		}
	})
}
