package main

import (
	"context"
	"errors"

	clientv3 "go.etcd.io/etcd/client/v3"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

func ourAddresses(cidr string) opener { return ours(serviceIPs, cidr, rangekeeper.ParseCIDR) }

func ourNodePorts() opener { return ours(serviceNodePorts, nodePorts, rangekeeper.ParsePortRange) }

// ours opens an etcdstore with the reference's strategy.
func ours(key, spec string, parse func(string) (rangekeeper.Range, error)) opener {
	return func(endpoints []string) (server, error) {
		values, err := parse(spec)
		if err != nil {
			return server{}, err
		}
		client, err := clientv3.New(clientv3.Config{Endpoints: endpoints})
		if err != nil {
			return server{}, err
		}
		store, err := etcdstore.Open(etcdstore.Config{
			Client:   client,
			Key:      key,
			Range:    values,
			Strategy: rangekeeper.DynamicBandFirst,
		})
		if err != nil {
			return server{}, errors.Join(err, client.Close())
		}
		ctx := context.Background()
		stop := func() error { return errors.Join(store.Close(ctx), client.Close()) }
		if _, err := store.Init(ctx); err != nil {
			return server{}, errors.Join(err, stop())
		}
		return server{
			allocate: func() (int, error) {
				allocated, err := store.AllocateNext(ctx)
				if err != nil {
					return 0, err
				}
				offset, _ := values.OffsetOf(allocated.Value)
				return int(offset), nil
			},
			close: stop,
		}, nil
	}
}
