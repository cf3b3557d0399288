// Command bench measures what Maestro costs beside bare Temporal: sessions of
// instant assignments against a workflow of as many activities that do nothing,
// in turn, on one server, in one process.
//
// It knows five kinds of work. "bare" is the workflow without Maestro, on a
// queue with the options of Maestro's own. "shape" asks of Temporal what a
// session asks of it, and does nothing itself: it is how near to bare a session
// could come whose own work took no time. "maestro" is a session whose agent is
// a function in this process: the difference to shape is what Maestro's own
// bookkeeping costs. "shim" is the same session with a shell script as its
// agent, a process behind the shim without a room: what that adds is the price of
// agents that are processes. "room" is the same again with a room for each.
package main
