// Package wire knows the HTTP APIs of model providers: which request is a paid call, what it
// asks for, the usage, content and errors of its answer, how a provider words an error, and how
// a request is written.
//
// Start reading in api.go, which has the table of APIs and that of formats; each is described in a file of its own: Anthropic's
// Messages, OpenAI's Chat Completions and Responses, and Gemini's generateContent.
//
//	api.go        which requests are calls of a model (Route), where the key of a request is, and which errors the gateway
//	              answers with (Refuse)
//	anthropic.go  Anthropic's API and Messages; openai.go: OpenAI's API, and which counts include each other; chat.go: Chat
//	              Completions; responses.go: Responses; gemini.go: Gemini's API and generateContent
//	request.go    which keys of a request change its cost, how its answer is bounded, and the assumed bound if it has none;
//	              web.go: which requests have the provider reach the web
//	forecast.go   what is reserved for a call, the fewest tokens for which one is made, how tokens are estimated, and what an
//	              answer that broke off has cost (Incomplete)
//	meter.go      what the counts of an answer are called, which money it states, and which service tiers have the usual
//	              prices; strip.go: programs that have not asked for the usage do not get it
//	classify.go   the failure category of an error, by its names, its status and its words; why an answer ended (EndingOf)
//	fault.go      where an error has its message, names and wait, how much of it is read, and when a failed call costs
//	              nothing (Unbilled)
//	transport.go  when nothing of a call was sent, what is no answer of an API, like the page of a proxy, and that no answer
//	              repeats the key
//	prompt.go     the request of a model that works through tools; talk.go: the conversation of a request or an answer as
//	              items, and how many
//	scan.go       how deep JSON is read while it comes, and how long a key and a value may be; the events of a stream
package wire
