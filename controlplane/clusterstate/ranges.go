package clusterstate

import (
	corev1 "k8s.io/api/core/v1"

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

// IsReadByServers reports whether Kubernetes' own decoder reads a stored RangeAllocation, such as YAML that was written
// by hand: an API server reads it, whether or not [DecodeRange] does.
func IsReadByServers(value []byte) bool {
	return decodeAny(new(corev1.RangeAllocation), value, rangeKind) == nil
}
