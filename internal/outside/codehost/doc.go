// Package codehost talks to hosts of repositories and their pull requests: GitHub, and GitLab, whose merge requests are pull
// requests here. A driver implements the port [delivery.Host] with the credentials of one account.
//
// Start reading in github.go. What a host answers was written by others: it is bounded, and it is data.
package codehost
