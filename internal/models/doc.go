// Package models is the room of what does a persona's work.
//
//	agent      the agents of a worker file: model APIs, programs with a preset, commands
//	gateway    the HTTP server between agent programs and providers: keys, budgets, transcripts
//	wire       the formats of providers
//	llm        the loop of a model that works with tools
//	transcript what an agent said and did
//	config     team and worker files
//
// It imports the sandbox, platform and core; the worker and the operations import it. Start reading in
// agent/agents.go.
package models
