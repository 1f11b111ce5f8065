package bootstrap

import (
	"regexp"
	"strings"
)

// difference is an intended difference from the reference.
type difference struct {
	name string
	// fields matches the fields that differ.
	fields *regexp.Regexp
	// reference and ours say what each side does, reason why Rangekeeper does so.
	reference, ours, reason string
}

// anyOf matches text that one of the expressions matches completely.
func anyOf(expressions ...string) *regexp.Regexp {
	return regexp.MustCompile("^(" + strings.Join(expressions, "|") + ")$")
}

// Fields of Endpoints and EndpointSlices.
const (
	addresses = `Endpoints default/kubernetes\.subsets\[\d\]\.(addresses|notReadyAddresses)\[\d\]\.ip`
	ports     = `Endpoints default/kubernetes\.subsets\[\d\]\.ports\[\d\]\..*`
	inSlice   = `EndpointSlice default/kubernetes\.endpoints\[\d\]\.(addresses\[0\]|conditions\.ready)`
	slicePort = `EndpointSlice default/kubernetes\.ports\[\d\]\..*`
	// generation counts the writes that changed the slice.
	generation = `EndpointSlice default/kubernetes\.metadata\.generation`
	allOfSlice = `EndpointSlice default/kubernetes(\..*)?`
)

