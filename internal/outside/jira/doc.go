// Package jira makes and finds tickets in Jira, comments on them, and reads them,
// on Jira Cloud and on Jira Data Center, through version 2 of the REST API. It knows what a notice is about and what its ticket
// says, and neither who sends it nor when.
//
// Nothing that it says to a person or sends to another host holds a credential.
//
// Start reading in tickets.go:
//
//	tickets.go  which permissions the account needs, how a ticket is found, created and commented, and that a comment whose
//	            answer was lost is not made twice
//	notice.go   what a ticket and a comment say, and how many attempts and pull requests they have; document.go: Jira's
//	            limits of a summary and a text; wiki.go: how a text is kept from being markup
//	fetch.go    what is read of a ticket that is a requirement: its comments, how many attachments, and how large
//	client.go   how the account is authenticated, how long a request and a download may take, the largest answer, and which
//	            redirects are followed
//	trouble.go  what an error means: the settings are wrong, the ticket is gone, Jira has to be waited for, or it may have
//	            done what was asked
package jira
