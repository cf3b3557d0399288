package openai

import (
	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"

	"github.com/maestro-hive/maestro/internal/llm"
)

// params converts a request.
func params(request llm.Request, public bool) sdk.ChatCompletionNewParams {
	out := sdk.ChatCompletionNewParams{
		Model: request.Model, Messages: []sdk.ChatCompletionMessageParamUnion{sdk.SystemMessage(request.System)},
		StreamOptions: sdk.ChatCompletionStreamOptionsParam{IncludeUsage: sdk.Bool(true)},
	}
	if public {
		out.MaxCompletionTokens = sdk.Int(request.MaxOutput)
	} else {
		out.MaxTokens = sdk.Int(request.MaxOutput)
	}
	for _, t := range request.Tools {
		schema := shared.FunctionParameters{"type": "object", "properties": t.Properties}
		if len(t.Required) > 0 {
			schema["required"] = t.Required
		}
		out.Tools = append(out.Tools, sdk.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: t.Name, Description: sdk.String(t.Description), Parameters: schema,
		}))
	}
	for _, m := range request.Messages {
		if m.Role == llm.Assistant {
			out.Messages = append(out.Messages, assistant(m))
			continue
		}
		for _, r := range m.Results {
			text := r.Text
			if r.Error { // the format has no field for it
				text = "Error: " + text
			}
			out.Messages = append(out.Messages, sdk.ToolMessage(text, r.ID))
		}
		if m.Text != "" {
			out.Messages = append(out.Messages, sdk.UserMessage(m.Text))
		}
	}
	return out
}

func assistant(m llm.Message) sdk.ChatCompletionMessageParamUnion {
	var out sdk.ChatCompletionAssistantMessageParam
	if m.Text != "" {
		out.Content.OfString = sdk.String(m.Text)
	}
	for _, c := range m.Calls {
		out.ToolCalls = append(out.ToolCalls, sdk.ChatCompletionMessageToolCallUnionParam{
			OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{
				ID:       c.ID,
				Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{Name: c.Name, Arguments: c.Arguments},
			},
		})
	}
	return sdk.ChatCompletionMessageParamUnion{OfAssistant: &out}
}
