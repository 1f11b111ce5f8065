package source

import (
	"strings"
	"time"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/version"
)

// Now is the time of documents.
var Now = time.Now

// about says where a state that was just read comes from.
func (s *Source) about(state *clusterstate.State) *audit.Source {
	about := About(s.Kind(), s.name(), state)
	if s.OverAPI() {
		about.Context = s.context()
	}
	if state.ServicesRevision > 0 {
		about.Services = &audit.ServicesSource{Name: strings.Join(s.services, ","), Revision: state.ServicesRevision}
	}
	return about
}

// About describes a source with a state that was just read of it.
func About(kind, name string, state *clusterstate.State) *audit.Source {
	return &audit.Source{Type: kind, Name: name, Cluster: state.Identity, Revision: state.Revision, Time: Now().UTC().Truncate(time.Second), Version: version.Text()}
}
