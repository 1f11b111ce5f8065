package screen

import (
	"fmt"
	"strings"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
)

// kindTexts are the types of sources for people.
var kindTexts = map[string]string{audit.FromAPI: "Kubernetes API", audit.FromSnapshot: "etcd snapshot", audit.FromKine: "SQLite database of kine", audit.FromEtcd: "etcd"}

// clusterName is what people know the cluster of a source by: the server with the context of the kubeconfig, or the
// address or file with the UID of the Namespace kube-system.
func clusterName(from *audit.Source) string {
	switch {
	case from.Context != "":
		return from.Name + " (context " + from.Context + ")"
	case from.Cluster.UID != "":
		return from.Name + " of cluster " + string(from.Cluster.UID)
	default:
		return from.Name
	}
}

// Source writes the first line of a screen.
func (s *Screen) Source(from *audit.Source) {
	version, _, _ := strings.Cut(from.Version, " ")
	services := ""
	if from.Services != nil {
		services = fmt.Sprintf(", Services at %s, revision %d", Printable(from.Services.Name), from.Services.Revision)
	}
	s.text(0, "", fmt.Sprintf("%s %s, revision %d%s, %s, rangekeeper %s", kindTexts[from.Type], Printable(clusterName(from)), from.Revision, services, from.Time.Format("2006-01-02 15:04:05 UTC"), version))
	s.Blank()
}
