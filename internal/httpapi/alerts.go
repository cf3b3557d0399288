package httpapi

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/maestro-hive/maestro/internal/control"
)

// ruleInput is an alert rule to add.
type ruleInput struct {
	Body struct {
		Rule string `json:"rule" minLength:"1" maxLength:"100" doc:"day_cost_usd=AMOUNT, breaker_open=NAME or breaker_open=any"`
	}
}

// ofRule is the input of an operation on an alert rule.
type ofRule struct {
	Rule string `path:"rule" maxLength:"100" doc:"the rule, as it is listed"`
}

// alerts and the alert rules of the store.
func alerts(api huma.API, a control.Alerts) {
	register(api, operation("GET /alerts", "list-alerts", "List the alerts of the last 24 hours, newest first, and the alert rules of the store"),
		func(ctx context.Context, _ *none) (control.AlertList, error) { return a.List(ctx) })
	register(api, operation("POST /alerts/rules", "add-alert-rule", "Add an alert rule to those of the store"),
		func(ctx context.Context, in *ruleInput) (control.AlertRule, error) { return a.Add(ctx, in.Body.Rule) })
	register(api, operation("DELETE /alerts/rules/{rule}", "remove-alert-rule", "Remove an alert rule from those of the store"),
		func(ctx context.Context, in *ofRule) (control.AlertRule, error) { return a.Remove(ctx, in.Rule) })
}
