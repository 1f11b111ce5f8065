// Code generated from include/rangekeeper.h by ffi/header.sh. DO NOT EDIT.

//go:build !(cgo && (rangekeeper_native || rangekeeper_dynamic))

package rk

// Allocator is an object of the library.
type Allocator object

// IsAlone reports whether the object's memory is collected with it, so that it need not be freed.
func (o *Allocator) IsAlone() bool { return o.alone }

// RangeAllocation is an object of the library.
type RangeAllocation object

// IsAlone reports whether the object's memory is collected with it, so that it need not be freed.
func (o *RangeAllocation) IsAlone() bool { return o.alone }

// LeakCounters is an object of the library.
type LeakCounters object

// IsAlone reports whether the object's memory is collected with it, so that it need not be freed.
func (o *LeakCounters) IsAlone() bool { return o.alone }

// LeakTracker is an object of the library.
type LeakTracker object

// IsAlone reports whether the object's memory is collected with it, so that it need not be freed.
func (o *LeakTracker) IsAlone() bool { return o.alone }

// Audit is an object of the library.
type Audit object

// IsAlone reports whether the object's memory is collected with it, so that it need not be freed.
func (o *Audit) IsAlone() bool { return o.alone }

// Report is an object of the library.
type Report object

// IsAlone reports whether the object's memory is collected with it, so that it need not be freed.
func (o *Report) IsAlone() bool { return o.alone }

// Committer is an object of the library.
type Committer object

// IsAlone reports whether the object's memory is collected with it, so that it need not be freed.
func (o *Committer) IsAlone() bool { return o.alone }

// RepairPass is an object of the library.
type RepairPass object

// IsAlone reports whether the object's memory is collected with it, so that it need not be freed.
func (o *RepairPass) IsAlone() bool { return o.alone }

// Index is an object of the library.
type Index object

// IsAlone reports whether the object's memory is collected with it, so that it need not be freed.
func (o *Index) IsAlone() bool { return o.alone }

// Ledger is an object of the library.
type Ledger object

// IsAlone reports whether the object's memory is collected with it, so that it need not be freed.
func (o *Ledger) IsAlone() bool { return o.alone }

// SharedLedger is an object of the library.
type SharedLedger object

// IsAlone reports whether the object's memory is collected with it, so that it need not be freed.
func (o *SharedLedger) IsAlone() bool { return o.alone }

// Bootstrap is an object of the library.
type Bootstrap object

// IsAlone reports whether the object's memory is collected with it, so that it need not be freed.
func (o *Bootstrap) IsAlone() bool { return o.alone }

func (s *BitsPastRange) load(c *call, at uint32) {
	b := c.bytes(at, 16)
	s.HighestOffset = endian.Uint64(b[0:])
	s.Byte = endian.Uint64(b[8:])
}

func (s *Error) load(c *call, at uint32) {
	b := c.bytes(at, 560)
	s.DetailKind = endian.Uint32(b[0:])
	s.Detail.Byte = endian.Uint64(b[8:])
	s.Detail.Bits.load(c, at+8)
	s.Detail.Request = endian.Uint64(b[8:])
	s.Message = string(b[44:][:endian.Uint32(b[40:])])
}

func (s *Value) store(c *call, at uint32) {
	b := c.bytes(at, 24)
	endian.PutUint64(b[0:], uint64(s.High))
	endian.PutUint64(b[8:], uint64(s.Low))
	endian.PutUint32(b[16:], uint32(s.Kind))
}

func (s *Value) load(c *call, at uint32) {
	b := c.bytes(at, 24)
	s.High = endian.Uint64(b[0:])
	s.Low = endian.Uint64(b[8:])
	s.Kind = endian.Uint32(b[16:])
}

func (s *Range) store(c *call, at uint32) {
	b := c.bytes(at, 32)
	endian.PutUint32(b[24:], uint32(s.Extent))
	s.First.store(c, at+0)
}

func (s *Range) load(c *call, at uint32) {
	b := c.bytes(at, 32)
	s.First.load(c, at+0)
	s.Extent = endian.Uint32(b[24:])
}

func (s *RangeDescription) load(c *call, at uint32) {
	b := c.bytes(at, 80)
	s.Size = endian.Uint32(b[0:])
	s.StaticBand = endian.Uint32(b[4:])
	s.Text = string(b[12:][:endian.Uint32(b[8:])])
}

func (s *ServiceCIDR) store(c *call, at uint32) {
	b := c.bytes(at, 32)
	endian.PutUint32(b[24:], uint32(s.Prefix))
	s.Network.store(c, at+0)
}

func (s *ServiceCIDR) load(c *call, at uint32) {
	b := c.bytes(at, 32)
	s.Network.load(c, at+0)
	s.Prefix = endian.Uint32(b[24:])
}

func (s *ServiceCIDRDescription) load(c *call, at uint32) {
	b := c.bytes(at, 32)
	s.Size = endian.Uint64(b[0:])
	s.StaticBand = endian.Uint32(b[8:])
}

func (s *Batch) store(c *call, at uint32) {
	listWords := c.putWords(s.Words)
	listText := c.putBytes(s.Text)
	b := c.bytes(at, 28)
	endian.PutUint32(b[0:], uint32(listWords))
	endian.PutUint32(b[4:], uint32(len(s.Words)))
	endian.PutUint32(b[12:], uint32(listText))
	endian.PutUint32(b[16:], uint32(len(s.Text)))
	endian.PutUint32(b[24:], uint32(s.Count))
}

func (s *Services) store(c *call, at uint32) {
	s.Batch.store(c, at+0)
}

func (s *ServiceNames) store(c *call, at uint32) {
	s.Batch.store(c, at+0)
}

func (s *Claim) load(c *call, at uint32) {
	b := c.bytes(at, 64)
	s.Value.load(c, at+0)
	s.Service = endian.Uint64(b[24:])
	s.Text = endian.Uint64(b[32:])
	s.TextLen = endian.Uint64(b[40:])
}

func (s *IPAddresses) store(c *call, at uint32) {
	s.Batch.store(c, at+0)
}

func (s *RangesVerdict) load(c *call, at uint32) {
	b := c.bytes(at, 56)
	s.Outcome = endian.Uint32(b[0:])
	s.FlagIsWrong = b[4] != 0
	s.ServiceCIDRIsWrong = b[5] != 0
	s.BitmapIsWrong = b[6] != 0
	s.Values = endian.Uint64(b[8:])
	s.InFlag = endian.Uint64(b[16:])
	s.InServiceCIDR = endian.Uint64(b[24:])
	s.InBitmap = endian.Uint64(b[32:])
}

func (s *Finding) load(c *call, at uint32) {
	b := c.bytes(at, 72)
	s.Reason = endian.Uint32(b[0:])
	s.SubjectKind = endian.Uint32(b[4:])
	s.Subject = endian.Uint64(b[8:])
	s.Range = endian.Uint32(b[16:])
	s.Remedy = endian.Uint32(b[20:])
	s.Stays = b[24] != 0
	s.ValueKind = endian.Uint32(b[28:])
	s.Value.Address.load(c, at+32)
	s.Value.Port = int32(endian.Uint32(b[32:]))
}

func (s *OffsetState) load(c *call, at uint32) {
	b := c.bytes(at, 24)
	s.Band = endian.Uint32(b[0:])
	s.Stored = b[4] != 0
	s.InUse = b[5] != 0
	s.Duplicate = b[6] != 0
	s.Next = b[7] != 0
}

func (s *Cell) load(c *call, at uint32) {
	b := c.bytes(at, 64)
	s.First = endian.Uint64(b[0:])
	s.Len = endian.Uint64(b[8:])
	s.InUse = endian.Uint64(b[16:])
	s.Leaked = endian.Uint64(b[24:])
	s.Lost = endian.Uint64(b[32:])
	s.Duplicate = endian.Uint64(b[40:])
}

func (s *Leak) load(c *call, at uint32) {
	b := c.bytes(at, 72)
	s.Value.load(c, at+0)
	s.Range = endian.Uint32(b[24:])
	s.Object = endian.Uint64(b[32:])
	s.Remedy = endian.Uint32(b[40:])
	s.Severity = endian.Uint32(b[44:])
	s.Stays = b[48] != 0
}

func (s *Claimant) load(c *call, at uint32) {
	b := c.bytes(at, 32)
	s.Service = endian.Uint64(b[0:])
	s.Keeps = b[8] != 0
	s.Tied = b[9] != 0
}

func (s *ObjectRepair) load(c *call, at uint32) {
	b := c.bytes(at, 56)
	s.Address.load(c, at+0)
	s.Removed = endian.Uint64(b[24:])
	s.Service = endian.Uint64(b[32:])
}

func (s *Run) load(c *call, at uint32) {
	b := c.bytes(at, 56)
	s.First.load(c, at+0)
	s.Last.load(c, at+24)
	s.Len = endian.Uint64(b[48:])
}

func (s *RangeReport) load(c *call, at uint32) {
	b := c.bytes(at, 96)
	s.Record = endian.Uint32(b[0:])
	s.StaticBand = endian.Uint32(b[4:])
	s.Size = endian.Uint64(b[8:])
	s.Stored = endian.Uint64(b[16:])
	s.InUse = endian.Uint64(b[24:])
	s.Leaked = endian.Uint64(b[32:])
	s.Next = endian.Uint64(b[40:])
	s.Set = endian.Uint64(b[48:])
	s.Clear = endian.Uint64(b[56:])
	s.Duplicates = endian.Uint64(b[64:])
	s.Dropped = endian.Uint64(b[72:])
}

func (s *Allocate) store(c *call, at uint32) {
	b := c.bytes(at, 4)
	endian.PutUint32(b[0:], uint32(s.Requests))
}

func (s *Release) store(c *call, at uint32) {
	b := c.bytes(at, 48)
	endian.PutUint64(b[24:], uint64(s.AsOf))
	endian.PutUint64(b[32:], uint64(s.Oldest))
	endian.PutUint32(b[40:], uint32(s.Store))
	s.Value.store(c, at+0)
}

func (s *Operation) store(c *call, at uint32) {
	b := c.bytes(at, 64)
	endian.PutUint64(b[0:], uint64(s.Deadline))
	endian.PutUint32(b[8:], uint32(s.Kind))
	if s.Data.Allocate != nil {
		s.Data.Allocate.store(c, at+16)
	}
	if s.Data.Release != nil {
		s.Data.Release.store(c, at+16)
	}
}

func (s *KeyState) store(c *call, at uint32) {
	b := c.bytes(at, 24)
	endian.PutUint64(b[0:], uint64(s.ModRevision))
	endian.PutUint64(b[8:], uint64(s.Version))
	endian.PutUint64(b[16:], uint64(s.CreateRevision))
}

func (s *KeyState) load(c *call, at uint32) {
	b := c.bytes(at, 24)
	s.ModRevision = endian.Uint64(b[0:])
	s.Version = endian.Uint64(b[8:])
	s.CreateRevision = endian.Uint64(b[16:])
}

func (s *Key) store(c *call, at uint32) {
	listValue := c.putBytes(s.Value)
	b := c.bytes(at, 32)
	endian.PutUint32(b[24:], uint32(listValue))
	endian.PutUint32(b[28:], uint32(len(s.Value)))
	s.State.store(c, at+0)
}

func (s *Header) store(c *call, at uint32) {
	b := c.bytes(at, 24)
	endian.PutUint64(b[0:], uint64(s.ClusterID))
	endian.PutUint64(b[8:], uint64(s.Revision))
	endian.PutUint64(b[16:], uint64(s.RaftTerm))
}

func (s *Current) store(c *call, at uint32) {
	s.Header.store(c, at+0)
	s.Key.store(c, at+24)
}

func (s *Refused) store(c *call, at uint32) {
	listReason := c.putText(s.Reason)
	b := c.bytes(at, 8)
	endian.PutUint32(b[0:], uint32(listReason))
	endian.PutUint32(b[4:], uint32(len(s.Reason)))
}

func (s *Watched) store(c *call, at uint32) {
	listChanges := c.allocateMany(len(s.Changes), 32, 8)
	for i := range s.Changes {
		s.Changes[i].store(c, listChanges+uint32(i)*32)
	}
	b := c.bytes(at, 8)
	endian.PutUint32(b[0:], uint32(listChanges))
	endian.PutUint32(b[4:], uint32(len(s.Changes)))
}

func (s *Event) store(c *call, at uint32) {
	b := c.bytes(at, 64)
	endian.PutUint32(b[0:], uint32(s.Kind))
	if s.Data.Held != nil {
		s.Data.Held.store(c, at+8)
	}
	if s.Data.Current != nil {
		s.Data.Current.store(c, at+8)
	}
	if s.Data.Refused != nil {
		s.Data.Refused.store(c, at+8)
	}
	if s.Data.Watched != nil {
		s.Data.Watched.store(c, at+8)
	}
}

func (s *StepWait) load(c *call, at uint32) {
	b := c.bytes(at, 8)
	s.Until = endian.Uint64(b[0:])
}

func (s *StepSwap) load(c *call, at uint32) {
	b := c.bytes(at, 48)
	s.Guard.load(c, at+0)
	s.ServicesUnchangedSince = endian.Uint64(b[24:])
	s.Look = endian.Uint64(b[32:])
	s.ValueLen = uint(endian.Uint32(b[40:]))
	s.Witness = endian.Uint32(b[44:])
}

func (s *StepConfirm) load(c *call, at uint32) {
	s.Guard.load(c, at+0)
}

func (s *StepFinished) load(c *call, at uint32) {
	b := c.bytes(at, 12)
	s.Outcomes = uint(endian.Uint32(b[0:]))
	s.Values = uint(endian.Uint32(b[4:]))
	s.Bytes = uint(endian.Uint32(b[8:]))
}

func (s *StepWatch) load(c *call, at uint32) {
	b := c.bytes(at, 8)
	s.From = endian.Uint64(b[0:])
}

func (s *StepReadAt) load(c *call, at uint32) {
	b := c.bytes(at, 8)
	s.Revision = endian.Uint64(b[0:])
}

func (s *Step) load(c *call, at uint32) {
	b := c.bytes(at, 72)
	s.Kind = endian.Uint32(b[0:])
	s.Data.Wait.load(c, at+8)
	s.Data.Swap.load(c, at+8)
	s.Data.Confirm.load(c, at+8)
	s.Data.Finished.load(c, at+8)
	s.Data.Watch.load(c, at+8)
	s.Data.ReadAt.load(c, at+8)
}

