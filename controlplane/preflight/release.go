package preflight

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rangekeeper/rangekeeper/controlplane/releases"
)

// Release is a minor release of Kubernetes 1: 34 is 1.34.
type Release int

// The releases that change how ClusterIPs are recorded, by the feature gates in pkg/features of kubernetes.
const (
	// objectsSince creates IPAddress objects and a ServiceCIDR by default (MultiCIDRServiceAllocator), and writes
	// bitmaps, too. It no longer repairs the bitmaps.
	objectsSince Release = 33
	// bitmapsUntil is the last release that writes bitmaps of ClusterIPs by default (DisableAllocatorDualWrite), and
	// that can be run without IPAddress objects.
	bitmapsUntil Release = 33
	// noBitmapsSince cannot be told to write bitmaps: the feature gate is locked.
	noBitmapsSince Release = 35
	// noBetaSince does not serve IPAddress and ServiceCIDR objects of v1beta1.
	noBetaSince Release = 37
)

func (r Release) String() string { return "1." + strconv.Itoa(int(r)) }

var releaseText = regexp.MustCompile(`^v?1\.([0-9]{1,3})(\.[0-9]+([-+].*)?)?$`)

// releaseOf returns the minor release of a text such as 1.34, v1.34 or v1.34.4+k3s1.
func releaseOf(text string) (r Release, ok bool) {
	match := releaseText.FindStringSubmatch(text)
	if match == nil {
		return 0, false
	}
	minor, err := strconv.Atoi(match[1])
	return Release(minor), err == nil
}

// Targets are the releases that can be upgraded to, the oldest first.
func Targets() (all []string) {
	for _, release := range slices.Backward(releases.All()) {
		if minor, ok := releaseOf(release); ok {
			all = append(all, minor.String())
		}
	}
	return all
}

// ParseTarget returns the release of a text such as 1.34, v1.34 or 1.34.4. The error names the releases that there are.
func ParseTarget(text string) (Release, error) {
	r, ok := releaseOf(text)
	if !ok || !slices.Contains(Targets(), r.String()) {
		return 0, fmt.Errorf("%q is not a supported release: expected %s", text, strings.Join(Targets(), ", "))
	}
	return r, nil
}
