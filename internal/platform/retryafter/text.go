package retryafter

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // the zones that programs name, also where the host has none
)

// justReset is the time after a stated time of day within which it means today's, not
// tomorrow's: clocks differ.
const justReset = 5 * time.Minute

var (
	// resetIn finds a wait: "try again in 2 hours 10 minutes", "retry in 36.5s", "wait 42 seconds",
	// "will reset after 17h28m49s".
	resetIn = regexp.MustCompile(`(?i)(?:try again (?:in|after)|retry (?:in|after)|resets? (?:in|after)|wait(?: for)?(?: at least)?|"retryDelay"\s*:\s*")\s*((?:\d{1,9}(?:\.\d{1,9})?\s*(?:milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d)\b?[\s,]*(?:and\s+)?)+)`)
	// resetPart is a part of such a wait.
	resetPart = regexp.MustCompile(`(?i)([\d.]+)\s*([a-z]+)`)
	// resetEpoch finds a time in seconds since 1970: "usage limit reached|1795359600".
	resetEpoch = regexp.MustCompile(`(?i)limit reached\|(\d{10})\b`)
	// resetISO finds a whole time: "resets at 2026-11-24T15:00:00Z".
	resetISO = regexp.MustCompile(`(?i)(?:try again|resets?)(?: (?:at|on|after))? (\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?)`)
	// resetAt finds a time as people write it: "resets 3pm (Europe/Berlin)", "resets Nov
	// 24, 3:30pm (UTC)", "try again at Nov 24th, 2026 3:05 PM", "resets Monday at 9am".
	resetAt = regexp.MustCompile(`(?i)(?:try again|resets?)(?: (?:at|on|after))? ` +
		`(?:(mon|tue|wed|thu|fri|sat|sun)[a-z]*\.?,?(?: at)? )?` +
		`(?:(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.? (\d{1,2})(?:st|nd|rd|th)?(?:,? (\d{4}))?(?:,|,? at)? ?)?` +
		`(\d{1,2}(?::\d\d){0,2} ?[ap]\.?m\b\.?|\d{1,2}(?::\d\d){1,2}|noon|midnight)?` +
		`(?: ?\(([A-Za-z0-9_+/-]{1,40})\)| (utc|gmt|[pmce][sd]t)\b)?`)
)

// zoneNames are zones without a name in the time zone database.
var zoneNames = map[string]string{
	"gmt": "UTC", "utc": "UTC",
	"pst": "America/Los_Angeles", "pdt": "America/Los_Angeles", "mst": "America/Denver", "mdt": "America/Denver",
	"cst": "America/Chicago", "cdt": "America/Chicago", "est": "America/New_York", "edt": "America/New_York",
}

// InText returns the wait until a limit's reset that a text states; zero if it states none, or
// an invalid one. A time without a zone is in the zone of now. The wait is at most [session.MaxRetryAfter].
func InText(text string, now time.Time) time.Duration {
	text = strings.Join(strings.Fields(text), " ") // spaces come in many kinds
	if m := resetIn.FindStringSubmatch(text); m != nil {
		return bounded(sumOf(m[1]))
	}
	if m := resetEpoch.FindStringSubmatch(text); m != nil {
		seconds, _ := strconv.ParseInt(m[1], 10, 64) // ten digits
		return Until(time.Unix(seconds, 0), now)
	}
	if m := resetISO.FindStringSubmatch(text); m != nil {
		return untilISO(m[1], now)
	}
	for _, m := range resetAt.FindAllStringSubmatch(text, -1) {
		if at, ok := nextTime(m, now); ok {
			return Until(at, now)
		}
	}
	return 0
}

// Until returns the wait until a stated time, at most [session.MaxRetryAfter]; zero if that time is over, or not stated.
func Until(at, now time.Time) time.Duration { return bounded(float64(at.Sub(now))) }

// sumOf adds up the parts of a wait, in nanoseconds.
func sumOf(text string) float64 {
	units := map[string]time.Duration{"d": 24 * time.Hour, "h": time.Hour, "m": time.Minute, "s": time.Second}
	sum := 0.0
	for _, part := range resetPart.FindAllStringSubmatch(text, -1) {
		n, err := strconv.ParseFloat(part[1], 64)
		if err != nil {
			return 0
		}
		unit := strings.ToLower(part[2])
		each := units[unit[:1]]
		if unit == "ms" || strings.HasPrefix(unit, "milli") {
			each = time.Millisecond
		}
		sum += n * float64(each)
	}
	return sum
}

func untilISO(text string, now time.Time) time.Duration {
	text = strings.Replace(text, " ", "T", 1)
	for _, layout := range []string{
		time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05",
		"2006-01-02T15:04",
	} {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return Until(at, now)
		}
	}
	return 0
}

// clockLayouts are the forms of a time of day, in lower case without spaces and dots.
var clockLayouts = []string{"3pm", "3:04pm", "3:04:05pm", "15:04", "15:04:05"}

var clockWords = strings.NewReplacer(" ", "", ".", "", "noon", "12pm", "midnight", "12am")

// timeOfDay parses a time of day. A day alone begins at midnight.
func timeOfDay(text string) (clock time.Time, ok bool) {
	text = cmp.Or(clockWords.Replace(strings.ToLower(text)), "12am")
	for _, layout := range clockLayouts {
		if clock, err := time.Parse(layout, text); err == nil {
			return clock, true
		}
	}
	return clock, false
}

// nextTime is the next such time as a match of resetAt says; ok is false for what is none. A day without a year that was over
// yesterday is next year's.
func nextTime(m []string, now time.Time) (at time.Time, ok bool) {
	weekday, month, day := m[1], m[2], m[3]
	clock, ok := timeOfDay(m[5])
	if !ok || weekday+month+m[5] == "" {
		return at, false
	}
	here := now.In(zoneOf(cmp.Or(m[6], m[7]), now.Location()))
	on := func(year int, month time.Month, day int) time.Time {
		return time.Date(year, month, day, clock.Hour(), clock.Minute(), 0, 0, here.Location())
	}
	at = on(here.Date())
	switch {
	case month != "":
		date, err := time.Parse("Jan 2", month+" "+day)
		if err != nil {
			return at, false
		}
		year, _ := strconv.Atoi(m[4]) // four digits, or none
		at = on(cmp.Or(year, here.Year()), date.Month(), date.Day())
		if year == 0 && here.Sub(at) > 24*time.Hour {
			at = at.AddDate(1, 0, 0)
		}
	case weekday != "":
		for !strings.EqualFold(at.Weekday().String()[:3], weekday) {
			at = at.AddDate(0, 0, 1)
		}
		if here.Sub(at) > justReset {
			at = at.AddDate(0, 0, 7)
		}
	case here.Sub(at) > justReset:
		at = at.AddDate(0, 0, 1)
	}
	return at, true
}

// zoneOf returns the zone of a name; the host's if the name is unknown.
func zoneOf(name string, host *time.Location) *time.Location {
	if name == "" {
		return host
	}
	if full, ok := zoneNames[strings.ToLower(name)]; ok {
		name = full
	}
	if zone, err := time.LoadLocation(name); err == nil && !strings.EqualFold(name, "local") {
		return zone
	}
	return host
}
