package repaircontroller

import (
	"context"
	"fmt"
	"time"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/servicecidr"
	"github.com/rangekeeper/rangekeeper/controlplane/servicebatch"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Objects are the ServiceCIDRs and IPAddress objects of a cluster at a revision.
type Objects struct {
	Revision     int64
	ServiceCIDRs []networkingv1.ServiceCIDR
	IPAddresses  servicebatch.AddressList
	// UnreadableCIDRs and UnreadableAddresses are the names of more of each, which cannot be decoded.
	UnreadableCIDRs, UnreadableAddresses []string
	// Default is the name of the ServiceCIDR of the API servers' flag, and Kept why that is another range than the
	// configured one; nil if it is not.
	Default string
	Kept    error
}

// Look is a pass over ClusterIPs that are IPAddress objects, which the API server repairs and reports: it sets metrics
// only.
func (r *Repairer) Look(ctx context.Context, read func(ctx context.Context) (*Objects, error)) error {
	if r.config.DryRun || r.config.Metrics == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	started := time.Now()
	result, err := r.look(ctx, read)
	r.config.Metrics.looked(r.config.Controller, time.Since(started), result, err)
	return err
}

func (r *Repairer) look(ctx context.Context, read func(ctx context.Context) (*Objects, error)) (Result, error) {
	now := time.Now()
	objects, err := read(ctx)
	if err != nil {
		return Result{}, err
	}
	services, _, err := r.config.Services.list(ctx, objects.Revision)
	if err != nil {
		return Result{}, fmt.Errorf("list Services: %w", err)
	}
	core, err := rangekeeper.NewIPAddressAudit(now)
	if err != nil {
		return Result{}, err
	}
	defer core.Close()
	result := Result{Services: len(services)}
	for i := range objects.ServiceCIDRs {
		object := &objects.ServiceCIDRs[i]
		isReady := servicecidr.IsReady(object)
		for _, values := range object.Spec.CIDRs {
			if _, err := core.AddServiceCIDR(values, isReady); err != nil {
				return Result{}, fmt.Errorf("ServiceCIDR %s: %w", object.Name, err)
			}
			one := RangeResult{RangeName: RangeName{object.Name, values}, IsObject: true, NotReady: !isReady}
			if object.Name == objects.Default {
				one.Kept = objects.Kept
			}
			result.Ranges = append(result.Ranges, one)
		}
	}
	if err := objects.IPAddresses.Observe(core); err != nil {
		return Result{}, err
	}
	err = core.ObserveAll(len(services), func(batch *rangekeeper.Services, from, to int) {
		for _, service := range services[from:to] {
			servicebatch.Add(batch, service)
			batch.Name(service.Namespace, service.Name, service.CreationTimestamp.Time, 0)
		}
	})
	if err != nil {
		return Result{}, err
	}
	for _, name := range objects.UnreadableAddresses {
		if err := core.ObserveUnreadable(rangekeeper.SubjectIPAddress, name); err != nil {
			return Result{}, err
		}
	}
	for _, name := range objects.UnreadableCIDRs {
		if err := core.ObserveUnreadable(rangekeeper.SubjectServiceCIDR, name); err != nil {
			return Result{}, err
		}
	}
	report, err := core.Finish()
	if err != nil {
		return Result{}, err
	}
	defer report.Close()
	for i := range result.Ranges {
		counts, of := report.Range(i), &result.Ranges[i]
		of.Size, of.Used, of.InUse = counts.Size, counts.Stored, counts.InUse
	}
	// An object that only refers to another Service than the one that uses its address is no leak.
	leaks, err := report.Leaks()
	if err != nil {
		return Result{}, err
	}
	for _, leak := range leaks {
		if leak.Range >= 0 {
			result.Ranges[leak.Range].Leaked++
		}
	}
	if result.Findings, err = report.Findings(); err != nil {
		return Result{}, err
	}
	result.Full, err = fullRanges(report)
	return result, err
}
