package rangekeeper

import "github.com/rangekeeper/rangekeeper/go-bindings/internal/rk"

// detailRequest returns the request that an error names, if it names one.
func detailRequest(details *rk.Error) (index int, ok bool) {
	return int(details.Detail.Request), details.DetailKind == rk.DetailRequest
}
