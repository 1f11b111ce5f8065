package main

import (
	"fmt"
	"os"
	"text/tabwriter"
)

// printTable prints three lines per work: the reference, Rangekeeper, and the ratio that the project promises.
func printTable(results []result) error {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "work\tside\tper second\tbytes each\tp50 ms\tp99 ms\tp99.9 ms\tmeasured\t")
	for _, r := range results {
		printSide(table, r.Name, "reference", r.reference)
		printSide(table, "", "rangekeeper", r.rangekeeper)
		fmt.Fprintf(table, "\tratio\t%.1f\t1/%.1f\t\t%.3f\t\t\t\n", r.Ratio, 1/r.BytesRatio, r.RangekeeperP99/r.ReferenceP99)
	}
	return table.Flush()
}

func printSide(table *tabwriter.Writer, work, side string, m measurement) {
	fmt.Fprintf(table, "%s\t%s\t%.1f\t%.0f\t%.2f\t%.2f\t%.2f\t%d\t\n", work, side, m.ops, m.bytes, m.p50, m.p99, m.p999, m.operations)
}
