package rangekeeper

import (
	"fmt"

	"github.com/rangekeeper/rangekeeper/go-bindings/internal/rk"
)

// enumText returns the text of an enum's value. A test finds constants without one.
func enumText[E ~int | ~uint8 | ~uint32](texts map[E]string, value E) string {
	if text, ok := texts[value]; ok {
		return text
	}
	return fmt.Sprintf("unknown (%d)", value)
}

var strategyTexts = map[Strategy]string{
	Contiguous: "contiguous", RandomScan: "random scan", DynamicBandFirst: "dynamic band first",
}

func (s Strategy) String() string { return enumText(strategyTexts, s) }

var replaceTexts = map[Replace]string{
	ReplaceIfUnused: "if unused", ReplaceOnce: "once", ReplaceAlways: "always",
}

func (r Replace) String() string { return enumText(replaceTexts, r) }

var witnessTexts = map[Witness]string{KeepWitness: "keep", PutWitness: "put", DeleteWitness: "delete"}

func (w Witness) String() string { return enumText(witnessTexts, w) }

var presenceTexts = map[Presence]string{
	Missing: "missing", Uninitialised: "uninitialised", Initialised: "initialised", Unseen: "unseen", Unreadable: "unreadable",
}

func (p Presence) String() string { return enumText(presenceTexts, p) }

var rangesOutcomeTexts = map[RangesOutcome]string{
	RangesAgree: "agree", RangesDecided: "decided", RangesHarmless: "harmless", RangesUndecided: "undecided",
}

func (o RangesOutcome) String() string { return enumText(rangesOutcomeTexts, o) }

var recordsTexts = map[ClusterIPRecords]string{
	RecordsUnknown: "unknown", RecordsInBitmaps: "bitmaps", RecordsInObjects: "IPAddress objects", RecordsInBoth: "IPAddress objects and bitmaps",
}

func (r ClusterIPRecords) String() string { return enumText(recordsTexts, r) }

var contentTexts = map[StoreContent]string{StoredCluster: "cluster", StoredServices: "Services"}

func (c StoreContent) String() string { return enumText(contentTexts, c) }

var requestTexts = map[LedgerRequestKind]string{
	RequestNone: "nothing", RequestGet: "get", RequestCreate: "create", RequestReplace: "replace", RequestWait: "wait",
}

func (k LedgerRequestKind) String() string { return enumText(requestTexts, k) }

var setTexts = map[Values]string{
	ValuesSet: "set", ValuesClear: "clear", ValuesLeaked: "leaked", ValuesDuplicates: "duplicates", ValuesStored: "stored",
	ValuesInUse: "in use", ValuesNext: "next",
}

func (s Values) String() string { return enumText(setTexts, s) }

var recordTexts = map[Record]string{
	RecordBitmap: "bitmap", RecordStale: "stale bitmap", RecordIPAddresses: "IPAddress objects",
	RecordUnseen: "unseen bitmap",
}

func (r Record) String() string { return enumText(recordTexts, r) }

var subjectKindTexts = map[SubjectKind]string{SubjectService: "Service", SubjectIPAddress: "IPAddress", SubjectServiceCIDR: "ServiceCIDR", SubjectRange: "range", SubjectStored: "stored range"}

func (k SubjectKind) String() string { return enumText(subjectKindTexts, k) }

var remedyTexts = map[Remedy]string{
	RemedyRepair: "repair", RemedyAPIServer: "kube-apiserver", RemedyOwner: "owner of the Service",
}

func (r Remedy) String() string { return enumText(remedyTexts, r) }

var severityTexts = map[Severity]string{
	SeverityBreaksTraffic: "breaksTraffic", SeverityDuplicateRisk: "duplicateRisk", SeverityExhausted: "exhausted",
	SeverityWasted: "wasted",
}

// String returns the severity as the documents of the command spell it.
func (s Severity) String() string { return enumText(severityTexts, s) }

var parentTexts = map[Parent]string{
	ParentNoService: "no Service", ParentMissing: "missing Service", ParentOther: "Service without the address",
	ParentUses: "Service with the address",
}

func (p Parent) String() string { return enumText(parentTexts, p) }

var ipAddressVerdictTexts = map[IPAddressVerdict]string{
	IPAddressKeep: "keep", IPAddressWait: "wait", IPAddressNoService: "no Service", IPAddressWrongReference: "wrong reference",
	IPAddressLeaked: "leaked",
}

func (v IPAddressVerdict) String() string { return enumText(ipAddressVerdictTexts, v) }

var clusterIPVerdictTexts = map[ClusterIPVerdict]string{
	ClusterIPKeep: "keep", ClusterIPWait: "wait", ClusterIPCreate: "create", ClusterIPReshape: "reshape",
	ClusterIPReplace: "replace", ClusterIPTaken: "taken",
}

func (v ClusterIPVerdict) String() string { return enumText(clusterIPVerdictTexts, v) }

var stepKindTexts = map[StepKind]string{
	StepIdle: "idle", StepWait: "wait", StepRead: "read", StepSwap: "compare-and-swap", StepConfirm: "confirm",
	StepFinished: "finished", StepWatch: "watch", StepStopWatch: "stop watch", StepReadAt: "read at",
}

func (k StepKind) String() string { return enumText(stepKindTexts, k) }

var fateTexts = map[Fate]string{
	FateSet: "set", FateCleared: "cleared", FateAlreadySet: "already set", FateAlreadyClear: "already clear", FateInUse: "in use",
	FateUnused: "unused", FateReallocated: "reallocated", FateUnsure: "unsure",
}

func (f Fate) String() string { return enumText(fateTexts, f) }

// String returns the reason as the reference's Events spell it.
func (r Reason) String() string { return rk.ReasonName(uint32(r)) }