var (
	generationGoesOn = &difference{
		name:      "generation after a lease expired",
		fields:    anyOf(`Lease \S+\.(metadata\.generation|value)`),
		reference: "restarts at 1 when its own lease expired",
		ours:      "continues from its last write",
		reason:    "then a generation that is not higher than its own is from a backup, not from a second writer",
	}
	stopWithoutLease = &difference{
		name:      "stop without a lease",
		fields:    anyOf(addresses, ports, allOfSlice),
		reference: "does not change the endpoints when it stops without a lease, even if they have its address",
		ours:      "removes its address and reconciles them with the leases, as always",
		reason:    "a server that stopped gracefully must not get requests until another one reconciles",
	}
	foreignMetadata = &difference{
		name:      "foreign labels and annotations of the slice",
		fields:    anyOf(`EndpointSlice default/kubernetes\.metadata\.(labels|annotations)\.example\.com/team`, generation),
		reference: "drops them with each write, and counts foreign labels as a reason to write",
		ours:      "keeps them",
		reason:    "another client owns them; both keep those of Endpoints",
	}
	notReadyWins = &difference{
		name:      "a server that is also listed as not ready",
		fields:    anyOf(addresses, inSlice, generation),
		reference: "leaves it not ready for ever",
		ours:      "lists it as ready, and removes its own not-ready address when it stops",
		reason:    "it has a lease, or is reconciling: a running server must get requests",
	}
	details = &difference{
		name:      "more than the address",
		fields:    anyOf(`Endpoints default/kubernetes\.subsets\[0\]\.addresses\[\d\]\.nodeName`, `EndpointSlice default/kubernetes\.endpoints\[\d\]\.nodeName`),
		reference: "in lease mode drops node name, host name and target of all addresses when one address changes",
		ours:      "keeps them",
		reason:    "another client owns them, and the server is the same; by count both keep them",
	}
	familyOfNotReady = &difference{
		name:      "a not-ready address of another family without a server",
		fields:    anyOf(`EndpointSlice default/kubernetes\.addressType`, inSlice, generation),
		reference: "writes an IPv4 slice without a ready endpoint",
		ours:      "uses the family of the ready addresses",
		reason:    "the slice would be empty for every proxy while all servers run",
	}
	unusable = &difference{
		name:      "an address that cannot be an endpoint",
		fields:    anyOf(addresses, inSlice, generation),
		reference: "lists or keeps it (loopback, link-local, unspecified), so the API server refuses each write and nothing is repaired",
		ours:      "omits it",
		reason:    "one wrong address must not keep correct ones out",
	}
	refusedPorts = &difference{
		name:      "ports that the API server refuses",
		fields:    anyOf(addresses, ports, inSlice, slicePort, generation),
		reference: "keeps them unless it reconciles ports, so the API server refuses each write and nothing is repaired",
		ours:      "recreates the subset",
		reason:    "a server must repair damage in etcd without an operator",
	}
	unreadableLease = &difference{
		name:      "a lease that cannot be read",
		fields:    anyOf(addresses, inSlice, generation, `Lease \S+\.(apiVersion|kind|metadata\.generation|ttl|value|subsets\[0\]\.addresses\[0\]\.ip)`),
		reference: "fails in each sync of each server until a client deletes the key, and does not rewrite its own lease",
		ours:      "continues with the other leases, keeps the key's address if it is listed, and rewrites its own lease",
		reason:    "one wrong value must not stop all servers, nor drop a server that may run",
	}
	doubtfulLease = &difference{
		name:      "a lease whose address is not that of its key",
		fields:    anyOf(addresses, inSlice, generation),
		reference: "drops the address of the key",
		ours:      "keeps it if it is listed, and reports the lease",
		reason:    "a server that may run must not be dropped",
	}
	sharedLease = &difference{
		name:      "a lease that another server has written since",
		fields:    anyOf(addresses, inSlice, generation, `Lease \S+\..*`),
		reference: "removes lease and endpoint when it stops",
		ours:      "leaves both",
		reason:    "another server with this address runs",
	}
	spelling = &difference{
		name:      "an address in another spelling",
		fields:    anyOf(addresses, allOfSlice),
		reference: "treats spellings as different addresses: one server is listed twice, or the API server refuses the slice",
		ours:      "writes each address once, in its canonical form",
		reason:    "a slice accepts canonical addresses only",
	}
	order = &difference{
		name:      "order",
		fields:    anyOf(addresses, ports, inSlice, slicePort, generation),
		reference: "sorts everything when it writes addresses: ports by a hash, not-ready addresses, and by count also the addresses that stay at a start",
		ours:      "sorts the addresses that it changes, and nothing else",
		reason:    "order has no meaning, and ports stay in the configured order",
	}
	portsOfOthers = &difference{
		name:      "ports of the other servers",
		fields:    anyOf(ports, slicePort, generation),
		reference: "resets them to its own when it starts or stops in lease mode",
		ours:      "leaves them",
		reason:    "the others may listen on another port, and do not set it again",
	}
	ownLease = &difference{
		name:      "other fields of its own lease",
		fields:    anyOf(`Lease \S+\.(metadata\.(name|namespace|labels\..*|annotations\..*)|value)`),
		reference: "keeps these fields",
		ours:      "rewrites the lease without them",
		reason:    "only generation and address have a meaning",
	}
	twiceByCount = &difference{
		name:      "an address twice by count",
		fields:    anyOf(addresses, inSlice, generation),
		reference: "keeps both and counts two while there are not too many",
		ours:      "lists it once",
		reason:    "an address stands for one server",
	}
	eraseAtStart = &difference{
		name:      "start of the only server by count",
		fields:    anyOf(addresses, ports, inSlice, slicePort, generation),
		reference: "erases all endpoints until it is ready",
		ours:      "does not, as in lease mode",
		reason:    "only the graceful stop of the last server removes all endpoints",
	}
	staleIndex = &difference{
		name:      "too many by count, past the end of the list",
		fields:    anyOf(addresses, inSlice, generation),
		reference: "uses the index of its own address before that moved: it drops the wrong addresses, and its own if one of three stays",
		ours:      "drops those after its own address, and from the first one on after the last",
		reason:    "a running server always lists itself",
	}
	subsetsByCount = &difference{
		name:      "several subsets by count",
		fields:    anyOf(addresses, ports, inSlice, slicePort, generation),
		reference: "drops all other servers",
		ours:      "keeps the addresses of all subsets, in one subset",
		reason:    "they may run; the count limits them",
	}
	sliceOfNothing = &difference{
		name:      "stop and start without subsets by count",
		fields:    anyOf(inSlice, slicePort, generation),
		reference: "does not change the slice when it starts or stops and the Endpoints have no subset",
		ours:      "empties it as well",
		reason:    "both must have the same content",
	}
	labelAtStart = &difference{
		name:      "mirroring at a start by count",
		fields:    anyOf(`Endpoints default/kubernetes\.metadata\.labels\.endpointslice\.kubernetes\.io/skip-mirror`),
		reference: "disables it in its first sync",
		ours:      "disables it when it removes its stale endpoint",
		reason:    "as for ports",
	}
	afterService = &difference{
		name:      "a Service that cannot be written",
		fields:    anyOf(allOfSlice, `Endpoints default/kubernetes(\..*)?`, `Lease \S+\..*`),
		reference: "does not reconcile lease and endpoints",
		ours:      "reconciles them",
		reason:    "a running server must not lose its lease because the API server refuses a Service",
	}
)

var differences = []*difference{
	generationGoesOn, stopWithoutLease, foreignMetadata, notReadyWins, details, familyOfNotReady, unusable, refusedPorts, unreadableLease,
	doubtfulLease, sharedLease, order, portsOfOthers, ownLease, spelling, eraseAtStart, twiceByCount, staleIndex, subsetsByCount, sliceOfNothing, labelAtStart, afterService,
}
