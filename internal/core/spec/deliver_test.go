package spec

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestADeliveryIsAnAssignmentLikeAnyOther: a resolved team has a persona for it, of which the written team says nothing.
func TestADeliveryIsAnAssignmentLikeAnyOther(t *testing.T) {
	t.Parallel()
	in := sound()
	in.Retry.Attempts = 5
	in.Phases = append(in.Phases,
		Phase{Name: "ship", Needs: []string{"test", "build"}, Deliver: &Deliver{To: "github", Labels: []string{}}},
		Phase{Name: "look", Personas: []string{"tester"}})
	require.Empty(t, in.Problems())

	out := in.Resolved()
	require.Equal(t, Phase{
		Name: "ship", Needs: []string{"test", "build"}, Personas: []string{"delivery"}, Integrator: "delivery",
		SendsBack: &SendsBack{To: "build", Times: 3},
		Deliver:   &Deliver{To: "github", Fix: "build", Times: 3, Merge: MergeNever, Method: MethodMerge},
	}, out.Phases[3])
	require.Contains(t, out.Assignments(), AssignmentID{"ship", "delivery"})
	require.Equal(t, []string{"coder", "github"}, out.AgentNames())
	require.Equal(t, 5, out.Personas["delivery"].Attempts)
	require.Empty(t, out.Problems())
	require.Equal(t, out, out.Resolved(), "once is enough")
	require.Nil(t, in.Phases[3].Personas, "the team itself stays as it is")

	written := out.Written()
	require.Equal(t, in.Personas["tester"].Role, written.Personas["tester"].Role)
	require.NotContains(t, written.Personas, "delivery")
	require.Equal(t, Phase{Name: "ship", Needs: []string{"test", "build"}, Deliver: out.Phases[3].Deliver}, written.Phases[3])
	require.Equal(t, out, written.Resolved())
	require.Contains(t, out.Personas, "delivery", "the resolved team stays as it is")
	require.Equal(t, []string{"analyst", "delivers to github"}, []string{out.Phases[0].Workers(), written.Phases[3].Workers()})

	data, err := json.Marshal(out)
	require.NoError(t, err)
	var again Team
	require.NoError(t, json.Unmarshal(data, &again))
	require.Empty(t, again.Differences(out, AssignmentID{"ship", "delivery"}), "as it is stored")
	again.Phases[3].Deliver.Base = "main"
	require.Equal(t, []string{"deliver"}, again.Differences(out, AssignmentID{"ship", "delivery"}))
}

func TestDeliveriesNeedAgentsThatDeliver(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	tm := sound()
	tm.Phases = append(tm.Phases, Phase{Name: "ship", Deliver: &Deliver{To: "github"}})
	admit := func(coder, github string) []string {
		agents := map[string]OfferedAgent{"coder": {Kind: coder}}
		if github != "" {
			agents["github"] = OfferedAgent{Kind: github}
		}
		_, faults := tm.Resolved().Admissible([]Offer{{RenewedAt: now, Agents: agents}}, now)
		return faults
	}
	require.Empty(t, admit("command", KindDelivery))
	require.Equal(t, []string{"phase ship delivers to agent \"github\", which is of kind command; name an agent of kind delivery " +
		"in `to`"}, admit("command", "command"))
	require.Equal(t, []string{`no worker has agent "github" of phase ship; available: coder; start a worker whose worker file ` +
		"defines it, or use another agent in the team file"}, admit("command", ""))
	faults := admit(KindDelivery, KindDelivery)
	require.Len(t, faults, 4, "one for each assignment")
	require.Equal(t, `agent "coder" of persona tester in phase test delivers pull requests and does no other work; give the `+
		"persona another agent", faults[3])
}

func TestTheRepositoryOfAnAddress(t *testing.T) {
	t.Parallel()
	for address, want := range map[string][2]string{
		"https://GitHub.com/acme/shop.git":       {"github.com", "acme/shop"},
		"https://git.example:8443/acme/shop/":    {"git.example", "acme/shop"},
		"ssh://git@git.example:22/acme/shop.git": {"git.example", "acme/shop"},
		"git@gitlab.com:group/sub/shop.git":      {"gitlab.com", "group/sub/shop"},
		"https://git.example/":                   {},
		"shop":                                   {},
		"":                                       {},
	} {
		host, name := RepositoryOf(address)
		require.Equal(t, want, [2]string{host, name}, address)
	}
}
