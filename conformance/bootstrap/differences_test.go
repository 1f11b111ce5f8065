package bootstrap

import (
	"regexp"
	"strings"
)

// difference is one that is known and wanted.
type difference struct {
	name string
	// fields are those that it touches.
	fields *regexp.Regexp
	// What each side does, and why Rangekeeper does so.
	reference, ours, reason string
}

// anyOf matches text that one of the expressions matches as a whole.
func anyOf(expressions ...string) *regexp.Regexp {
	return regexp.MustCompile("^(" + strings.Join(expressions, "|") + ")$")
}

// Reports about endpoints, in part or all of it.
const (
	addresses = `Endpoints default/kubernetes\.subsets\[\d\]\.(addresses|notReadyAddresses)\[\d\]\.ip`
	ports     = `Endpoints default/kubernetes\.subsets\[\d\]\.ports\[\d\]\..*`
	inSlice   = `EndpointSlice default/kubernetes\.endpoints\[\d\]\.(addresses\[0\]|conditions\.ready)`
	slicePort = `EndpointSlice default/kubernetes\.ports\[\d\]\..*`
	// generation counts the writes that changed something.
	generation = `EndpointSlice default/kubernetes\.metadata\.generation`
	allOfSlice = `EndpointSlice default/kubernetes(\..*)?`
)

