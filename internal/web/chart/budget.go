package chart

// Share is a part of a bar, in percent of its width.
type Share struct{ From, Width float64 }

// BudgetBar is how a budget is used, side by side in one bar.
type BudgetBar struct {
	Spent, Unsettled, Reserved Share
	// Used is the percentage of the cap that is spent or believed to be spent. It can be
	// above 100.
	Used float64
}

// Budget divides a cap. Where more is used than the cap allows, the parts share the whole bar.
func Budget(spent, unsettled, reserved, limit int64) BudgetBar {
	whole := float64(max(limit, spent+unsettled+reserved, 1))
	part := func(n int64) float64 { return float64(max(n, 0)) / whole * 100 }
	b := BudgetBar{Spent: Share{0, part(spent)}}
	b.Unsettled = Share{b.Spent.Width, part(unsettled)}
	b.Reserved = Share{b.Spent.Width + b.Unsettled.Width, part(reserved)}
	if limit > 0 {
		b.Used = float64(spent+unsettled) / float64(limit) * 100
	}
	return b
}
