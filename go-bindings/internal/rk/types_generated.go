// Code generated from include/rangekeeper.h by ffi/header.sh. DO NOT EDIT.

package rk

// The constants of the C library.
const (
	HeaderABIVersion                        = 0
	VersionMajor                            = 0
	VersionMinor                            = 1
	VersionPatch                            = 0
	ErrorMessageCapacity                    = 512
	RangeTextCapacity                       = 48
	SameText                                = 4294967295
	NoRange                                 = 4294967295
	NoObject                                = 18446744073709551615
	ResultOK                         Result = 0
	ResultNullPointer                Result = 1
	ResultBufferTooSmall             Result = 2
	ResultInvalidArgument            Result = 3
	ResultInvalidUTF8                Result = 4
	ResultPanic                      Result = 5
	ResultPoisoned                   Result = 6
	ResultEnded                      Result = 7
	ResultFull                       Result = 16
	ResultAlreadyAllocated           Result = 17
	ResultNotInRange                 Result = 18
	ResultMismatchedRange            Result = 19
	ResultBitsPastRange              Result = 20
	ResultInvalidRange               Result = 21
	ResultSameKind                   Result = 22
	ResultOwned                      Result = 23
	ResultHasOther                   Result = 24
	ResultInvalidObject              Result = 32
	ResultEncrypted                  Result = 33
	ResultInvalidBatch               Result = 34
	ResultNotInitialised             Result = 48
	ResultRefused                    Result = 49
	ResultDeadlineExceeded           Result = 50
	ResultCancelled                  Result = 51
	ResultStaleList                  Result = 52
	ResultNoServices                 Result = 53
	ResultNoSwap                     Result = 54
	ResultUnreadable                 Result = 55
	ResultRangeInUse                 Result = 56
	ResultServicesWritten            Result = 57
	ResultUnanswered                 Result = 58
	ResultNotEnded                   Result = 59
	ResultInvalidJSON                Result = 64
	ResultInvalidConfig              Result = 65
	DetailNone                              = 0
	DetailByte                              = 1
	DetailBits                              = 2
	DetailRequest                           = 3
	ValueKindAny                            = 0
	ValueKindPort                           = 1
	ValueKindIPv4                           = 4
	ValueKindIPv6                           = 6
	ValueKindText                           = 7
	ValueKindNone                           = 8
	ValueKindNumber                         = 9
	RangeKindCIDR                           = 1201
	RangeKindPorts                          = 1202
	RangeKindNumbers                        = 1203
	StrategyContiguous                      = 1001
	StrategyRandomScan                      = 1002
	StrategyDynamicBandFirst                = 1003
	FormProtobuf                            = 1
	FormJSON                                = 2
	FormYaml                                = 3
	ProtocolTCP                             = 0
	ProtocolUDP                             = 1
	ProtocolSCTP                            = 2
	ProtocolText                            = 16
	PresenceMissing                         = 0
	PresenceUninitialised                   = 1
	PresenceInitialised                     = 2
	PresenceUnseen                          = 3
	PresenceUnreadable                      = 4
	ClusterIPRecordsUnknown                 = 0
	ClusterIPRecordsBitmaps                 = 1
	ClusterIPRecordsObjects                 = 2
	ClusterIPRecordsBoth                    = 3
	StoreContentCluster                     = 0
	StoreContentServices                    = 1
	BitmapServiceIPs                        = 0
	BitmapSecondaryServiceIPs               = 1
	BitmapServiceNodePorts                  = 2
	SubjectKindService                      = 0
	SubjectKindIPAddress                    = 1
	SubjectKindServiceCIDR                  = 2
	SubjectKindRange                        = 3
	SubjectKindStored                       = 4
	RangesOutcomeAgree                      = 0
	RangesOutcomeDecided                    = 1
	RangesOutcomeHarmless                   = 2
	RangesOutcomeUndecided                  = 3
	RemedyRepair                            = 0
	RemedyAPIServer                         = 1
	RemedyOwner                             = 2
	SeverityNone                            = 0
	SeverityBreaksTraffic                   = 1
	SeverityDuplicateRisk                   = 2
	SeverityWasted                          = 3
	SeverityExhausted                       = 4
	BandStatic                              = 0
	BandDynamic                             = 1
	ReasonClusterIPNotValid                 = 1
	ReasonClusterIPNotAllocated             = 2
	ReasonClusterIPAlreadyAllocated         = 3
	ReasonClusterIPOutOfRange               = 4
	ReasonServiceCIDRFull                   = 5
	ReasonIPAddressNotAllocated             = 6
	ReasonIPAddressWrongReference           = 7
	ReasonPortNotAllocated                  = 8
	ReasonPortAlreadyAllocated              = 9
	ReasonPortOutOfRange                    = 10
	ReasonBitmapDisagrees                   = 11
	ReasonIPAddressWithoutParent            = 12
	ReasonIPAddressNotCanonical             = 13
	ReasonClusterIPNotCanonical             = 14
	ReasonRangeFull                         = 15
	ReasonRangeNearlyFull                   = 16
	ReasonRangeNotReadable                  = 17
	ReasonRangeMissing                      = 18
	ReasonClusterIPMissing                  = 19
	ReasonNodePortMissing                   = 20
	ReasonHealthCheckNodePortMissing        = 21
	ValuesSet                               = 1301
	ValuesClear                             = 1302
	ValuesLeaked                            = 1303
	ValuesDuplicates                        = 1304
	ValuesStored                            = 1305
	ValuesInUse                             = 1306
	ValuesNext                              = 1307
	RecordBitmap                            = 0
	RecordStale                             = 1
	RecordIPAddresses                       = 2
	RecordUnseen                            = 3
	RepairDone                              = 0
	RepairChosen                            = 1
	RepairFailed                            = 2
	ServiceFormNodePort                     = 1
	ServiceFormLoadBalancer                 = 2
	ServiceFormExternalName                 = 4
	ServiceFormHeadless                     = 8
	ServiceFormOneAddress                   = 16
	ServiceFormTwoAddresses                 = 32
	ServiceFormRequiresDualStack            = 64
	ServiceFormWithoutNodePorts             = 128
	ServiceFormLacksNodePort                = 256
	ServiceFormLocal                        = 512
	ServiceFormHealthCheckNodePort          = 1024
	OperationAllocate                       = 1
	OperationRelease                        = 2
	OperationRead                           = 3
	OperationCreate                         = 4
	EventHeld                               = 1
	EventCurrent                            = 2
	EventUnknown                            = 3
	EventRefused                            = 4
	EventReconnected                        = 5
	EventWatched                            = 6
	EventWatchEnded                         = 7
	EventWatchFailed                        = 8
	EventPast                               = 9
	EventCompacted                          = 10
	StepKindIdle                            = 0
	StepKindWait                            = 1
	StepKindRead                            = 2
	StepKindSwap                            = 3
	StepKindConfirm                         = 4
	StepKindFinished                        = 5
	StepKindWatch                           = 6
	StepKindStopWatch                       = 7
	StepKindReadAt                          = 8
	OutcomeAllocated                        = 1
	OutcomeReleased                         = 2
	OutcomeDeferred                         = 3
	OutcomeRead                             = 4
	OutcomeCreated                          = 5
	OutcomeRepaired                         = 6
	OutcomeFailed                           = 7
	OutcomeUnknown                          = 8
	OutcomeEdited                           = 9
	DeferralHistoryMissing                  = 1
	DeferralDuplicate                       = 2
	WitnessKeep                             = 0
	WitnessPut                              = 1
	WitnessDelete                           = 2
	ReplaceIfUnused                         = 1101
	ReplaceOnce                             = 1102
	ReplaceAlways                           = 1103
	EditChange                              = 1401
	EditForce                               = 1402
	EditPlan                                = 1403
	EditUndo                                = 1404
	FateSet                                 = 0
	FateCleared                             = 1
	FateAlreadySet                          = 2
	FateAlreadyClear                        = 3
	FateInUse                               = 4
	FateUnused                              = 5
	FateReallocated                         = 6
	FateUnsure                              = 7
	ParentNoService                         = 0
	ParentMissing                           = 1
	ParentOther                             = 2
	ParentUses                              = 3
	ParentSelf                              = 4
	IPAddressKeep                           = 0
	IPAddressWait                           = 1
	IPAddressNoService                      = 2
	IPAddressWrongReference                 = 3
	IPAddressLeaked                         = 4
	ClusterIPKeep                           = 0
	ClusterIPWait                           = 1
	ClusterIPCreate                         = 2
	ClusterIPReshape                        = 3
	ClusterIPReplace                        = 4
	ClusterIPTaken                          = 5
	LedgerValueKindInteger                  = 1501
	LedgerValueKindBlock                    = 1502
	LedgerValueKindIPv4                     = 1503
	LedgerValueKindIPv6                     = 1504
	LedgerValueKindIPv4Network              = 1505
	LedgerValueKindIPv6Network              = 1506
	LedgerChangeAllocate                    = 1601
	LedgerChangeAllocateValue               = 1602
	LedgerChangeAllocateRun                 = 1603
	LedgerChangeAllocateBlock               = 1604
	LedgerChangeReleaseValue                = 1605
	LedgerChangeReleaseOwner                = 1606
	LedgerChangeRead                        = 1607
	LedgerRequestNone                       = 1701
	LedgerRequestGet                        = 1702
	LedgerRequestCreate                     = 1703
	LedgerRequestReplace                    = 1704
	LedgerRequestWait                       = 1705
	LedgerAnswerNone                        = 1801
	LedgerAnswerGot                         = 1802
	LedgerAnswerMissing                     = 1803
	LedgerAnswerPut                         = 1804
	LedgerAnswerChanged                     = 1805
	LedgerAnswerTooLarge                    = 1806
)

