// Package localdev runs what Maestro needs on one machine: a Temporal server as a child
// process, which is started again whenever it dies, and a worker in this process. All of
// it ends with this process, however that ends, and what it has left in the state
// directory is taken up by the next. It starts no sessions, and says nothing of what it
// runs but through its options.
package localdev
