package releases

import (
	"os"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
)

func TestReleases(t *testing.T) {
	all := All()
	if len(all) == 0 {
		t.Fatal("no release is listed")
	}
	newestFirst := func(a, b string) int {
		order, err := version.MustParseSemantic(b).Compare(a)
		if err != nil {
			t.Fatal(err)
		}
		return order
	}
	if !slices.IsSortedFunc(all, newestFirst) {
		t.Errorf("not the newest first: %v", all)
	}
	for _, release := range all {
		minor := version.MustParseSemantic(release)
		if got := Of(version.MajorMinor(minor.Major(), minor.Minor()).String()); got != release {
			t.Errorf("%s is the release of the minor version of %s", got, release)
		}
	}
}

// Each release but the newest one has module files of its own, in which its dependencies have the versions of the
// release.
func TestModuleFiles(t *testing.T) {
	for _, release := range All()[1:] {
		for _, folder := range []string{"../../kube-apiserver/stock", "../../kube-apiserver/dropin"} {
			if _, err := os.Stat(folder + "/v" + release + ".mod"); err != nil {
				t.Error(err)
			}
		}
	}
}
