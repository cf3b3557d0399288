package web

import (
	"net/url"
	"strconv"
	"time"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

// dollars writes an amount of money with as many decimals as it needs to be told apart from
// nothing.
func dollars(u cost.USD) string {
	value := float64(u) / 1e9
	switch {
	case u == 0:
		return "$0"
	case value >= 1000:
		return "$" + terminal.Number(int64(value+.5))
	case value >= .01:
		return "$" + strconv.FormatFloat(value, 'f', 2, 64)
	}
	return "$" + u.Rounded().String()
}

// seconds writes a time at work; nothing for none.
func seconds(s float64) string {
	if s <= 0 {
		return ""
	}
	return terminal.Age(time.Duration(s * float64(time.Second)))
}

// percent is a number for an attribute of SVG.
func percent(x float64) string { return strconv.FormatFloat(x, 'f', 3, 64) + "%" }

// moment writes a time for people, in UTC: the browser's own zone is not known here.
func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") + " UTC" }

// The addresses of pages.

func sessionURL(id string) string { return access.PagePath(id, "") }

func phaseURL(id, phase string) string { return access.PagePath(id, phase) }

func assignmentURL(id, phase, persona string) string {
	return phaseURL(id, phase) + "/" + url.PathEscape(persona)
}
