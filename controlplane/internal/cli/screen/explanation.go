package screen

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/runbook"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Entry writes an entry of the runbook, for the user of a program.
func (s *Screen) Entry(e runbook.Entry, program string) {
	s.text(0, bold, e.Name+": "+e.Title)
	for _, part := range []struct{ title, text string }{{"Meaning", e.Meaning}, {"Risk", e.Risk}, {"Remedy", e.Remedy}} {
		s.b.WriteByte('\n')
		s.text(0, bold, part.title)
		s.text(2, "", Called(program, part.text))
	}
	s.b.WriteString("\nRunbook: " + e.Page() + "\n")
}

// Explanation writes all about one value, for the user of a program.
func (s *Screen) Explanation(e *audit.Explanation, program string) {
	line := func(label, text string) {
		for i, line := range Wrapped(text, max(s.width-12, 20), 0) {
			if i > 0 {
				label = ""
			} else {
				label += ":"
			}
			fmt.Fprintf(&s.b, "%-11s %s\n", label, line)
		}
	}
	unknown := func(kind string) string {
		if keys := e.UnreadableKeys(kind); keys != "" {
			return "unknown: " + Printable(keys) + " cannot be read"
		}
		return ""
	}
	line("Value", cmp.Or(Printable(e.Value), `""`))
	switch {
	case len(e.Places) > 0:
	case unknown(audit.KindServiceCIDR) != "":
		line("Range", unknown(audit.KindServiceCIDR))
	case e.RangeUnknown && slices.ContainsFunc(e.Findings, func(f audit.Finding) bool { return f.IsLost() }):
		line("Range", "not known: its stored object is missing or cannot be read")
	case e.RangeUnknown && len(e.Unknown) > 0:
		line("Range", "not known")
	case e.RangeUnknown:
		flag := "--service-node-port-range"
		if strings.ContainsAny(e.Value, ".:") {
			flag = "--service-cluster-ip-range"
		}
		line("Range", "not known over the Kubernetes API; name it with "+flag)
	default:
		text := "none hands it out"
		if len(e.Around) > 0 {
			text += ", though it lies in " + strings.Join(e.Around, " and ") +
				" (a network or broadcast address, or past the last one that a bitmap of IPv6 tracks)"
		}
		line("Range", text)
		repair := "changes nothing"
		isPort := slices.ContainsFunc(e.Findings, func(f audit.Finding) bool { return f.Reason == rangekeeper.ReasonPortOutOfRange.String() })
		switch {
		case len(e.Services) == 0:
		case isPort:
			repair += "; the owner of the Service must change it"
		default:
			repair += "; the owner of the Service must recreate it"
		}
		if !slices.ContainsFunc(e.Findings, func(f audit.Finding) bool { return f.IsOfBootstrap() }) {
			line("Repair", repair)
		}
	}
	for _, p := range e.Places {
		mode := string(p.Mode)
		if p.NotReady {
			mode += ", not ready: no new Service gets an address of it"
		}
		line("Range", fmt.Sprintf("%s %s (%s)", p.Name, p.Range, mode))
		allocated := "no"
		switch {
		case p.Allocated == nil && p.State.InUse:
			allocated = "unknown: a Service uses it, but the bitmap is not seen"
		case p.Allocated == nil:
			allocated = "unknown: no Service uses it, and the bitmap is not seen"
		case p.State.Stored:
			allocated = "yes"
		case p.Mode == audit.ModeIPAddress:
			allocated = cmp.Or(unknown(audit.KindIPAddress), allocated)
		}
		line("Band", p.Band)
		line("Allocated", allocated)
		line("Repair", repairOf(p, e))
	}
	services := cmp.Or(unknown(audit.KindService), "none")
	if len(e.Services) > 0 {
		services = Printable(strings.Join(e.Services, ", "))
		if keys := e.UnreadableKeys(audit.KindService); keys != "" {
			services += ", and perhaps " + Printable(keys) + ", which cannot be read"
		}
	}
	line("Services", services)
	if conflict := e.Conflict(); conflict != "" {
		line("Conflict", Printable(conflict))
	}
	if e.ParentRef != "" {
		line("Object", "its IPAddress object is of "+Printable(e.ParentRef))
	}
	for _, u := range e.Unreadable { // over the Kubernetes API the key is the name
		if u.Kind == audit.KindIPAddress && strings.HasSuffix("/"+u.Key, "/"+e.Value) {
			line("Object", Printable(u.Key)+" cannot be read, and may be of any Service")
		}
	}
	for _, u := range e.Unknown {
		line("Unknown", escaped(u.Message))
	}
	for _, f := range e.Findings {
		if len(f.Claimants) == 0 {
			continue
		}
		for _, c := range f.Claimants {
			line("Claimant", fmt.Sprintf("%s, created %s, %s", Printable(c.Namespace+"/"+c.Name), cmp.Or(c.CreationTimestamp, "at an unknown time"), doesAbout(f, c)))
		}
		break // the same for all findings about the value
	}
	if e.IsLeaked() && unknown(audit.KindService) != "" {
		line("Finding", "perhaps a leak: recorded as allocated, but no Service that can be read uses it")
	} else if e.IsLeaked() {
		line("Finding", "leak: recorded as allocated, but no Service uses it")
	}
	shown := map[string]bool{} // findings about several Services may be the same
	for _, f := range e.Findings {
		if text := f.Reason + ": " + f.Message; !shown[text] {
			line("Finding", escaped(text))
			shown[text] = true
		}
		if entry, ok := runbook.Named(f.Reason); ok && !shown[f.Reason] {
			shown[f.Reason] = true
			line("Risk", entry.Risk)
			if len(e.Unreadable) == 0 {
				line("Remedy", Called(program, remedyOf(entry, e.Value)))
			}
		}
	}
	if slices.ContainsFunc(e.Unreadable, func(u audit.Unreadable) bool { return !u.Encrypted }) {
		line("Remedy", "restore or delete in etcd what cannot be read; nothing is repaired before that")
	} else if len(e.Unreadable) > 0 {
		line("Remedy", clusterstate.ReadOverAPI)
	}
}

