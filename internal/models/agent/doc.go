// Package agent runs the agents and checks that a worker file defines. Command agents and checks
// are processes below a shim (package procgroup). They differ in their input and in how their
// result is evaluated; timeouts, limits, masking and cancellation are the same. Known agent
// programs have presets (package preset). Models work through tools in the worker itself (package
// llm).
//
// Start reading in agents.go: Run chooses how an agent runs. First what runs, then what a process has, then the worker file:
//
//	agents.go       how an attempt runs: as a model, through the gateway, or paid as a whole; whether there are rooms, layers
//	                and cgroups; the default limit of memory, the largest file that a process may write, and which values are
//	                masked
//	command.go      an attempt of a program: what is prepared before its start, and which failure follows from its end;
//	                prompt.go: what a known program is told of its work
//	result.go       what an agent may write to $MAESTRO_RESULT: the fields, the failure categories, and the largest size
//	preset_run.go   a known program: when its conversation is resumed or begun anew, and how long it may stay after it has
//	                reported its end; conversation.go: where the conversation is noted, and which of its ids are valid
//	booking.go      what is reserved and booked for an attempt that is paid as a whole, and the estimate if its program
//	                reports no usage
//	gateway.go      how a program reaches the gateway, which keys are kept from it, and that a failure of the gateway is that
//	                of the attempt
//	model.go        the provider, key and prices of an agent of kind model; package llm does its work
//	checks.go       when a check has failed, and with which category; git.go: how the input is committed for `git: true`
//	place.go        which paths of the host a process sees in a room, and which it may use without one (Landlock)
//	environment.go  which variables a process gets, and which of the worker's variables are secret; toolchains.go: the
//	                variables and directories of toolchains, like GOROOT
//	network.go      what `network` permits, and that nothing with a restricted network starts without a room; credentials.go:
//	                what the proxy of a room adds to requests, in which headers, and which certificates the room trusts
//	caches.go       which caches a process sees, whether it shares them, and when a check fills those of its team
//	config.go       the keys of the worker file with their bounds, the defaults of timeouts, concurrency and the limits of an
//	                attempt, and what workers with the same agent have in common (Digest)
//	providers.go    the keys of a provider and of its limits, from where its API key is read, and which breaker an agent has
//	delivery.go     the keys and the credentials of an agent that delivers; notify_config.go: those of jira and webhook, and
//	                their defaults
//	problems.go     rules on several keys, like fallbacks, presets and shared breakers; preflight.go: what the machine lacks:
//	                programs, scripts, variables
package agent
