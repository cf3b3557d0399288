// Package jira makes and finds tickets in Jira, comments on them, and reads them,
// on Jira Cloud and on Jira Data Center, through version 2 of the REST API. It knows what a notice is about and what its ticket
// says, and neither who sends it nor when.
//
// Nothing that it says to a person or sends to another host holds a credential.
package jira
