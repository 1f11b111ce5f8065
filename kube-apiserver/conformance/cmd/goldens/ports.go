package main

import (
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/kubernetes/pkg/registry/core/service/allocator"
	"k8s.io/kubernetes/pkg/registry/core/service/portallocator"
)

// portRow is the reference's answer for one port range. The fields after Accepted are set only if it is accepted.
type portRow struct {
	Input    string `json:"input"`
	Accepted bool   `json:"accepted"`
	// Base is the lowest port, Size the number of ports; the reference parses an empty text as a range without ports.
	Base *int `json:"base,omitempty"`
	Size *int `json:"size,omitempty"`
	// Canonical is the text stored as the range of a RangeAllocation.
	Canonical *string `json:"canonical,omitempty"`
	// StaticBand is the offset at which the dynamic band starts.
	StaticBand *int `json:"static_band,omitempty"`
}

func portRows() ([]any, error) {
	var rows []any
	for _, input := range portInputs {
		row := &portRow{Input: input}
		rows = append(rows, row)
		ports, err := utilnet.ParsePortRange(input)
		if err != nil {
			continue
		}
		p := &probe{}
		_, err = portallocator.New(*ports, func(max int, rangeSpec string, offset int) (allocator.Interface, error) {
			p.size, p.band = max, offset
			row.Canonical = &rangeSpec
			return p, nil
		})
		if err != nil {
			return nil, err
		}
		row.Accepted = true
		row.Base, row.Size, row.StaticBand = &ports.Base, &p.size, &p.band
	}
	return rows, nil
}

var portInputs = []string{
	// Each notation.
	"30000-32767", "30000+2767", "30000", "1-65535", "0-65535", "0+65535", "1+65534", "8080", "65535", "65535-65535", "65535+0", "80-80", "80+0", "1-1",
	"0", "0-0", "0+0", "", " ", "\t\n",
	// Sizes around the steps of the static band.
	"30000-30014", "30000-30015", "30000-30016", "30000-30017", "30000-30510", "30000-30511", "30000-30512", "30000-30542", "30000-30543", "30000-30544", "30000-30575", "30000-30576",
	"30000-34062", "30000-34063", "30000-34094", "30000-34095", "30000-34096", "30000-34127", "30000+15", "30000+16", "30000+4095", "30000+4096", "20000-22767", "10000-32767", "30000-30100", "31000-31999",
	// Leading and trailing blanks are trimmed, others are not.
	" 30000-32767 ", "\t30000-32767\n", "30000-32767\r\n", "\u00a030000-32767", "\u200330000-32767\u2003", "\u200b30000-32767", "30000 -32767", "30000- 32767", "30000 - 32767", "30000 + 10", "3 0000",
	// Leading zeros.
	"030000-032767", "000080", "0000000000000000000000080", "00", "030000+010",
	// Out of bounds and out of order.
	"65536", "30000-65536", "65536-65537", "65535+1", "0+65536", "32767-30000", "30001-30000", "99999999999999999999", "30000-99999999999999999999", "1+9223372036854775807", "9223372036854775807+1", "9223372036854775807-9223372036854775807",
	"4294967376", "18446744073709551615", "1+18446744073709551615", "4294997296-4295000063",
	// Signs.
	"-1", "+1", "-", "+", "-30000-32767", "30000--32767", "30000-+32767", "30000+-1", "+30000+1", "-0", "--", "++", "1-", "1+", "-65535", "30000++1", "30000-+", "30000+2767-1", "30000-32767+1",
	// Not numbers.
	"a", "a-b", "30000-b", "a-32767", "30000-32767-32768", "30000..32767", "30000:32767", "30000,32767", "30000/16", "0x7530-0x7fff", "3e4", "30_000", "30000.0", "３００００", "30000–32767", "30000-32767x", "None", "10.96.0.0/12", "\x00", "30000\x00", "30000-32767,40000-40010", "30000*32767",
}
