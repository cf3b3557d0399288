// Package spec has what files and workers declare: teams with their personas, phases and
// budgets, the rules that they keep, the graph of their phases, the names of things, and
// what workers offer.
//
// The package is pure: it reads no clock, no environment and no file.
package spec
