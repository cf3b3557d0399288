package jiratest

import (
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/maestro-hive/maestro/internal/testkit/faulttest"
)

// Fault is how the answers to some requests go wrong.
type Fault = faulttest.Fault

// Request is a request that the server got.
type Request = faulttest.Request

// RateLimited is the fault of too many requests.
func RateLimited(after time.Duration) Fault {
	return Fault{
		Status: http.StatusTooManyRequests, Body: `{"errorMessages":["Rate limit exceeded."],"errors":{}}`,
		Header: map[string]string{
			"Retry-After": strconv.Itoa(int(after.Seconds())), "X-RateLimit-Limit": "350", "X-RateLimit-Remaining": "0",
			"RateLimit-Reason": "jira-burst-based",
		},
	}
}

// Page is the fault of a web page that answers in Jira's place.
func Page(status int, title string) Fault {
	return Fault{
		Status: status, Body: "<!DOCTYPE html><html><head><title>" + title + "</title></head><body></body></html>",
		Header: map[string]string{"Content-Type": "text/html; charset=utf-8"},
	}
}

// Refusal is the fault of an error in Jira's own words.
func Refusal(status int, fields map[string]string, messages ...string) Fault {
	if messages == nil {
		messages = []string{}
	}
	known := map[string]string{}
	maps.Copy(known, fields)
	body, err := json.Marshal(map[string]any{"errorMessages": messages, "errors": known})
	if err != nil {
		panic("jiratest: " + err.Error())
	}
	return Fault{Status: status, Body: string(body)}
}