func (s *Allocated) load(c *call, at uint32) {
	b := c.bytes(at, 32)
	s.Values = uint(endian.Uint32(b[0:]))
	s.Revision = endian.Uint64(b[8:])
	s.Store = endian.Uint32(b[16:])
	s.UseUntil = endian.Uint64(b[24:])
}

func (s *Released) load(c *call, at uint32) {
	b := c.bytes(at, 1)
	s.Freed = b[0] != 0
}

func (s *Deferred) load(c *call, at uint32) {
	b := c.bytes(at, 4)
	s.Reason = endian.Uint32(b[0:])
}

func (s *View) load(c *call, at uint32) {
	b := c.bytes(at, 16)
	s.Revision = endian.Uint64(b[0:])
	s.Bytes = uint(endian.Uint32(b[8:]))
	s.Initialised = b[12] != 0
}

func (s *Created) load(c *call, at uint32) {
	b := c.bytes(at, 1)
	s.Created = b[0] != 0
}

func (s *Repaired) load(c *call, at uint32) {
	b := c.bytes(at, 12)
	s.Set = uint(endian.Uint32(b[0:]))
	s.Cleared = uint(endian.Uint32(b[4:]))
	s.Changed = endian.Uint32(b[8:])
}

func (s *Failed) load(c *call, at uint32) {
	b := c.bytes(at, 20)
	s.Result = Result(endian.Uint32(b[0:]))
	s.Request = endian.Uint32(b[4:])
	s.Values = uint(endian.Uint32(b[8:]))
	s.StoredRange = uint(endian.Uint32(b[12:]))
	s.Reason = uint(endian.Uint32(b[16:]))
}

func (s *Edited) load(c *call, at uint32) {
	b := c.bytes(at, 16)
	s.Revision = endian.Uint64(b[0:])
	s.Values = uint(endian.Uint32(b[8:]))
	s.IsDone = b[12] != 0
}

func (s *Finished) load(c *call, at uint32) {
	b := c.bytes(at, 80)
	s.Ticket = endian.Uint64(b[0:])
	s.Outcome = endian.Uint32(b[8:])
	s.Data.Allocated.load(c, at+16)
	s.Data.Released.load(c, at+16)
	s.Data.Deferred.load(c, at+16)
	s.Data.Read.load(c, at+16)
	s.Data.Created.load(c, at+16)
	s.Data.Repaired.load(c, at+16)
	s.Data.Failed.load(c, at+16)
	s.Data.Edited.load(c, at+16)
}

func (s *Known) load(c *call, at uint32) {
	b := c.bytes(at, 40)
	s.Revision = endian.Uint64(b[0:])
	s.Used = endian.Uint32(b[8:])
	s.Initialised = b[12] != 0
	s.Store = endian.Uint32(b[16:])
	s.Restores = endian.Uint32(b[20:])
}

func (s *Edit) store(c *call, at uint32) {
	listSet := c.allocateMany(len(s.Set), 24, 8)
	for i := range s.Set {
		s.Set[i].store(c, listSet+uint32(i)*24)
	}
	listClear := c.allocateMany(len(s.Clear), 24, 8)
	for i := range s.Clear {
		s.Clear[i].store(c, listClear+uint32(i)*24)
	}
	listInUse := c.putBytes(s.InUse)
	b := c.bytes(at, 88)
	endian.PutUint32(b[0:], uint32(s.Kind))
	endian.PutUint32(b[4:], uint32(s.Pick))
	endian.PutUint32(b[8:], uint32(listSet))
	endian.PutUint32(b[12:], uint32(len(s.Set)))
	endian.PutUint32(b[16:], uint32(listClear))
	endian.PutUint32(b[20:], uint32(len(s.Clear)))
	endian.PutUint32(b[24:], uint32(listInUse))
	endian.PutUint32(b[28:], uint32(len(s.InUse)))
	endian.PutUint64(b[32:], uint64(s.Listed))
	endian.PutUint64(b[40:], uint64(s.Since))
	endian.PutUint64(b[48:], uint64(s.Look))
}

func (s *Reservation) store(c *call, at uint32) {
	b := c.bytes(at, 32)
	endian.PutUint64(b[24:], uint64(s.ID))
	s.Address.store(c, at+0)
}

func (s *Reservation) load(c *call, at uint32) {
	b := c.bytes(at, 32)
	s.Address.load(c, at+0)
	s.ID = endian.Uint64(b[24:])
}

func (s *IndexChanges) load(c *call, at uint32) {
	b := c.bytes(at, 32)
	s.Added = endian.Uint64(b[0:])
	s.Removed = endian.Uint64(b[8:])
}

func (s *AddressObject) store(c *call, at uint32) {
	b := c.bytes(at, 24)
	putBool(b[0:], s.Managed)
	putBool(b[1:], s.Labelled)
	endian.PutUint32(b[4:], uint32(s.Parent))
}

func (s *LedgerValue) store(c *call, at uint32) {
	b := c.bytes(at, 32)
	endian.PutUint64(b[0:], uint64(s.High))
	endian.PutUint64(b[8:], uint64(s.Low))
	endian.PutUint64(b[16:], uint64(s.Size))
	endian.PutUint32(b[24:], uint32(s.Kind))
}

func (s *LedgerValue) load(c *call, at uint32) {
	b := c.bytes(at, 32)
	s.High = endian.Uint64(b[0:])
	s.Low = endian.Uint64(b[8:])
	s.Size = endian.Uint64(b[16:])
	s.Kind = endian.Uint32(b[24:])
}

func (s *LedgerAllocation) load(c *call, at uint32) {
	b := c.bytes(at, 40)
	s.First.load(c, at+0)
	s.Len = endian.Uint32(b[32:])
}

func (s *LedgerChange) store(c *call, at uint32) {
	b := c.bytes(at, 40)
	endian.PutUint32(b[32:], uint32(s.Kind))
	endian.PutUint32(b[36:], uint32(s.N))
	s.Value.store(c, at+0)
}

func (s *LedgerUsage) load(c *call, at uint32) {
	b := c.bytes(at, 40)
	s.Used = endian.Uint64(b[0:])
	s.Cooling = endian.Uint64(b[8:])
	s.Size = endian.Uint64(b[16:])
}

func (s *LedgerRequest) load(c *call, at uint32) {
	b := c.bytes(at, 24)
	s.Until = endian.Uint64(b[0:])
	s.ValueLen = uint(endian.Uint32(b[8:]))
	s.TokenLen = uint(endian.Uint32(b[12:]))
	s.Kind = endian.Uint32(b[16:])
}

// ABIVersion is rk_abi_version.
func ABIVersion() (result uint32) {
	c := call{}
	if c.enter(&coreCalls) != ResultOK {
		return result
	}
	defer c.leave(new(Result))
	number := uint32(c.core.Xrk_abi_version())
	c.done = true
	return number
}

// ResultName is rk_result_name.
func ResultName(theResult uint32) (result string) {
	c := call{}
	if c.enter(&coreCalls) != ResultOK {
		return result
	}
	defer c.leave(new(Result))
	at := c.core.Xrk_result_name(int32(theResult))
	c.done = true
	return c.text(uint32(at))
}

// AddressParse is rk_address_parse.
func AddressParse(address string, value *Value) (result Result) {
	c := call{}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 24
	atAddress := c.putText(address)
	atValue := fixed + 0
	result = Result(c.core.Xrk_address_parse(int32(atAddress), int32(len(address)), int32(atValue)))
	c.done = true
	if result == ResultOK {
		value.load(&c, atValue)
	}
	return result
}

// ValueText is rk_value_text.
func ValueText(value *Value, buffer []byte, theLen *uint) (result Result) {
	c := call{}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 32
	var atValue uint32
	if value != nil {
		atValue = fixed + 0
		value.store(&c, atValue)
	}
	atBuffer := c.allocateMany(len(buffer), 1, 1)
	atLen := fixed + 24
	{
		b := c.bytes(atLen, 4)
		endian.PutUint32(b[0:], uint32(*theLen))
	}
	result = Result(c.core.Xrk_value_text(int32(atValue), int32(atBuffer), int32(len(buffer)), int32(atLen)))
	c.done = true
	{
		b := c.bytes(atLen, 4)
		*theLen = uint(endian.Uint32(b[0:]))
	}
	if result == ResultOK {
		copy(buffer, c.bytes(atBuffer, min(len(buffer), int(*theLen))))
	}
	return result
}

