package clusterstate

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
	networkingv1 "k8s.io/api/networking/v1"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// The last segments of the keys of the bitmaps.
const (
	ServiceIPs          = "serviceips"
	SecondaryServiceIPs = "secondaryserviceips"
	ServiceNodePorts    = "servicenodeports"
)

// DefaultServiceCIDR is the name of the object that a kube-apiserver creates for --service-cluster-ip-range.
const DefaultServiceCIDR = "kubernetes"

// ClusterIPRecords says where the cluster records its ClusterIPs.
func (s *State) ClusterIPRecords() rangekeeper.ClusterIPRecords {
	objects := s.countObjects()
	if s.Unseen != nil {
		return rangekeeper.ClusterIPRecordsOf(objects, rangekeeper.Unseen)
	}
	_, isPrimary := s.Ranges[ServiceIPs]
	_, isSecondary := s.Ranges[SecondaryServiceIPs]
	return recordsOf(objects, isPrimary || isSecondary)
}

// Content says what the store has of the cluster.
func (s *State) Content() rangekeeper.StoreContent {
	others := 0
	for _, isThere := range []bool{s.Unseen != nil, s.HasSystem, s.UpgradedAt > 0, s.Bootstrap != nil && s.Bootstrap.hasAny()} {
		if isThere {
			others++
		}
	}
	return rangekeeper.StoreContentOf(s.Services.Len()+s.CountUnreadable(serviceKind.name), s.countObjects(), others)
}

// countObjects counts the ServiceCIDR and IPAddress objects.
func (s *State) countObjects() int {
	return len(s.ServiceCIDRs) + s.IPAddresses.Len() + s.CountUnreadable(serviceCIDRKind.name) + s.CountUnreadable(ipAddressKind.name)
}

func recordsOf(objects int, hasBitmap bool) rangekeeper.ClusterIPRecords {
	bitmap := rangekeeper.Missing
	if hasBitmap {
		bitmap = rangekeeper.Initialised
	}
	return rangekeeper.ClusterIPRecordsOf(objects, bitmap)
}

// ReadClusterIPRecords asks an etcd where its cluster records ClusterIPs; prefix as of [RangeKey]. It reads a few keys,
// whatever the size of the cluster. The error wraps [ErrUnreachable] if etcd does not answer.
func ReadClusterIPRecords(ctx context.Context, client *clientv3.Client, prefix string) (rangekeeper.ClusterIPRecords, error) {
	p := Options{Prefix: prefix}.prefixes()
	count := func(key string, options ...clientv3.OpOption) (int, error) {
		page, err := readPage(ctx, client, key, append(options, clientv3.WithLimit(1), clientv3.WithKeysOnly())...)
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", key, err)
		}
		return len(page.Kvs), nil
	}
	objects, bitmaps := 0, 0
	for _, key := range []string{p.serviceCIDRs, p.ipAddresses} {
		n, err := count(key, clientv3.WithPrefix())
		if err != nil {
			return rangekeeper.RecordsUnknown, err
		}
		objects += n
	}
	for _, name := range []string{ServiceIPs, SecondaryServiceIPs} {
		n, err := count(p.ranges + name)
		if err != nil {
			return rangekeeper.RecordsUnknown, err
		}
		bitmaps += n
	}
	return recordsOf(objects, bitmaps > 0), nil
}

// ReadDefaultServiceCIDR returns the ranges of ClusterIPs that the kube-apiservers of a cluster with IPAddress objects
// are configured with, as its ServiceCIDR kubernetes has them; nil if there is none. prefix as of [RangeKey].
func ReadDefaultServiceCIDR(ctx context.Context, client *clientv3.Client, prefix string) ([]string, error) {
	key := Options{Prefix: prefix}.prefixes().serviceCIDRs + DefaultServiceCIDR
	page, err := readPage(ctx, client, key)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	if len(page.Kvs) == 0 {
		return nil, nil
	}
	object := new(networkingv1.ServiceCIDR)
	if err := decodeInto(object, page.Kvs[0].Value, serviceCIDRKind); err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return object.Spec.CIDRs, nil
}
