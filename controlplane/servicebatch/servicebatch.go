// Package servicebatch brings Services and IPAddress objects of client-go to the core library.
package servicebatch

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Add adds the claims of a Service to a batch.
func Add(batch *rangekeeper.Services, s *corev1.Service) {
	batch.Add(s.Spec.ClusterIP, s.Spec.ClusterIPs)
	for _, p := range s.Spec.Ports {
		if p.NodePort != 0 {
			batch.AddPort(string(p.Protocol), p.NodePort)
		}
	}
	batch.SetHealthCheckNodePort(s.Spec.HealthCheckNodePort)
}

// ipAddress returns an IPAddress object as the core has it.
func ipAddress(o *networkingv1.IPAddress) *rangekeeper.IPAddress {
	address := &rangekeeper.IPAddress{
		Name:      o.Name,
		ManagedBy: o.Labels[networkingv1.LabelManagedBy],
		Created:   o.CreationTimestamp.Time,
	}
	// Zero if there is none.
	address.Revision, _ = strconv.ParseUint(o.ResourceVersion, 10, 64)
	if p := o.Spec.ParentRef; p == nil {
		address.WithoutParent = true
	} else {
		address.ParentGroup, address.ParentResource = p.Group, p.Resource
		address.ParentNamespace, address.ParentName = p.Namespace, p.Name
	}
	return address
}

// ObserveIPAddresses has an audit observe IPAddress objects.
func ObserveIPAddresses(core *rangekeeper.Audit, objects []networkingv1.IPAddress) error {
	var batch rangekeeper.IPAddresses
	for some := range slices.Chunk(objects, batchSize) {
		batch.Reset()
		for i := range some {
			batch.Add(ipAddress(&some[i]))
		}
		if err := core.ObserveIPAddresses(&batch); err != nil {
			return err
		}
	}
	return nil
}

// batchSize is how many objects cross to the core at once.
const batchSize = 4096

// Claims returns what n Services claim, each by its place among them; see [rangekeeper.Services.Claims].
func Claims(n int, service func(int) *corev1.Service) (all []rangekeeper.Claim, err error) {
	var batch rangekeeper.Services
	for from := 0; from < n; from += batchSize {
		batch.Reset()
		for i := from; i < min(from+batchSize, n); i++ {
			Add(&batch, service(i))
		}
		claims, err := batch.Claims()
		if err != nil {
			return nil, err
		}
		for _, claim := range claims {
			claim.Service += from
			all = append(all, claim)
		}
	}
	return all, nil
}

// InUse returns the values of a range that Services use, in the form of a bitmap. There are n Services, all of a
// cluster.
func InUse(n int, service func(int) *corev1.Service, values rangekeeper.Range) ([]byte, error) {
	core, err := rangekeeper.NewAudit()
	if err != nil {
		return nil, err
	}
	defer core.Close()
	// What is recorded does not matter.
	at, err := core.AddUnseen(values, nil)
	if err != nil {
		return nil, err
	}
	err = core.ObserveAll(n, func(batch *rangekeeper.Services, from, to int) {
		for i := from; i < to; i++ {
			Add(batch, service(i))
		}
	})
	if err != nil {
		return nil, err
	}
	report, err := core.Finish()
	if err != nil {
		return nil, err
	}
	defer report.Close()
	return report.Snapshot(at, rangekeeper.ValuesInUse, nil)
}