// RangeParse is rk_range_parse.
func RangeParse(spec string, kind uint32, theRange *Range, theError *Error) (result Result) {
	c := call{}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 592
	atSpec := c.putText(spec)
	atRange := fixed + 0
	atError := fixed + 32
	result = Result(c.core.Xrk_range_parse(int32(atSpec), int32(len(spec)), int32(kind), int32(atRange), int32(atError)))
	c.done = true
	if result == ResultOK {
		theRange.load(&c, atRange)
	}
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// RangeDescribe is rk_range_describe.
func RangeDescribe(theRange *Range, description *RangeDescription) (result Result) {
	c := call{}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 112
	var atRange uint32
	if theRange != nil {
		atRange = fixed + 0
		theRange.store(&c, atRange)
	}
	atDescription := fixed + 32
	result = Result(c.core.Xrk_range_describe(int32(atRange), int32(atDescription)))
	c.done = true
	if result == ResultOK {
		description.load(&c, atDescription)
	}
	return result
}

// RangeOffsetOf is rk_range_offset_of.
func RangeOffsetOf(theRange *Range, value *Value, offset *uint32) (result Result) {
	c := call{}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 64
	var atRange uint32
	if theRange != nil {
		atRange = fixed + 0
		theRange.store(&c, atRange)
	}
	var atValue uint32
	if value != nil {
		atValue = fixed + 32
		value.store(&c, atValue)
	}
	atOffset := fixed + 56
	{
		b := c.bytes(atOffset, 4)
		endian.PutUint32(b[0:], uint32(*offset))
	}
	result = Result(c.core.Xrk_range_offset_of(int32(atRange), int32(atValue), int32(atOffset)))
	c.done = true
	{
		b := c.bytes(atOffset, 4)
		*offset = endian.Uint32(b[0:])
	}
	return result
}

// RangeValueAt is rk_range_value_at.
func RangeValueAt(theRange *Range, offset uint32, value *Value) (result Result) {
	c := call{}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 56
	var atRange uint32
	if theRange != nil {
		atRange = fixed + 0
		theRange.store(&c, atRange)
	}
	atValue := fixed + 32
	result = Result(c.core.Xrk_range_value_at(int32(atRange), int32(offset), int32(atValue)))
	c.done = true
	if result == ResultOK {
		value.load(&c, atValue)
	}
	return result
}

// RangeExcludes is rk_range_excludes.
func RangeExcludes(theRange *Range, other *Range, excludes *bool) (result Result) {
	c := call{}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 72
	var atRange uint32
	if theRange != nil {
		atRange = fixed + 0
		theRange.store(&c, atRange)
	}
	var atOther uint32
	if other != nil {
		atOther = fixed + 32
		other.store(&c, atOther)
	}
	atExcludes := fixed + 64
	{
		b := c.bytes(atExcludes, 1)
		putBool(b[0:], *excludes)
	}
	result = Result(c.core.Xrk_range_excludes(int32(atRange), int32(atOther), int32(atExcludes)))
	c.done = true
	{
		b := c.bytes(atExcludes, 1)
		*excludes = b[0] != 0
	}
	return result
}

// RangeChanges is rk_range_changes.
func RangeChanges(theRange *Range, before []uint8, after []uint8, fromOffset uint32, values []Value, allocated []bool, n *uint, nextOffset *uint32, theError *Error) (result Result) {
	c := call{}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 600
	var atRange uint32
	if theRange != nil {
		atRange = fixed + 0
		theRange.store(&c, atRange)
	}
	atBefore := c.putBytes(before)
	atAfter := c.putBytes(after)
	atValues := c.allocateMany(len(values), 24, 8)
	atAllocated := c.allocateMany(len(allocated), 1, 1)
	atN := fixed + 32
	{
		b := c.bytes(atN, 4)
		endian.PutUint32(b[0:], uint32(*n))
	}
	atNextOffset := fixed + 36
	{
		b := c.bytes(atNextOffset, 4)
		endian.PutUint32(b[0:], uint32(*nextOffset))
	}
	atError := fixed + 40
	c.grow()
	result = Result(c.core.Xrk_range_changes(int32(atRange), int32(atBefore), int32(len(before)), int32(atAfter), int32(len(after)), int32(fromOffset), int32(atValues), int32(atAllocated), int32(len(allocated)), int32(atN), int32(atNextOffset), int32(atError)))
	c.done = true
	{
		b := c.bytes(atNextOffset, 4)
		*nextOffset = endian.Uint32(b[0:])
	}
	{
		b := c.bytes(atN, 4)
		*n = uint(endian.Uint32(b[0:]))
	}
	if result == ResultOK {
		for i := range values[:min(len(values), int(*n))] {
			values[i].load(&c, atValues+uint32(i)*24)
		}
	}
	if result == ResultOK {
		c.getBools(allocated[:min(len(allocated), int(*n))], atAllocated)
	}
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// ServiceCIDRParse is rk_service_cidr_parse.
func ServiceCIDRParse(spec string, cidr *ServiceCIDR, theError *Error) (result Result) {
	c := call{}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 592
	atSpec := c.putText(spec)
	atCIDR := fixed + 0
	atError := fixed + 32
	result = Result(c.core.Xrk_service_cidr_parse(int32(atSpec), int32(len(spec)), int32(atCIDR), int32(atError)))
	c.done = true
	if result == ResultOK {
		cidr.load(&c, atCIDR)
	}
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// ServiceCIDRDescribe is rk_service_cidr_describe.
func ServiceCIDRDescribe(cidr *ServiceCIDR, description *ServiceCIDRDescription) (result Result) {
	c := call{}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 64
	var atCIDR uint32
	if cidr != nil {
		atCIDR = fixed + 0
		cidr.store(&c, atCIDR)
	}
	atDescription := fixed + 32
	result = Result(c.core.Xrk_service_cidr_describe(int32(atCIDR), int32(atDescription)))
	c.done = true
	if result == ResultOK {
		description.load(&c, atDescription)
	}
	return result
}

// ServiceCIDROffsetOf is rk_service_cidr_offset_of.
func ServiceCIDROffsetOf(cidr *ServiceCIDR, value *Value, offset *uint64) (result Result) {
	c := call{}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 64
	var atCIDR uint32
	if cidr != nil {
		atCIDR = fixed + 0
		cidr.store(&c, atCIDR)
	}
	var atValue uint32
	if value != nil {
		atValue = fixed + 32
		value.store(&c, atValue)
	}
	atOffset := fixed + 56
	{
		b := c.bytes(atOffset, 8)
		endian.PutUint64(b[0:], uint64(*offset))
	}
	result = Result(c.core.Xrk_service_cidr_offset_of(int32(atCIDR), int32(atValue), int32(atOffset)))
	c.done = true
	{
		b := c.bytes(atOffset, 8)
		*offset = endian.Uint64(b[0:])
	}
	return result
}

// ServiceCIDRValueAt is rk_service_cidr_value_at.
func ServiceCIDRValueAt(cidr *ServiceCIDR, offset uint64, value *Value) (result Result) {
	c := call{}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 56
	var atCIDR uint32
	if cidr != nil {
		atCIDR = fixed + 0
		cidr.store(&c, atCIDR)
	}
	atValue := fixed + 32
	result = Result(c.core.Xrk_service_cidr_value_at(int32(atCIDR), int64(offset), int32(atValue)))
	c.done = true
	if result == ResultOK {
		value.load(&c, atValue)
	}
	return result
}

// AllocatorNew is rk_allocator_new.
func AllocatorNew(theRange *Range, strategy uint32, seed uint64, allocator **Allocator, theError *Error) (result Result) {
	c := call{instance: place(bitmapSize(theRange))}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 600
	var atRange uint32
	if theRange != nil {
		atRange = fixed + 0
		theRange.store(&c, atRange)
	}
	atAllocator := fixed + 32
	atError := fixed + 40
	result = Result(c.core.Xrk_allocator_new(int32(atRange), int32(strategy), int64(seed), int32(atAllocator), int32(atError)))
	c.done = true
	if result == ResultOK {
		*allocator = (*Allocator)(c.object(atAllocator))
	}
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// AllocatorDryRun is rk_allocator_dry_run.
func AllocatorDryRun(allocator *Allocator, dryRun **Allocator) (result Result) {
	c := call{first: (*object)(allocator)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 8
	atDryRun := fixed + 0
	c.grow()
	result = Result(c.core.Xrk_allocator_dry_run((*object)(allocator).address(), int32(atDryRun)))
	c.done = true
	if result == ResultOK {
		*dryRun = (*Allocator)(c.object(atDryRun))
	}
	return result
}

// AllocatorAllocate is rk_allocator_allocate.
func AllocatorAllocate(allocator *Allocator, value *Value) (result Result) {
	c := call{first: (*object)(allocator)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 24
	var atValue uint32
	if value != nil {
		atValue = fixed + 0
		value.store(&c, atValue)
	}
	result = Result(c.core.Xrk_allocator_allocate((*object)(allocator).address(), int32(atValue)))
	c.done = true
	return result
}

// AllocatorAllocateNext is rk_allocator_allocate_next.
func AllocatorAllocateNext(allocator *Allocator, value *Value) (result Result) {
	c := call{first: (*object)(allocator)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 24
	atValue := fixed + 0
	result = Result(c.core.Xrk_allocator_allocate_next((*object)(allocator).address(), int32(atValue)))
	c.done = true
	if result == ResultOK {
		value.load(&c, atValue)
	}
	return result
}

// AllocatorRelease is rk_allocator_release.
func AllocatorRelease(allocator *Allocator, value *Value, wasUsed *bool) (result Result) {
	c := call{first: (*object)(allocator)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 32
	var atValue uint32
	if value != nil {
		atValue = fixed + 0
		value.store(&c, atValue)
	}
	atWasUsed := fixed + 24
	{
		b := c.bytes(atWasUsed, 1)
		putBool(b[0:], *wasUsed)
	}
	result = Result(c.core.Xrk_allocator_release((*object)(allocator).address(), int32(atValue), int32(atWasUsed)))
	c.done = true
	{
		b := c.bytes(atWasUsed, 1)
		*wasUsed = b[0] != 0
	}
	return result
}

// AllocatorHas is rk_allocator_has.
func AllocatorHas(allocator *Allocator, value *Value, isUsed *bool) (result Result) {
	c := call{first: (*object)(allocator)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 32
	var atValue uint32
	if value != nil {
		atValue = fixed + 0
		value.store(&c, atValue)
	}
	atIsUsed := fixed + 24
	{
		b := c.bytes(atIsUsed, 1)
		putBool(b[0:], *isUsed)
	}
	result = Result(c.core.Xrk_allocator_has((*object)(allocator).address(), int32(atValue), int32(atIsUsed)))
	c.done = true
	{
		b := c.bytes(atIsUsed, 1)
		*isUsed = b[0] != 0
	}
	return result
}

// AllocatorUsed is rk_allocator_used.
func AllocatorUsed(allocator *Allocator, used *uint32) (result Result) {
	c := call{first: (*object)(allocator)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 8
	atUsed := fixed + 0
	{
		b := c.bytes(atUsed, 4)
		endian.PutUint32(b[0:], uint32(*used))
	}
	result = Result(c.core.Xrk_allocator_used((*object)(allocator).address(), int32(atUsed)))
	c.done = true
	{
		b := c.bytes(atUsed, 4)
		*used = endian.Uint32(b[0:])
	}
	return result
}

// AllocatorAllocateBatch is rk_allocator_allocate_batch.
func AllocatorAllocateBatch(allocator *Allocator, requests []Value, values []Value, theError *Error) (result Result) {
	c := call{first: (*object)(allocator)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 560
	atRequests := c.allocateMany(len(requests), 24, 8)
	for i := range requests {
		requests[i].store(&c, atRequests+uint32(i)*24)
	}
	atValues := c.allocateMany(len(values), 24, 8)
	atError := fixed + 0
	c.grow()
	result = Result(c.core.Xrk_allocator_allocate_batch((*object)(allocator).address(), int32(atRequests), int32(len(values)), int32(atValues), int32(atError)))
	c.done = true
	if result == ResultOK {
		for i := range values[:len(values)] {
			values[i].load(&c, atValues+uint32(i)*24)
		}
	}
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// AllocatorSnapshot is rk_allocator_snapshot.
func AllocatorSnapshot(allocator *Allocator, buffer []uint8, theLen *uint) (result Result) {
	c := call{first: (*object)(allocator)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 8
	atBuffer := c.allocateMany(len(buffer), 1, 1)
	atLen := fixed + 0
	{
		b := c.bytes(atLen, 4)
		endian.PutUint32(b[0:], uint32(*theLen))
	}
	result = Result(c.core.Xrk_allocator_snapshot((*object)(allocator).address(), int32(atBuffer), int32(len(buffer)), int32(atLen)))
	c.done = true
	{
		b := c.bytes(atLen, 4)
		*theLen = uint(endian.Uint32(b[0:]))
	}
	if result == ResultOK {
		copy(buffer, c.bytes(atBuffer, min(len(buffer), int(*theLen))))
	}
	return result
}

// AllocatorRestore is rk_allocator_restore.
func AllocatorRestore(allocator *Allocator, theRange string, data []uint8, theError *Error) (result Result) {
	c := call{first: (*object)(allocator)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 560
	atRange := c.putText(theRange)
	atData := c.putBytes(data)
	atError := fixed + 0
	c.grow()
	result = Result(c.core.Xrk_allocator_restore((*object)(allocator).address(), int32(atRange), int32(len(theRange)), int32(atData), int32(len(data)), int32(atError)))
	c.done = true
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// RangeAllocationNew is rk_range_allocation_new.
func RangeAllocationNew(form uint32, theObject **RangeAllocation) (result Result) {
	c := call{}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 8
	atObject := fixed + 0
	result = Result(c.core.Xrk_range_allocation_new(int32(form), int32(atObject)))
	c.done = true
	if result == ResultOK {
		*theObject = (*RangeAllocation)(c.object(atObject))
	}
	return result
}

// RangeAllocationDecode is rk_range_allocation_decode.
func RangeAllocationDecode(stored []uint8, theObject **RangeAllocation, theError *Error) (result Result) {
	c := call{}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 568
	atStored := c.putBytes(stored)
	atObject := fixed + 0
	atError := fixed + 8
	c.grow()
	result = Result(c.core.Xrk_range_allocation_decode(int32(atStored), int32(len(stored)), int32(atObject), int32(atError)))
	c.done = true
	if result == ResultOK {
		*theObject = (*RangeAllocation)(c.object(atObject))
	}
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// RangeAllocationRange is rk_range_allocation_range.
func RangeAllocationRange(theObject *RangeAllocation, buffer []byte, theLen *uint) (result Result) {
	c := call{first: (*object)(theObject)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 8
	atBuffer := c.allocateMany(len(buffer), 1, 1)
	atLen := fixed + 0
	{
		b := c.bytes(atLen, 4)
		endian.PutUint32(b[0:], uint32(*theLen))
	}
	result = Result(c.core.Xrk_range_allocation_range((*object)(theObject).address(), int32(atBuffer), int32(len(buffer)), int32(atLen)))
	c.done = true
	{
		b := c.bytes(atLen, 4)
		*theLen = uint(endian.Uint32(b[0:]))
	}
	if result == ResultOK {
		copy(buffer, c.bytes(atBuffer, min(len(buffer), int(*theLen))))
	}
	return result
}

// RangeAllocationData is rk_range_allocation_data.
func RangeAllocationData(theObject *RangeAllocation, buffer []uint8, theLen *uint) (result Result) {
	c := call{first: (*object)(theObject)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 8
	atBuffer := c.allocateMany(len(buffer), 1, 1)
	atLen := fixed + 0
	{
		b := c.bytes(atLen, 4)
		endian.PutUint32(b[0:], uint32(*theLen))
	}
	result = Result(c.core.Xrk_range_allocation_data((*object)(theObject).address(), int32(atBuffer), int32(len(buffer)), int32(atLen)))
	c.done = true
	{
		b := c.bytes(atLen, 4)
		*theLen = uint(endian.Uint32(b[0:]))
	}
	if result == ResultOK {
		copy(buffer, c.bytes(atBuffer, min(len(buffer), int(*theLen))))
	}
	return result
}

// RangeAllocationSet is rk_range_allocation_set.
func RangeAllocationSet(theObject *RangeAllocation, theRange string, data []uint8, theError *Error) (result Result) {
	c := call{first: (*object)(theObject)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 560
	atRange := c.putText(theRange)
	atData := c.putBytes(data)
	atError := fixed + 0
	c.grow()
	result = Result(c.core.Xrk_range_allocation_set((*object)(theObject).address(), int32(atRange), int32(len(theRange)), int32(atData), int32(len(data)), int32(atError)))
	c.done = true
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// RangeAllocationEncode is rk_range_allocation_encode.
func RangeAllocationEncode(theObject *RangeAllocation, buffer []uint8, theLen *uint) (result Result) {
	c := call{first: (*object)(theObject)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 8
	atBuffer := c.allocateMany(len(buffer), 1, 1)
	atLen := fixed + 0
	{
		b := c.bytes(atLen, 4)
		endian.PutUint32(b[0:], uint32(*theLen))
	}
	result = Result(c.core.Xrk_range_allocation_encode((*object)(theObject).address(), int32(atBuffer), int32(len(buffer)), int32(atLen)))
	c.done = true
	{
		b := c.bytes(atLen, 4)
		*theLen = uint(endian.Uint32(b[0:]))
	}
	if result == ResultOK {
		copy(buffer, c.bytes(atBuffer, min(len(buffer), int(*theLen))))
	}
	return result
}

// LeakCountersNew is rk_leak_counters_new.
func LeakCountersNew(theRange *Range, passes uint8, counters **LeakCounters, theError *Error) (result Result) {
	c := call{instance: place(bitmapSize(theRange))}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 600
	var atRange uint32
	if theRange != nil {
		atRange = fixed + 0
		theRange.store(&c, atRange)
	}
	atCounters := fixed + 32
	atError := fixed + 40
	result = Result(c.core.Xrk_leak_counters_new(int32(atRange), int32(passes), int32(atCounters), int32(atError)))
	c.done = true
	if result == ResultOK {
		*counters = (*LeakCounters)(c.object(atCounters))
	}
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// LeakCountersAdvance is rk_leak_counters_advance.
func LeakCountersAdvance(counters *LeakCounters, leaked []Value, due []Value, dueLen *uint) (result Result) {
	c := call{first: (*object)(counters)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 8
	atLeaked := c.allocateMany(len(leaked), 24, 8)
	for i := range leaked {
		leaked[i].store(&c, atLeaked+uint32(i)*24)
	}
	atDue := c.allocateMany(len(due), 24, 8)
	atDueLen := fixed + 0
	{
		b := c.bytes(atDueLen, 4)
		endian.PutUint32(b[0:], uint32(*dueLen))
	}
	c.grow()
	result = Result(c.core.Xrk_leak_counters_advance((*object)(counters).address(), int32(atLeaked), int32(len(leaked)), int32(atDue), int32(len(due)), int32(atDueLen)))
	c.done = true
	{
		b := c.bytes(atDueLen, 4)
		*dueLen = uint(endian.Uint32(b[0:]))
	}
	if result == ResultOK {
		for i := range due[:min(len(due), int(*dueLen))] {
			due[i].load(&c, atDue+uint32(i)*24)
		}
	}
	return result
}

// LeakCountersCount is rk_leak_counters_count.
func LeakCountersCount(counters *LeakCounters, value *Value, count *uint8) (result Result) {
	c := call{first: (*object)(counters)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 32
	var atValue uint32
	if value != nil {
		atValue = fixed + 0
		value.store(&c, atValue)
	}
	atCount := fixed + 24
	{
		b := c.bytes(atCount, 1)
		b[0] = *count
	}
	result = Result(c.core.Xrk_leak_counters_count((*object)(counters).address(), int32(atValue), int32(atCount)))
	c.done = true
	{
		b := c.bytes(atCount, 1)
		*count = b[0]
	}
	return result
}

// LeakTrackerNew is rk_leak_tracker_new.
func LeakTrackerNew(passes uint8, interval uint64, keepsLeaks bool, tracker **LeakTracker, theError *Error) (result Result) {
	c := call{}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 568
	atTracker := fixed + 0
	atError := fixed + 8
	result = Result(c.core.Xrk_leak_tracker_new(int32(passes), int64(interval), number(keepsLeaks), int32(atTracker), int32(atError)))
	c.done = true
	if result == ResultOK {
		*tracker = (*LeakTracker)(c.object(atTracker))
	}
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// ServicesClaims is rk_services_claims.
func ServicesClaims(batch *Services, from uint, claims []Claim, n *uint, theError *Error) (result Result) {
	c := call{}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 592
	var atBatch uint32
	if batch != nil {
		atBatch = fixed + 0
		batch.store(&c, atBatch)
	}
	atClaims := c.allocateMany(len(claims), 64, 8)
	atN := fixed + 28
	{
		b := c.bytes(atN, 4)
		endian.PutUint32(b[0:], uint32(*n))
	}
	atError := fixed + 32
	c.grow()
	result = Result(c.core.Xrk_services_claims(int32(atBatch), size(from), int32(atClaims), int32(len(claims)), int32(atN), int32(atError)))
	c.done = true
	{
		b := c.bytes(atN, 4)
		*n = uint(endian.Uint32(b[0:]))
	}
	if result == ResultOK {
		for i := range claims[:min(len(claims), int(*n))] {
			claims[i].load(&c, atClaims+uint32(i)*64)
		}
	}
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// ClusterIPRecordsOf is rk_cluster_ip_records_of.
func ClusterIPRecordsOf(objects uint64, bitmap uint32) (result uint32) {
	c := call{}
	if c.enter(&coreCalls) != ResultOK {
		return result
	}
	defer c.leave(new(Result))
	number := uint32(c.core.Xrk_cluster_ip_records_of(int64(objects), int32(bitmap)))
	c.done = true
	return number
}

// StoreContentOf is rk_store_content_of.
func StoreContentOf(services uint64, objects uint64, others uint64) (result uint32) {
	c := call{}
	if c.enter(&coreCalls) != ResultOK {
		return result
	}
	defer c.leave(new(Result))
	number := uint32(c.core.Xrk_store_content_of(int64(services), int64(objects), int64(others)))
	c.done = true
	return number
}

// AuditNew is rk_audit_new.
func AuditNew(tracker *LeakTracker, ipaddresses bool, unixSeconds *int64, audit **Audit) (result Result) {
	c := call{first: (*object)(tracker)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 16
	var atUnixSeconds uint32
	if unixSeconds != nil {
		atUnixSeconds = fixed + 0
		endian.PutUint64(c.bytes(atUnixSeconds, 8), uint64(*unixSeconds))
	}
	atAudit := fixed + 8
	result = Result(c.core.Xrk_audit_new((*object)(tracker).address(), number(ipaddresses), int32(atUnixSeconds), int32(atAudit)))
	c.done = true
	if result == ResultOK {
		*audit = (*Audit)(c.object(atAudit))
	}
	return result
}

// AuditAddBitmap is rk_audit_add_bitmap.
func AuditAddBitmap(audit *Audit, configured *Range, storedRange string, storedData []uint8, theError *Error) (result Result) {
	c := call{first: (*object)(audit)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 592
	var atConfigured uint32
	if configured != nil {
		atConfigured = fixed + 0
		configured.store(&c, atConfigured)
	}
	atStoredRange := c.putText(storedRange)
	atStoredData := c.putBytes(storedData)
	atError := fixed + 32
	c.grow()
	result = Result(c.core.Xrk_audit_add_bitmap((*object)(audit).address(), int32(atConfigured), int32(atStoredRange), int32(len(storedRange)), int32(atStoredData), int32(len(storedData)), int32(atError)))
	c.done = true
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// AuditAddUnseen is rk_audit_add_unseen.
func AuditAddUnseen(audit *Audit, theRange *Range, known []uint8, theError *Error) (result Result) {
	c := call{first: (*object)(audit)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 592
	var atRange uint32
	if theRange != nil {
		atRange = fixed + 0
		theRange.store(&c, atRange)
	}
	atKnown := c.putBytes(known)
	atError := fixed + 32
	c.grow()
	result = Result(c.core.Xrk_audit_add_unseen((*object)(audit).address(), int32(atRange), int32(atKnown), int32(len(known)), int32(atError)))
	c.done = true
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// AuditCompareBitmap is rk_audit_compare_bitmap.
func AuditCompareBitmap(audit *Audit, theRange uint, written uint64, upgraded uint64, theError *Error) (result Result) {
	c := call{first: (*object)(audit)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 560
	atError := fixed + 0
	c.grow()
	result = Result(c.core.Xrk_audit_compare_bitmap((*object)(audit).address(), size(theRange), int64(written), int64(upgraded), int32(atError)))
	c.done = true
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// AuditAddServiceCIDR is rk_audit_add_service_cidr.
func AuditAddServiceCIDR(audit *Audit, cidr string, isReady bool, theError *Error) (result Result) {
	c := call{first: (*object)(audit)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 560
	atCIDR := c.putText(cidr)
	atError := fixed + 0
	c.grow()
	result = Result(c.core.Xrk_audit_add_service_cidr((*object)(audit).address(), int32(atCIDR), int32(len(cidr)), number(isReady), int32(atError)))
	c.done = true
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// AuditObserveIPAddresses is rk_audit_observe_ip_addresses.
func AuditObserveIPAddresses(audit *Audit, batch *IPAddresses, theError *Error) (result Result) {
	c := call{first: (*object)(audit)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 592
	var atBatch uint32
	if batch != nil {
		atBatch = fixed + 0
		batch.store(&c, atBatch)
	}
	atError := fixed + 32
	c.grow()
	result = Result(c.core.Xrk_audit_observe_ip_addresses((*object)(audit).address(), int32(atBatch), int32(atError)))
	c.done = true
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// AuditObserveServices is rk_audit_observe_services.
func AuditObserveServices(audit *Audit, names *ServiceNames, batch *Services, theError *Error) (result Result) {
	c := call{first: (*object)(audit)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 616
	var atNames uint32
	if names != nil {
		atNames = fixed + 0
		names.store(&c, atNames)
	}
	var atBatch uint32
	if batch != nil {
		atBatch = fixed + 28
		batch.store(&c, atBatch)
	}
	atError := fixed + 56
	c.grow()
	result = Result(c.core.Xrk_audit_observe_services((*object)(audit).address(), int32(atNames), int32(atBatch), int32(atError)))
	c.done = true
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// AuditObserveUnreadable is rk_audit_observe_unreadable.
func AuditObserveUnreadable(audit *Audit, kind uint32, name string, theError *Error) (result Result) {
	c := call{first: (*object)(audit)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 560
	atName := c.putText(name)
	atError := fixed + 0
	result = Result(c.core.Xrk_audit_observe_unreadable((*object)(audit).address(), int32(kind), int32(atName), int32(len(name)), int32(atError)))
	c.done = true
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// AuditCheckCluster is rk_audit_check_cluster.
func AuditCheckCluster(audit *Audit, serviceIPs uint32, secondaryServiceIPs uint32, serviceNodePorts uint32, upgraded uint64, cleansLeaks bool, theError *Error) (result Result) {
	c := call{first: (*object)(audit)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 560
	atError := fixed + 0
	result = Result(c.core.Xrk_audit_check_cluster((*object)(audit).address(), int32(serviceIPs), int32(secondaryServiceIPs), int32(serviceNodePorts), int64(upgraded), number(cleansLeaks), int32(atError)))
	c.done = true
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// AuditFinish is rk_audit_finish.
func AuditFinish(audit *Audit, report **Report, theError *Error) (result Result) {
	c := call{first: (*object)(audit)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 568
	atReport := fixed + 0
	atError := fixed + 8
	result = Result(c.core.Xrk_audit_finish((*object)(audit).address(), int32(atReport), int32(atError)))
	c.done = true
	if result == ResultOK {
		*report = (*Report)(c.object(atReport))
	}
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// RangesJudge is rk_ranges_judge.
func RangesJudge(flag string, serviceCIDR string, bitmap string, values []Value, verdict *RangesVerdict, theError *Error) (result Result) {
	c := call{}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 616
	atFlag := c.putText(flag)
	atServiceCIDR := c.putText(serviceCIDR)
	atBitmap := c.putText(bitmap)
	atValues := c.allocateMany(len(values), 24, 8)
	for i := range values {
		values[i].store(&c, atValues+uint32(i)*24)
	}
	atVerdict := fixed + 0
	atError := fixed + 56
	c.grow()
	result = Result(c.core.Xrk_ranges_judge(int32(atFlag), int32(len(flag)), int32(atServiceCIDR), int32(len(serviceCIDR)), int32(atBitmap), int32(len(bitmap)), int32(atValues), int32(len(values)), int32(atVerdict), int32(atError)))
	c.done = true
	if result == ResultOK {
		verdict.load(&c, atVerdict)
	}
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// ReasonName is rk_reason_name.
func ReasonName(reason uint32) (result string) {
	c := call{}
	if c.enter(&coreCalls) != ResultOK {
		return result
	}
	defer c.leave(new(Result))
	at := c.core.Xrk_reason_name(int32(reason))
	c.done = true
	return c.text(uint32(at))
}

// ReasonSeverity is rk_reason_severity.
func ReasonSeverity(reason uint32) (result uint32) {
	c := call{}
	if c.enter(&coreCalls) != ResultOK {
		return result
	}
	defer c.leave(new(Result))
	number := uint32(c.core.Xrk_reason_severity(int32(reason)))
	c.done = true
	return number
}

// ReportRecordRepair is rk_report_record_repair.
func ReportRecordRepair(report *Report, theRange uint, outcome uint32, set []Value, cleared []Value, theError *Error) (result Result) {
	c := call{first: (*object)(report)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 560
	atSet := c.allocateMany(len(set), 24, 8)
	for i := range set {
		set[i].store(&c, atSet+uint32(i)*24)
	}
	atCleared := c.allocateMany(len(cleared), 24, 8)
	for i := range cleared {
		cleared[i].store(&c, atCleared+uint32(i)*24)
	}
	atError := fixed + 0
	c.grow()
	result = Result(c.core.Xrk_report_record_repair((*object)(report).address(), size(theRange), int32(outcome), int32(atSet), int32(len(set)), int32(atCleared), int32(len(cleared)), int32(atError)))
	c.done = true
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// ReportServices is rk_report_services.
func ReportServices(report *Report, services *uint64) (result Result) {
	c := call{first: (*object)(report)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 8
	atServices := fixed + 0
	{
		b := c.bytes(atServices, 8)
		endian.PutUint64(b[0:], uint64(*services))
	}
	result = Result(c.core.Xrk_report_services((*object)(report).address(), int32(atServices)))
	c.done = true
	{
		b := c.bytes(atServices, 8)
		*services = endian.Uint64(b[0:])
	}
	return result
}

// ReportFindings is rk_report_findings.
func ReportFindings(report *Report, from uint, findings []Finding, n *uint) (result Result) {
	c := call{first: (*object)(report)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 8
	atFindings := c.allocateMany(len(findings), 72, 8)
	atN := fixed + 0
	{
		b := c.bytes(atN, 4)
		endian.PutUint32(b[0:], uint32(*n))
	}
	result = Result(c.core.Xrk_report_findings((*object)(report).address(), size(from), int32(atFindings), int32(len(findings)), int32(atN)))
	c.done = true
	{
		b := c.bytes(atN, 4)
		*n = uint(endian.Uint32(b[0:]))
	}
	if result == ResultOK {
		for i := range findings[:min(len(findings), int(*n))] {
			findings[i].load(&c, atFindings+uint32(i)*72)
		}
	}
	return result
}

// ReportFindingTexts is rk_report_finding_texts.
func ReportFindingTexts(report *Report, from uint, buffer []byte, ends []uint, written *uint) (result Result) {
	c := call{first: (*object)(report)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 8
	atBuffer := c.allocateMany(len(buffer), 1, 1)
	atEnds := c.allocateMany(len(ends), 4, 4)
	atWritten := fixed + 0
	{
		b := c.bytes(atWritten, 4)
		endian.PutUint32(b[0:], uint32(*written))
	}
	result = Result(c.core.Xrk_report_finding_texts((*object)(report).address(), size(from), int32(atBuffer), int32(len(buffer)), int32(atEnds), int32(len(ends)/2), int32(atWritten)))
	c.done = true
	{
		b := c.bytes(atWritten, 4)
		*written = uint(endian.Uint32(b[0:]))
	}
	if result == ResultOK {
		copy(buffer, c.bytes(atBuffer, len(buffer)))
	}
	if result == ResultOK {
		c.getSizes(ends[:len(ends)], atEnds)
	}
	return result
}

// ReportFindFullRanges is rk_report_find_full_ranges.
func ReportFindFullRanges(report *Report, percent uint8) (result Result) {
	c := call{first: (*object)(report)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	result = Result(c.core.Xrk_report_find_full_ranges((*object)(report).address(), int32(percent)))
	c.done = true
	return result
}

// ReportObserveForms is rk_report_observe_forms.
func ReportObserveForms(report *Report, forms []uint32, theError *Error) (result Result) {
	c := call{first: (*object)(report)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 560
	atForms := c.putWords(forms)
	atError := fixed + 0
	c.grow()
	result = Result(c.core.Xrk_report_observe_forms((*object)(report).address(), int32(atForms), int32(len(forms)), int32(atError)))
	c.done = true
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// ReportObserveClaimants is rk_report_observe_claimants.
func ReportObserveClaimants(report *Report, names *ServiceNames, batch *Services, theError *Error) (result Result) {
	c := call{first: (*object)(report)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 616
	var atNames uint32
	if names != nil {
		atNames = fixed + 0
		names.store(&c, atNames)
	}
	var atBatch uint32
	if batch != nil {
		atBatch = fixed + 28
		batch.store(&c, atBatch)
	}
	atError := fixed + 56
	c.grow()
	result = Result(c.core.Xrk_report_observe_claimants((*object)(report).address(), int32(atNames), int32(atBatch), int32(atError)))
	c.done = true
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// ReportClaimants is rk_report_claimants.
func ReportClaimants(report *Report, finding uint, claimants []Claimant, n *uint) (result Result) {
	c := call{first: (*object)(report)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 8
	atClaimants := c.allocateMany(len(claimants), 32, 8)
	atN := fixed + 0
	{
		b := c.bytes(atN, 4)
		endian.PutUint32(b[0:], uint32(*n))
	}
	result = Result(c.core.Xrk_report_claimants((*object)(report).address(), size(finding), int32(atClaimants), int32(len(claimants)), int32(atN)))
	c.done = true
	{
		b := c.bytes(atN, 4)
		*n = uint(endian.Uint32(b[0:]))
	}
	if result == ResultOK {
		for i := range claimants[:min(len(claimants), int(*n))] {
			claimants[i].load(&c, atClaimants+uint32(i)*32)
		}
	}
	return result
}

// ReportObjectRepairs is rk_report_object_repairs.
func ReportObjectRepairs(report *Report, from uint, repairs []ObjectRepair, n *uint) (result Result) {
	c := call{first: (*object)(report)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 8
	atRepairs := c.allocateMany(len(repairs), 56, 8)
	atN := fixed + 0
	{
		b := c.bytes(atN, 4)
		endian.PutUint32(b[0:], uint32(*n))
	}
	result = Result(c.core.Xrk_report_object_repairs((*object)(report).address(), size(from), int32(atRepairs), int32(len(repairs)), int32(atN)))
	c.done = true
	{
		b := c.bytes(atN, 4)
		*n = uint(endian.Uint32(b[0:]))
	}
	if result == ResultOK {
		for i := range repairs[:min(len(repairs), int(*n))] {
			repairs[i].load(&c, atRepairs+uint32(i)*56)
		}
	}
	return result
}

// ReportLeaks is rk_report_leaks.
func ReportLeaks(report *Report, from uint, leaks []Leak, n *uint) (result Result) {
	c := call{first: (*object)(report)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 8
	atLeaks := c.allocateMany(len(leaks), 72, 8)
	atN := fixed + 0
	{
		b := c.bytes(atN, 4)
		endian.PutUint32(b[0:], uint32(*n))
	}
	result = Result(c.core.Xrk_report_leaks((*object)(report).address(), size(from), int32(atLeaks), int32(len(leaks)), int32(atN)))
	c.done = true
	{
		b := c.bytes(atN, 4)
		*n = uint(endian.Uint32(b[0:]))
	}
	if result == ResultOK {
		for i := range leaks[:min(len(leaks), int(*n))] {
			leaks[i].load(&c, atLeaks+uint32(i)*72)
		}
	}
	return result
}

// ReportRange is rk_report_range.
func ReportRange(report *Report, theRange uint, numbers *RangeReport) (result Result) {
	c := call{first: (*object)(report)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 96
	atNumbers := fixed + 0
	result = Result(c.core.Xrk_report_range((*object)(report).address(), size(theRange), int32(atNumbers)))
	c.done = true
	if result == ResultOK {
		numbers.load(&c, atNumbers)
	}
	return result
}

// ReportRuns is rk_report_runs.
func ReportRuns(report *Report, theRange uint, set uint32, members bool, fromOffset uint64, runs []Run, n *uint, nextOffset *uint64) (result Result) {
	c := call{first: (*object)(report)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 16
	atRuns := c.allocateMany(len(runs), 56, 8)
	atN := fixed + 0
	{
		b := c.bytes(atN, 4)
		endian.PutUint32(b[0:], uint32(*n))
	}
	atNextOffset := fixed + 8
	{
		b := c.bytes(atNextOffset, 8)
		endian.PutUint64(b[0:], uint64(*nextOffset))
	}
	result = Result(c.core.Xrk_report_runs((*object)(report).address(), size(theRange), int32(set), number(members), int64(fromOffset), int32(atRuns), int32(len(runs)), int32(atN), int32(atNextOffset)))
	c.done = true
	{
		b := c.bytes(atNextOffset, 8)
		*nextOffset = endian.Uint64(b[0:])
	}
	{
		b := c.bytes(atN, 4)
		*n = uint(endian.Uint32(b[0:]))
	}
	if result == ResultOK {
		for i := range runs[:min(len(runs), int(*n))] {
			runs[i].load(&c, atRuns+uint32(i)*56)
		}
	}
	return result
}

// ReportSnapshot is rk_report_snapshot.
func ReportSnapshot(report *Report, theRange uint, values uint32, buffer []uint8, theLen *uint) (result Result) {
	c := call{first: (*object)(report)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 8
	atBuffer := c.allocateMany(len(buffer), 1, 1)
	atLen := fixed + 0
	{
		b := c.bytes(atLen, 4)
		endian.PutUint32(b[0:], uint32(*theLen))
	}
	result = Result(c.core.Xrk_report_snapshot((*object)(report).address(), size(theRange), int32(values), int32(atBuffer), int32(len(buffer)), int32(atLen)))
	c.done = true
	{
		b := c.bytes(atLen, 4)
		*theLen = uint(endian.Uint32(b[0:]))
	}
	if result == ResultOK {
		copy(buffer, c.bytes(atBuffer, min(len(buffer), int(*theLen))))
	}
	return result
}

// ReportState is rk_report_state.
func ReportState(report *Report, theRange uint, value *Value, state *OffsetState) (result Result) {
	c := call{first: (*object)(report)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 48
	var atValue uint32
	if value != nil {
		atValue = fixed + 0
		value.store(&c, atValue)
	}
	atState := fixed + 24
	result = Result(c.core.Xrk_report_state((*object)(report).address(), size(theRange), int32(atValue), int32(atState)))
	c.done = true
	if result == ResultOK {
		state.load(&c, atState)
	}
	return result
}

// ReportOccupancy is rk_report_occupancy.
func ReportOccupancy(report *Report, theRange uint, count uint32, cells []Cell, n *uint) (result Result) {
	c := call{first: (*object)(report)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 8
	atCells := c.allocateMany(len(cells), 64, 8)
	atN := fixed + 0
	{
		b := c.bytes(atN, 4)
		endian.PutUint32(b[0:], uint32(*n))
	}
	result = Result(c.core.Xrk_report_occupancy((*object)(report).address(), size(theRange), int32(count), int32(atCells), int32(len(cells)), int32(atN)))
	c.done = true
	{
		b := c.bytes(atN, 4)
		*n = uint(endian.Uint32(b[0:]))
	}
	if result == ResultOK {
		for i := range cells[:min(len(cells), int(*n))] {
			cells[i].load(&c, atCells+uint32(i)*64)
		}
	}
	return result
}

// CommitterNew is rk_committer_new.
func CommitterNew(theRange *Range, strategy uint32, grace uint64, replace uint32, seed uint64, committer **Committer, theError *Error) (result Result) {
	c := call{}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 600
	var atRange uint32
	if theRange != nil {
		atRange = fixed + 0
		theRange.store(&c, atRange)
	}
	atCommitter := fixed + 32
	atError := fixed + 40
	result = Result(c.core.Xrk_committer_new(int32(atRange), int32(strategy), int64(grace), int32(replace), int64(seed), int32(atCommitter), int32(atError)))
	c.done = true
	if result == ResultOK {
		*committer = (*Committer)(c.object(atCommitter))
	}
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// CommitterSubmit is rk_committer_submit.
func CommitterSubmit(committer *Committer, submitted []Operation, values []Value, tickets []uint64, theError *Error) (result Result) {
	c := call{first: (*object)(committer)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 560
	atSubmitted := c.allocateMany(len(submitted), 64, 8)
	for i := range submitted {
		submitted[i].store(&c, atSubmitted+uint32(i)*64)
	}
	atValues := c.allocateMany(len(values), 24, 8)
	for i := range values {
		values[i].store(&c, atValues+uint32(i)*24)
	}
	atTickets := c.allocateMany(len(tickets), 8, 8)
	atError := fixed + 0
	c.grow()
	result = Result(c.core.Xrk_committer_submit((*object)(committer).address(), int32(atSubmitted), int32(len(tickets)), int32(atValues), int32(len(values)), int32(atTickets), int32(atError)))
	c.done = true
	if result == ResultOK {
		c.getNumbers(tickets[:len(tickets)], atTickets)
	}
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// CommitterCancel is rk_committer_cancel.
func CommitterCancel(committer *Committer, ticket uint64) (result Result) {
	c := call{first: (*object)(committer)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	result = Result(c.core.Xrk_committer_cancel((*object)(committer).address(), int64(ticket)))
	c.done = true
	return result
}

// CommitterAbandon is rk_committer_abandon.
func CommitterAbandon(committer *Committer, revision uint64, store uint32, values []Value) (result Result) {
	c := call{first: (*object)(committer)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	atValues := c.allocateMany(len(values), 24, 8)
	for i := range values {
		values[i].store(&c, atValues+uint32(i)*24)
	}
	c.grow()
	result = Result(c.core.Xrk_committer_abandon((*object)(committer).address(), int64(revision), int32(store), int32(atValues), int32(len(values))))
	c.done = true
	return result
}

// CommitterWritten is rk_committer_written.
func CommitterWritten(committer *Committer, values []Value) (result Result) {
	c := call{first: (*object)(committer)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	atValues := c.allocateMany(len(values), 24, 8)
	for i := range values {
		values[i].store(&c, atValues+uint32(i)*24)
	}
	c.grow()
	result = Result(c.core.Xrk_committer_written((*object)(committer).address(), int32(atValues), int32(len(values))))
	c.done = true
	return result
}

// CommitterPoll is rk_committer_poll.
func CommitterPoll(committer *Committer, now uint64, step *Step) (result Result) {
	c := call{first: (*object)(committer)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 72
	atStep := fixed + 0
	result = Result(c.core.Xrk_committer_poll((*object)(committer).address(), int64(now), int32(atStep)))
	c.done = true
	if result == ResultOK {
		step.load(&c, atStep)
	}
	return result
}

// CommitterHandle is rk_committer_handle.
func CommitterHandle(committer *Committer, event *Event, now uint64) (result Result) {
	c := call{first: (*object)(committer)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 64
	var atEvent uint32
	if event != nil {
		atEvent = fixed + 0
		event.store(&c, atEvent)
	}
	c.grow()
	result = Result(c.core.Xrk_committer_handle((*object)(committer).address(), int32(atEvent), int64(now)))
	c.done = true
	return result
}

// CommitterKnown is rk_committer_known.
func CommitterKnown(committer *Committer, known *Known) (result Result) {
	c := call{first: (*object)(committer)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 40
	atKnown := fixed + 0
	result = Result(c.core.Xrk_committer_known((*object)(committer).address(), int32(atKnown)))
	c.done = true
	if result == ResultOK {
		known.load(&c, atKnown)
	}
	return result
}

// CommitterValue is rk_committer_value.
func CommitterValue(committer *Committer, buffer []uint8, theLen *uint) (result Result) {
	c := call{first: (*object)(committer)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 8
	atBuffer := c.allocateMany(len(buffer), 1, 1)
	atLen := fixed + 0
	{
		b := c.bytes(atLen, 4)
		endian.PutUint32(b[0:], uint32(*theLen))
	}
	result = Result(c.core.Xrk_committer_value((*object)(committer).address(), int32(atBuffer), int32(len(buffer)), int32(atLen)))
	c.done = true
	{
		b := c.bytes(atLen, 4)
		*theLen = uint(endian.Uint32(b[0:]))
	}
	if result == ResultOK {
		copy(buffer, c.bytes(atBuffer, min(len(buffer), int(*theLen))))
	}
	return result
}

// CommitterFinished is rk_committer_finished.
func CommitterFinished(committer *Committer, finished []Finished, values []Value, bytes []uint8, n *uint) (result Result) {
	c := call{first: (*object)(committer)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 8
	atFinished := c.allocateMany(len(finished), 80, 8)
	atValues := c.allocateMany(len(values), 24, 8)
	atBytes := c.allocateMany(len(bytes), 1, 1)
	atN := fixed + 0
	{
		b := c.bytes(atN, 4)
		endian.PutUint32(b[0:], uint32(*n))
	}
	result = Result(c.core.Xrk_committer_finished((*object)(committer).address(), int32(atFinished), int32(len(finished)), int32(atValues), int32(len(values)), int32(atBytes), int32(len(bytes)), int32(atN)))
	c.done = true
	{
		b := c.bytes(atN, 4)
		*n = uint(endian.Uint32(b[0:]))
	}
	if result == ResultOK {
		for i := range finished[:min(len(finished), int(*n))] {
			finished[i].load(&c, atFinished+uint32(i)*80)
		}
	}
	if result == ResultOK {
		for i := range values[:len(values)] {
			values[i].load(&c, atValues+uint32(i)*24)
		}
	}
	if result == ResultOK {
		copy(bytes, c.bytes(atBytes, len(bytes)))
	}
	return result
}

// CommitterSubmitEdit is rk_committer_submit_edit.
func CommitterSubmitEdit(committer *Committer, edit *Edit, deadline uint64, ticket *uint64, theError *Error) (result Result) {
	c := call{first: (*object)(committer)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 656
	var atEdit uint32
	if edit != nil {
		atEdit = fixed + 0
		edit.store(&c, atEdit)
	}
	atTicket := fixed + 88
	{
		b := c.bytes(atTicket, 8)
		endian.PutUint64(b[0:], uint64(*ticket))
	}
	atError := fixed + 96
	c.grow()
	result = Result(c.core.Xrk_committer_submit_edit((*object)(committer).address(), int32(atEdit), int64(deadline), int32(atTicket), int32(atError)))
	c.done = true
	{
		b := c.bytes(atTicket, 8)
		*ticket = endian.Uint64(b[0:])
	}
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// RepairPassNew is rk_repair_pass_new.
func RepairPassNew(tracker *LeakTracker, pass **RepairPass) (result Result) {
	c := call{first: (*object)(tracker)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 8
	atPass := fixed + 0
	result = Result(c.core.Xrk_repair_pass_new((*object)(tracker).address(), int32(atPass)))
	c.done = true
	if result == ResultOK {
		*pass = (*RepairPass)(c.object(atPass))
	}
	return result
}

// RepairPassAudit is rk_repair_pass_audit.
func RepairPassAudit(pass *RepairPass, ipaddresses bool, unixSeconds *int64, audit **Audit, theError *Error) (result Result) {
	c := call{first: (*object)(pass)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 576
	var atUnixSeconds uint32
	if unixSeconds != nil {
		atUnixSeconds = fixed + 0
		endian.PutUint64(c.bytes(atUnixSeconds, 8), uint64(*unixSeconds))
	}
	atAudit := fixed + 8
	atError := fixed + 16
	result = Result(c.core.Xrk_repair_pass_audit((*object)(pass).address(), number(ipaddresses), int32(atUnixSeconds), int32(atAudit), int32(atError)))
	c.done = true
	if result == ResultOK {
		*audit = (*Audit)(c.object(atAudit))
	}
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// RepairPassFinish is rk_repair_pass_finish.
func RepairPassFinish(pass *RepairPass, audit *Audit, report **Report, theError *Error) (result Result) {
	c := call{first: (*object)(pass), second: (*object)(audit)}
	if result = c.together(); result != ResultOK {
		theError.Message = "the audit is not the one of this pass"
		return result
	}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 568
	atReport := fixed + 0
	atError := fixed + 8
	result = Result(c.core.Xrk_repair_pass_finish((*object)(pass).address(), (*object)(audit).address(), int32(atReport), int32(atError)))
	c.done = true
	if result == ResultOK {
		*report = (*Report)(c.object(atReport))
	}
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// IndexNew is rk_index_new.
func IndexNew(seed uint64, index **Index) (result Result) {
	c := call{}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 8
	atIndex := fixed + 0
	result = Result(c.core.Xrk_index_new(int64(seed), int32(atIndex)))
	c.done = true
	if result == ResultOK {
		*index = (*Index)(c.object(atIndex))
	}
	return result
}

// IndexInsertCIDR is rk_index_insert_cidr.
func IndexInsertCIDR(index *Index, cidr *ServiceCIDR, added *bool) (result Result) {
	c := call{first: (*object)(index)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 40
	var atCIDR uint32
	if cidr != nil {
		atCIDR = fixed + 0
		cidr.store(&c, atCIDR)
	}
	atAdded := fixed + 32
	{
		b := c.bytes(atAdded, 1)
		putBool(b[0:], *added)
	}
	c.grow()
	result = Result(c.core.Xrk_index_insert_cidr((*object)(index).address(), int32(atCIDR), int32(atAdded)))
	c.done = true
	{
		b := c.bytes(atAdded, 1)
		*added = b[0] != 0
	}
	return result
}

// IndexRemoveCIDR is rk_index_remove_cidr.
func IndexRemoveCIDR(index *Index, cidr *ServiceCIDR, removed *bool) (result Result) {
	c := call{first: (*object)(index)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 40
	var atCIDR uint32
	if cidr != nil {
		atCIDR = fixed + 0
		cidr.store(&c, atCIDR)
	}
	atRemoved := fixed + 32
	{
		b := c.bytes(atRemoved, 1)
		putBool(b[0:], *removed)
	}
	result = Result(c.core.Xrk_index_remove_cidr((*object)(index).address(), int32(atCIDR), int32(atRemoved)))
	c.done = true
	{
		b := c.bytes(atRemoved, 1)
		*removed = b[0] != 0
	}
	return result
}

// IndexUsage is rk_index_usage.
func IndexUsage(index *Index, cidr *ServiceCIDR, used *uint64, free *uint64) (result Result) {
	c := call{first: (*object)(index)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 48
	var atCIDR uint32
	if cidr != nil {
		atCIDR = fixed + 0
		cidr.store(&c, atCIDR)
	}
	atUsed := fixed + 32
	{
		b := c.bytes(atUsed, 8)
		endian.PutUint64(b[0:], uint64(*used))
	}
	atFree := fixed + 40
	{
		b := c.bytes(atFree, 8)
		endian.PutUint64(b[0:], uint64(*free))
	}
	result = Result(c.core.Xrk_index_usage((*object)(index).address(), int32(atCIDR), int32(atUsed), int32(atFree)))
	c.done = true
	{
		b := c.bytes(atFree, 8)
		*free = endian.Uint64(b[0:])
	}
	{
		b := c.bytes(atUsed, 8)
		*used = endian.Uint64(b[0:])
	}
	return result
}

// IndexIsTaken is rk_index_is_taken.
func IndexIsTaken(index *Index, value *Value, isTaken *bool) (result Result) {
	c := call{first: (*object)(index)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 32
	var atValue uint32
	if value != nil {
		atValue = fixed + 0
		value.store(&c, atValue)
	}
	atIsTaken := fixed + 24
	{
		b := c.bytes(atIsTaken, 1)
		putBool(b[0:], *isTaken)
	}
	result = Result(c.core.Xrk_index_is_taken((*object)(index).address(), int32(atValue), int32(atIsTaken)))
	c.done = true
	{
		b := c.bytes(atIsTaken, 1)
		*isTaken = b[0] != 0
	}
	return result
}

// IndexReserve is rk_index_reserve.
func IndexReserve(index *Index, cidrs []ServiceCIDR, until uint64, reservation *Reservation) (result Result) {
	c := call{first: (*object)(index)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 32
	atCIDRs := c.allocateMany(len(cidrs), 32, 8)
	for i := range cidrs {
		cidrs[i].store(&c, atCIDRs+uint32(i)*32)
	}
	atReservation := fixed + 0
	c.grow()
	result = Result(c.core.Xrk_index_reserve((*object)(index).address(), int32(atCIDRs), int32(len(cidrs)), int64(until), int32(atReservation)))
	c.done = true
	if result == ResultOK {
		reservation.load(&c, atReservation)
	}
	return result
}

// IndexReserveAddress is rk_index_reserve_address.
func IndexReserveAddress(index *Index, value *Value, until uint64, reservation *Reservation) (result Result) {
	c := call{first: (*object)(index)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 56
	var atValue uint32
	if value != nil {
		atValue = fixed + 0
		value.store(&c, atValue)
	}
	atReservation := fixed + 24
	c.grow()
	result = Result(c.core.Xrk_index_reserve_address((*object)(index).address(), int32(atValue), int64(until), int32(atReservation)))
	c.done = true
	if result == ResultOK {
		reservation.load(&c, atReservation)
	}
	return result
}

// IndexConfirm is rk_index_confirm.
func IndexConfirm(index *Index, reservation *Reservation, revision uint64) (result Result) {
	c := call{first: (*object)(index)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 32
	var atReservation uint32
	if reservation != nil {
		atReservation = fixed + 0
		reservation.store(&c, atReservation)
	}
	c.grow()
	result = Result(c.core.Xrk_index_confirm((*object)(index).address(), int32(atReservation), int64(revision)))
	c.done = true
	return result
}

// IndexCreated is rk_index_created.
func IndexCreated(index *Index, address *Value, revision uint64) (result Result) {
	c := call{first: (*object)(index)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 24
	var atAddress uint32
	if address != nil {
		atAddress = fixed + 0
		address.store(&c, atAddress)
	}
	c.grow()
	result = Result(c.core.Xrk_index_created((*object)(index).address(), int32(atAddress), int64(revision)))
	c.done = true
	return result
}

// IndexAbort is rk_index_abort.
func IndexAbort(index *Index, reservation *Reservation) (result Result) {
	c := call{first: (*object)(index)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 32
	var atReservation uint32
	if reservation != nil {
		atReservation = fixed + 0
		reservation.store(&c, atReservation)
	}
	result = Result(c.core.Xrk_index_abort((*object)(index).address(), int32(atReservation)))
	c.done = true
	return result
}

// IndexAlreadyExists is rk_index_already_exists.
func IndexAlreadyExists(index *Index, reservation *Reservation) (result Result) {
	c := call{first: (*object)(index)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 32
	var atReservation uint32
	if reservation != nil {
		atReservation = fixed + 0
		reservation.store(&c, atReservation)
	}
	result = Result(c.core.Xrk_index_already_exists((*object)(index).address(), int32(atReservation)))
	c.done = true
	return result
}

// IndexExpire is rk_index_expire.
func IndexExpire(index *Index, now uint64, expired *uint) (result Result) {
	c := call{first: (*object)(index)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 8
	atExpired := fixed + 0
	{
		b := c.bytes(atExpired, 4)
		endian.PutUint32(b[0:], uint32(*expired))
	}
	result = Result(c.core.Xrk_index_expire((*object)(index).address(), int64(now), int32(atExpired)))
	c.done = true
	{
		b := c.bytes(atExpired, 4)
		*expired = uint(endian.Uint32(b[0:]))
	}
	return result
}

// IndexAdded is rk_index_added.
func IndexAdded(index *Index, value *Value, revision uint64) (result Result) {
	c := call{first: (*object)(index)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 24
	var atValue uint32
	if value != nil {
		atValue = fixed + 0
		value.store(&c, atValue)
	}
	c.grow()
	result = Result(c.core.Xrk_index_added((*object)(index).address(), int32(atValue), int64(revision)))
	c.done = true
	return result
}

// IndexRemoved is rk_index_removed.
func IndexRemoved(index *Index, value *Value, revision uint64) (result Result) {
	c := call{first: (*object)(index)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 24
	var atValue uint32
	if value != nil {
		atValue = fixed + 0
		value.store(&c, atValue)
	}
	result = Result(c.core.Xrk_index_removed((*object)(index).address(), int32(atValue), int64(revision)))
	c.done = true
	return result
}

// IndexReplace is rk_index_replace.
func IndexReplace(index *Index, values []Value, revision uint64, changes *IndexChanges) (result Result) {
	c := call{first: (*object)(index)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 32
	atValues := c.allocateMany(len(values), 24, 8)
	for i := range values {
		values[i].store(&c, atValues+uint32(i)*24)
	}
	atChanges := fixed + 0
	c.grow()
	result = Result(c.core.Xrk_index_replace((*object)(index).address(), int32(atValues), int32(len(values)), int64(revision), int32(atChanges)))
	c.done = true
	if result == ResultOK {
		changes.load(&c, atChanges)
	}
	return result
}

// IPAddressJudge is rk_ip_address_judge.
func IPAddressJudge(managed bool, parent uint32, unusedFor uint64, grace uint64, verdict *uint32, wait *uint64) (result Result) {
	c := call{}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 16
	atVerdict := fixed + 0
	{
		b := c.bytes(atVerdict, 4)
		endian.PutUint32(b[0:], uint32(*verdict))
	}
	atWait := fixed + 8
	{
		b := c.bytes(atWait, 8)
		endian.PutUint64(b[0:], uint64(*wait))
	}
	result = Result(c.core.Xrk_ip_address_judge(number(managed), int32(parent), int64(unusedFor), int64(grace), int32(atVerdict), int32(atWait)))
	c.done = true
	{
		b := c.bytes(atWait, 8)
		*wait = endian.Uint64(b[0:])
	}
	{
		b := c.bytes(atVerdict, 4)
		*verdict = endian.Uint32(b[0:])
	}
	return result
}

// ClusterIPJudge is rk_cluster_ip_judge.
func ClusterIPJudge(theObject *AddressObject, verdict *uint32) (result Result) {
	c := call{}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 32
	var atObject uint32
	if theObject != nil {
		atObject = fixed + 0
		theObject.store(&c, atObject)
	}
	atVerdict := fixed + 24
	{
		b := c.bytes(atVerdict, 4)
		endian.PutUint32(b[0:], uint32(*verdict))
	}
	result = Result(c.core.Xrk_cluster_ip_judge(int32(atObject), int32(atVerdict)))
	c.done = true
	{
		b := c.bytes(atVerdict, 4)
		*verdict = endian.Uint32(b[0:])
	}
	return result
}

// LedgerValueText is rk_ledger_value_text.
func LedgerValueText(value *LedgerValue, buffer []byte, theLen *uint) (result Result) {
	c := call{}
	if result = c.enter(&ledgerCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 40
	var atValue uint32
	if value != nil {
		atValue = fixed + 0
		value.store(&c, atValue)
	}
	atBuffer := c.allocateMany(len(buffer), 1, 1)
	atLen := fixed + 32
	{
		b := c.bytes(atLen, 4)
		endian.PutUint32(b[0:], uint32(*theLen))
	}
	result = Result(c.ledger.Xrk_ledger_value_text(int32(atValue), int32(atBuffer), int32(len(buffer)), int32(atLen)))
	c.done = true
	{
		b := c.bytes(atLen, 4)
		*theLen = uint(endian.Uint32(b[0:]))
	}
	if result == ResultOK {
		copy(buffer, c.bytes(atBuffer, min(len(buffer), int(*theLen))))
	}
	return result
}

// LedgerNew is rk_ledger_new.
func LedgerNew(pool string, stored []uint8, seed uint64, ledger **Ledger, theError *Error) (result Result) {
	c := call{}
	if result = c.enter(&ledgerCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 568
	atPool := c.putText(pool)
	atStored := c.putBytes(stored)
	atLedger := fixed + 0
	atError := fixed + 8
	c.grow()
	result = Result(c.ledger.Xrk_ledger_new(int32(atPool), int32(len(pool)), int32(atStored), int32(len(stored)), int64(seed), int32(atLedger), int32(atError)))
	c.done = true
	if result == ResultOK {
		*ledger = (*Ledger)(c.object(atLedger))
	}
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// LedgerApply is rk_ledger_apply.
func LedgerApply(ledger *Ledger, change *LedgerChange, owner string, now uint64, allocations []LedgerAllocation, n *uint, theError *Error) (result Result) {
	c := call{first: (*object)(ledger)}
	if result = c.enter(&ledgerCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 608
	var atChange uint32
	if change != nil {
		atChange = fixed + 0
		change.store(&c, atChange)
	}
	atOwner := c.putText(owner)
	atAllocations := c.allocateMany(len(allocations), 40, 8)
	atN := fixed + 40
	{
		b := c.bytes(atN, 4)
		endian.PutUint32(b[0:], uint32(*n))
	}
	atError := fixed + 48
	c.grow()
	result = Result(c.ledger.Xrk_ledger_apply((*object)(ledger).address(), int32(atChange), int32(atOwner), int32(len(owner)), int64(now), int32(atAllocations), int32(len(allocations)), int32(atN), int32(atError)))
	c.done = true
	{
		b := c.bytes(atN, 4)
		*n = uint(endian.Uint32(b[0:]))
	}
	if result == ResultOK {
		for i := range allocations[:min(len(allocations), int(*n))] {
			allocations[i].load(&c, atAllocations+uint32(i)*40)
		}
	}
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// LedgerParseValue is rk_ledger_parse_value.
func LedgerParseValue(ledger *Ledger, spec string, value *LedgerValue, theError *Error) (result Result) {
	c := call{first: (*object)(ledger)}
	if result = c.enter(&ledgerCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 592
	atSpec := c.putText(spec)
	atValue := fixed + 0
	atError := fixed + 32
	result = Result(c.ledger.Xrk_ledger_parse_value((*object)(ledger).address(), int32(atSpec), int32(len(spec)), int32(atValue), int32(atError)))
	c.done = true
	if result == ResultOK {
		value.load(&c, atValue)
	}
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// LedgerOwnerOf is rk_ledger_owner_of.
func LedgerOwnerOf(ledger *Ledger, value *LedgerValue, inUse *bool, buffer []byte, theLen *uint, theError *Error) (result Result) {
	c := call{first: (*object)(ledger)}
	if result = c.enter(&ledgerCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 600
	var atValue uint32
	if value != nil {
		atValue = fixed + 0
		value.store(&c, atValue)
	}
	atInUse := fixed + 32
	{
		b := c.bytes(atInUse, 1)
		putBool(b[0:], *inUse)
	}
	atBuffer := c.allocateMany(len(buffer), 1, 1)
	atLen := fixed + 36
	{
		b := c.bytes(atLen, 4)
		endian.PutUint32(b[0:], uint32(*theLen))
	}
	atError := fixed + 40
	result = Result(c.ledger.Xrk_ledger_owner_of((*object)(ledger).address(), int32(atValue), int32(atInUse), int32(atBuffer), int32(len(buffer)), int32(atLen), int32(atError)))
	c.done = true
	{
		b := c.bytes(atLen, 4)
		*theLen = uint(endian.Uint32(b[0:]))
	}
	{
		b := c.bytes(atInUse, 1)
		*inUse = b[0] != 0
	}
	if result == ResultOK {
		copy(buffer, c.bytes(atBuffer, min(len(buffer), int(*theLen))))
	}
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// LedgerOwnedBy is rk_ledger_owned_by.
func LedgerOwnedBy(ledger *Ledger, owner string, allocations []LedgerAllocation, theLen *uint) (result Result) {
	c := call{first: (*object)(ledger)}
	if result = c.enter(&ledgerCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 8
	atOwner := c.putText(owner)
	atAllocations := c.allocateMany(len(allocations), 40, 8)
	atLen := fixed + 0
	{
		b := c.bytes(atLen, 4)
		endian.PutUint32(b[0:], uint32(*theLen))
	}
	result = Result(c.ledger.Xrk_ledger_owned_by((*object)(ledger).address(), int32(atOwner), int32(len(owner)), int32(atAllocations), int32(len(allocations)), int32(atLen)))
	c.done = true
	{
		b := c.bytes(atLen, 4)
		*theLen = uint(endian.Uint32(b[0:]))
	}
	if result == ResultOK {
		for i := range allocations[:min(len(allocations), int(*theLen))] {
			allocations[i].load(&c, atAllocations+uint32(i)*40)
		}
	}
	return result
}

// LedgerValues is rk_ledger_values.
func LedgerValues(ledger *Ledger, fromOffset uint64, values []LedgerValue, n *uint, nextOffset *uint64) (result Result) {
	c := call{first: (*object)(ledger)}
	if result = c.enter(&ledgerCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 16
	atValues := c.allocateMany(len(values), 32, 8)
	atN := fixed + 0
	{
		b := c.bytes(atN, 4)
		endian.PutUint32(b[0:], uint32(*n))
	}
	atNextOffset := fixed + 8
	{
		b := c.bytes(atNextOffset, 8)
		endian.PutUint64(b[0:], uint64(*nextOffset))
	}
	result = Result(c.ledger.Xrk_ledger_values((*object)(ledger).address(), int64(fromOffset), int32(atValues), int32(len(values)), int32(atN), int32(atNextOffset)))
	c.done = true
	{
		b := c.bytes(atNextOffset, 8)
		*nextOffset = endian.Uint64(b[0:])
	}
	{
		b := c.bytes(atN, 4)
		*n = uint(endian.Uint32(b[0:]))
	}
	if result == ResultOK {
		for i := range values[:min(len(values), int(*n))] {
			values[i].load(&c, atValues+uint32(i)*32)
		}
	}
	return result
}

// LedgerCount is rk_ledger_count.
func LedgerCount(ledger *Ledger, usage *LedgerUsage) (result Result) {
	c := call{first: (*object)(ledger)}
	if result = c.enter(&ledgerCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 40
	atUsage := fixed + 0
	result = Result(c.ledger.Xrk_ledger_count((*object)(ledger).address(), int32(atUsage)))
	c.done = true
	if result == ResultOK {
		usage.load(&c, atUsage)
	}
	return result
}

// LedgerEncode is rk_ledger_encode.
func LedgerEncode(ledger *Ledger, buffer []uint8, theLen *uint) (result Result) {
	c := call{first: (*object)(ledger)}
	if result = c.enter(&ledgerCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 8
	atBuffer := c.allocateMany(len(buffer), 1, 1)
	atLen := fixed + 0
	{
		b := c.bytes(atLen, 4)
		endian.PutUint32(b[0:], uint32(*theLen))
	}
	result = Result(c.ledger.Xrk_ledger_encode((*object)(ledger).address(), int32(atBuffer), int32(len(buffer)), int32(atLen)))
	c.done = true
	{
		b := c.bytes(atLen, 4)
		*theLen = uint(endian.Uint32(b[0:]))
	}
	if result == ResultOK {
		copy(buffer, c.bytes(atBuffer, min(len(buffer), int(*theLen))))
	}
	return result
}

// LedgerAudit is rk_ledger_audit.
func LedgerAudit(ledger *Ledger, question string, buffer []byte, theLen *uint, theError *Error) (result Result) {
	c := call{first: (*object)(ledger)}
	if result = c.enter(&ledgerCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 568
	atQuestion := c.putText(question)
	atBuffer := c.allocateMany(len(buffer), 1, 1)
	atLen := fixed + 0
	{
		b := c.bytes(atLen, 4)
		endian.PutUint32(b[0:], uint32(*theLen))
	}
	atError := fixed + 8
	result = Result(c.ledger.Xrk_ledger_audit((*object)(ledger).address(), int32(atQuestion), int32(len(question)), int32(atBuffer), int32(len(buffer)), int32(atLen), int32(atError)))
	c.done = true
	{
		b := c.bytes(atLen, 4)
		*theLen = uint(endian.Uint32(b[0:]))
	}
	if result == ResultOK {
		copy(buffer, c.bytes(atBuffer, min(len(buffer), int(*theLen))))
	}
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// SharedLedgerNew is rk_shared_ledger_new.
func SharedLedgerNew(pool string, seed uint64, shared **SharedLedger, theError *Error) (result Result) {
	c := call{}
	if result = c.enter(&ledgerCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 568
	atPool := c.putText(pool)
	atShared := fixed + 0
	atError := fixed + 8
	result = Result(c.ledger.Xrk_shared_ledger_new(int32(atPool), int32(len(pool)), int64(seed), int32(atShared), int32(atError)))
	c.done = true
	if result == ResultOK {
		*shared = (*SharedLedger)(c.object(atShared))
	}
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// SharedLedgerSubmit is rk_shared_ledger_submit.
func SharedLedgerSubmit(shared *SharedLedger, change *LedgerChange, owner string, ticket *uint64, theError *Error) (result Result) {
	c := call{first: (*object)(shared)}
	if result = c.enter(&ledgerCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 608
	var atChange uint32
	if change != nil {
		atChange = fixed + 0
		change.store(&c, atChange)
	}
	atOwner := c.putText(owner)
	atTicket := fixed + 40
	{
		b := c.bytes(atTicket, 8)
		endian.PutUint64(b[0:], uint64(*ticket))
	}
	atError := fixed + 48
	c.grow()
	result = Result(c.ledger.Xrk_shared_ledger_submit((*object)(shared).address(), int32(atChange), int32(atOwner), int32(len(owner)), int32(atTicket), int32(atError)))
	c.done = true
	{
		b := c.bytes(atTicket, 8)
		*ticket = endian.Uint64(b[0:])
	}
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// SharedLedgerCancel is rk_shared_ledger_cancel.
func SharedLedgerCancel(shared *SharedLedger, ticket uint64) (result Result) {
	c := call{first: (*object)(shared)}
	if result = c.enter(&ledgerCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	result = Result(c.ledger.Xrk_shared_ledger_cancel((*object)(shared).address(), int64(ticket)))
	c.done = true
	return result
}

// SharedLedgerPoll is rk_shared_ledger_poll.
func SharedLedgerPoll(shared *SharedLedger, now uint64, request *LedgerRequest) (result Result) {
	c := call{first: (*object)(shared)}
	if result = c.enter(&ledgerCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 24
	atRequest := fixed + 0
	c.grow()
	result = Result(c.ledger.Xrk_shared_ledger_poll((*object)(shared).address(), int64(now), int32(atRequest)))
	c.done = true
	if result == ResultOK {
		request.load(&c, atRequest)
	}
	return result
}

// SharedLedgerPut is rk_shared_ledger_put.
func SharedLedgerPut(shared *SharedLedger, value []uint8, token []uint8) (result Result) {
	c := call{first: (*object)(shared)}
	if result = c.enter(&ledgerCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	atValue := c.allocateMany(len(value), 1, 1)
	atToken := c.allocateMany(len(token), 1, 1)
	result = Result(c.ledger.Xrk_shared_ledger_put((*object)(shared).address(), int32(atValue), int32(len(value)), int32(atToken), int32(len(token))))
	c.done = true
	if result == ResultOK {
		copy(value, c.bytes(atValue, len(value)))
	}
	if result == ResultOK {
		copy(token, c.bytes(atToken, len(token)))
	}
	return result
}

// SharedLedgerAnswered is rk_shared_ledger_answered.
func SharedLedgerAnswered(shared *SharedLedger, answer uint32, now uint64, value []uint8, token []uint8, theError *Error) (result Result) {
	c := call{first: (*object)(shared)}
	if result = c.enter(&ledgerCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 560
	atValue := c.putBytes(value)
	atToken := c.putBytes(token)
	atError := fixed + 0
	c.grow()
	result = Result(c.ledger.Xrk_shared_ledger_answered((*object)(shared).address(), int32(answer), int64(now), int32(atValue), int32(len(value)), int32(atToken), int32(len(token)), int32(atError)))
	c.done = true
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// SharedLedgerOutcome is rk_shared_ledger_outcome.
func SharedLedgerOutcome(shared *SharedLedger, ticket uint64, allocations []LedgerAllocation, n *uint, theError *Error) (result Result) {
	c := call{first: (*object)(shared)}
	if result = c.enter(&ledgerCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 568
	atAllocations := c.allocateMany(len(allocations), 40, 8)
	atN := fixed + 0
	{
		b := c.bytes(atN, 4)
		endian.PutUint32(b[0:], uint32(*n))
	}
	atError := fixed + 8
	result = Result(c.ledger.Xrk_shared_ledger_outcome((*object)(shared).address(), int64(ticket), int32(atAllocations), int32(len(allocations)), int32(atN), int32(atError)))
	c.done = true
	{
		b := c.bytes(atN, 4)
		*n = uint(endian.Uint32(b[0:]))
	}
	if result == ResultOK {
		for i := range allocations[:min(len(allocations), int(*n))] {
			allocations[i].load(&c, atAllocations+uint32(i)*40)
		}
	}
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// SharedLedgerKnown is rk_shared_ledger_known.
func SharedLedgerKnown(shared *SharedLedger, ledger **Ledger) (result Result) {
	c := call{first: (*object)(shared)}
	if result = c.enter(&ledgerCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 8
	atLedger := fixed + 0
	result = Result(c.ledger.Xrk_shared_ledger_known((*object)(shared).address(), int32(atLedger)))
	c.done = true
	if result == ResultOK {
		*ledger = (*Ledger)(c.object(atLedger))
	}
	return result
}

// BootstrapNew is rk_bootstrap_new.
func BootstrapNew(config string, bootstrap **Bootstrap, theError *Error) (result Result) {
	c := call{}
	if result = c.enter(&bootstrapCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 568
	atConfig := c.putText(config)
	atBootstrap := fixed + 0
	atError := fixed + 8
	result = Result(c.bootstrap.Xrk_bootstrap_new(int32(atConfig), int32(len(config)), int32(atBootstrap), int32(atError)))
	c.done = true
	if result == ResultOK {
		*bootstrap = (*Bootstrap)(c.object(atBootstrap))
	}
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// BootstrapPoll is rk_bootstrap_poll.
func BootstrapPoll(bootstrap *Bootstrap, now uint64, buffer []byte, theLen *uint) (result Result) {
	c := call{first: (*object)(bootstrap)}
	if result = c.enter(&bootstrapCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 8
	atBuffer := c.allocateMany(len(buffer), 1, 1)
	atLen := fixed + 0
	{
		b := c.bytes(atLen, 4)
		endian.PutUint32(b[0:], uint32(*theLen))
	}
	result = Result(c.bootstrap.Xrk_bootstrap_poll((*object)(bootstrap).address(), int64(now), int32(atBuffer), int32(len(buffer)), int32(atLen)))
	c.done = true
	{
		b := c.bytes(atLen, 4)
		*theLen = uint(endian.Uint32(b[0:]))
	}
	if result == ResultOK {
		copy(buffer, c.bytes(atBuffer, min(len(buffer), int(*theLen))))
	}
	return result
}

// BootstrapAnswered is rk_bootstrap_answered.
func BootstrapAnswered(bootstrap *Bootstrap, now uint64, iD uint64, answer string, theError *Error) (result Result) {
	c := call{first: (*object)(bootstrap)}
	if result = c.enter(&bootstrapCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 560
	atAnswer := c.putText(answer)
	atError := fixed + 0
	result = Result(c.bootstrap.Xrk_bootstrap_answered((*object)(bootstrap).address(), int64(now), int64(iD), int32(atAnswer), int32(len(answer)), int32(atError)))
	c.done = true
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// BootstrapWatched is rk_bootstrap_watched.
func BootstrapWatched(bootstrap *Bootstrap, now uint64, event string, theError *Error) (result Result) {
	c := call{first: (*object)(bootstrap)}
	if result = c.enter(&bootstrapCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 560
	atEvent := c.putText(event)
	atError := fixed + 0
	result = Result(c.bootstrap.Xrk_bootstrap_watched((*object)(bootstrap).address(), int64(now), int32(atEvent), int32(len(event)), int32(atError)))
	c.done = true
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// BootstrapStop is rk_bootstrap_stop.
func BootstrapStop(bootstrap *Bootstrap, now uint64) (result Result) {
	c := call{first: (*object)(bootstrap)}
	if result = c.enter(&bootstrapCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	result = Result(c.bootstrap.Xrk_bootstrap_stop((*object)(bootstrap).address(), int64(now)))
	c.done = true
	return result
}

// BootstrapPlan is rk_bootstrap_plan.
func BootstrapPlan(question string, buffer []byte, theLen *uint, theError *Error) (result Result) {
	c := call{}
	if result = c.enter(&bootstrapCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 568
	atQuestion := c.putText(question)
	atBuffer := c.allocateMany(len(buffer), 1, 1)
	atLen := fixed + 0
	{
		b := c.bytes(atLen, 4)
		endian.PutUint32(b[0:], uint32(*theLen))
	}
	atError := fixed + 8
	result = Result(c.bootstrap.Xrk_bootstrap_plan(int32(atQuestion), int32(len(question)), int32(atBuffer), int32(len(buffer)), int32(atLen), int32(atError)))
	c.done = true
	{
		b := c.bytes(atLen, 4)
		*theLen = uint(endian.Uint32(b[0:]))
	}
	if result == ResultOK {
		copy(buffer, c.bytes(atBuffer, min(len(buffer), int(*theLen))))
	}
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// AllocatorFree is rk_allocator_free.
func AllocatorFree(allocator *Allocator) {
	(*object)(allocator).close(func(in *instance, at int32) { in.core.Xrk_allocator_free(at) })
}

// RangeAllocationFree is rk_range_allocation_free.
func RangeAllocationFree(theObject *RangeAllocation) {
	(*object)(theObject).close(func(in *instance, at int32) { in.core.Xrk_range_allocation_free(at) })
}

// LeakCountersFree is rk_leak_counters_free.
func LeakCountersFree(counters *LeakCounters) {
	(*object)(counters).close(func(in *instance, at int32) { in.core.Xrk_leak_counters_free(at) })
}

// LeakTrackerFree is rk_leak_tracker_free.
func LeakTrackerFree(tracker *LeakTracker) {
	(*object)(tracker).close(func(in *instance, at int32) { in.core.Xrk_leak_tracker_free(at) })
}

// AuditFree is rk_audit_free.
func AuditFree(audit *Audit) {
	(*object)(audit).close(func(in *instance, at int32) { in.core.Xrk_audit_free(at) })
}

// ReportFree is rk_report_free.
func ReportFree(report *Report) {
	(*object)(report).close(func(in *instance, at int32) { in.core.Xrk_report_free(at) })
}

// CommitterFree is rk_committer_free.
func CommitterFree(committer *Committer) {
	(*object)(committer).close(func(in *instance, at int32) { in.core.Xrk_committer_free(at) })
}

// RepairPassFree is rk_repair_pass_free.
func RepairPassFree(pass *RepairPass) {
	(*object)(pass).close(func(in *instance, at int32) { in.core.Xrk_repair_pass_free(at) })
}

// IndexFree is rk_index_free.
func IndexFree(index *Index) {
	(*object)(index).close(func(in *instance, at int32) { in.core.Xrk_index_free(at) })
}

// LedgerFree is rk_ledger_free.
func LedgerFree(ledger *Ledger) {
	(*object)(ledger).close(func(in *instance, at int32) { in.ledger.Xrk_ledger_free(at) })
}

// SharedLedgerFree is rk_shared_ledger_free.
func SharedLedgerFree(shared *SharedLedger) {
	(*object)(shared).close(func(in *instance, at int32) { in.ledger.Xrk_shared_ledger_free(at) })
}

// BootstrapFree is rk_bootstrap_free.
func BootstrapFree(bootstrap *Bootstrap) {
	(*object)(bootstrap).close(func(in *instance, at int32) { in.bootstrap.Xrk_bootstrap_free(at) })
}

// ExchangeRange is rk_exchange_range.
func ExchangeRange(committer *Committer, theRange *Range, theError *Error) (result Result) {
	c := call{first: (*object)(committer)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 592
	atRange := fixed + 0
	atError := fixed + 32
	result = Result(c.core.Xrk_exchange_range((*object)(committer).address(), int32(atRange), int32(atError)))
	c.done = true
	if result == ResultOK {
		theRange.load(&c, atRange)
	}
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// ExchangeBegin is rk_exchange_begin.
func ExchangeBegin(pass *RepairPass, theRange *Range, theError *Error) (result Result) {
	c := call{first: (*object)(pass)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 592
	var atRange uint32
	if theRange != nil {
		atRange = fixed + 0
		theRange.store(&c, atRange)
	}
	atError := fixed + 32
	result = Result(c.core.Xrk_exchange_begin((*object)(pass).address(), int32(atRange), int32(atError)))
	c.done = true
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// ExchangeKeep is rk_exchange_keep.
func ExchangeKeep(committer *Committer, theError *Error) (result Result) {
	c := call{first: (*object)(committer)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 560
	atError := fixed + 0
	result = Result(c.core.Xrk_exchange_keep((*object)(committer).address(), int32(atError)))
	c.done = true
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// ExchangeSince is rk_exchange_since.
func ExchangeSince(pass *RepairPass, theRange *Range, revision uint64, said []uint8, theLen *uint, theError *Error) (result Result) {
	c := call{first: (*object)(pass)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 600
	var atRange uint32
	if theRange != nil {
		atRange = fixed + 0
		theRange.store(&c, atRange)
	}
	atSaid := c.allocateMany(len(said), 1, 1)
	atLen := fixed + 32
	{
		b := c.bytes(atLen, 4)
		endian.PutUint32(b[0:], uint32(*theLen))
	}
	atError := fixed + 40
	result = Result(c.core.Xrk_exchange_since((*object)(pass).address(), int32(atRange), int64(revision), int32(atSaid), int32(len(said)), int32(atLen), int32(atError)))
	c.done = true
	{
		b := c.bytes(atLen, 4)
		*theLen = uint(endian.Uint32(b[0:]))
	}
	if result == ResultOK {
		copy(said, c.bytes(atSaid, min(len(said), int(*theLen))))
	}
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// ExchangeFollowed is rk_exchange_followed.
func ExchangeFollowed(committer *Committer, since []uint8, said []uint8, theLen *uint, theError *Error) (result Result) {
	c := call{first: (*object)(committer)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 568
	atSince := c.putBytes(since)
	atSaid := c.allocateMany(len(said), 1, 1)
	atLen := fixed + 0
	{
		b := c.bytes(atLen, 4)
		endian.PutUint32(b[0:], uint32(*theLen))
	}
	atError := fixed + 8
	c.grow()
	result = Result(c.core.Xrk_exchange_followed((*object)(committer).address(), int32(atSince), int32(len(since)), int32(atSaid), int32(len(said)), int32(atLen), int32(atError)))
	c.done = true
	{
		b := c.bytes(atLen, 4)
		*theLen = uint(endian.Uint32(b[0:]))
	}
	if result == ResultOK {
		copy(said, c.bytes(atSaid, min(len(said), int(*theLen))))
	}
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// ExchangeRead is rk_exchange_read.
func ExchangeRead(pass *RepairPass, theRange *Range, followed []uint8, revision uint64, data []uint8, now uint64, needsFence *bool, theError *Error) (result Result) {
	c := call{first: (*object)(pass)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 600
	var atRange uint32
	if theRange != nil {
		atRange = fixed + 0
		theRange.store(&c, atRange)
	}
	atFollowed := c.putBytes(followed)
	atData := c.putBytes(data)
	atNeedsFence := fixed + 32
	{
		b := c.bytes(atNeedsFence, 1)
		putBool(b[0:], *needsFence)
	}
	atError := fixed + 40
	c.grow()
	result = Result(c.core.Xrk_exchange_read((*object)(pass).address(), int32(atRange), int32(atFollowed), int32(len(followed)), int64(revision), int32(atData), int32(len(data)), int64(now), int32(atNeedsFence), int32(atError)))
	c.done = true
	{
		b := c.bytes(atNeedsFence, 1)
		*needsFence = b[0] != 0
	}
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// ExchangeFenced is rk_exchange_fenced.
func ExchangeFenced(pass *RepairPass, theRange *Range, fence uint64, look uint64, theError *Error) (result Result) {
	c := call{first: (*object)(pass)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 592
	var atRange uint32
	if theRange != nil {
		atRange = fixed + 0
		theRange.store(&c, atRange)
	}
	atError := fixed + 32
	result = Result(c.core.Xrk_exchange_fenced((*object)(pass).address(), int32(atRange), int64(fence), int64(look), int32(atError)))
	c.done = true
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// ExchangeNeeds is rk_exchange_needs.
func ExchangeNeeds(pass *RepairPass, theRange *Range, sets *bool, outside *uint32, theError *Error) (result Result) {
	c := call{first: (*object)(pass)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 600
	var atRange uint32
	if theRange != nil {
		atRange = fixed + 0
		theRange.store(&c, atRange)
	}
	atSets := fixed + 32
	{
		b := c.bytes(atSets, 1)
		putBool(b[0:], *sets)
	}
	atOutside := fixed + 36
	{
		b := c.bytes(atOutside, 4)
		endian.PutUint32(b[0:], uint32(*outside))
	}
	atError := fixed + 40
	result = Result(c.core.Xrk_exchange_needs((*object)(pass).address(), int32(atRange), int32(atSets), int32(atOutside), int32(atError)))
	c.done = true
	{
		b := c.bytes(atOutside, 4)
		*outside = endian.Uint32(b[0:])
	}
	{
		b := c.bytes(atSets, 1)
		*sets = b[0] != 0
	}
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// ExchangeCheck is rk_exchange_check.
func ExchangeCheck(committer *Committer, sets bool, outside uint32, theError *Error) (result Result) {
	c := call{first: (*object)(committer)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 560
	atError := fixed + 0
	result = Result(c.core.Xrk_exchange_check((*object)(committer).address(), number(sets), int32(outside), int32(atError)))
	c.done = true
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// ExchangeDue is rk_exchange_due.
func ExchangeDue(pass *RepairPass, theRange *Range, said []uint8, theLen *uint, theError *Error) (result Result) {
	c := call{first: (*object)(pass)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 600
	var atRange uint32
	if theRange != nil {
		atRange = fixed + 0
		theRange.store(&c, atRange)
	}
	atSaid := c.allocateMany(len(said), 1, 1)
	atLen := fixed + 32
	{
		b := c.bytes(atLen, 4)
		endian.PutUint32(b[0:], uint32(*theLen))
	}
	atError := fixed + 40
	result = Result(c.core.Xrk_exchange_due((*object)(pass).address(), int32(atRange), int32(atSaid), int32(len(said)), int32(atLen), int32(atError)))
	c.done = true
	{
		b := c.bytes(atLen, 4)
		*theLen = uint(endian.Uint32(b[0:]))
	}
	if result == ResultOK {
		copy(said, c.bytes(atSaid, min(len(said), int(*theLen))))
	}
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// ExchangeHandedOut is rk_exchange_handed_out.
func ExchangeHandedOut(committer *Committer, due []uint8, said []uint8, theLen *uint, theError *Error) (result Result) {
	c := call{first: (*object)(committer)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 568
	atDue := c.putBytes(due)
	atSaid := c.allocateMany(len(said), 1, 1)
	atLen := fixed + 0
	{
		b := c.bytes(atLen, 4)
		endian.PutUint32(b[0:], uint32(*theLen))
	}
	atError := fixed + 8
	c.grow()
	result = Result(c.core.Xrk_exchange_handed_out((*object)(committer).address(), int32(atDue), int32(len(due)), int32(atSaid), int32(len(said)), int32(atLen), int32(atError)))
	c.done = true
	{
		b := c.bytes(atLen, 4)
		*theLen = uint(endian.Uint32(b[0:]))
	}
	if result == ResultOK {
		copy(said, c.bytes(atSaid, min(len(said), int(*theLen))))
	}
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// ExchangeDiff is rk_exchange_diff.
func ExchangeDiff(pass *RepairPass, theRange *Range, handedOut []uint8, at uint64, isGuarded bool, said []uint8, theLen *uint, theError *Error) (result Result) {
	c := call{first: (*object)(pass)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 600
	var atRange uint32
	if theRange != nil {
		atRange = fixed + 0
		theRange.store(&c, atRange)
	}
	atHandedOut := c.putBytes(handedOut)
	atSaid := c.allocateMany(len(said), 1, 1)
	atLen := fixed + 32
	{
		b := c.bytes(atLen, 4)
		endian.PutUint32(b[0:], uint32(*theLen))
	}
	atError := fixed + 40
	c.grow()
	result = Result(c.core.Xrk_exchange_diff((*object)(pass).address(), int32(atRange), int32(atHandedOut), int32(len(handedOut)), int64(at), number(isGuarded), int32(atSaid), int32(len(said)), int32(atLen), int32(atError)))
	c.done = true
	{
		b := c.bytes(atLen, 4)
		*theLen = uint(endian.Uint32(b[0:]))
	}
	if result == ResultOK {
		copy(said, c.bytes(atSaid, min(len(said), int(*theLen))))
	}
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}

// ExchangeSubmit is rk_exchange_submit.
func ExchangeSubmit(committer *Committer, diff []uint8, at uint64, isGuarded bool, deadline uint64, ticket *uint64, theError *Error) (result Result) {
	c := call{first: (*object)(committer)}
	if result = c.enter(&coreCalls); result != ResultOK {
		return result
	}
	defer c.leave(&result)
	fixed := c.next
	c.next += 568
	atDiff := c.putBytes(diff)
	atTicket := fixed + 0
	{
		b := c.bytes(atTicket, 8)
		endian.PutUint64(b[0:], uint64(*ticket))
	}
	atError := fixed + 8
	c.grow()
	result = Result(c.core.Xrk_exchange_submit((*object)(committer).address(), int32(atDiff), int32(len(diff)), int64(at), number(isGuarded), int64(deadline), int32(atTicket), int32(atError)))
	c.done = true
	{
		b := c.bytes(atTicket, 8)
		*ticket = endian.Uint64(b[0:])
	}
	if result != ResultOK {
		theError.load(&c, atError)
	}
	return result
}
