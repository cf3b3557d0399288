// Package wire knows the HTTP APIs of model providers: which request is a paid call, what it
// asks for, the usage, content and errors of its answer, how a provider words an error, and how
// a request is written.
//
// api.go has the table of APIs and that of formats; each is described in a file of its own: Anthropic's
// Messages, OpenAI's Chat Completions and Responses, and Gemini's generateContent.
package wire
