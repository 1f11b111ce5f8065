package audit

import (
	"github.com/rangekeeper/rangekeeper/controlplane/occupancy"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Maps gives a map of each range in the order of the report; those that are not
// audited have no cells.
func (a *Audit) Maps() ([]occupancy.Map, error) {
	var maps []occupancy.Map
	for _, r := range a.report.Ranges {
		m := occupancy.Map{
			Name: r.Name, Range: r.Range, Mode: string(r.Mode),
			Size: r.Size, Used: r.Used, Free: r.Free,
		}
		var err error
		switch r.Mode {
		case ModeBitmap:
			i := a.bitmapIndex(r.Name)
			m.StaticBand = a.bitmaps[i].staticBand
			m.Cells, err = a.pass.Occupancy(i, occupancy.CellCount)
		case ModeIPAddress:
			i := a.cidrIndex(r)
			var counts rangekeeper.CIDRCounts
			if counts, err = a.ip.CIDR(i); err == nil {
				m.StaticBand = counts.StaticBand
				m.Cells, err = a.ip.Occupancy(i, occupancy.CellCount)
			}
		}
		if err != nil {
			return nil, err
		}
		maps = append(maps, m)
	}
	return maps, nil
}

// bitmapIndex gives the index in the pass of the bitmap of that name, -1 if it is
// not audited.
func (a *Audit) bitmapIndex(name string) int {
	for i := range a.bitmaps {
		if a.bitmaps[i].name == name {
			return i
		}
	}
	return -1
}

// cidrIndex gives the index in the IP audit of a row of the report.
func (a *Audit) cidrIndex(r Range) int {
	for i, c := range a.cidrs {
		if c == (cidr{r.Name, r.Range}) {
			return i
		}
	}
	return -1
}
