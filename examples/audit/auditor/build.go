package main

import (
	"fmt"
	"strconv"
)

// buildDocument says whether the module builds, and what does not and where.
type buildDocument struct {
	Builds   bool      `json:"builds"`
	Packages int       `json:"packages"`
	Problems []problem `json:"problems"`
	// Broken are the packages that do not compile, be it for what they import.
	Broken []string `json:"broken"`
}

// build compiles every package. What imports something that is not there keeps
// nothing else from being compiled.
func (a *auditor) build() (result, error) {
	l, err := a.loadPackages()
	if err != nil {
		return result{}, err
	}
	doc := buildDocument{Packages: l.total, Problems: append([]problem{}, l.problems...)}
	if len(l.sound) > 0 {
		a.say("building %s", count(len(l.sound), "package"))
		c, err := a.goCommand(append([]string{"build", "-o", "/dev/null"}, l.sound...)...)
		if err != nil {
			return result{}, err
		}
		if !c.ok {
			doc.Problems = distinct(append(doc.Problems, a.problemsOf(c.output())...))
		}
	}
	doc.Builds, doc.Broken = len(doc.Problems) == 0, l.broken(doc.Problems)
	summary := fmt.Sprintf("%s built.", count(doc.Packages, "package"))
	if !doc.Builds {
		summary = "It does not build: " + doc.Problems[0].String()
		for _, p := range doc.Problems {
			a.say("%s", p)
		}
	}
	return result{Summary: summary, Decisions: map[string]string{"builds": strconv.FormatBool(doc.Builds)}},
		a.save("build.json", doc)
}

// gate fails if the module does not build.
func (a *auditor) gate() (result, error) {
	var doc buildDocument
	if err := a.load("build.json", &doc); err != nil {
		return result{}, err
	}
	if doc.Builds {
		return result{Summary: "The module builds."}, nil
	}
	f := &failure{Category: "syntax", Message: shorten("the module does not build: "+doc.Problems[0].String(), 900)}
	if more := len(doc.Problems) - 1; more > 0 {
		f.Message += fmt.Sprintf(" (and %d more, see %s/report.md)", more, folder)
	}
	for _, p := range doc.Problems {
		f.Output += p.String() + "\n"
	}
	f.Output = shorten(f.Output, 16<<10)
	return result{}, f
}
