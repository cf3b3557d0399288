// Package agent runs the agents and checks that a worker file defines. Command agents and checks
// are processes below a shim (package procgroup). They differ in their input and in how their
// result is evaluated; timeouts, limits, masking and cancellation are the same. Known agent
// programs have presets (package preset). Models work through tools in the worker itself (package
// llm).
//
// agents.go chooses how an agent runs. command.go prepares and starts a process: environment.go says with which variables,
// place.go in which room. preset_run.go follows a known program, checks.go runs checks, and config.go is
// the worker file.
package agent