var (
	generationGoesOn = &difference{
		name:      "generation after a lease ran out",
		fields:    anyOf(`Lease \S+\.(metadata\.generation|value)`),
		reference: "begins with 1 again when its own lease ran out",
		ours:      "goes on from its last write",
		reason:    "a generation that is not higher than the own one is then from a backup, and not from a second writer",
	}
	stopWithoutLease = &difference{
		name:      "stop without a lease",
		fields:    anyOf(addresses, ports, allOfSlice),
		reference: "leaves the endpoints as they are when it stops and has no lease, with its own address if its lease has run out",
		ours:      "removes its address and adapts them to the leases, as always",
		reason:    "a server that has stopped in order must not get requests until another one looks",
	}
	foreignMetadata = &difference{
		name:      "foreign labels and annotations of the slice",
		fields:    anyOf(`EndpointSlice default/kubernetes\.metadata\.(labels|annotations)\.example\.com/team`, generation),
		reference: "drops them with each write, and counts foreign labels as a reason to write",
		ours:      "keeps them",
		reason:    "they are somebody else's; those of Endpoints are kept by both",
	}
	notReadyWins = &difference{
		name:      "a server that is also listed as not ready",
		fields:    anyOf(addresses, inSlice, generation),
		reference: "lets it stay not ready for good",
		ours:      "lists it as ready, and does not leave the own one there when it goes",
		reason:    "it has a lease, or has just asked for its place: a live server must get requests",
	}
	details = &difference{
		name:      "more than the address",
		fields:    anyOf(`Endpoints default/kubernetes\.subsets\[0\]\.addresses\[\d\]\.nodeName`, `EndpointSlice default/kubernetes\.endpoints\[\d\]\.nodeName`),
		reference: "in lease mode drops node name, host name and target of all addresses when one address changes",
		ours:      "keeps them",
		reason:    "they are somebody else's, and the server is still the same; by count both keep them",
	}
	familyOfNotReady = &difference{
		name:      "a stranger of another family that is not ready",
		fields:    anyOf(`EndpointSlice default/kubernetes\.addressType`, inSlice, generation),
		reference: "makes an IPv4 slice of it that has no ready endpoint",
		ours:      "lets the ready addresses decide the family",
		reason:    "the slice would be empty for every proxy while all servers live",
	}
	unusable = &difference{
		name:      "an address that cannot be an endpoint",
		fields:    anyOf(addresses, inSlice, generation),
		reference: "lists or keeps it (loopback, link-local, unspecified), so that the API server refuses each write and nothing is repaired",
		ours:      "leaves it out",
		reason:    "one wrong address must not keep the right ones out",
	}
	refusedPorts = &difference{
		name:      "ports that the API server refuses",
		fields:    anyOf(addresses, ports, inSlice, slicePort, generation),
		reference: "keeps them unless it reconciles ports, so that each write is refused and nothing is repaired",
		ours:      "recreates the subset",
		reason:    "damage in etcd must be repaired without help",
	}
	unreadableLease = &difference{
		name:      "a lease that cannot be read",
		fields:    anyOf(addresses, inSlice, generation, `Lease \S+\.(apiVersion|kind|metadata\.generation|ttl|value|subsets\[0\]\.addresses\[0\]\.ip)`),
		reference: "fails in each turn of each server until somebody deletes the key, and does not rewrite its own",
		ours:      "goes on with the others; the address of the key stays if it is listed; the own one is rewritten",
		reason:    "one wrong value must not end the work of all servers, nor drop a server that may live",
	}
	doubtfulLease = &difference{
		name:      "a lease whose address is not that of its key",
		fields:    anyOf(addresses, inSlice, generation),
		reference: "drops the address of the key",
		ours:      "lets it stay if it is listed, and reports the lease",
		reason:    "a server that may live is not dropped",
	}
	sharedLease = &difference{
		name:      "a lease that another one has written since",
		fields:    anyOf(addresses, inSlice, generation, `Lease \S+\..*`),
		reference: "removes lease and endpoint when it stops",
		ours:      "leaves both",
		reason:    "another server with this address lives",
	}
	spelling = &difference{
		name:      "an address in another spelling",
		fields:    anyOf(addresses, allOfSlice),
		reference: "takes spellings for different addresses: one server is listed twice, or the API server refuses the slice",
		ours:      "writes each address once, in its canonical form",
		reason:    "a slice takes canonical addresses only",
	}
	order = &difference{
		name:      "order",
		fields:    anyOf(addresses, ports, inSlice, slicePort, generation),
		reference: "sorts everything when it writes addresses: ports by a hash, those not ready, and by count also what stays at a start",
		ours:      "sorts the addresses that it changes, and leaves all other order",
		reason:    "no order means anything, and ports stay in the order in which they are configured",
	}
	leaseAnew = &difference{
		name:      "an own lease with more in it",
		fields:    anyOf(`Lease \S+\.(metadata\.(name|namespace|labels\..*|annotations\..*)|value)`),
		reference: "keeps the rest of its value",
		ours:      "rewrites it",
		reason:    "only generation and address mean anything there",
	}
	twiceByCount = &difference{
		name:      "an address twice by count",
		fields:    anyOf(addresses, inSlice, generation),
		reference: "leaves it and counts it twice while there are not too many",
		ours:      "lists it once",
		reason:    "an address is a server",
	}
	eraseAtStart = &difference{
		name:      "start of the only server by count",
		fields:    anyOf(addresses, ports, inSlice, slicePort, generation),
		reference: "erases all endpoints until it is ready",
		ours:      "refuses to, as in lease mode",
		reason:    "all endpoints go only when the last server stops in order",
	}
	staleIndex = &difference{
		name:      "too many by count, wrapping round",
		fields:    anyOf(addresses, inSlice, generation),
		reference: "goes on with the index that its own address had before it moved: it drops the wrong ones, and itself if one of three is to stay",
		ours:      "drops those that follow the own address, the first following the last",
		reason:    "a server that lives always lists itself",
	}
	subsetsByCount = &difference{
		name:      "several subsets by count",
		fields:    anyOf(addresses, ports, inSlice, slicePort, generation),
		reference: "drops all other servers",
		ours:      "keeps those of all subsets in one",
		reason:    "nothing says that they do not live; the count limits them",
	}
	sliceOfNothing = &difference{
		name:      "going without subsets by count",
		fields:    anyOf(inSlice, slicePort, generation),
		reference: "leaves the slice as it is when it starts or stops and the Endpoints have no subset",
		ours:      "empties it as well",
		reason:    "both are kept in step",
	}
	labelAtStart = &difference{
		name:      "mirroring at a start by count",
		fields:    anyOf(`Endpoints default/kubernetes\.metadata\.labels\.endpointslice\.kubernetes\.io/skip-mirror`),
		reference: "forbids it in its first turn",
		ours:      "forbids it when it removes its stale endpoint",
		reason:    "as for ports",
	}
	afterService = &difference{
		name:      "a Service that cannot be written",
		fields:    anyOf(allOfSlice, `Endpoints default/kubernetes(\..*)?`, `Lease \S+\..*`),
		reference: "does not go on to lease and endpoints",
		ours:      "goes on",
		reason:    "a live server must not lose its lease because a Service is refused",
	}
)

var differences = []*difference{
	generationGoesOn, stopWithoutLease, foreignMetadata, notReadyWins, details, familyOfNotReady, unusable, refusedPorts, unreadableLease,
	doubtfulLease, sharedLease, order, leaseAnew, spelling, eraseAtStart, twiceByCount, staleIndex, subsetsByCount, sliceOfNothing, labelAtStart, afterService,
}
