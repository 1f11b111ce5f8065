package preflight_test

import (
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/preflight"
)

// TestUnreadable takes an object out of a cluster without faults, or with one: what depends on the object is unknown.
func TestUnreadable(t *testing.T) {
	const key = "/registry/key"
	withWebhook := func(c cluster) cluster {
		c.webhook(webhook("ipaddresses"))
		return c
	}
	withPolicy := func(c cluster) cluster {
		c.policy(nil, admissionv1.Deny)
		return c
	}
	withoutAddress := func(c cluster) cluster {
		c.IPAddresses = nil
		return c
	}
	withoutService := func(c cluster) cluster {
		c.Services[0].Name = "other"
		c.Services[0].Spec.ClusterIP, c.Services[0].Spec.ClusterIPs = "10.96.0.9", []string{"10.96.0.9"}
		return c
	}
	withoutCIDR := func(c cluster) cluster {
		c.ServiceCIDRs = nil
		return c
	}
	for _, c := range []struct {
		name, kind, to string
		cluster        cluster
		unknown, ok    []string
	}{
		{"nothing but a Service", audit.KindService, "1.36", objects("v1.35.4"), []string{"Findings", "Leaks", "FirstRepair"}, []string{"ServiceCIDR", "Webhooks", "Policies"}},
		{"Service of a leak in a bitmap", audit.KindService, "1.33", withoutService(bitmaps("v1.32.2")), []string{"Leak", "FirstRepair"}, []string{"ServiceCIDR"}},
		{"Service of an object", audit.KindService, "1.36", withoutService(objects("v1.35.4")), []string{"Leak", "FirstRepair"}, []string{"ServiceCIDR"}},
		{"IPAddress of a Service", audit.KindIPAddress, "1.36", withoutAddress(objects("v1.35.4")), []string{"kubernetes", "FirstRepair"}, []string{"ServiceCIDR"}},
		{"default ServiceCIDR", audit.KindServiceCIDR, "1.36", withoutCIDR(objects("v1.35.4")), []string{"Findings", "FirstRepair", "ServiceCIDR"}, []string{"Webhooks"}},
		{"webhook", "ValidatingWebhookConfiguration", "1.36", objects("v1.35.4"), []string{"Webhooks"}, []string{"Findings", "Leaks", "FirstRepair", "Policies"}},
		{"policy", "MutatingAdmissionPolicyBinding", "1.36", objects("v1.35.4"), []string{"Policies"}, []string{"Findings", "Leaks", "FirstRepair", "Webhooks"}},
		{"whether a webhook is called", audit.KindIPAddress, "1.36", withWebhook(objects("v1.35.4")), []string{"Webhooks"}, []string{"Policies"}},
		{"whether a policy is evaluated", audit.KindServiceCIDR, "1.36", withPolicy(withoutCIDR(objects("v1.35.4"))), []string{"Policies"}, []string{"Webhooks"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.cluster.Unreadable = []clusterstate.Unreadable{{Kind: c.kind, Key: key, Problem: "damaged"}}
			for _, atRest := range []bool{true, false} {
				r := newReport(t, c.cluster, preflight.Options{
					To: target(t, c.to), ClusterIPRanges: flag, AtRest: atRest, Repair: command("repair"),
				})
				levelOf := func(name string) (levels []preflight.Level) {
					for _, check := range r.Checks {
						if check.Name == name {
							levels = append(levels, check.Level)
						}
					}
					return levels
				}
				for _, name := range c.unknown {
					if levels := levelOf(name); !slices.Equal(levels, []preflight.Level{preflight.Unknown}) {
						t.Errorf("%s is %q, not unknown", name, levels)
					}
				}
				for _, name := range c.ok {
					if levels := levelOf(name); !slices.Equal(levels, []preflight.Level{preflight.OK}) {
						t.Errorf("%s is %q, not ok", name, levels)
					}
				}
				for _, check := range r.Checks {
					if check.Level == preflight.Unknown && !strings.Contains(check.Message, key) {
						t.Errorf("%s does not name the object: %s", check.Name, check.Message)
					}
					if strings.Contains(check.Command, "repair") {
						t.Errorf("a repair that is refused: %+v", check)
					}
				}
			}
		})
	}
}
