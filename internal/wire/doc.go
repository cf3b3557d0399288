// Package wire parses the HTTP APIs of model providers: which request is a paid call, what it
// asks for, the usage and errors in its answer, and how a provider words an error. It parses
// bytes and does no input or output.
//
// There is a file for each format: Anthropic's Messages, OpenAI's Chat Completions, OpenAI's
// Responses, and Gemini's generateContent.
package wire
