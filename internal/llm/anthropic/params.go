package anthropic

import (
	"encoding/json"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/maestro-hive/maestro/internal/llm"
)

// params converts a request. The prompt is cached up to its end, and up to the preceding user
// message, which was the end of the previous call's prompt. So every call reads what the previous
// one has written. With tools and system, these are the four cache points that the provider
// allows.
func params(request llm.Request) sdk.MessageNewParams {
	out := sdk.MessageNewParams{
		Model: request.Model, MaxTokens: request.MaxOutput,
		System: []sdk.TextBlockParam{{Text: request.System, CacheControl: sdk.NewCacheControlEphemeralParam()}},
	}
	for i, t := range request.Tools {
		tool := &sdk.ToolParam{
			Name: t.Name, Description: sdk.String(t.Description),
			InputSchema: sdk.ToolInputSchemaParam{Properties: t.Properties, Required: t.Required},
		}
		if i == len(request.Tools)-1 {
			tool.CacheControl = sdk.NewCacheControlEphemeralParam()
		}
		out.Tools = append(out.Tools, sdk.ToolUnionParam{OfTool: tool})
	}
	for _, m := range request.Messages {
		out.Messages = append(out.Messages, message(m))
	}
	marks := 0
	for i := len(out.Messages) - 1; i >= 0 && marks < 2; i-- {
		if out.Messages[i].Role == sdk.MessageParamRoleUser {
			mark(&out.Messages[i])
			marks++
		}
	}
	return out
}

// mark adds a cache point at the end of a message.
func mark(m *sdk.MessageParam) {
	last := &m.Content[len(m.Content)-1]
	if last.OfText != nil {
		last.OfText.CacheControl = sdk.NewCacheControlEphemeralParam()
	} else if last.OfToolResult != nil {
		last.OfToolResult.CacheControl = sdk.NewCacheControlEphemeralParam()
	}
}

func message(m llm.Message) sdk.MessageParam {
	var blocks []sdk.ContentBlockParamUnion
	for _, t := range m.Thinking {
		if t.Redacted != "" {
			blocks = append(blocks, sdk.NewRedactedThinkingBlock(t.Redacted))
			continue
		}
		blocks = append(blocks, sdk.NewThinkingBlock(t.Signature, t.Text))
	}
	for _, r := range m.Results {
		blocks = append(blocks, sdk.NewToolResultBlock(r.ID, r.Text, r.Error))
	}
	if m.Text != "" {
		blocks = append(blocks, sdk.NewTextBlock(m.Text))
	}
	for _, c := range m.Calls {
		blocks = append(blocks, sdk.NewToolUseBlock(c.ID, json.RawMessage(c.Arguments), c.Name))
	}
	if m.Role == llm.Assistant {
		return sdk.NewAssistantMessage(blocks...)
	}
	return sdk.NewUserMessage(blocks...)
}
