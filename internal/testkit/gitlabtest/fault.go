package gitlabtest

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/maestro-hive/maestro/internal/testkit/faulttest"
)

// Fault is how the answers to some requests go wrong.
type Fault = faulttest.Fault

// Request is a request that the server got.
type Request = faulttest.Request

// RateLimited is the fault of too many requests; after is the stated wait, zero: none is stated.
func RateLimited(after time.Duration) Fault {
	f := Fault{Status: http.StatusTooManyRequests, Body: "Retry later\n", Header: map[string]string{"Content-Type": "text/plain"}}
	if after > 0 {
		f.Header["Retry-After"] = strconv.Itoa(int(after.Seconds()))
		f.Header["RateLimit-Limit"], f.Header["RateLimit-Remaining"] = "60", "0"
	}
	return f
}

// BadGateway is the fault of a web server in front of GitLab.
func BadGateway() Fault {
	return Fault{
		Status: http.StatusBadGateway, Body: "<!DOCTYPE html><html><head><title>GitLab is not responding (502)</title></head></html>",
		Header: map[string]string{"Content-Type": "text/html"},
	}
}

// Refusal is the fault of an error in GitLab's own words.
func Refusal(status int, message string) Fault {
	body, err := json.Marshal(map[string]string{"message": message})
	check(err)
	return Fault{Status: status, Body: string(body)}
}