// BitsPastRange is rk_bits_past_range.
type BitsPastRange struct {
	HighestOffset uint64
	Byte          uint64
}

// Detail is rk_detail: one member has a meaning.
type Detail struct {
	Byte    uint64
	Bits    BitsPastRange
	Request uint64
}

// Error is rk_error.
type Error struct {
	DetailKind uint32
	Detail     Detail
	Message    string
}

// Value is rk_value.
type Value struct {
	High uint64
	Low  uint64
	Kind uint32
}

// Range is rk_range.
type Range struct {
	First  Value
	Extent uint32
}

// RangeDescription is rk_range_description.
type RangeDescription struct {
	Size       uint32
	StaticBand uint32
	Text       string
	_          [2]uint64
}

// ServiceCIDR is rk_service_cidr.
type ServiceCIDR struct {
	Network Value
	Prefix  uint32
}

// ServiceCIDRDescription is rk_service_cidr_description.
type ServiceCIDRDescription struct {
	Size       uint64
	StaticBand uint32
	_          [2]uint64
}

// Batch is rk_batch.
type Batch struct {
	Words []uint32
	Text  []byte
	Count uint
}

// Services is rk_services.
type Services struct {
	Batch Batch
}

// ServiceNames is rk_service_names.
type ServiceNames struct {
	Batch Batch
}

