// Package delivery is the vocabulary of work that is delivered as a pull request, and the decision of what to do next about
// one. It does no I/O: a [Host] looks at the pull request and changes it, and [Decide] says what to change. GitLab's merge
// requests are pull requests here.
package delivery
