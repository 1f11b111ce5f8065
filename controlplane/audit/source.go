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
	// Services is where Services and ranges were read, if that is another etcd.
	Services *ServicesSource `json:"services,omitempty"`
	// Time is when it was read.
	Time time.Time `json:"time"`
	// Version is that of the program.
	Version string `json:"version"`
}

// ServicesSource is the etcd in which kube-apiservers with --etcd-servers-overrides keep Services and ranges.
type ServicesSource struct {
	// Name is its address.
	Name string `json:"name"`
	// Revision is that of its part of the state, at the same instant.
	Revision int64 `json:"revision"`
}

// The types of sources.
const (
	FromAPI      = "kubernetesAPI"
	FromKine     = "kineDatabase"
	FromEtcd     = "etcd"
	FromSnapshot = "etcdSnapshot"
)
