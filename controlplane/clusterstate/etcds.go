package clusterstate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// maxInstants is the number of attempts to find an instant of two etcds. One takes three requests, a few milliseconds,
// in which the etcd of Services must not be written.
const maxInstants = 200

// ReadEtcds is as [ReadEtcd] for a cluster whose kube-apiservers keep Services in another etcd, which also has the
// ranges (--etcd-servers-overrides=/services#...). Both are read as they were at one instant: [State.Revision] is that
// of the first one, [State.ServicesRevision] that of the other one.
//
// A kube-apiserver creates an IPAddress object before it stores the Service, and deletes it after the Service. So what
// is found at one instant was so, while a Service that is created or deleted between two reads would look like a fault.
func ReadEtcds(ctx context.Context, client, ofServices *clientv3.Client, o Options) (*State, error) {
	return readAgain(func() (*State, error) { return readAtOneInstant(ctx, client, ofServices, o) })
}

func readAtOneInstant(ctx context.Context, client, ofServices *clientv3.Client, o Options) (*State, error) {
	p := o.prefixes()
	revision, ofServicesRevision, err := instant(ctx, client, ofServices, p.services)
	if err != nil {
		return nil, err
	}
	isServices := func(prefix string) bool { return prefix == p.services || prefix == p.ranges }
	o.Revision = revision
	s, err := readAtOneRevision(ctx, client, o, slices.DeleteFunc(p.all(), isServices))
	if err != nil {
		return nil, err
	}
	o.Revision = ofServicesRevision
	services, err := readAtOneRevision(ctx, ofServices, o, []string{p.services, p.ranges, p.system})
	if err != nil {
		return nil, fmt.Errorf("the etcd of Services: %w", err)
	}
	switch other := services.Identity; {
	case other.Etcd != 0 && other.Etcd == s.Identity.Etcd:
		return nil, errors.New("the etcd of Services is the same one; leave out --services-endpoints")
	case other.UID != "" && s.Identity.UID == "":
		return nil, errors.New("the etcd of Services has the Namespace kube-system, and the other one has not: name them the other way round")
	case other.UID != "" && other.UID != s.Identity.UID:
		return nil, errors.New("the etcd of Services is that of another cluster: it has a Namespace kube-system of another UID")
	}
	s.Services, s.Ranges = services.Services, services.Ranges
	s.Unreadable = append(s.Unreadable, services.Unreadable...)
	slices.SortStableFunc(s.Unreadable, compareKeys)
	if s.Bootstrap != nil {
		s.Bootstrap.Service = services.Bootstrap.Service
	}
	s.ServicesRevision = services.Revision
	return s, nil
}

// instant returns two revisions that were the newest ones of their etcds at one instant: that of Services was the same
// before and after the other one was asked. They are those of answers about a key that the user may read.
func instant(ctx context.Context, client, ofServices *clientv3.Client, key string) (revision, ofServicesRevision int64, err error) {
	newest := func(client *clientv3.Client) (int64, error) {
		page, err := readPage(ctx, client, key)
		if err != nil {
			return 0, err
		}
		return page.Header.Revision, nil
	}
	before, err := newest(ofServices)
	for range maxInstants {
		if err != nil {
			return 0, 0, fmt.Errorf("the etcd of Services: %w", err)
		}
		if revision, err = newest(client); err != nil {
			return 0, 0, err
		}
		after := int64(0)
		if after, err = newest(ofServices); err == nil && after == before {
			return revision, before, nil
		}
		before = after
	}
	return 0, 0, errNoInstant
}

var errNoInstant = errors.New("the etcd of Services is written all the time, so that no instant of both etcds can be read; run the command again")
