// Package servicebatch brings Services and IPAddress objects of client-go to the core library.
package servicebatch

import (
	"time"

	corev1 "k8s.io/api/core/v1"

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

// batchSize is how many objects cross to the core at once.
const batchSize = 4096

// Claims returns what n Services claim, each by its place among them; see [rangekeeper.Services.Claims].
func Claims(n int, service func(int) *corev1.Service) (all []rangekeeper.Claim, err error) {
	err = claims(n, func(batch *rangekeeper.Services, from, to int) {
		for i := from; i < to; i++ {
			Add(batch, service(i))
		}
	}, func(some []rangekeeper.Claim) { all = append(all, some...) })
	return all, err
}

// claims calls see with what n Services claim, some at a time, each by its place among all of them.
func claims(n int, fill func(batch *rangekeeper.Services, from, to int), see func(some []rangekeeper.Claim)) error {
	var batch rangekeeper.Services
	for from := 0; from < n; from += batchSize {
		batch.Reset()
		fill(&batch, from, min(from+batchSize, n))
		some, err := batch.Claims()
		if err != nil {
			return err
		}
		for i := range some {
			some[i].Service += from
		}
		see(some)
	}
	return nil
}

// Claims calls see with what the Services claim, some at a time, each by its place in the list; see
// [rangekeeper.Services.Claims].
func (l *List) Claims(see func(some []rangekeeper.Claim)) error {
	return claims(l.Len(), l.fill, see)
}

// ClaimsOf returns what one Service claims.
func (l *List) ClaimsOf(i int) ([]rangekeeper.Claim, error) {
	var batch rangekeeper.Services
	l.fill(&batch, i, i+1)
	return batch.Claims()
}

func (l *List) fill(batch *rangekeeper.Services, from, to int) {
	for _, s := range l.between(from, to) {
		s.add(batch)
	}
}

// fillNamed is as fill, with names, times and create revisions.
func (l *List) fillNamed(batch *rangekeeper.Services, from, to int) {
	for _, s := range l.between(from, to) {
		s.add(batch)
		batch.Name(s.Namespace, s.Name, time.Unix(s.Created, 0), uint64(s.CreateRevision))
	}
}

// Observe has an audit observe the Services; with names if it is one of IPAddress objects.
func (l *List) Observe(core *rangekeeper.Audit, named bool) error {
	if named {
		return core.ObserveAll(l.Len(), l.fillNamed)
	}
	return core.ObserveAll(l.Len(), l.fill)
}

// ObserveClaimants has a report observe the Services again, as [rangekeeper.Report.ObserveClaimants] says.
func (l *List) ObserveClaimants(core *rangekeeper.Report) error {
	return core.ObserveClaimants(l.Len(), l.fillNamed)
}

// ObserveForms has a report observe which values the Services should have.
func (l *List) ObserveForms(core *rangekeeper.Report) error {
	forms := make([]rangekeeper.ServiceForm, 0, l.Len())
	for _, s := range l.All() {
		forms = append(forms, s.Form)
	}
	return core.ObserveForms(forms)
}

// InUse returns the values of a range that the Services, all of a cluster, use, in the form of a bitmap.
func (l *List) InUse(values rangekeeper.Range) ([]byte, error) {
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
	if err := l.Observe(core, false); err != nil {
		return nil, err
	}
	report, err := core.Finish()
	if err != nil {
		return nil, err
	}
	defer report.Close()
	return report.Snapshot(at, rangekeeper.ValuesInUse, nil)
}
