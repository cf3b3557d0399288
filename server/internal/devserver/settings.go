package devserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/server/common/dynamicconfig"
)

// defaultSettings suit one node that serves one machine. Temporal's own defaults suit a cluster, where they protect a
// shared database; here they would only make every hop wait.
func defaultSettings() dynamicconfig.StaticClient {
	return dynamicconfig.StaticClient{
		dynamicconfig.EnableActivityEagerExecution.Key(): true,
		dynamicconfig.EnableEagerWorkflowStart.Key():     true,
		// 20 polls a second would make each hop between queues take up to 50 ms.
		dynamicconfig.TransferProcessorMaxPollRPS.Key(): 2000,
		dynamicconfig.TimerProcessorMaxPollRPS.Key():    2000,
		dynamicconfig.OutboundProcessorMaxPollRPS.Key(): 2000,
		// With the default of 1 s no timer and no retry could be shorter than that.
		dynamicconfig.TimerProcessorMaxTimeShift.Key(): 10 * time.Millisecond,
		// Partitions spread load over nodes. On one node a task may wait in a partition that nobody polls.
		dynamicconfig.MatchingNumTaskqueueReadPartitions.Key():  1,
		dynamicconfig.MatchingNumTaskqueueWritePartitions.Key(): 1,
		// A circuit breaker hears from many sessions at once; 10 updates in flight would refuse them.
		dynamicconfig.WorkflowExecutionMaxInFlightUpdates.Key(): 200,
		// Priority and fairness keys are ignored silently without it.
		dynamicconfig.MatchingEnableFairness.Key(): true,
		// The check asks a host on the Internet, which nobody agreed to.
		dynamicconfig.EnableServerVersionCheck.Key(): false,
	}
}

// ParseSetting reads KEY=JSON. The key must be one that this version of Temporal knows, and the value of its type: a
// misspelt setting would otherwise be ignored.
func ParseSetting(text string) (Setting, error) {
	name, raw, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return Setting{}, fmt.Errorf("dynamic config value %q: want KEY=JSON, for example history.maxInFlightUpdates=200", text)
	}
	var value json.RawMessage
	if err := json.Unmarshal([]byte(raw), &value); err != nil {
		return Setting{}, fmt.Errorf("dynamic config value %q: %q is not JSON (a text needs its quotes): %w", name, raw, err)
	}
	constrained, err := json.Marshal([]map[string]json.RawMessage{{"value": value}})
	if err != nil {
		return Setting{}, fmt.Errorf("dynamic config value %q: %w", name, err)
	}
	// Temporal's loader reads YAML, of which JSON is a part. It reports an unknown key or a wrong type as a warning.
	key := dynamicconfig.MakeKey(name)
	loader := dynamicconfig.YamlLoader{}
	loader.LoadValue(key, constrained)
	if err := errors.Join(append(loader.Errors, loader.Warnings...)...); err != nil {
		return Setting{}, fmt.Errorf("dynamic config value %q: %w", name, err)
	}
	return Setting{key: key, values: loader.Map[key]}, nil
}

func dynamicSettings(overrides []Setting) dynamicconfig.StaticClient {
	settings := defaultSettings()
	for _, setting := range overrides {
		settings[setting.key] = setting.values
	}
	return settings
}
