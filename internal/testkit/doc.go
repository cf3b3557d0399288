// Package testkit is the room of what tests need: the simulator, the tests of the built programs (system), what stores
// the work of sessions (worktest), and stand-ins for model providers, Jira, hosts of git repositories, browsers and processes.
//
// Only tests import it. Start reading in simulator/simulate_test.go.
package testkit
