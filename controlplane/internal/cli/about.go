package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
)

// now is the time of documents.
var now = time.Now

// about says where a state that was just read comes from.
func (s *source) about(state *clusterstate.State) *audit.Source {
	about := sourceOf(s.kind(), s.name(), state)
	if s.overAPI() {
		about.Context = s.context()
	}
	return about
}

// sourceOf describes a source with a state that was just read of it.
func sourceOf(kind, name string, state *clusterstate.State) *audit.Source {
	return &audit.Source{Type: kind, Name: name, Cluster: state.Identity, Revision: state.Revision, Time: now().UTC().Truncate(time.Second), Version: versionText()}
}

// kindTexts are the types of sources for people.
var kindTexts = map[string]string{kindAPI: "cluster", kindSnapshot: "etcd snapshot", kindKine: "SQLite database of kine", kindEtcd: "etcd"}

// clusterName is what people know the cluster of a source by: the context of the kubeconfig with the server, or the address or file
// with the UID of the Namespace kube-system.
func clusterName(from *audit.Source) string {
	switch {
	case from.Context != "":
		return from.Context + " (" + from.Name + ")"
	case from.Cluster.UID != "":
		return from.Name + " of cluster " + string(from.Cluster.UID)
	default:
		return from.Name
	}
}

// source writes the first line of a screen.
func (s *screen) source(from *audit.Source) {
	version, _, _ := strings.Cut(from.Version, " ")
	s.text(0, "", fmt.Sprintf("%s %s, revision %d, %s, rangekeeper %s", kindTexts[from.Type], printable(clusterName(from)), from.Revision, from.Time.Format("2006-01-02 15:04:05 UTC"), version))
	s.blank()
}
