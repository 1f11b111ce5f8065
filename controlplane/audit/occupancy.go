package audit

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/rangekeeper/rangekeeper/controlplane/picture"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Maps returns a map of each range in the order of the report; those that are not
// audited have no cells.
func (a *Audit) Maps() ([]picture.Map, error) {
	var maps []picture.Map
	for _, r := range a.report.Ranges {
		m := picture.Map{
			Name: r.Name, Range: r.Range, Mode: string(r.Mode),
			Size: r.Size.N, Used: r.Used.N, Free: r.Free.N, HasBounds: r.Used.Unseen,
		}
		if r.Size.Unseen {
			m.Size, m.Free = 0, 0
		} else if r.Mode != ModeStale && r.Mode != ModeUninitialized {
			i := a.index(r)
			m.StaticBand = a.ranges[i].staticBand
			var err error
			if m.Cells, err = a.core.Occupancy(i, picture.CellCount); err != nil {
				return nil, err
			}
		}
		maps = append(maps, m)
	}
	return maps, nil
}

// NameValues names the values in maps that Maps returned: those in use with their Services, and the leaked ones.
func (a *Audit) NameValues(maps []picture.Map) error {
	users, err := Users(a.state)
	if err != nil {
		return err
	}
	texts := map[rangekeeper.Value]string{}
	for value, services := range users {
		texts[value] = strings.Join(services, ", ")
	}
	for _, leak := range a.report.Leaks {
		if value, err := rangekeeper.ParseValue(leak.Value); err == nil && texts[value] == "" {
			texts[value] = "leaked"
		}
	}
	for row, r := range a.report.Ranges {
		m := &maps[row]
		if len(m.Cells) == 0 {
			continue
		}
		i := a.index(r)
		first := a.first(i)
		m.ValueAt = func(offset uint64) string { return valueAt(first, offset) }
		for value, text := range texts {
			if _, in := a.core.State(i, value); in {
				m.Users = append(m.Users, picture.User{Offset: number(value) - number(first), Value: value.String(), Text: text})
			}
		}
		slices.SortFunc(m.Users, func(a, b picture.User) int { return cmp.Compare(a.Offset, b.Offset) })
	}
	return nil
}

// first returns the value at offset 0 of a range that is not empty.
func (a *Audit) first(index int) rangekeeper.Value {
	var first []rangekeeper.Value
	for _, stored := range []bool{true, false} {
		for run := range a.core.Runs(index, rangekeeper.ValuesStored, stored) {
			first = append(first, run.First)
			break
		}
	}
	return slices.MinFunc(first, func(a, b rangekeeper.Value) int { return cmp.Compare(number(a), number(b)) })
}

// number grows by one from each value of a range to the next: the values of a range share all but their lower 64 bits.
func number(value rangekeeper.Value) uint64 {
	if value.IsPort() {
		return uint64(value.Port())
	}
	address := value.Addr().As16()
	return binary.BigEndian.Uint64(address[8:])
}

func valueAt(first rangekeeper.Value, offset uint64) string {
	if first.IsPort() {
		return strconv.FormatUint(number(first)+offset, 10)
	}
	address := first.Addr().As16()
	binary.BigEndian.PutUint64(address[8:], number(first)+offset)
	all := netip.AddrFrom16(address)
	if first.Addr().Is4() {
		all = all.Unmap()
	}
	return all.String()
}
