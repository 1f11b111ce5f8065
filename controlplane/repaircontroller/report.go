package repaircontroller

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// report reports a finding about a Service in an Event and in the log.
func (r *Repairer) report(ctx context.Context, service *corev1.Service, finding rangekeeper.Finding, values rangekeeper.Range) {
	if r.config.Recorder != nil && !r.config.DryRun {
		r.config.Recorder.Eventf(service, nil, corev1.EventTypeWarning, finding.Reason.String(), actionOf(finding.Reason), "%s", note(finding, values))
	}
	if r.config.Log != nil {
		r.config.Log.WarnContext(ctx, finding.Message, "reason", finding.Reason.String(), "namespace", service.Namespace, "service", service.Name)
	}
}

// reportFreed logs which leaked values of a range were freed, or in a dry run would be.
func (r *Repairer) reportFreed(ctx context.Context, report *rangekeeper.Report, at int) {
	if r.config.Log == nil {
		return
	}
	message := "values that no Service uses were freed"
	if r.config.DryRun {
		message = "dry run: values that no Service uses would be freed"
	}
	for run := range report.Runs(at, rangekeeper.ValuesClear, true) {
		values := run.First.String()
		if run.Len > 1 {
			values += "-" + run.Last.String()
		}
		r.config.Log.InfoContext(ctx, message, "controller", r.config.Controller.Name, "values", values)
	}
}

// actionOf returns what Events say was done when a finding was made.
func actionOf(reason rangekeeper.Reason) string {
	switch reason {
	case rangekeeper.ReasonClusterIPNotValid:
		return "ClusterIPValidation"
	case rangekeeper.ReasonPortNotAllocated, rangekeeper.ReasonPortAlreadyAllocated, rangekeeper.ReasonPortOutOfRange:
		return "PortAllocation"
	default:
		return "ClusterIPAllocation"
	}
}

// note returns the text of the Event about a finding, which is that of kube-apiserver's
// (pkg/registry/core/service/ipallocator/controller/repair.go, portallocator/controller/repair.go): people and tools
// know it. values is the range that the finding concerns.
func note(finding rangekeeper.Finding, values rangekeeper.Range) string {
	address, err := netip.ParseAddr(finding.Value)
	family := corev1.IPv4Protocol
	if address.Is6() {
		family = corev1.IPv6Protocol
	}
	switch finding.Reason {
	case rangekeeper.ReasonPortNotAllocated:
		return fmt.Sprintf("Port %s is not allocated; repairing", finding.Value)
	case rangekeeper.ReasonPortAlreadyAllocated:
		return fmt.Sprintf("Port %s was assigned to multiple services; please recreate service", finding.Value)
	case rangekeeper.ReasonPortOutOfRange:
		return fmt.Sprintf("Port %s is not within the port range %s; please recreate service", finding.Value, values)
	case rangekeeper.ReasonClusterIPNotValid:
		if err != nil {
			return fmt.Sprintf("Cluster IP %s is not a valid IP; please recreate service", finding.Value)
		}
		return fmt.Sprintf("Cluster IP %s(%s) is of ip family that is no longer configured on cluster; please recreate service", finding.Value, family)
	case rangekeeper.ReasonClusterIPNotAllocated:
		return fmt.Sprintf("Cluster IP [%s]:%s is not allocated; repairing", family, finding.Value)
	case rangekeeper.ReasonClusterIPAlreadyAllocated:
		return fmt.Sprintf("Cluster IP [%s]:%s was assigned to multiple services; please recreate service", family, finding.Value)
	case rangekeeper.ReasonClusterIPOutOfRange:
		return fmt.Sprintf("Cluster IP [%s]:%s is not within the service CIDR %s; please recreate service", family, finding.Value, values)
	case rangekeeper.ReasonServiceCIDRFull:
		return fmt.Sprintf("Service CIDR %s is full; you must widen the CIDR in order to create new services for Cluster IP [%s]:%s", values, family, finding.Value)
	default:
		return finding.Message
	}
}
