package main

import (
	"fmt"
	"os"
	"text/tabwriter"
)

// printTable prints three lines per work: the reference, Rangekeeper, and their ratio.
func printTable(results []result) error {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "work\tside\tper s\tp50 ms\tp99 ms\tetcd bytes each\tCPU ms each\trange writes each\treads each\tmerged per swap\t")
	for _, r := range results {
		printSide(table, r.Name, "reference", r.Reference)
		printSide(table, "", "rangekeeper", r.Rangekeeper)
		fmt.Fprintf(table, "\tratio\t%.2f\t%.2f\t%.2f\t%.3f\t%.2f\t\t\t\t\n", r.Ratio, r.Rangekeeper.P50/r.Reference.P50, r.P99Ratio, r.BytesRatio, r.CPURatio)
	}
	return table.Flush()
}

func printSide(table *tabwriter.Writer, work, side string, m measurement) {
	merged := "-"
	if m.PerSwap > 0 {
		merged = fmt.Sprintf("%.1f", m.PerSwap)
	}
	fmt.Fprintf(table, "%s\t%s\t%.0f\t%.1f\t%.1f\t%.0f\t%.2f\t%.3f\t%.3f\t%s\t\n", work, side, m.Ops, m.P50, m.P99, m.Bytes, m.CPU, m.RangeWrites, m.Reads, merged)
}
