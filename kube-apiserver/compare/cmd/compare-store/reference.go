package main

import (
	"encoding/binary"
	"fmt"
	"net"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/service/allocator"
	"k8s.io/kubernetes/pkg/registry/core/service/allocator/storage"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
	"k8s.io/kubernetes/pkg/registry/core/service/portallocator"
)

// prefix is the prefix of all keys of a kube-apiserver.
const prefix = "/registry"

// referenceAddresses opens the ClusterIP allocator like a kube-apiserver that keeps addresses in a bitmap.
func referenceAddresses(cidr string) opener {
	return func(endpoints []string) (server, error) {
		_, network, err := net.ParseCIDR(cidr)
		if err != nil {
			return server{}, err
		}
		var stored *storage.Etcd
		addresses, err := ipallocator.New(network, func(size int, spec string, staticBand int) (allocator.Interface, error) {
			stored, err = openReference(endpoints, serviceIPs, "serviceipallocations", size, spec, staticBand)
			return stored, err
		})
		if err != nil {
			return server{}, err
		}
		addresses.EnableMetrics()
		first := binary.BigEndian.Uint32(network.IP.To4()) + 1
		return server{
			allocate: func() (int, error) {
				ip, err := addresses.AllocateNext()
				if err != nil {
					return 0, err
				}
				return int(binary.BigEndian.Uint32(ip.To4()) - first), nil
			},
			close: closeReference(stored),
		}, nil
	}
}

// referenceNodePorts opens the NodePort allocator like a kube-apiserver.
func referenceNodePorts() opener {
	return func(endpoints []string) (server, error) {
		portRange, err := utilnet.ParsePortRange(nodePorts)
		if err != nil {
			return server{}, err
		}
		var stored *storage.Etcd
		ports, err := portallocator.New(*portRange, func(size int, spec string, staticBand int) (allocator.Interface, error) {
			stored, err = openReference(endpoints, serviceNodePorts, "servicenodeportallocations", size, spec, staticBand)
			return stored, err
		})
		if err != nil {
			return server{}, err
		}
		ports.EnableMetrics()
		return server{
			allocate: func() (int, error) {
				port, err := ports.AllocateNext()
				return port - portRange.Base, err
			},
			close: closeReference(stored),
		}, nil
	}
}

// openReference opens the stored allocator of either, and creates its object like the repair of a starting
// kube-apiserver.
func openReference(endpoints []string, key, resource string, size int, spec string, staticBand int) (*storage.Etcd, error) {
	codec, versioner, err := referenceCodec()
	if err != nil {
		return nil, err
	}
	config := storagebackend.NewDefaultConfig(prefix, codec)
	config.EncodeVersioner = versioner
	config.Transport.ServerList = endpoints
	config.CompactionInterval = 0
	stored, err := storage.NewEtcd(
		allocator.NewAllocationMapWithOffset(size, spec, staticBand),
		strings.TrimPrefix(key, prefix),
		config.ForResource(api.Resource(resource)),
	)
	if err != nil {
		return nil, err
	}
	object, err := stored.Get()
	if err == nil && object.ResourceVersion == "" {
		object.Range = spec
		err = stored.CreateOrUpdate(object)
	}
	if err != nil {
		stored.Destroy()
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return stored, nil
}

func closeReference(stored *storage.Etcd) func() error {
	return func() error {
		stored.Destroy()
		return nil
	}
}

// referenceCodec returns the codec with which a kube-apiserver encodes core objects for etcd.
func referenceCodec() (runtime.Codec, runtime.GroupVersioner, error) {
	return serverstorage.NewStorageCodec(serverstorage.StorageCodecConfig{
		StorageMediaType:  "application/vnd.kubernetes.protobuf",
		StorageSerializer: legacyscheme.Codecs,
		StorageVersion:    schema.GroupVersion{Version: "v1"},
		MemoryVersion:     api.SchemeGroupVersion,
	})
}

// decodeStored decodes a stored object like a kube-apiserver.
func decodeStored(value []byte) (*api.RangeAllocation, error) {
	codec, _, err := referenceCodec()
	if err != nil {
		return nil, err
	}
	object := new(api.RangeAllocation)
	return object, runtime.DecodeInto(codec, value, object)
}
