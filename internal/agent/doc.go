// Package agent does the work of assignments: it runs the agents and checks that a worker
// file defines. Command agents and checks are processes below a shim (package procgroup);
// they differ in what they get as input and in how their end is judged, so timeouts,
// limits, masking and cancellation are the same for both. Known agent programs have
// presets (package preset). Models work through tools in the worker itself (package llm).
package agent
