package screen

import (
	"fmt"
	"strings"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/runbook"
)

// Servers writes the addresses of the API servers: by which lease each is announced, and where clients get it from.
// Then come the findings about the objects of the bootstrap controllers, for the user of a program, and what of these
// objects the source does not show.
func (s *Screen) Servers(servers []audit.Server, findings []audit.Finding, unknown []audit.Unknown, program string) {
	s.Blank()
	title := fmt.Sprintf("API servers: %d", len(servers))
	if len(servers) == 0 && len(unknown) > 0 {
		title = "API servers: not shown"
	}
	s.text(0, bold, title)
	var rows [][]string
	for _, server := range servers {
		names := server.Slices
		if len(names) > mostSlices {
			names = append(names[:mostSlices:mostSlices], fmt.Sprintf("and %d more", len(names)-mostSlices))
		}
		slices := strings.Join(names, ", ")
		if server.InEndpoints == nil {
			slices = "?"
		} else if slices == "" {
			slices = "none"
		}
		rows = append(rows, []string{Printable(server.Address), yesOrNo(server.InEndpoints), Printable(slices), leaseText(server)})
	}
	if len(servers) > 0 {
		shown := min(len(rows), mostServers)
		s.table(2, []string{"ADDRESS", "ENDPOINTS", "SLICES", "LEASE"}, rows[:shown])
		s.more(2, len(rows)-shown, FormatJSON)
		s.clients(servers, findings)
	}
	for len(findings) > 0 { // sorted by reason
		reason := findings[0].Reason
		n := 1
		for n < len(findings) && findings[n].Reason == reason {
			n++
		}
		s.Blank()
		for _, f := range findings[:min(n, mostServers)] {
			s.text(0, "", reason+": "+escaped(f.Message))
		}
		s.more(0, n-mostServers, FormatJSON)
		if entry, ok := runbook.Named(reason); ok {
			s.text(2, "", "Risk: "+entry.Risk)
			s.text(2, "", "Remedy: "+Called(program, entry.Remedy))
		}
		findings = findings[n:]
	}
	s.unknown(unknown)
}

const (
	// mostServers is the number of servers, and of findings with one reason, that are shown.
	mostServers = 20
	// mostSlices is that of the slices of a server.
	mostSlices = 3
)

// clients says what a client of the Service sees, if servers that have ended may be among its addresses.
func (s *Screen) clients(servers []audit.Server, findings []audit.Finding) {
	mayBeDead := map[string]bool{}
	for _, f := range findings {
		mayBeDead[f.Value] = mayBeDead[f.Value] || f.TellsOfDeadServer()
	}
	proxied, doubtful := 0, 0
	for _, server := range servers {
		if len(server.Slices) == 0 {
			continue
		}
		proxied++
		if mayBeDead[server.Address] {
			doubtful++
		}
	}
	if doubtful > 0 {
		s.text(2, "", fmt.Sprintf("Proxies send connections to the addresses in slices. %d of these %d may be of servers that have ended: then %d of %d connections fail or wait.",
			doubtful, proxied, doubtful, proxied))
	}
}

func yesOrNo(is *bool) string {
	switch {
	case is == nil:
		return "?"
	case *is:
		return "yes"
	}
	return "no"
}

// leaseText says until when a server is announced.
func leaseText(server audit.Server) string {
	l := server.Lease
	switch {
	case server.LeaseUnseen:
		return "?"
	case l == nil:
		return "none"
	}
	written := fmt.Sprintf("written at revision %d", l.ModRevision)
	switch {
	case l.EtcdLease == clusterstate.LeaseMissing:
		return written + ", never expires: etcd has no lease for the key"
	case l.LeftSeconds > 0:
		// A write takes a new lease of etcd, whose time to live has begun then.
		return fmt.Sprintf("written %d s ago at revision %d, expires in %d s unless the server writes it again",
			max(l.TTLSeconds-l.LeftSeconds, 0), l.ModRevision, l.LeftSeconds)
	case l.TTLSeconds > 0:
		return fmt.Sprintf("%s, expires %d s after the start of etcd", written, l.TTLSeconds)
	}
	return written
}
