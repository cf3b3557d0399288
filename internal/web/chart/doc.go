// Package chart computes where the parts of a picture are: the graph of a session's phases,
// the timeline of its work, the bar of a budget. It knows numbers and names, and draws nothing.
package chart
