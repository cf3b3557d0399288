package agent

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/team"
)

// Jira is where and as whom the worker makes tickets.
type Jira struct {
	// URL is the address of the site, with the path that it is served under, if
	// there is one.
	URL string `json:"url" yaml:"url"`
	// Deployment says which Jira it is: cloud, a site of Atlassian's, or datacenter, a
	// server of your own. They differ in their API.
	Deployment string `json:"deployment" yaml:"deployment"`
	// EmailEnv names the variable of the worker's environment that holds the account's
	// email address. Cloud requires it, and nothing else has it.
	EmailEnv string `json:"email_env,omitempty" yaml:"email_env,omitempty"`
	// TokenEnv names the variable that holds the account's API token (Cloud) or personal
	// access token (Data Center).
	TokenEnv string `json:"token_env" yaml:"token_env"`
	// IndexDelay is how long Jira's search may take to find a new ticket: when the answer
	// to a creation was lost, nothing is created again before.
	IndexDelay team.Duration `json:"index_delay,omitempty" yaml:"index_delay,omitempty"`
	// Timeout bounds one request.
	Timeout team.Duration `json:"timeout,omitempty" yaml:"timeout,omitempty"`
}

// The deployments of Jira.
const (
	JiraCloud      = "cloud"
	JiraDataCenter = "datacenter"
)

// Webhook is an address that hears of what people are told.
type Webhook struct {
	// URLEnv names the variable of the worker's environment that holds the
	// address, which often is a secret in itself.
	URLEnv string `json:"url_env" yaml:"url_env"`
	// SecretEnv names the variable that holds the key of the requests' signatures,
	// HMAC-SHA256; left out, they are not signed.
	SecretEnv string `json:"secret_env,omitempty" yaml:"secret_env,omitempty"`
	// Timeout bounds one request.
	Timeout team.Duration `json:"timeout,omitempty" yaml:"timeout,omitempty"`
}

// The defaults of what tells people.
const (
	DefaultIndexDelay     = team.Duration(2 * time.Minute)
	DefaultJiraTimeout    = team.Duration(30 * time.Second)
	DefaultWebhookTimeout = team.Duration(10 * time.Second)

	minIndexDelay  = team.Duration(time.Second)
	maxIndexDelay  = team.Duration(time.Hour)
	maxCallTimeout = team.Duration(10 * time.Minute)
)

// atlassianHosts end the names of Jira Cloud's hosts.
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

// tellingSecrets lists the variables that jira and webhook name.
func (c Config) tellingSecrets() []string {
	var names []string
	if c.Jira != nil {
		names = append(names, c.Jira.EmailEnv, c.Jira.TokenEnv)
	}
	if c.Webhook != nil {
		names = append(names, c.Webhook.URLEnv, c.Webhook.SecretEnv)
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

func (v *validator) telling() {
	if j := v.config.Jira; j != nil {
		v.jira(*j)
	}
	if w := v.config.Webhook; w != nil {
		v.variable("$.webhook.url_env", w.URLEnv, "the address, like MAESTRO_WEBHOOK_URL")
		if w.SecretEnv != "" {
			v.variable("$.webhook.secret_env", w.SecretEnv, "")
		}
		v.between("$.webhook.timeout", w.Timeout, minTimeout, maxCallTimeout)
	}
	if v.config.WebUI != "" {
		v.address("$.web_ui", v.config.WebUI, "http://localhost:8233")
	}
}

func (v *validator) jira(j Jira) {
	host := ""
	if j.URL == "" {
		v.add("$.jira.url", "is missing; give the site's address, like https://example.atlassian.net")
	} else {
		host = v.address("$.jira.url", j.URL, "https://example.atlassian.net")
	}
	cloud := slices.ContainsFunc(atlassianHosts, func(end string) bool { return strings.HasSuffix(host, end) })
	switch j.Deployment {
	case JiraCloud:
		v.variable("$.jira.email_env", j.EmailEnv, "the email address of the account, like JIRA_EMAIL")
	case JiraDataCenter:
		if cloud {
			v.add("$.jira.deployment", "is datacenter, but %s is a site of Jira Cloud; write `deployment: cloud`", host)
		}
		if j.EmailEnv != "" {
			v.add("$.jira.email_env", "belongs to deployment cloud: a personal access token says by itself whose it is; leave it out")
		}
	case "":
		v.add("$.jira.deployment", "is missing; write `deployment: cloud` for a site of Atlassian's, `deployment: datacenter` for a server of your own")
	default:
		known := []string{JiraCloud, JiraDataCenter}
		v.add("$.jira.deployment", "is %q; write cloud or datacenter%s", team.Shorten(j.Deployment, 80), team.DidYouMean(j.Deployment, known))
	}
	v.variable("$.jira.token_env", j.TokenEnv, "the API token (Cloud) or personal access token (Data Center), like JIRA_TOKEN")
	v.between("$.jira.index_delay", j.IndexDelay, minIndexDelay, maxIndexDelay)
	v.between("$.jira.timeout", j.Timeout, minTimeout, maxCallTimeout)
}

// variable faults what names no environment variable. holds says what it is to
// hold, where it may not be left out.
func (v *validator) variable(path, name, holds string) {
	if name == "" {
		v.add(path, "is missing; name the variable of the worker's environment that holds %s", holds)
	} else if err := checkVariable(name); err != nil {
		v.add(path, "%s", err.Error())
	}
}

// address faults what is no plain web address, and returns its host's name.
func (v *validator) address(path, text, like string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http"):
		v.add(path, "is no web address; write it in full, like %s", like)
		return ""
	case u.User != nil:
		v.add(path, "has a user or password in it; write the address alone: credentials come from environment variables")
		return ""
	case u.RawQuery != "" || u.Fragment != "":
		v.add(path, "has more than an address: a query or a fragment; write it like %s", like)
	}
	return strings.ToLower(u.Hostname())
}