// Claim is rk_claim.
type Claim struct {
	Value   Value
	Service uint64
	Text    uint64
	TextLen uint64
	_       [2]uint64
}

// IPAddresses is rk_ip_addresses.
type IPAddresses struct {
	Batch Batch
}

// RangesVerdict is rk_ranges_verdict.
type RangesVerdict struct {
	Outcome            uint32
	FlagIsWrong        bool
	ServiceCIDRIsWrong bool
	BitmapIsWrong      bool
	Values             uint64
	InFlag             uint64
	InServiceCIDR      uint64
	InBitmap           uint64
	_                  [2]uint64
}

// FoundValue is rk_found_value: one member has a meaning.
type FoundValue struct {
	Address Value
	Port    int32
}

// Finding is rk_finding.
type Finding struct {
	Reason      uint32
	SubjectKind uint32
	Subject     uint64
	Range       uint32
	Remedy      uint32
	Stays       bool
	ValueKind   uint32
	Value       FoundValue
	_           [2]uint64
}

// OffsetState is rk_offset_state.
type OffsetState struct {
	Band      uint32
	Stored    bool
	InUse     bool
	Duplicate bool
	Next      bool
	_         [2]uint64
}

// Cell is rk_cell.
type Cell struct {
	First     uint64
	Len       uint64
	InUse     uint64
	Leaked    uint64
	Lost      uint64
	Duplicate uint64
	_         [2]uint64
}

// Leak is rk_leak.
type Leak struct {
	Value    Value
	Range    uint32
	Object   uint64
	Remedy   uint32
	Severity uint32
	Stays    bool
	_        [2]uint64
}

// Claimant is rk_claimant.
type Claimant struct {
	Service uint64
	Keeps   bool
	Tied    bool
	_       [2]uint64
}

// ObjectRepair is rk_object_repair.
type ObjectRepair struct {
	Address Value
	Removed uint64
	Service uint64
	_       [2]uint64
}

// Run is rk_run.
type Run struct {
	First Value
	Last  Value
	Len   uint64
}

// RangeReport is rk_range_report.
type RangeReport struct {
	Record     uint32
	StaticBand uint32
	Size       uint64
	Stored     uint64
	InUse      uint64
	Leaked     uint64
	Next       uint64
	Set        uint64
	Clear      uint64
	Duplicates uint64
	Dropped    uint64
	_          [2]uint64
}

// Allocate is rk_allocate.
type Allocate struct {
	Requests uint
}

// Release is rk_release.
type Release struct {
	Value  Value
	AsOf   uint64
	Oldest uint64
	Store  uint32
}

// OperationData is rk_operation_data: the member that is not nil.
type OperationData struct {
	Allocate *Allocate
	Release  *Release
}

// Operation is rk_operation.
type Operation struct {
	Deadline uint64
	Kind     uint32
	Data     OperationData
}

