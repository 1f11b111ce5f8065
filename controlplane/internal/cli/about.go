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
	about := &audit.Source{Type: s.kind(), Name: s.name(), Cluster: state.Identity, Revision: state.Revision, Time: now().UTC().Truncate(time.Second), Version: versionText()}
	if s.overAPI() {
		about.Context = s.context()
	}
	return about
}

// kindTexts are the types of sources for people.
var kindTexts = map[string]string{kindAPI: "cluster", kindSnapshot: "etcd snapshot", kindKine: "SQLite database of kine", kindEtcd: "etcd"}

// source writes the first line of a screen.
func (s *screen) source(from *audit.Source) {
	name := printable(from.Name)
	if from.Context != "" {
		name = printable(from.Context) + " (" + name + ")"
	}
	version, _, _ := strings.Cut(from.Version, " ")
	s.text(0, "", fmt.Sprintf("%s %s, revision %d, %s, rangekeeper %s", kindTexts[from.Type], name, from.Revision, from.Time.Format("2006-01-02 15:04:05 UTC"), version))
	s.blank()
}
