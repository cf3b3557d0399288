// Package codehost talks to hosts of repositories and their pull requests: GitHub, and GitLab, whose merge requests are pull
// requests here. A driver implements the port [delivery.Host] with the credentials of one account.
//
// What a host answers was written by others: it is bounded, and it is data. Start reading in github.go:
//
//	github.go          how a pull request is found, opened, changed and commented, what happens with labels and reviewers
//	                   that do not exist, and how long a request may take
//	github_look.go     what is read of a pull request: its state, verdicts, threads and newest comments; whose words count
//	                   (Trusted)
//	github_checks.go   the state of a check, whether and why it failed, how much of its log is read, and how it is run again;
//	                   github_log.go: the part of a log that is kept
//	github_graphql.go  what blocks a merge, whether it goes through the merge queue, when it is refused; resolved threads
//	github_errors.go   the failure category of an error, and how long a rate limit lasts that states no wait
//	github_app.go      when the token of a GitHub App is renewed; github_transport.go: which host gets the credentials, when
//	                   a request is sent again, and GitHub's clock
//	gitlab.go          the same for merge requests of GitLab, with the merge and the merge train; that GitLab executes no
//	                   quick action in a text
//	gitlab_look.go     what is read of a merge request: conflicts, what blocks a merge, verdicts, threads; who may write and
//	                   is no bot
//	gitlab_checks.go   which pipeline, jobs and statuses are checks, and the end of their logs; gitlab_errors.go: the failure
//	                   category of an error
//	shared.go          the largest answer, how many pages of a list are read, how long a text may be, and that credentials
//	                   need https
package codehost
