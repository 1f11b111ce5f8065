package audit

import (
	"time"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
)

// Source is where a document comes from.
type Source struct {
	// Type is etcd, etcdSnapshot, kubernetesAPI or kineDatabase.
	Type string `json:"type"`
	// Name is the address or the file.
	Name string `json:"name"`
	// Context is that of the kubeconfig; empty for other sources.
	Context string `json:"context,omitempty"`
	// Cluster is the cluster, as far as the source shows it.
	Cluster clusterstate.Identity `json:"cluster"`
	// Revision is that of the state.
	Revision int64 `json:"revision"`
	// Time is when it was read.
	Time time.Time `json:"time"`
	// Version is that of the program.
	Version string `json:"version"`
}

// The types of sources.
const (
	FromAPI      = "kubernetesAPI"
	FromKine     = "kineDatabase"
	FromEtcd     = "etcd"
	FromSnapshot = "etcdSnapshot"
)
