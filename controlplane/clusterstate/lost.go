package clusterstate

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
	networkingv1 "k8s.io/api/networking/v1"
)

// DeleteLostIPAddress deletes the IPAddress object of an address whose Service, NAMESPACE/NAME, does not exist; prefix
// as of [RangeKey]. It does nothing if there is no object. The error says if the object is of something else, or if one
// of the two was written meanwhile; nothing is deleted then.
func DeleteLostIPAddress(ctx context.Context, client *clientv3.Client, prefix, address, service string) error {
	p := Options{Prefix: prefix}.prefixes()
	key := p.ipAddresses + address
	page, err := readPage(ctx, client, key)
	if err != nil {
		return fmt.Errorf("read %s: %w", key, err)
	}
	if len(page.Kvs) == 0 {
		return nil
	}
	object := new(networkingv1.IPAddress)
	if err := decodeInto(object, page.Kvs[0].Value, ipAddressKind); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	parent := object.Spec.ParentRef
	if parent == nil || parent.Group != "" || parent.Resource != "services" || parent.Namespace+"/"+parent.Name != service {
		return fmt.Errorf("%s: is not of the Service %s", key, service)
	}
	// The value and not the mod revision: if etcd is restored meanwhile, it can have another object of that revision.
	done, err := client.Txn(ctx).
		If(clientv3.Compare(clientv3.Value(key), "=", string(page.Kvs[0].Value)), clientv3.Compare(clientv3.Version(p.services+service), "=", 0)).
		Then(clientv3.OpDelete(key)).Commit()
	if err != nil {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	if !done.Succeeded {
		return fmt.Errorf("%s: it, or the Service %s, was written meanwhile", key, service)
	}
	return nil
}
