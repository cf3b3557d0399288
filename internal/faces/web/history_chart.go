package web

import (
	"time"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

// dayChart is what each day has cost, as bars.
type dayChart struct {
	// Most is the top of the axis, and Half its middle.
	Most, Half string
	Bars       []dayBar
}

// dayBar is a bar, with its place in percent. Label is its date where there is room for it.
type dayBar struct {
	X, Width, Height   float64
	Day, Label, Amount string
}

// chartDays bounds the days of the chart, the newest.
const chartDays = 60

// chartOf draws what each day has cost, or how many tokens it took where nothing has cost money. Days without sessions are gaps.
func chartOf(days []HistoryRow, total HistoryRow) (c dayChart) {
	spent := map[string]float64{}
	most := 0.0
	first, last := "", ""
	for i, d := range days { // the newest first
		spent[d.Name] = amountOf(d.Usage, total.Usage)
		most = max(most, spent[d.Name])
		if first = d.Name; i == 0 {
			last = d.Name
		}
	}
	from, err := time.Parse(time.DateOnly, first)
	to, err2 := time.Parse(time.DateOnly, last)
	if err != nil || err2 != nil || most == 0 {
		return c
	}
	if oldest := to.AddDate(0, 0, 1-chartDays); from.Before(oldest) {
		from = oldest
	}
	n := int(to.Sub(from).Hours()/24) + 1
	amount := func(a float64) string { return terminal.Short(int64(a)) + " tokens" }
	if total.Usage.CostUSD > 0 {
		amount = func(a float64) string { return dollars(cost.USD(a)) }
	}
	c.Most, c.Half = amount(most), amount(most/2)
	width := 100 / float64(max(n, 7))
	for i := range n {
		day := from.AddDate(0, 0, i)
		b := dayBar{
			X: float64(i)*width + width*.1, Width: width * .8, Height: spent[day.Format(time.DateOnly)] / most * 100,
			Day: day.Format(time.DateOnly),
		}
		if b.Amount = amount(spent[b.Day]); i%(n/8+1) == 0 {
			b.Label = day.Format("Jan 2")
		}
		c.Bars = append(c.Bars, b)
	}
	return c
}
