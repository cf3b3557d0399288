// Package wire knows the HTTP APIs of model providers: which request is a paid call, what
// it asks for, what its answer says of usage and errors, and how a provider words an error.
// It takes bytes and returns facts: it opens no connection and no file.
//
// A file each describes Anthropic's Messages, OpenAI's Chat Completions, OpenAI's
// Responses, and Gemini's generateContent.
package wire