// remedyOf returns the remedy of a value's fault, with the value where the runbook has none.
func remedyOf(entry runbook.Entry, value string) string {
	if address, err := rangekeeper.ParseValue(value); err == nil && !address.IsPort() {
		return strings.ReplaceAll(entry.Remedy, "ADDRESS", value)
	}
	return entry.Remedy
}

// repairOf describes the repair of a value.
func repairOf(p audit.Place, e *audit.Explanation) string {
	if len(e.Unreadable) > 0 {
		return "none beside objects that cannot be read"
	}
	objects := p.Mode == audit.ModeIPAddress
	byServer := slices.ContainsFunc(e.Findings, func(f audit.Finding) bool {
		return f.Remedy == rangekeeper.RemedyAPIServer && f.Range == p.Name && f.Mode == p.Mode
	})
	lacksParent := slices.ContainsFunc(e.Findings, func(f audit.Finding) bool {
		return f.Reason == rangekeeper.ReasonIPAddressWithoutParent.String()
	})
	var text string
	switch s := p.State; {
	case lacksParent && objects:
		text = "its IPAddress object has no spec.parentRef, and must be deleted first"
	case p.ReadByServers:
		text = "unknown until a server writes the range in its own form, when it next allocates or releases a value"
	case p.Allocated == nil && slices.ContainsFunc(e.Findings, func(f audit.Finding) bool { return f.IsLost() }):
		text = "none before the range is set up again"
	case p.Allocated == nil:
		text = "unknown; audit the etcd or a snapshot of it"
	case s.Stored && s.Next && byServer:
		text = "kube-apiserver recreates its IPAddress object"
	case s.Stored == s.Next:
		text = "changes nothing"
	case s.Next && objects:
		text = "kube-apiserver makes its IPAddress object"
	case s.Next:
		text = "records it as allocated"
	case objects:
		text = "kube-apiserver removes its IPAddress object"
	default:
		text = "clears it; in a running cluster only if it stays leaked"
	}
	switch {
	case p.State.Duplicate && len(e.Services) == 1:
		text += "; the Service claims it twice, which its owner must change"
	case p.State.Duplicate && isTied(e):
		text += "; one of the Services keeps it, the others must be changed or recreated by their owners"
	case p.State.Duplicate:
		text += "; the oldest Service keeps it, the others must be changed or recreated by their owners"
	}
	return text
}

// isTied reports whether it is not known which of several Services keeps the value.
func isTied(e *audit.Explanation) bool {
	return slices.ContainsFunc(e.Findings, func(f audit.Finding) bool {
		return slices.ContainsFunc(f.Claimants, func(c audit.Claimant) bool { return c.Tied })
	})
}
