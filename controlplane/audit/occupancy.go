package audit

import "github.com/rangekeeper/rangekeeper/controlplane/occupancy"

// Maps returns a map of each range in the order of the report; those that are not
// audited have no cells.
func (a *Audit) Maps() ([]occupancy.Map, error) {
	var maps []occupancy.Map
	for _, r := range a.report.Ranges {
		m := occupancy.Map{
			Name: r.Name, Range: r.Range, Mode: string(r.Mode),
			Size: r.Size, Used: r.Used, Free: r.Free,
		}
		if r.Mode != ModeStale && r.Mode != ModeUninitialized {
			i := a.index(r)
			m.StaticBand = a.ranges[i].staticBand
			var err error
			if m.Cells, err = a.core.Occupancy(i, occupancy.CellCount); err != nil {
				return nil, err
			}
		}
		maps = append(maps, m)
	}
	return maps, nil
}
