package simulator

import (
	"maps"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/workflows"
)

// continued is how many runs continue as new, at most.
const continued = 4

// suggest has Temporal suggest to continue as new during a run.
func (w *world) suggest(env *testsuite.TestWorkflowEnvironment, d *delivery, in workflows.SessionInput, n int) {
	if in.Continued != nil {
		d.chain = w.chain
	}
	w.chain = d.chain
	if w.plan.Continue > 0 && n <= continued {
		env.RegisterDelayedCallback(func() { env.SetContinueAsNewSuggested(true) }, w.plan.Continue.Std())
	}
}

// continues is the input of the run that continues another as new, and looks at what that
// has handed over.
func (w *world) continues(err *workflow.ContinueAsNewError) (in workflows.SessionInput) {
	if err := converter.GetDefaultDataConverter().FromPayloads(err.Input, &in); err != nil {
		panic(err)
	}
	for _, r := range in.Continued.Requests {
		w.note(nil, "request %s is handed over", r.ID)
		w.watch.asked(r.Request)
	}
	w.watch.handedOver(in.Continued)
	return in
}

// handedOver hears which requests a run hands over to the next one.
func (v *watch) handedOver(before *workflows.SessionState) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.open = map[string]string{}
	for _, r := range before.Requests {
		if r.Answer == nil && r.Kind == session.ForHelp {
			v.open[r.Phase+"/"+r.Persona] = r.ID
		}
	}
}

// answered hears that an answer to a request was accepted.
func (v *watch) answered(id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	maps.DeleteFunc(v.open, func(_, open string) bool { return open == id })
}
