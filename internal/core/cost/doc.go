// Package cost has the units of spending: tokens, US dollars, the usage of a call, and the
// prices of a model.
package cost
