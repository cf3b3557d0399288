package agent

import (
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// Jira configures the worker's ticket system.
type Jira struct {
	// URL is the address of the site, including its path if it has one.
	URL string `json:"url" yaml:"url" jsonschema:"format=address" example:"https://example.atlassian.net"`
	// Deployment is the kind of Jira: cloud is a site of Atlassian's, datacenter is a server of your
	// own. Their APIs differ.
	Deployment string `json:"deployment" yaml:"deployment" jsonschema:"enum=cloud,enum=datacenter" example:"cloud"`
	// EmailEnv names the variable of the worker's environment that has the account's email address.
	// It is required with cloud, and not permitted otherwise.
	EmailEnv string `json:"email_env,omitempty" yaml:"email_env,omitempty" jsonschema:"format=variable" example:"JIRA_EMAIL" only:"deployment=cloud" needed:"deployment=cloud"`
	// TokenEnv names the variable that has the account's API token (Cloud) or personal
	// access token (Data Center).
	TokenEnv string `json:"token_env" yaml:"token_env" jsonschema:"format=variable" example:"JIRA_TOKEN"`
	// IndexDelay is how long Jira's search may take to find a new ticket. When the answer to a
	// creation was lost, a ticket is not created again before.
	IndexDelay textfmt.Duration `json:"index_delay,omitempty" yaml:"index_delay,omitempty" between:"1s 1h"`
	// Timeout is the longest time that a request may take.
	Timeout textfmt.Duration `json:"timeout,omitempty" yaml:"timeout,omitempty" between:"100ms 10m"`
}

// The deployments of Jira.
const (
	JiraCloud      = "cloud"
	JiraDataCenter = "datacenter"
)

// Webhook configures the address to which notices to people are sent.
type Webhook struct {
	// URLEnv names the variable of the worker's environment with the address, which is often a
	// secret.
	URLEnv string `json:"url_env" yaml:"url_env" jsonschema:"format=variable" example:"MAESTRO_WEBHOOK_URL"`
	// SecretEnv names the variable that has the key of the requests' signatures, HMAC-SHA256. Left
	// out, requests are not signed.
	SecretEnv string `json:"secret_env,omitempty" yaml:"secret_env,omitempty" jsonschema:"format=variable"`
	// Timeout is the longest time that a request may take.
	Timeout textfmt.Duration `json:"timeout,omitempty" yaml:"timeout,omitempty" between:"100ms 10m"`
}

// The defaults of jira and webhook.
const (
	DefaultIndexDelay     = textfmt.Duration(2 * time.Minute)
	DefaultJiraTimeout    = textfmt.Duration(30 * time.Second)
	DefaultWebhookTimeout = textfmt.Duration(10 * time.Second)
)

// atlassianHosts are the domains of Jira Cloud.
var atlassianHosts = []string{".atlassian.net", ".jira.com"}

func (j *Jira) withDefaults() *Jira {
	if j == nil {
		return nil
	}
	full := *j
	setDefault(&full.IndexDelay, DefaultIndexDelay)
	setDefault(&full.Timeout, DefaultJiraTimeout)
	return &full
}

func (w *Webhook) withDefaults() *Webhook {
	if w == nil {
		return nil
	}
	full := *w
	setDefault(&full.Timeout, DefaultWebhookTimeout)
	return &full
}

// notifySecrets lists the variables that jira and webhook name.
func (c Config) notifySecrets() []string {
	var names []string
	if c.Jira != nil {
		names = append(names, c.Jira.EmailEnv, c.Jira.TokenEnv)
	}
	if c.Webhook != nil {
		names = append(names, c.Webhook.URLEnv, c.Webhook.SecretEnv)
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}
