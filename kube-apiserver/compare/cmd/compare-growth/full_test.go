package main

import "testing"

func TestUsedAddresses(t *testing.T) {
	for _, r := range fullRanges {
		seen := make(map[string]bool)
		for _, address := range r.used() {
			seen[address.String()] = true
		}
		// Network, broadcast and the address of the Service kubernetes are not allocatable by the clients.
		size := map[string]int{"10.0.0.0/20": 4093, "10.0.0.0/16": 65533}[r.cidr]
		if len(seen) != size-r.free || seen["10.0.0.0"] || seen["10.0.0.1"] || seen["10.0.15.255"] && r.free == 1 || seen["10.0.255.255"] {
			t.Errorf("%s: %d addresses in use of %d", r.name, len(seen), size)
		}
	}
}
