package clusterstate

import (
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// ParseRange returns the function that reads the text of the stored range with this name.
func ParseRange(name string) func(string) (rangekeeper.Range, error) {
	if name == ServiceNodePorts {
		return rangekeeper.ParsePortRange
	}
	return rangekeeper.ParseCIDR
}

// DecodeRange returns the range, as text, and the bitmap of a stored RangeAllocation.
func DecodeRange(value []byte) (text string, data []byte, err error) {
	object, err := rangekeeper.DecodeRangeAllocation(value)
	if err != nil {
		return "", nil, err
	}
	defer object.Close()
	if text, err = object.Range(); err != nil {
		return "", nil, err
	}
	data, err = object.Data(nil)
	return text, data, err
}
