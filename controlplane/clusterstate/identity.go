package clusterstate

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Identity tells a cluster from others. A file that was made for one cluster has it, so that it is refused by others.
type Identity struct {
	// UID is that of the Namespace kube-system. A cluster has it for life, and takes it along into a restored etcd. It is empty if there
	// is no such Namespace, or it cannot be read.
	UID types.UID `json:"kubeSystemUID"`
	// Etcd is the id of the etcd cluster; 0 for kine, and where no running etcd was read. It depends on the addresses of the first members
	// and on a token that is usually the same (etcd, server/etcdserver/api/membership/cluster.go), so two clusters can have one id.
	Etcd EtcdID `json:"etcdClusterID"`
	// Prefix is kube-apiserver's --etcd-prefix, absolute.
	Prefix string `json:"prefix"`
}

// EtcdID is the id of an etcd cluster, in documents a text with a decimal number.
type EtcdID uint64

func (id EtcdID) MarshalText() ([]byte, error) {
	return strconv.AppendUint(nil, uint64(id), 10), nil
}

func (id *EtcdID) UnmarshalText(text []byte) error {
	number, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil || strconv.FormatUint(number, 10) != string(text) {
		return fmt.Errorf("the id of an etcd cluster is a decimal number, not %q", text)
	}
	*id = EtcdID(number)
	return nil
}

// UIDText is the UID for people.
func (i Identity) UIDText() string {
	if i.UID == "" {
		return "unknown"
	}
	return string(i.UID)
}

// Differs says in which respect this is not the same cluster as another one; "" if it is.
func (i Identity) Differs(other Identity) string {
	switch {
	case i.UID != other.UID:
		return fmt.Sprintf("the UID of its Namespace kube-system is %s, not %s", i.UIDText(), other.UIDText())
	case i.Etcd != other.Etcd:
		return fmt.Sprintf("the id of its etcd cluster is %d, not %d", i.Etcd, other.Etcd)
	case i.Prefix != other.Prefix:
		return fmt.Sprintf("its --prefix is %s, not %s", i.Prefix, other.Prefix)
	}
	return ""
}

// absolute returns a prefix of keys as kube-apiserver makes it absolute, without a slash at its end; of "" [DefaultPrefix].
func absolute(prefix string) string {
	if prefix == "" {
		prefix = DefaultPrefix
	}
	return strings.TrimSuffix(path.Join("/", prefix), "/")
}

// systemUID returns the UID of the stored Namespace kube-system; "" if it cannot be read.
func systemUID(value []byte) types.UID {
	system := new(corev1.Namespace)
	if decodeInto(system, value, namespaceKind) != nil {
		return ""
	}
	return system.UID
}
