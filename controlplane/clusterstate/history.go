package clusterstate

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// ErrOtherHistory: an API server has a revision that an etcd has not.
var ErrOtherHistory = errors.New("the API server and etcd are at different revisions")

// CheckSameHistory compares the revision of an API server with those of etcd before and after it. Two etcds that were
// restored from one snapshot have all in common that [CheckSameCluster] compares, and usually the ids of cluster and
// members, too; their revisions go apart with the first write. Of another one than the API server's, the error is
// [ErrOtherHistory], unless both happen to be at one revision. It is the same if etcd was restored under a running API
// server, whose watch caches are those of the lost history.
//
// The user needs the right to list the EndpointSlice kubernetes in the namespace default.
func CheckSameHistory(ctx context.Context, api rest.Interface, client *clientv3.Client) error {
	ctx, cancel := context.WithTimeout(ctx, apiPageTimeout)
	defer cancel()
	revision := func() (int64, error) {
		answer, err := client.Get(ctx, "health")
		if err != nil {
			return 0, fmt.Errorf("read the revision of etcd: %w", err)
		}
		return answer.Header.Revision, nil
	}
	before, err := revision()
	if err != nil {
		return err
	}
	// A list without a resource version is at least as new as the request, whether from etcd or from a watch cache.
	var list metav1.PartialObjectMetadataList
	slices := api.Get().AbsPath("/apis/discovery.k8s.io/v1/namespaces/"+metav1.NamespaceDefault+"/endpointslices").Param("fieldSelector", "metadata.name=kubernetes")
	if err := getJSON(ctx, slices, &list); err != nil {
		return fmt.Errorf("read the revision of the API server: %w", err)
	}
	served, err := strconv.ParseInt(list.ResourceVersion, 10, 64)
	if err != nil {
		return fmt.Errorf("read the revision of the API server: %w", err)
	}
	after, err := revision()
	switch {
	case err != nil:
		return err
	case served < before || served > after:
		return fmt.Errorf("%w: %d, and %d to %d; etcd is not the API server's, or was restored while it ran", ErrOtherHistory, served, before, after)
	}
	return nil
}