// KeyState is rk_key_state.
type KeyState struct {
	ModRevision    uint64
	Version        uint64
	CreateRevision uint64
}

// Key is rk_key.
type Key struct {
	State KeyState
	Value []uint8
}

// Header is rk_header.
type Header struct {
	ClusterID uint64
	Revision  uint64
	RaftTerm  uint64
}

// Current is rk_current.
type Current struct {
	Header Header
	Key    Key
}

// Refused is rk_refused.
type Refused struct {
	Reason string
}

// Watched is rk_watched.
type Watched struct {
	Changes []Key
}

// EventData is rk_event_data: the member that is not nil.
type EventData struct {
	Held    *Header
	Current *Current
	Refused *Refused
	Watched *Watched
}

// Event is rk_event.
type Event struct {
	Kind uint32
	Data EventData
}

// StepWait is rk_step_wait.
type StepWait struct {
	Until uint64
}

// StepSwap is rk_step_swap.
type StepSwap struct {
	Guard                  KeyState
	ServicesUnchangedSince uint64
	Look                   uint64
	ValueLen               uint
	Witness                uint32
}

// StepConfirm is rk_step_confirm.
type StepConfirm struct {
	Guard KeyState
}

// StepFinished is rk_step_finished.
type StepFinished struct {
	Outcomes uint
	Values   uint
	Bytes    uint
}

// StepWatch is rk_step_watch.
type StepWatch struct {
	From uint64
}

// StepReadAt is rk_step_read_at.
type StepReadAt struct {
	Revision uint64
}

// StepData is rk_step_data: one member has a meaning.
type StepData struct {
	Wait     StepWait
	Swap     StepSwap
	Confirm  StepConfirm
	Finished StepFinished
	Watch    StepWatch
	ReadAt   StepReadAt
}

// Step is rk_step.
type Step struct {
	Kind uint32
	Data StepData
}

// Allocated is rk_allocated.
type Allocated struct {
	Values   uint
	Revision uint64
	Store    uint32
	UseUntil uint64
}

// Released is rk_released.
type Released struct {
	Freed bool
}

// Deferred is rk_deferred.
type Deferred struct {
	Reason uint32
}

// View is rk_view.
type View struct {
	Revision    uint64
	Bytes       uint
	Initialised bool
}

// Created is rk_created.
type Created struct {
	Created bool
}

// Repaired is rk_repaired.
type Repaired struct {
	Set     uint
	Cleared uint
	Changed uint32
}

// Failed is rk_failed.
type Failed struct {
	Result      Result
	Request     uint32
	Values      uint
	StoredRange uint
	Reason      uint
}

// Edited is rk_edited.
type Edited struct {
	Revision uint64
	Values   uint
	IsDone   bool
}

// OutcomeData is rk_outcome_data: one member has a meaning.
type OutcomeData struct {
	Allocated Allocated
	Released  Released
	Deferred  Deferred
	Read      View
	Created   Created
	Repaired  Repaired
	Failed    Failed
	Edited    Edited
}

// Finished is rk_finished.
type Finished struct {
	Ticket  uint64
	Outcome uint32
	Data    OutcomeData
}

// Known is rk_known.
type Known struct {
	Revision    uint64
	Used        uint32
	Initialised bool
	Store       uint32
	Restores    uint32
	_           [2]uint64
}

// Edit is rk_edit.
type Edit struct {
	Kind   uint32
	Pick   uint32
	Set    []Value
	Clear  []Value
	InUse  []uint8
	Listed uint64
	Since  uint64
	Look   uint64
	_      [4]uint64
}

// Reservation is rk_reservation.
type Reservation struct {
	Address Value
	ID      uint64
}

// IndexChanges is rk_index_changes.
type IndexChanges struct {
	Added   uint64
	Removed uint64
	_       [2]uint64
}

// AddressObject is rk_address_object.
type AddressObject struct {
	Managed  bool
	Labelled bool
	Parent   uint32
	_        [2]uint64
}

// LedgerValue is rk_ledger_value.
type LedgerValue struct {
	High uint64
	Low  uint64
	Size uint64
	Kind uint32
}

// LedgerAllocation is rk_ledger_allocation.
type LedgerAllocation struct {
	First LedgerValue
	Len   uint32
}

// LedgerChange is rk_ledger_change.
type LedgerChange struct {
	Value LedgerValue
	Kind  uint32
	N     uint32
}

// LedgerUsage is rk_ledger_usage.
type LedgerUsage struct {
	Used    uint64
	Cooling uint64
	Size    uint64
	_       [2]uint64
}

// LedgerRequest is rk_ledger_request.
type LedgerRequest struct {
	Until    uint64
	ValueLen uint
	TokenLen uint
	Kind     uint32
}
