// Package platform is the room of what is not Maestro's to invent: Temporal's client, HTTP servers,
// terminals, command lines, disks, logs.
//
//	temporalutil    how Temporal is found and connected to: which of flag, variable and profile counts
//	entityworkflow  the client of workflows that hold the state of one thing
//	httpserver      what a running process answers by HTTP; httpclient: bounded answers of other systems; retryafter: Retry-After
//	terminal        colours, widths and keys; cmdline: help and usage errors of both programs
//	bounded         files and directories of unknown size; diskspace: the free space of a file system
//	logs            lines of the log; buildinfo: which build this is; failpoint: where tests kill a process
//
// It imports core; every room above imports it. There is no place to start reading: each package stands for itself.
package platform
