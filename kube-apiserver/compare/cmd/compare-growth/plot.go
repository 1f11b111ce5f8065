package main

import (
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const plotWidth, plotHeight = 18 * vg.Centimeter, 16 * vg.Centimeter

// writePlot draws the steps of both sides over the number of Services: the rate of all clients above the median of one
// client.
func writePlot(path, release string, g bothSides) error {
	rate, err := newPlot("Service creations per second, 32 clients, Kubernetes "+release, "per second", g, func(s step) float64 { return s.PerSecond })
	if err != nil {
		return err
	}
	median, err := newPlot("Median of one client", "ms", g, func(s step) float64 { return s.SingleP50 })
	if err != nil {
		return err
	}
	plots := [][]*plot.Plot{{rate}, {median}}
	svg := vgsvg.New(plotWidth, plotHeight)
	for i, canvas := range plot.Align(plots, draw.Tiles{Rows: 2, Cols: 1, PadY: vg.Centimeter / 2, PadRight: vg.Centimeter / 2}, draw.New(svg)) {
		plots[i][0].Draw(canvas[0])
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close() // after a write without an error it can only fail on a full disk
	_, err = svg.WriteTo(f)
	return err
}

func newPlot(title, unit string, g bothSides, figure func(step) float64) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, "Services", unit
	p.Y.Min = 0
	points := func(steps []step) (all plotter.XYs) {
		for _, s := range steps {
			all = append(all, plotter.XY{X: float64(s.Services), Y: figure(s)})
		}
		return all
	}
	p.Add(plotter.NewGrid())
	// Between the lines of the two sides.
	p.Legend.Top, p.Legend.XOffs, p.Legend.YOffs = true, -vg.Centimeter/2, -2*vg.Centimeter
	return p, plotutil.AddLinePoints(p, "stock kube-apiserver", points(g.Reference), "with Rangekeeper inside", points(g.Rangekeeper))
}
