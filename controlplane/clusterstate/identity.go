package clusterstate

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Identity tells a cluster from others. A file that was made for one cluster has it, so that it is refused by others.
type Identity struct {
	// UID is that of the Namespace kube-system. A cluster has it for life, and takes it along into a restored etcd. It
	// is empty if there is no such Namespace, or it cannot be read.
	UID types.UID `json:"kubeSystemUID"`
	// Etcd is the id of the etcd cluster; 0 for kine, and where no running etcd was read. It depends on the addresses
	// of the first members and on a token that is usually the same (etcd, server/etcdserver/api/membership/cluster.go),
	// so two clusters can have one id.
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
	case i.UID != "" && other.UID == "" && i.Prefix != other.Prefix: // nothing is below the other one, maybe
		return fmt.Sprintf("its --prefix is %s, not %s", i.Prefix, other.Prefix)
	case i.UID != other.UID:
		return fmt.Sprintf("the UID of its Namespace kube-system is %s, not %s", i.UIDText(), other.UIDText())
	case i.Etcd != other.Etcd:
		return fmt.Sprintf("the id of its etcd cluster is %d, not %d", i.Etcd, other.Etcd)
	case i.Prefix != other.Prefix:
		return fmt.Sprintf("its --prefix is %s, not %s", i.Prefix, other.Prefix)
	}
	return ""
}

// ErrOtherCluster: an API server and an etcd are of two clusters.
var ErrOtherCluster = errors.New("the API server and etcd are of different clusters")

// CheckSameCluster compares the Namespace kube-system of an API server with the one in etcd below a prefix: of another
// cluster the error is ErrOtherCluster. In a new cluster both have none. One that is encrypted at rest is not compared.
func CheckSameCluster(ctx context.Context, api rest.Interface, client *clientv3.Client, prefix string) error {
	ctx, cancel := context.WithTimeout(ctx, apiPageTimeout)
	defer cancel()
	served, err := getSystem(ctx, api)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read the Namespace %s: %w", metav1.NamespaceSystem, err)
	}
	key := Options{Prefix: prefix}.prefixes().system
	answer, err := readPage(ctx, client, key)
	if err != nil {
		return fmt.Errorf("read %s: %w", key, err)
	}
	switch {
	case len(answer.Kvs) == 0 && served == "":
		return nil
	case len(answer.Kvs) == 0:
		return fmt.Errorf("%w: the Namespace %s of the API server has the UID %s, and etcd has no key %s", ErrOtherCluster, metav1.NamespaceSystem, served, key)
	case served == "":
		return fmt.Errorf("the API server has no Namespace %s, and etcd has the key %s", metav1.NamespaceSystem, key) // or it was just created
	}
	if uid := systemUID(answer.Kvs[0].Value); uid != "" && uid != served {
		return fmt.Errorf("%w: the Namespace %s of the API server has the UID %s, and that in etcd %s", ErrOtherCluster, metav1.NamespaceSystem, served, uid)
	}
	return nil
}

// absolute returns a prefix of keys as kube-apiserver makes it absolute, without a slash at its end; of ""
// [DefaultPrefix].
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
