package main

import (
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/rangekeeper/rangekeeper/kube-apiserver/compare/internal/apiserver"
	"github.com/rangekeeper/rangekeeper/kube-apiserver/compare/internal/floor"
)

// printTables prints what was measured, and the floors.
func printTables(r results) error {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	if r.Growth != nil {
		printSteps(table, "creations", *r.Growth)
	}
	if r.Full != nil {
		fmt.Fprintln(table, "range\tside\tempty p50 ms\tempty p99 ms\tfull p50 ms\tfull p99 ms\tratio of p50\trefused\t")
		for _, f := range r.Full {
			fmt.Fprintf(table, "%s\t%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.2f\t%d\t\n", f.Range, f.Side, f.EmptyP50, f.EmptyP99, f.FullP50, f.FullP99, f.Ratio, f.Refused)
		}
		fmt.Fprintln(table)
	}
	if r.Deletion != nil {
		printSteps(table, "deletions", *r.Deletion)
	}
	floor.Print(table, r.Floors)
	return table.Flush()
}

// printSteps prints the steps of both sides, and the sums of each side.
func printSteps(table io.Writer, what string, both bothSides) {
	fmt.Fprintf(table, "%s at\tside\tper s\tper CPU s\tCPU ms each\tp50 ms\tp99 ms\tone client's p50 ms\t\n", what)
	for _, side := range []struct {
		name  string
		steps []step
	}{{apiserver.ReferenceName, both.Reference}, {apiserver.RangekeeperName, both.Rangekeeper}} {
		var requests, seconds, cpu float64
		for _, s := range side.steps {
			fmt.Fprintf(table, "%d\t%s\t%.0f\t%.0f\t%.2f\t%.1f\t%.1f\t%.1f\t\n", s.Services, side.name, s.PerSecond, 1000/s.CPU, s.CPU, s.P50, s.P99, s.SingleP50)
			n := float64(s.Requests)
			requests, seconds, cpu = requests+n, seconds+n/s.PerSecond, cpu+n*s.CPU/1000
		}
		fmt.Fprintf(table, "all\t%s\t%.0f\t%.0f\t%.2f\t\t\t\t\n", side.name, requests/seconds, requests/cpu, cpu*1000/requests)
	}
	fmt.Fprintln(table)
}
