package control

import (
	"encoding/csv"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/maestro-hive/maestro/internal/store/state"
)

// WriteCSV writes the sums for spreadsheets: a row for each, without a total. A spreadsheet must not
// interpret a text as a formula, so texts are escaped.
func (u Usage) WriteCSV(out io.Writer) error {
	w := csv.NewWriter(out)
	_ = w.Write(slices.Concat(u.By, []string{
		"calls", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens", "tokens", "cost_usd",
		"unsettled_calls", "unsettled_tokens", "unsettled_usd", "reserved_calls", "reserved_tokens", "reserved_usd",
	}))
	for _, row := range u.Rows {
		var record []string
		for _, key := range u.By {
			cell := *row.Key(key)
			if strings.IndexAny(cell, "=+-@") == 0 {
				cell = "'" + cell
			}
			record = append(record, cell)
		}
		_ = w.Write(append(record, fieldsOf(row.Spending)...))
	}
	w.Flush()
	return w.Error() // of all writes
}

// fieldsOf are the columns of a sum's row.
func fieldsOf(s state.Spending) []string {
	n := func(n int64) string { return strconv.FormatInt(n, 10) }
	return []string{
		n(int64(s.Calls)), n(s.Usage.InputTokens), n(s.Usage.OutputTokens), n(s.Usage.CacheReadTokens), n(s.Usage.CacheWriteTokens),
		n(s.Usage.ReasoningTokens), n(s.Tokens), s.Usage.CostUSD.String(),
		n(int64(s.Unsettled.Calls)), n(s.Unsettled.Tokens), s.Unsettled.USD.String(),
		n(int64(s.Reserved.Calls)), n(s.Reserved.Tokens), s.Reserved.USD.String(),
	}
}
