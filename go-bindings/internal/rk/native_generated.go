// Code generated from include/rangekeeper.h by ffi/header.sh. DO NOT EDIT.

//go:build cgo && (rangekeeper_native || rangekeeper_dynamic)

package rk

/*
#cgo noescape rk_abi_version
#cgo nocallback rk_abi_version
#cgo noescape rk_result_name
#cgo nocallback rk_result_name
#cgo noescape rk_address_parse
#cgo nocallback rk_address_parse
#cgo noescape rk_value_text
#cgo nocallback rk_value_text
#cgo noescape rk_range_parse
#cgo nocallback rk_range_parse
#cgo noescape rk_range_describe
#cgo nocallback rk_range_describe
#cgo noescape rk_range_offset_of
#cgo nocallback rk_range_offset_of
#cgo noescape rk_range_value_at
#cgo nocallback rk_range_value_at
#cgo noescape rk_range_excludes
#cgo nocallback rk_range_excludes
#cgo noescape rk_range_changes
#cgo nocallback rk_range_changes
#cgo noescape rk_service_cidr_parse
#cgo nocallback rk_service_cidr_parse
#cgo noescape rk_service_cidr_describe
#cgo nocallback rk_service_cidr_describe
#cgo noescape rk_service_cidr_offset_of
#cgo nocallback rk_service_cidr_offset_of
#cgo noescape rk_service_cidr_value_at
#cgo nocallback rk_service_cidr_value_at
#cgo noescape rk_allocator_new
#cgo nocallback rk_allocator_new
#cgo noescape rk_allocator_dry_run
#cgo nocallback rk_allocator_dry_run
#cgo noescape rk_allocator_allocate
#cgo nocallback rk_allocator_allocate
#cgo noescape rk_allocator_allocate_next
#cgo nocallback rk_allocator_allocate_next
#cgo noescape rk_allocator_release
#cgo nocallback rk_allocator_release
#cgo noescape rk_allocator_has
#cgo nocallback rk_allocator_has
#cgo noescape rk_allocator_used
#cgo nocallback rk_allocator_used
#cgo noescape rk_allocator_allocate_batch
#cgo nocallback rk_allocator_allocate_batch
#cgo noescape rk_allocator_snapshot
#cgo nocallback rk_allocator_snapshot
#cgo noescape rk_allocator_restore
#cgo nocallback rk_allocator_restore
#cgo noescape rk_range_allocation_new
#cgo nocallback rk_range_allocation_new
#cgo noescape rk_range_allocation_decode
#cgo nocallback rk_range_allocation_decode
#cgo noescape rk_range_allocation_range
#cgo nocallback rk_range_allocation_range
#cgo noescape rk_range_allocation_data
#cgo nocallback rk_range_allocation_data
#cgo noescape rk_range_allocation_set
#cgo nocallback rk_range_allocation_set
#cgo noescape rk_range_allocation_encode
#cgo nocallback rk_range_allocation_encode
#cgo noescape rk_leak_counters_new
#cgo nocallback rk_leak_counters_new
#cgo noescape rk_leak_counters_advance
#cgo nocallback rk_leak_counters_advance
#cgo noescape rk_leak_counters_count
#cgo nocallback rk_leak_counters_count
#cgo noescape rk_leak_tracker_new
#cgo nocallback rk_leak_tracker_new
#cgo noescape rk_services_claims
#cgo nocallback rk_services_claims
#cgo noescape rk_cluster_ip_records_of
#cgo nocallback rk_cluster_ip_records_of
#cgo noescape rk_store_content_of
#cgo nocallback rk_store_content_of
#cgo noescape rk_audit_new
#cgo nocallback rk_audit_new
#cgo noescape rk_audit_add_bitmap
#cgo nocallback rk_audit_add_bitmap
#cgo noescape rk_audit_add_unseen
#cgo nocallback rk_audit_add_unseen
#cgo noescape rk_audit_compare_bitmap
#cgo nocallback rk_audit_compare_bitmap
#cgo noescape rk_audit_add_service_cidr
#cgo nocallback rk_audit_add_service_cidr
#cgo noescape rk_audit_observe_ip_addresses
#cgo nocallback rk_audit_observe_ip_addresses
#cgo noescape rk_audit_observe_services
#cgo nocallback rk_audit_observe_services
#cgo noescape rk_audit_observe_unreadable
#cgo nocallback rk_audit_observe_unreadable
#cgo noescape rk_audit_check_cluster
#cgo nocallback rk_audit_check_cluster
#cgo noescape rk_audit_finish
#cgo nocallback rk_audit_finish
#cgo noescape rk_ranges_judge
#cgo nocallback rk_ranges_judge
#cgo noescape rk_reason_name
#cgo nocallback rk_reason_name
#cgo noescape rk_reason_severity
#cgo nocallback rk_reason_severity
#cgo noescape rk_report_record_repair
#cgo nocallback rk_report_record_repair
#cgo noescape rk_report_services
#cgo nocallback rk_report_services
#cgo noescape rk_report_findings
#cgo nocallback rk_report_findings
#cgo noescape rk_report_finding_texts
#cgo nocallback rk_report_finding_texts
#cgo noescape rk_report_find_full_ranges
#cgo nocallback rk_report_find_full_ranges
#cgo noescape rk_report_observe_forms
#cgo nocallback rk_report_observe_forms
#cgo noescape rk_report_observe_claimants
#cgo nocallback rk_report_observe_claimants
#cgo noescape rk_report_claimants
#cgo nocallback rk_report_claimants
#cgo noescape rk_report_object_repairs
#cgo nocallback rk_report_object_repairs
#cgo noescape rk_report_leaks
#cgo nocallback rk_report_leaks
#cgo noescape rk_report_range
#cgo nocallback rk_report_range
#cgo noescape rk_report_runs
#cgo nocallback rk_report_runs
#cgo noescape rk_report_snapshot
#cgo nocallback rk_report_snapshot
#cgo noescape rk_report_state
#cgo nocallback rk_report_state
#cgo noescape rk_report_occupancy
#cgo nocallback rk_report_occupancy
#cgo noescape rk_committer_new
#cgo nocallback rk_committer_new
#cgo noescape rk_committer_submit
#cgo nocallback rk_committer_submit
#cgo noescape rk_committer_cancel
#cgo nocallback rk_committer_cancel
#cgo noescape rk_committer_abandon
#cgo nocallback rk_committer_abandon
#cgo noescape rk_committer_written
#cgo nocallback rk_committer_written
#cgo noescape rk_committer_poll
#cgo nocallback rk_committer_poll
#cgo noescape rk_committer_handle
#cgo nocallback rk_committer_handle
#cgo noescape rk_committer_known
#cgo nocallback rk_committer_known
#cgo noescape rk_committer_value
#cgo nocallback rk_committer_value
#cgo noescape rk_committer_finished
#cgo nocallback rk_committer_finished
#cgo noescape rk_committer_submit_edit
#cgo nocallback rk_committer_submit_edit
#cgo noescape rk_repair_pass_new
#cgo nocallback rk_repair_pass_new
#cgo noescape rk_repair_pass_begin
#cgo nocallback rk_repair_pass_begin
#cgo noescape rk_repair_pass_read
#cgo nocallback rk_repair_pass_read
#cgo noescape rk_repair_pass_fenced
#cgo nocallback rk_repair_pass_fenced
#cgo noescape rk_repair_pass_audit
#cgo nocallback rk_repair_pass_audit
#cgo noescape rk_repair_pass_finish
#cgo nocallback rk_repair_pass_finish
#cgo noescape rk_repair_pass_check
#cgo nocallback rk_repair_pass_check
#cgo noescape rk_committer_submit_repair
#cgo nocallback rk_committer_submit_repair
#cgo noescape rk_index_new
#cgo nocallback rk_index_new
#cgo noescape rk_index_insert_cidr
#cgo nocallback rk_index_insert_cidr
#cgo noescape rk_index_remove_cidr
#cgo nocallback rk_index_remove_cidr
#cgo noescape rk_index_usage
#cgo nocallback rk_index_usage
#cgo noescape rk_index_is_taken
#cgo nocallback rk_index_is_taken
#cgo noescape rk_index_reserve
#cgo nocallback rk_index_reserve
#cgo noescape rk_index_reserve_address
#cgo nocallback rk_index_reserve_address
#cgo noescape rk_index_confirm
#cgo nocallback rk_index_confirm
#cgo noescape rk_index_created
#cgo nocallback rk_index_created
#cgo noescape rk_index_abort
#cgo nocallback rk_index_abort
#cgo noescape rk_index_already_exists
#cgo nocallback rk_index_already_exists
#cgo noescape rk_index_expire
#cgo nocallback rk_index_expire
#cgo noescape rk_index_added
#cgo nocallback rk_index_added
#cgo noescape rk_index_removed
#cgo nocallback rk_index_removed
#cgo noescape rk_index_replace
#cgo nocallback rk_index_replace
#cgo noescape rk_ip_address_judge
#cgo nocallback rk_ip_address_judge
#cgo noescape rk_cluster_ip_judge
#cgo nocallback rk_cluster_ip_judge
#cgo noescape rk_ledger_value_text
#cgo nocallback rk_ledger_value_text
#cgo noescape rk_ledger_new
#cgo nocallback rk_ledger_new
#cgo noescape rk_ledger_apply
#cgo nocallback rk_ledger_apply
#cgo noescape rk_ledger_parse_value
#cgo nocallback rk_ledger_parse_value
#cgo noescape rk_ledger_owner_of
#cgo nocallback rk_ledger_owner_of
#cgo noescape rk_ledger_owned_by
#cgo nocallback rk_ledger_owned_by
#cgo noescape rk_ledger_values
#cgo nocallback rk_ledger_values
#cgo noescape rk_ledger_count
#cgo nocallback rk_ledger_count
#cgo noescape rk_ledger_encode
#cgo nocallback rk_ledger_encode
#cgo noescape rk_ledger_audit
#cgo nocallback rk_ledger_audit
#cgo noescape rk_shared_ledger_new
#cgo nocallback rk_shared_ledger_new
#cgo noescape rk_shared_ledger_submit
#cgo nocallback rk_shared_ledger_submit
#cgo noescape rk_shared_ledger_cancel
#cgo nocallback rk_shared_ledger_cancel
#cgo noescape rk_shared_ledger_poll
#cgo nocallback rk_shared_ledger_poll
#cgo noescape rk_shared_ledger_put
#cgo nocallback rk_shared_ledger_put
#cgo noescape rk_shared_ledger_answered
#cgo nocallback rk_shared_ledger_answered
#cgo noescape rk_shared_ledger_outcome
#cgo nocallback rk_shared_ledger_outcome
#cgo noescape rk_shared_ledger_known
#cgo nocallback rk_shared_ledger_known
#cgo noescape rk_bootstrap_new
#cgo nocallback rk_bootstrap_new
#cgo noescape rk_bootstrap_poll
#cgo nocallback rk_bootstrap_poll
#cgo noescape rk_bootstrap_answered
#cgo nocallback rk_bootstrap_answered
#cgo noescape rk_bootstrap_watched
#cgo nocallback rk_bootstrap_watched
#cgo noescape rk_bootstrap_stop
#cgo nocallback rk_bootstrap_stop
#cgo noescape rk_bootstrap_plan
#cgo nocallback rk_bootstrap_plan
#cgo noescape rk_allocator_free
#cgo nocallback rk_allocator_free
#cgo noescape rk_range_allocation_free
#cgo nocallback rk_range_allocation_free
#cgo noescape rk_leak_counters_free
#cgo nocallback rk_leak_counters_free
#cgo noescape rk_leak_tracker_free
#cgo nocallback rk_leak_tracker_free
#cgo noescape rk_audit_free
#cgo nocallback rk_audit_free
#cgo noescape rk_report_free
#cgo nocallback rk_report_free
#cgo noescape rk_committer_free
#cgo nocallback rk_committer_free
#cgo noescape rk_repair_pass_free
#cgo nocallback rk_repair_pass_free
#cgo noescape rk_index_free
#cgo nocallback rk_index_free
#cgo noescape rk_ledger_free
#cgo nocallback rk_ledger_free
#cgo noescape rk_shared_ledger_free
#cgo nocallback rk_shared_ledger_free
#cgo noescape rk_bootstrap_free
#cgo nocallback rk_bootstrap_free
#include <rangekeeper.h>
*/
import "C"

import (
	"runtime"
	"unsafe"
)

// Allocator is an object of the library, in its memory.
type Allocator handle

// IsAlone reports that the object has to be freed.
func (*Allocator) IsAlone() bool { return false }

// RangeAllocation is an object of the library, in its memory.
type RangeAllocation handle

// IsAlone reports that the object has to be freed.
func (*RangeAllocation) IsAlone() bool { return false }

// LeakCounters is an object of the library, in its memory.
type LeakCounters handle

// IsAlone reports that the object has to be freed.
func (*LeakCounters) IsAlone() bool { return false }

// LeakTracker is an object of the library, in its memory.
type LeakTracker handle

// IsAlone reports that the object has to be freed.
func (*LeakTracker) IsAlone() bool { return false }

// Audit is an object of the library, in its memory.
type Audit handle

// IsAlone reports that the object has to be freed.
func (*Audit) IsAlone() bool { return false }

// Report is an object of the library, in its memory.
type Report handle

// IsAlone reports that the object has to be freed.
func (*Report) IsAlone() bool { return false }

// Committer is an object of the library, in its memory.
type Committer handle

// IsAlone reports that the object has to be freed.
func (*Committer) IsAlone() bool { return false }

// RepairPass is an object of the library, in its memory.
type RepairPass handle

// IsAlone reports that the object has to be freed.
func (*RepairPass) IsAlone() bool { return false }

// Index is an object of the library, in its memory.
type Index handle

// IsAlone reports that the object has to be freed.
func (*Index) IsAlone() bool { return false }

// Ledger is an object of the library, in its memory.
type Ledger handle

// IsAlone reports that the object has to be freed.
func (*Ledger) IsAlone() bool { return false }

// SharedLedger is an object of the library, in its memory.
type SharedLedger handle

// IsAlone reports that the object has to be freed.
func (*SharedLedger) IsAlone() bool { return false }

// Bootstrap is an object of the library, in its memory.
type Bootstrap handle

// IsAlone reports that the object has to be freed.
func (*Bootstrap) IsAlone() bool { return false }

// FirstFault returns nothing: the library writes to stderr what a fault says.
func FirstFault() string { return "" }

// The structs that cross without a conversion have the size that they have in C.
var (
	_ [C.sizeof_rk_bits_past_range]byte          = [unsafe.Sizeof(BitsPastRange{})]byte{}
	_ [C.sizeof_rk_value]byte                    = [unsafe.Sizeof(Value{})]byte{}
	_ [C.sizeof_rk_range]byte                    = [unsafe.Sizeof(Range{})]byte{}
	_ [C.sizeof_rk_service_cidr]byte             = [unsafe.Sizeof(ServiceCIDR{})]byte{}
	_ [C.sizeof_rk_service_cidr_description]byte = [unsafe.Sizeof(ServiceCIDRDescription{})]byte{}
	_ [C.sizeof_rk_claim]byte                    = [unsafe.Sizeof(Claim{})]byte{}
	_ [C.sizeof_rk_ranges_verdict]byte           = [unsafe.Sizeof(RangesVerdict{})]byte{}
	_ [C.sizeof_rk_offset_state]byte             = [unsafe.Sizeof(OffsetState{})]byte{}
	_ [C.sizeof_rk_cell]byte                     = [unsafe.Sizeof(Cell{})]byte{}
	_ [C.sizeof_rk_leak]byte                     = [unsafe.Sizeof(Leak{})]byte{}
	_ [C.sizeof_rk_claimant]byte                 = [unsafe.Sizeof(Claimant{})]byte{}
	_ [C.sizeof_rk_object_repair]byte            = [unsafe.Sizeof(ObjectRepair{})]byte{}
	_ [C.sizeof_rk_run]byte                      = [unsafe.Sizeof(Run{})]byte{}
	_ [C.sizeof_rk_range_report]byte             = [unsafe.Sizeof(RangeReport{})]byte{}
	_ [C.sizeof_rk_allocate]byte                 = [unsafe.Sizeof(Allocate{})]byte{}
	_ [C.sizeof_rk_release]byte                  = [unsafe.Sizeof(Release{})]byte{}
	_ [C.sizeof_rk_key_state]byte                = [unsafe.Sizeof(KeyState{})]byte{}
	_ [C.sizeof_rk_header]byte                   = [unsafe.Sizeof(Header{})]byte{}
	_ [C.sizeof_rk_step_wait]byte                = [unsafe.Sizeof(StepWait{})]byte{}
	_ [C.sizeof_rk_step_swap]byte                = [unsafe.Sizeof(StepSwap{})]byte{}
	_ [C.sizeof_rk_step_confirm]byte             = [unsafe.Sizeof(StepConfirm{})]byte{}
	_ [C.sizeof_rk_step_finished]byte            = [unsafe.Sizeof(StepFinished{})]byte{}
	_ [C.sizeof_rk_step_watch]byte               = [unsafe.Sizeof(StepWatch{})]byte{}
	_ [C.sizeof_rk_step_read_at]byte             = [unsafe.Sizeof(StepReadAt{})]byte{}
	_ [C.sizeof_rk_allocated]byte                = [unsafe.Sizeof(Allocated{})]byte{}
	_ [C.sizeof_rk_released]byte                 = [unsafe.Sizeof(Released{})]byte{}
	_ [C.sizeof_rk_deferred]byte                 = [unsafe.Sizeof(Deferred{})]byte{}
	_ [C.sizeof_rk_view]byte                     = [unsafe.Sizeof(View{})]byte{}
	_ [C.sizeof_rk_created]byte                  = [unsafe.Sizeof(Created{})]byte{}
	_ [C.sizeof_rk_repaired]byte                 = [unsafe.Sizeof(Repaired{})]byte{}
	_ [C.sizeof_rk_failed]byte                   = [unsafe.Sizeof(Failed{})]byte{}
	_ [C.sizeof_rk_edited]byte                   = [unsafe.Sizeof(Edited{})]byte{}
	_ [C.sizeof_rk_known]byte                    = [unsafe.Sizeof(Known{})]byte{}
	_ [C.sizeof_rk_reservation]byte              = [unsafe.Sizeof(Reservation{})]byte{}
	_ [C.sizeof_rk_index_changes]byte            = [unsafe.Sizeof(IndexChanges{})]byte{}
	_ [C.sizeof_rk_address_object]byte           = [unsafe.Sizeof(AddressObject{})]byte{}
	_ [C.sizeof_rk_ledger_value]byte             = [unsafe.Sizeof(LedgerValue{})]byte{}
	_ [C.sizeof_rk_ledger_allocation]byte        = [unsafe.Sizeof(LedgerAllocation{})]byte{}
	_ [C.sizeof_rk_ledger_change]byte            = [unsafe.Sizeof(LedgerChange{})]byte{}
	_ [C.sizeof_rk_ledger_usage]byte             = [unsafe.Sizeof(LedgerUsage{})]byte{}
	_ [C.sizeof_rk_ledger_request]byte           = [unsafe.Sizeof(LedgerRequest{})]byte{}
)

// aligned is a struct as C aligns it: cgo does not know that there are 64-bit numbers in its union.
type aligned[T any] struct {
	_ [0]uint64
	c T
}

func (s *Error) fromC(c *C.rk_error) {
	s.DetailKind = uint32(c.detail_kind)
	s.Detail.Byte = *(*uint64)(unsafe.Pointer(&c.detail))
	s.Detail.Bits = *(*BitsPastRange)(unsafe.Pointer(&c.detail))
	s.Detail.Request = *(*uint64)(unsafe.Pointer(&c.detail))
	s.Message = C.GoStringN(&c.message[0], C.int(c.message_len))
}

func (s *RangeDescription) fromC(c *C.rk_range_description) {
	s.Size = uint32(c.size)
	s.StaticBand = uint32(c.static_band)
	s.Text = C.GoStringN(&c.text[0], C.int(c.text_len))
}

func (s *Batch) toC(pinner *runtime.Pinner) (c C.rk_batch) {
	if len(s.Words) > 0 {
		data := unsafe.Pointer(unsafe.SliceData(s.Words))
		pinner.Pin(data)
		c.words, c.words_len = (*C.uint32_t)(data), C.size_t(len(s.Words))
	}
	if len(s.Text) > 0 {
		data := unsafe.Pointer(unsafe.SliceData(s.Text))
		pinner.Pin(data)
		c.text, c.text_len = (*C.char)(data), C.size_t(len(s.Text))
	}
	c.count = C.size_t(s.Count)
	return c
}

func (s *Services) toC(pinner *runtime.Pinner) (c C.rk_services) {
	c.batch = s.Batch.toC(pinner)
	return c
}

func (s *ServiceNames) toC(pinner *runtime.Pinner) (c C.rk_service_names) {
	c.batch = s.Batch.toC(pinner)
	return c
}

func (s *IPAddresses) toC(pinner *runtime.Pinner) (c C.rk_ip_addresses) {
	c.batch = s.Batch.toC(pinner)
	return c
}

func (s *Finding) fromC(c *C.rk_finding) {
	s.Reason = uint32(c.reason)
	s.SubjectKind = uint32(c.subject_kind)
	s.Subject = uint64(c.subject)
	s.Range = uint32(c._range)
	s.Remedy = uint32(c.remedy)
	s.Stays = bool(c.stays)
	s.ValueKind = uint32(c.value_kind)
	s.Value.Address = *(*Value)(unsafe.Pointer(&c.value))
	s.Value.Port = *(*int32)(unsafe.Pointer(&c.value))
}

func (s *Operation) toC(pinner *runtime.Pinner) (c C.rk_operation) {
	c.deadline = C.uint64_t(s.Deadline)
	c.kind = C.uint32_t(s.Kind)
	if s.Data.Allocate != nil {
		*(*C.rk_allocate)(unsafe.Pointer(&c.data)) = *(*C.rk_allocate)(unsafe.Pointer(s.Data.Allocate))
	}
	if s.Data.Release != nil {
		*(*C.rk_release)(unsafe.Pointer(&c.data)) = *(*C.rk_release)(unsafe.Pointer(s.Data.Release))
	}
	return c
}

func (s *Key) toC(pinner *runtime.Pinner) (c C.rk_key) {
	c.state = *(*C.rk_key_state)(unsafe.Pointer(&s.State))
	if len(s.Value) > 0 {
		data := unsafe.Pointer(unsafe.SliceData(s.Value))
		pinner.Pin(data)
		c.value, c.value_len = (*C.uint8_t)(data), C.size_t(len(s.Value))
	}
	return c
}

func (s *Current) toC(pinner *runtime.Pinner) (c C.rk_current) {
	c.header = *(*C.rk_header)(unsafe.Pointer(&s.Header))
	c.key = s.Key.toC(pinner)
	return c
}

func (s *Refused) toC(pinner *runtime.Pinner) (c C.rk_refused) {
	if len(s.Reason) > 0 {
		data := unsafe.Pointer(unsafe.StringData(s.Reason))
		pinner.Pin(data)
		c.reason, c.reason_len = (*C.char)(data), C.size_t(len(s.Reason))
	}
	return c
}

func (s *Watched) toC(pinner *runtime.Pinner) (c C.rk_watched) {
	if len(s.Changes) > 0 {
		items := make([]C.rk_key, len(s.Changes))
		for i := range items {
			items[i] = s.Changes[i].toC(pinner)
		}
		data := unsafe.Pointer(unsafe.SliceData(items))
		pinner.Pin(data)
		c.changes, c.n = (*C.rk_key)(data), C.size_t(len(s.Changes))
	}
	return c
}

func (s *Event) toC(pinner *runtime.Pinner) (c C.rk_event) {
	c.kind = C.uint32_t(s.Kind)
	if s.Data.Held != nil {
		*(*C.rk_header)(unsafe.Pointer(&c.data)) = *(*C.rk_header)(unsafe.Pointer(s.Data.Held))
	}
	if s.Data.Current != nil {
		*(*C.rk_current)(unsafe.Pointer(&c.data)) = s.Data.Current.toC(pinner)
	}
	if s.Data.Refused != nil {
		*(*C.rk_refused)(unsafe.Pointer(&c.data)) = s.Data.Refused.toC(pinner)
	}
	if s.Data.Watched != nil {
		*(*C.rk_watched)(unsafe.Pointer(&c.data)) = s.Data.Watched.toC(pinner)
	}
	return c
}

func (s *Step) fromC(c *C.rk_step) {
	s.Kind = uint32(c.kind)
	s.Data.Wait = *(*StepWait)(unsafe.Pointer(&c.data))
	s.Data.Swap = *(*StepSwap)(unsafe.Pointer(&c.data))
	s.Data.Confirm = *(*StepConfirm)(unsafe.Pointer(&c.data))
	s.Data.Finished = *(*StepFinished)(unsafe.Pointer(&c.data))
	s.Data.Watch = *(*StepWatch)(unsafe.Pointer(&c.data))
	s.Data.ReadAt = *(*StepReadAt)(unsafe.Pointer(&c.data))
}

func (s *Finished) fromC(c *C.rk_finished) {
	s.Ticket = uint64(c.ticket)
	s.Outcome = uint32(c.outcome)
	s.Data.Allocated = *(*Allocated)(unsafe.Pointer(&c.data))
	s.Data.Released = *(*Released)(unsafe.Pointer(&c.data))
	s.Data.Deferred = *(*Deferred)(unsafe.Pointer(&c.data))
	s.Data.Read = *(*View)(unsafe.Pointer(&c.data))
	s.Data.Created = *(*Created)(unsafe.Pointer(&c.data))
	s.Data.Repaired = *(*Repaired)(unsafe.Pointer(&c.data))
	s.Data.Failed = *(*Failed)(unsafe.Pointer(&c.data))
	s.Data.Edited = *(*Edited)(unsafe.Pointer(&c.data))
}

func (s *Edit) toC(pinner *runtime.Pinner) (c C.rk_edit) {
	c.kind = C.uint32_t(s.Kind)
	c.pick = C.uint32_t(s.Pick)
	if len(s.Set) > 0 {
		data := unsafe.Pointer(unsafe.SliceData(s.Set))
		pinner.Pin(data)
		c.set, c.set_len = (*C.rk_value)(data), C.size_t(len(s.Set))
	}
	if len(s.Clear) > 0 {
		data := unsafe.Pointer(unsafe.SliceData(s.Clear))
		pinner.Pin(data)
		c.clear, c.clear_len = (*C.rk_value)(data), C.size_t(len(s.Clear))
	}
	if len(s.InUse) > 0 {
		data := unsafe.Pointer(unsafe.SliceData(s.InUse))
		pinner.Pin(data)
		c.in_use, c.in_use_len = (*C.uint8_t)(data), C.size_t(len(s.InUse))
	}
	c.listed = C.uint64_t(s.Listed)
	c.since = C.uint64_t(s.Since)
	c.look = C.uint64_t(s.Look)
	return c
}

// ABIVersion is rk_abi_version.
func ABIVersion() uint32 {
	return uint32(C.rk_abi_version())
}

// ResultName is rk_result_name.
func ResultName(theResult uint32) string {
	return C.GoString(C.rk_result_name(C.uint32_t(theResult)))
}

// AddressParse is rk_address_parse.
func AddressParse(address string, value *Value) Result {
	return Result(C.rk_address_parse((*C.char)(unsafe.Pointer(unsafe.StringData(address))), C.size_t(len(address)), (*C.rk_value)(unsafe.Pointer(value))))
}

// ValueText is rk_value_text.
func ValueText(value *Value, buffer []byte, theLen *uint) Result {
	return Result(C.rk_value_text((*C.rk_value)(unsafe.Pointer(value)), (*C.char)(unsafe.Pointer(unsafe.SliceData(buffer))), C.size_t(len(buffer)), (*C.size_t)(unsafe.Pointer(theLen))))
}

// RangeParse is rk_range_parse.
func RangeParse(spec string, kind uint32, theRange *Range, theError *Error) Result {
	var c_error aligned[C.rk_error]
	result := C.rk_range_parse((*C.char)(unsafe.Pointer(unsafe.StringData(spec))), C.size_t(len(spec)), C.uint32_t(kind), (*C.rk_range)(unsafe.Pointer(theRange)), &c_error.c)
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// RangeDescribe is rk_range_describe.
func RangeDescribe(theRange *Range, description *RangeDescription) Result {
	var c_description aligned[C.rk_range_description]
	result := C.rk_range_describe((*C.rk_range)(unsafe.Pointer(theRange)), &c_description.c)
	if result == C.RK_RESULT_OK {
		description.fromC(&c_description.c)
	}
	return Result(result)
}

// RangeOffsetOf is rk_range_offset_of.
func RangeOffsetOf(theRange *Range, value *Value, offset *uint32) Result {
	return Result(C.rk_range_offset_of((*C.rk_range)(unsafe.Pointer(theRange)), (*C.rk_value)(unsafe.Pointer(value)), (*C.uint32_t)(unsafe.Pointer(offset))))
}

// RangeValueAt is rk_range_value_at.
func RangeValueAt(theRange *Range, offset uint32, value *Value) Result {
	return Result(C.rk_range_value_at((*C.rk_range)(unsafe.Pointer(theRange)), C.uint32_t(offset), (*C.rk_value)(unsafe.Pointer(value))))
}

// RangeExcludes is rk_range_excludes.
func RangeExcludes(theRange *Range, other *Range, excludes *bool) Result {
	return Result(C.rk_range_excludes((*C.rk_range)(unsafe.Pointer(theRange)), (*C.rk_range)(unsafe.Pointer(other)), (*C.bool)(unsafe.Pointer(excludes))))
}

// RangeChanges is rk_range_changes.
func RangeChanges(theRange *Range, before []uint8, after []uint8, fromOffset uint32, values []Value, allocated []bool, n *uint, nextOffset *uint32, theError *Error) Result {
	var c_error aligned[C.rk_error]
	result := C.rk_range_changes((*C.rk_range)(unsafe.Pointer(theRange)), (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(before))), C.size_t(len(before)), (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(after))), C.size_t(len(after)), C.uint32_t(fromOffset), (*C.rk_value)(unsafe.Pointer(unsafe.SliceData(values))), (*C.bool)(unsafe.Pointer(unsafe.SliceData(allocated))), C.size_t(len(allocated)), (*C.size_t)(unsafe.Pointer(n)), (*C.uint32_t)(unsafe.Pointer(nextOffset)), &c_error.c)
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// ServiceCIDRParse is rk_service_cidr_parse.
func ServiceCIDRParse(spec string, cidr *ServiceCIDR, theError *Error) Result {
	var c_error aligned[C.rk_error]
	result := C.rk_service_cidr_parse((*C.char)(unsafe.Pointer(unsafe.StringData(spec))), C.size_t(len(spec)), (*C.rk_service_cidr)(unsafe.Pointer(cidr)), &c_error.c)
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// ServiceCIDRDescribe is rk_service_cidr_describe.
func ServiceCIDRDescribe(cidr *ServiceCIDR, description *ServiceCIDRDescription) Result {
	return Result(C.rk_service_cidr_describe((*C.rk_service_cidr)(unsafe.Pointer(cidr)), (*C.rk_service_cidr_description)(unsafe.Pointer(description))))
}

// ServiceCIDROffsetOf is rk_service_cidr_offset_of.
func ServiceCIDROffsetOf(cidr *ServiceCIDR, value *Value, offset *uint64) Result {
	return Result(C.rk_service_cidr_offset_of((*C.rk_service_cidr)(unsafe.Pointer(cidr)), (*C.rk_value)(unsafe.Pointer(value)), (*C.uint64_t)(unsafe.Pointer(offset))))
}

// ServiceCIDRValueAt is rk_service_cidr_value_at.
func ServiceCIDRValueAt(cidr *ServiceCIDR, offset uint64, value *Value) Result {
	return Result(C.rk_service_cidr_value_at((*C.rk_service_cidr)(unsafe.Pointer(cidr)), C.uint64_t(offset), (*C.rk_value)(unsafe.Pointer(value))))
}

// AllocatorNew is rk_allocator_new.
func AllocatorNew(theRange *Range, strategy uint32, seed uint64, allocator **Allocator, theError *Error) Result {
	var c_allocator *C.rk_allocator
	var c_error aligned[C.rk_error]
	result := C.rk_allocator_new((*C.rk_range)(unsafe.Pointer(theRange)), C.uint32_t(strategy), C.uint64_t(seed), &c_allocator, &c_error.c)
	if result == C.RK_RESULT_OK {
		*allocator = (*Allocator)(newHandle(unsafe.Pointer(c_allocator), freeAllocator))
	}
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// AllocatorDryRun is rk_allocator_dry_run.
func AllocatorDryRun(allocator *Allocator, dryRun **Allocator) Result {
	c_allocator, entered := (*handle)(allocator).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(allocator).leave()
	var c_dry_run *C.rk_allocator
	result := C.rk_allocator_dry_run((*C.rk_allocator)(c_allocator), &c_dry_run)
	if result == C.RK_RESULT_OK {
		*dryRun = (*Allocator)(newHandle(unsafe.Pointer(c_dry_run), freeAllocator))
	}
	return Result(result)
}

// AllocatorAllocate is rk_allocator_allocate.
func AllocatorAllocate(allocator *Allocator, value *Value) Result {
	c_allocator, entered := (*handle)(allocator).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(allocator).leave()
	return Result(C.rk_allocator_allocate((*C.rk_allocator)(c_allocator), (*C.rk_value)(unsafe.Pointer(value))))
}

// AllocatorAllocateNext is rk_allocator_allocate_next.
func AllocatorAllocateNext(allocator *Allocator, value *Value) Result {
	c_allocator, entered := (*handle)(allocator).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(allocator).leave()
	return Result(C.rk_allocator_allocate_next((*C.rk_allocator)(c_allocator), (*C.rk_value)(unsafe.Pointer(value))))
}

// AllocatorRelease is rk_allocator_release.
func AllocatorRelease(allocator *Allocator, value *Value, wasUsed *bool) Result {
	c_allocator, entered := (*handle)(allocator).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(allocator).leave()
	return Result(C.rk_allocator_release((*C.rk_allocator)(c_allocator), (*C.rk_value)(unsafe.Pointer(value)), (*C.bool)(unsafe.Pointer(wasUsed))))
}

// AllocatorHas is rk_allocator_has.
func AllocatorHas(allocator *Allocator, value *Value, isUsed *bool) Result {
	c_allocator, entered := (*handle)(allocator).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(allocator).leave()
	return Result(C.rk_allocator_has((*C.rk_allocator)(c_allocator), (*C.rk_value)(unsafe.Pointer(value)), (*C.bool)(unsafe.Pointer(isUsed))))
}

// AllocatorUsed is rk_allocator_used.
func AllocatorUsed(allocator *Allocator, used *uint32) Result {
	c_allocator, entered := (*handle)(allocator).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(allocator).leave()
	return Result(C.rk_allocator_used((*C.rk_allocator)(c_allocator), (*C.uint32_t)(unsafe.Pointer(used))))
}

// AllocatorAllocateBatch is rk_allocator_allocate_batch.
func AllocatorAllocateBatch(allocator *Allocator, requests []Value, values []Value, theError *Error) Result {
	c_allocator, entered := (*handle)(allocator).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(allocator).leave()
	var c_error aligned[C.rk_error]
	result := C.rk_allocator_allocate_batch((*C.rk_allocator)(c_allocator), (*C.rk_value)(unsafe.Pointer(unsafe.SliceData(requests))), C.size_t(len(values)), (*C.rk_value)(unsafe.Pointer(unsafe.SliceData(values))), &c_error.c)
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// AllocatorSnapshot is rk_allocator_snapshot.
func AllocatorSnapshot(allocator *Allocator, buffer []uint8, theLen *uint) Result {
	c_allocator, entered := (*handle)(allocator).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(allocator).leave()
	return Result(C.rk_allocator_snapshot((*C.rk_allocator)(c_allocator), (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(buffer))), C.size_t(len(buffer)), (*C.size_t)(unsafe.Pointer(theLen))))
}

// AllocatorRestore is rk_allocator_restore.
func AllocatorRestore(allocator *Allocator, theRange string, data []uint8, theError *Error) Result {
	c_allocator, entered := (*handle)(allocator).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(allocator).leave()
	var c_error aligned[C.rk_error]
	result := C.rk_allocator_restore((*C.rk_allocator)(c_allocator), (*C.char)(unsafe.Pointer(unsafe.StringData(theRange))), C.size_t(len(theRange)), (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(data))), C.size_t(len(data)), &c_error.c)
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// RangeAllocationNew is rk_range_allocation_new.
func RangeAllocationNew(form uint32, theObject **RangeAllocation) Result {
	var c_object *C.rk_range_allocation
	result := C.rk_range_allocation_new(C.uint32_t(form), &c_object)
	if result == C.RK_RESULT_OK {
		*theObject = (*RangeAllocation)(newHandle(unsafe.Pointer(c_object), freeRangeAllocation))
	}
	return Result(result)
}

// RangeAllocationDecode is rk_range_allocation_decode.
func RangeAllocationDecode(stored []uint8, theObject **RangeAllocation, theError *Error) Result {
	var c_object *C.rk_range_allocation
	var c_error aligned[C.rk_error]
	result := C.rk_range_allocation_decode((*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(stored))), C.size_t(len(stored)), &c_object, &c_error.c)
	if result == C.RK_RESULT_OK {
		*theObject = (*RangeAllocation)(newHandle(unsafe.Pointer(c_object), freeRangeAllocation))
	}
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// RangeAllocationRange is rk_range_allocation_range.
func RangeAllocationRange(theObject *RangeAllocation, buffer []byte, theLen *uint) Result {
	c_object, entered := (*handle)(theObject).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(theObject).leave()
	return Result(C.rk_range_allocation_range((*C.rk_range_allocation)(c_object), (*C.char)(unsafe.Pointer(unsafe.SliceData(buffer))), C.size_t(len(buffer)), (*C.size_t)(unsafe.Pointer(theLen))))
}

// RangeAllocationData is rk_range_allocation_data.
func RangeAllocationData(theObject *RangeAllocation, buffer []uint8, theLen *uint) Result {
	c_object, entered := (*handle)(theObject).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(theObject).leave()
	return Result(C.rk_range_allocation_data((*C.rk_range_allocation)(c_object), (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(buffer))), C.size_t(len(buffer)), (*C.size_t)(unsafe.Pointer(theLen))))
}

// RangeAllocationSet is rk_range_allocation_set.
func RangeAllocationSet(theObject *RangeAllocation, theRange string, data []uint8, theError *Error) Result {
	c_object, entered := (*handle)(theObject).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(theObject).leave()
	var c_error aligned[C.rk_error]
	result := C.rk_range_allocation_set((*C.rk_range_allocation)(c_object), (*C.char)(unsafe.Pointer(unsafe.StringData(theRange))), C.size_t(len(theRange)), (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(data))), C.size_t(len(data)), &c_error.c)
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// RangeAllocationEncode is rk_range_allocation_encode.
func RangeAllocationEncode(theObject *RangeAllocation, buffer []uint8, theLen *uint) Result {
	c_object, entered := (*handle)(theObject).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(theObject).leave()
	return Result(C.rk_range_allocation_encode((*C.rk_range_allocation)(c_object), (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(buffer))), C.size_t(len(buffer)), (*C.size_t)(unsafe.Pointer(theLen))))
}

// LeakCountersNew is rk_leak_counters_new.
func LeakCountersNew(theRange *Range, passes uint8, counters **LeakCounters, theError *Error) Result {
	var c_counters *C.rk_leak_counters
	var c_error aligned[C.rk_error]
	result := C.rk_leak_counters_new((*C.rk_range)(unsafe.Pointer(theRange)), C.uint8_t(passes), &c_counters, &c_error.c)
	if result == C.RK_RESULT_OK {
		*counters = (*LeakCounters)(newHandle(unsafe.Pointer(c_counters), freeLeakCounters))
	}
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// LeakCountersAdvance is rk_leak_counters_advance.
func LeakCountersAdvance(counters *LeakCounters, leaked []Value, due []Value, dueLen *uint) Result {
	c_counters, entered := (*handle)(counters).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(counters).leave()
	return Result(C.rk_leak_counters_advance((*C.rk_leak_counters)(c_counters), (*C.rk_value)(unsafe.Pointer(unsafe.SliceData(leaked))), C.size_t(len(leaked)), (*C.rk_value)(unsafe.Pointer(unsafe.SliceData(due))), C.size_t(len(due)), (*C.size_t)(unsafe.Pointer(dueLen))))
}

// LeakCountersCount is rk_leak_counters_count.
func LeakCountersCount(counters *LeakCounters, value *Value, count *uint8) Result {
	c_counters, entered := (*handle)(counters).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(counters).leave()
	return Result(C.rk_leak_counters_count((*C.rk_leak_counters)(c_counters), (*C.rk_value)(unsafe.Pointer(value)), (*C.uint8_t)(unsafe.Pointer(count))))
}

// LeakTrackerNew is rk_leak_tracker_new.
func LeakTrackerNew(passes uint8, interval uint64, keepsLeaks bool, tracker **LeakTracker, theError *Error) Result {
	var c_tracker *C.rk_leak_tracker
	var c_error aligned[C.rk_error]
	result := C.rk_leak_tracker_new(C.uint8_t(passes), C.uint64_t(interval), C.bool(keepsLeaks), &c_tracker, &c_error.c)
	if result == C.RK_RESULT_OK {
		*tracker = (*LeakTracker)(newHandle(unsafe.Pointer(c_tracker), freeLeakTracker))
	}
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// ServicesClaims is rk_services_claims.
func ServicesClaims(batch *Services, from uint, claims []Claim, n *uint, theError *Error) Result {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	var c_batch aligned[C.rk_services]
	var p_batch *C.rk_services
	if batch != nil {
		c_batch.c = batch.toC(&pinner)
		p_batch = &c_batch.c
	}
	var c_error aligned[C.rk_error]
	result := C.rk_services_claims(p_batch, C.size_t(from), (*C.rk_claim)(unsafe.Pointer(unsafe.SliceData(claims))), C.size_t(len(claims)), (*C.size_t)(unsafe.Pointer(n)), &c_error.c)
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// ClusterIPRecordsOf is rk_cluster_ip_records_of.
func ClusterIPRecordsOf(objects uint64, bitmap uint32) uint32 {
	return uint32(C.rk_cluster_ip_records_of(C.uint64_t(objects), C.uint32_t(bitmap)))
}

// StoreContentOf is rk_store_content_of.
func StoreContentOf(services uint64, objects uint64, others uint64) uint32 {
	return uint32(C.rk_store_content_of(C.uint64_t(services), C.uint64_t(objects), C.uint64_t(others)))
}

// AuditNew is rk_audit_new.
func AuditNew(tracker *LeakTracker, ipaddresses bool, unixSeconds *int64, audit **Audit) Result {
	c_tracker, entered := (*handle)(tracker).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(tracker).leave()
	var c_audit *C.rk_audit
	result := C.rk_audit_new((*C.rk_leak_tracker)(c_tracker), C.bool(ipaddresses), (*C.int64_t)(unsafe.Pointer(unixSeconds)), &c_audit)
	if result == C.RK_RESULT_OK {
		*audit = (*Audit)(newHandle(unsafe.Pointer(c_audit), freeAudit))
	}
	return Result(result)
}

// AuditAddBitmap is rk_audit_add_bitmap.
func AuditAddBitmap(audit *Audit, configured *Range, storedRange string, storedData []uint8, theError *Error) Result {
	c_audit, entered := (*handle)(audit).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(audit).leave()
	var c_error aligned[C.rk_error]
	result := C.rk_audit_add_bitmap((*C.rk_audit)(c_audit), (*C.rk_range)(unsafe.Pointer(configured)), (*C.char)(unsafe.Pointer(unsafe.StringData(storedRange))), C.size_t(len(storedRange)), (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(storedData))), C.size_t(len(storedData)), &c_error.c)
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// AuditAddUnseen is rk_audit_add_unseen.
func AuditAddUnseen(audit *Audit, theRange *Range, known []uint8, theError *Error) Result {
	c_audit, entered := (*handle)(audit).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(audit).leave()
	var c_error aligned[C.rk_error]
	result := C.rk_audit_add_unseen((*C.rk_audit)(c_audit), (*C.rk_range)(unsafe.Pointer(theRange)), (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(known))), C.size_t(len(known)), &c_error.c)
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// AuditCompareBitmap is rk_audit_compare_bitmap.
func AuditCompareBitmap(audit *Audit, theRange uint, written uint64, upgraded uint64, theError *Error) Result {
	c_audit, entered := (*handle)(audit).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(audit).leave()
	var c_error aligned[C.rk_error]
	result := C.rk_audit_compare_bitmap((*C.rk_audit)(c_audit), C.size_t(theRange), C.uint64_t(written), C.uint64_t(upgraded), &c_error.c)
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// AuditAddServiceCIDR is rk_audit_add_service_cidr.
func AuditAddServiceCIDR(audit *Audit, cidr string, isReady bool, theError *Error) Result {
	c_audit, entered := (*handle)(audit).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(audit).leave()
	var c_error aligned[C.rk_error]
	result := C.rk_audit_add_service_cidr((*C.rk_audit)(c_audit), (*C.char)(unsafe.Pointer(unsafe.StringData(cidr))), C.size_t(len(cidr)), C.bool(isReady), &c_error.c)
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// AuditObserveIPAddresses is rk_audit_observe_ip_addresses.
func AuditObserveIPAddresses(audit *Audit, batch *IPAddresses, theError *Error) Result {
	c_audit, entered := (*handle)(audit).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(audit).leave()
	var pinner runtime.Pinner
	defer pinner.Unpin()
	var c_batch aligned[C.rk_ip_addresses]
	var p_batch *C.rk_ip_addresses
	if batch != nil {
		c_batch.c = batch.toC(&pinner)
		p_batch = &c_batch.c
	}
	var c_error aligned[C.rk_error]
	result := C.rk_audit_observe_ip_addresses((*C.rk_audit)(c_audit), p_batch, &c_error.c)
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// AuditObserveServices is rk_audit_observe_services.
func AuditObserveServices(audit *Audit, names *ServiceNames, batch *Services, theError *Error) Result {
	c_audit, entered := (*handle)(audit).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(audit).leave()
	var pinner runtime.Pinner
	defer pinner.Unpin()
	var c_names aligned[C.rk_service_names]
	var p_names *C.rk_service_names
	if names != nil {
		c_names.c = names.toC(&pinner)
		p_names = &c_names.c
	}
	var c_batch aligned[C.rk_services]
	var p_batch *C.rk_services
	if batch != nil {
		c_batch.c = batch.toC(&pinner)
		p_batch = &c_batch.c
	}
	var c_error aligned[C.rk_error]
	result := C.rk_audit_observe_services((*C.rk_audit)(c_audit), p_names, p_batch, &c_error.c)
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// AuditObserveUnreadable is rk_audit_observe_unreadable.
func AuditObserveUnreadable(audit *Audit, kind uint32, name string, theError *Error) Result {
	c_audit, entered := (*handle)(audit).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(audit).leave()
	var c_error aligned[C.rk_error]
	result := C.rk_audit_observe_unreadable((*C.rk_audit)(c_audit), C.uint32_t(kind), (*C.char)(unsafe.Pointer(unsafe.StringData(name))), C.size_t(len(name)), &c_error.c)
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// AuditCheckCluster is rk_audit_check_cluster.
func AuditCheckCluster(audit *Audit, serviceIPs uint32, secondaryServiceIPs uint32, serviceNodePorts uint32, upgraded uint64, cleansLeaks bool, theError *Error) Result {
	c_audit, entered := (*handle)(audit).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(audit).leave()
	var c_error aligned[C.rk_error]
	result := C.rk_audit_check_cluster((*C.rk_audit)(c_audit), C.uint32_t(serviceIPs), C.uint32_t(secondaryServiceIPs), C.uint32_t(serviceNodePorts), C.uint64_t(upgraded), C.bool(cleansLeaks), &c_error.c)
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// AuditFinish is rk_audit_finish.
func AuditFinish(audit *Audit, report **Report, theError *Error) Result {
	c_audit, entered := (*handle)(audit).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(audit).leave()
	var c_report *C.rk_report
	var c_error aligned[C.rk_error]
	result := C.rk_audit_finish((*C.rk_audit)(c_audit), &c_report, &c_error.c)
	if result == C.RK_RESULT_OK {
		*report = (*Report)(newHandle(unsafe.Pointer(c_report), freeReport))
	}
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// RangesJudge is rk_ranges_judge.
func RangesJudge(flag string, serviceCIDR string, bitmap string, values []Value, verdict *RangesVerdict, theError *Error) Result {
	var c_error aligned[C.rk_error]
	result := C.rk_ranges_judge((*C.char)(unsafe.Pointer(unsafe.StringData(flag))), C.size_t(len(flag)), (*C.char)(unsafe.Pointer(unsafe.StringData(serviceCIDR))), C.size_t(len(serviceCIDR)), (*C.char)(unsafe.Pointer(unsafe.StringData(bitmap))), C.size_t(len(bitmap)), (*C.rk_value)(unsafe.Pointer(unsafe.SliceData(values))), C.size_t(len(values)), (*C.rk_ranges_verdict)(unsafe.Pointer(verdict)), &c_error.c)
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// ReasonName is rk_reason_name.
func ReasonName(reason uint32) string {
	return C.GoString(C.rk_reason_name(C.uint32_t(reason)))
}

// ReasonSeverity is rk_reason_severity.
func ReasonSeverity(reason uint32) uint32 {
	return uint32(C.rk_reason_severity(C.uint32_t(reason)))
}

// ReportRecordRepair is rk_report_record_repair.
func ReportRecordRepair(report *Report, theRange uint, outcome uint32, set []Value, cleared []Value, theError *Error) Result {
	c_report, entered := (*handle)(report).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(report).leave()
	var c_error aligned[C.rk_error]
	result := C.rk_report_record_repair((*C.rk_report)(c_report), C.size_t(theRange), C.uint32_t(outcome), (*C.rk_value)(unsafe.Pointer(unsafe.SliceData(set))), C.size_t(len(set)), (*C.rk_value)(unsafe.Pointer(unsafe.SliceData(cleared))), C.size_t(len(cleared)), &c_error.c)
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// ReportServices is rk_report_services.
func ReportServices(report *Report, services *uint64) Result {
	c_report, entered := (*handle)(report).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(report).leave()
	return Result(C.rk_report_services((*C.rk_report)(c_report), (*C.uint64_t)(unsafe.Pointer(services))))
}

// ReportFindings is rk_report_findings.
func ReportFindings(report *Report, from uint, findings []Finding, n *uint) Result {
	c_report, entered := (*handle)(report).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(report).leave()
	c_findings := make([]C.rk_finding, len(findings))
	result := C.rk_report_findings((*C.rk_report)(c_report), C.size_t(from), unsafe.SliceData(c_findings), C.size_t(len(findings)), (*C.size_t)(unsafe.Pointer(n)))
	if result == C.RK_RESULT_OK {
		for i := range c_findings[:min(len(c_findings), int(*n))] {
			findings[i].fromC(&c_findings[i])
		}
	}
	return Result(result)
}

// ReportFindingTexts is rk_report_finding_texts.
func ReportFindingTexts(report *Report, from uint, buffer []byte, ends []uint, written *uint) Result {
	c_report, entered := (*handle)(report).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(report).leave()
	return Result(C.rk_report_finding_texts((*C.rk_report)(c_report), C.size_t(from), (*C.char)(unsafe.Pointer(unsafe.SliceData(buffer))), C.size_t(len(buffer)), (*C.size_t)(unsafe.Pointer(unsafe.SliceData(ends))), C.size_t(len(ends)/2), (*C.size_t)(unsafe.Pointer(written))))
}

// ReportFindFullRanges is rk_report_find_full_ranges.
func ReportFindFullRanges(report *Report, percent uint8) Result {
	c_report, entered := (*handle)(report).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(report).leave()
	return Result(C.rk_report_find_full_ranges((*C.rk_report)(c_report), C.uint8_t(percent)))
}

// ReportObserveForms is rk_report_observe_forms.
func ReportObserveForms(report *Report, forms []uint32, theError *Error) Result {
	c_report, entered := (*handle)(report).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(report).leave()
	var c_error aligned[C.rk_error]
	result := C.rk_report_observe_forms((*C.rk_report)(c_report), (*C.uint32_t)(unsafe.Pointer(unsafe.SliceData(forms))), C.size_t(len(forms)), &c_error.c)
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// ReportObserveClaimants is rk_report_observe_claimants.
func ReportObserveClaimants(report *Report, names *ServiceNames, batch *Services, theError *Error) Result {
	c_report, entered := (*handle)(report).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(report).leave()
	var pinner runtime.Pinner
	defer pinner.Unpin()
	var c_names aligned[C.rk_service_names]
	var p_names *C.rk_service_names
	if names != nil {
		c_names.c = names.toC(&pinner)
		p_names = &c_names.c
	}
	var c_batch aligned[C.rk_services]
	var p_batch *C.rk_services
	if batch != nil {
		c_batch.c = batch.toC(&pinner)
		p_batch = &c_batch.c
	}
	var c_error aligned[C.rk_error]
	result := C.rk_report_observe_claimants((*C.rk_report)(c_report), p_names, p_batch, &c_error.c)
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// ReportClaimants is rk_report_claimants.
func ReportClaimants(report *Report, finding uint, claimants []Claimant, n *uint) Result {
	c_report, entered := (*handle)(report).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(report).leave()
	return Result(C.rk_report_claimants((*C.rk_report)(c_report), C.size_t(finding), (*C.rk_claimant)(unsafe.Pointer(unsafe.SliceData(claimants))), C.size_t(len(claimants)), (*C.size_t)(unsafe.Pointer(n))))
}

// ReportObjectRepairs is rk_report_object_repairs.
func ReportObjectRepairs(report *Report, from uint, repairs []ObjectRepair, n *uint) Result {
	c_report, entered := (*handle)(report).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(report).leave()
	return Result(C.rk_report_object_repairs((*C.rk_report)(c_report), C.size_t(from), (*C.rk_object_repair)(unsafe.Pointer(unsafe.SliceData(repairs))), C.size_t(len(repairs)), (*C.size_t)(unsafe.Pointer(n))))
}

// ReportLeaks is rk_report_leaks.
func ReportLeaks(report *Report, from uint, leaks []Leak, n *uint) Result {
	c_report, entered := (*handle)(report).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(report).leave()
	return Result(C.rk_report_leaks((*C.rk_report)(c_report), C.size_t(from), (*C.rk_leak)(unsafe.Pointer(unsafe.SliceData(leaks))), C.size_t(len(leaks)), (*C.size_t)(unsafe.Pointer(n))))
}

// ReportRange is rk_report_range.
func ReportRange(report *Report, theRange uint, numbers *RangeReport) Result {
	c_report, entered := (*handle)(report).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(report).leave()
	return Result(C.rk_report_range((*C.rk_report)(c_report), C.size_t(theRange), (*C.rk_range_report)(unsafe.Pointer(numbers))))
}

// ReportRuns is rk_report_runs.
func ReportRuns(report *Report, theRange uint, set uint32, members bool, fromOffset uint64, runs []Run, n *uint, nextOffset *uint64) Result {
	c_report, entered := (*handle)(report).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(report).leave()
	return Result(C.rk_report_runs((*C.rk_report)(c_report), C.size_t(theRange), C.uint32_t(set), C.bool(members), C.uint64_t(fromOffset), (*C.rk_run)(unsafe.Pointer(unsafe.SliceData(runs))), C.size_t(len(runs)), (*C.size_t)(unsafe.Pointer(n)), (*C.uint64_t)(unsafe.Pointer(nextOffset))))
}

// ReportSnapshot is rk_report_snapshot.
func ReportSnapshot(report *Report, theRange uint, values uint32, buffer []uint8, theLen *uint) Result {
	c_report, entered := (*handle)(report).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(report).leave()
	return Result(C.rk_report_snapshot((*C.rk_report)(c_report), C.size_t(theRange), C.uint32_t(values), (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(buffer))), C.size_t(len(buffer)), (*C.size_t)(unsafe.Pointer(theLen))))
}

// ReportState is rk_report_state.
func ReportState(report *Report, theRange uint, value *Value, state *OffsetState) Result {
	c_report, entered := (*handle)(report).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(report).leave()
	return Result(C.rk_report_state((*C.rk_report)(c_report), C.size_t(theRange), (*C.rk_value)(unsafe.Pointer(value)), (*C.rk_offset_state)(unsafe.Pointer(state))))
}

// ReportOccupancy is rk_report_occupancy.
func ReportOccupancy(report *Report, theRange uint, count uint32, cells []Cell, n *uint) Result {
	c_report, entered := (*handle)(report).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(report).leave()
	return Result(C.rk_report_occupancy((*C.rk_report)(c_report), C.size_t(theRange), C.uint32_t(count), (*C.rk_cell)(unsafe.Pointer(unsafe.SliceData(cells))), C.size_t(len(cells)), (*C.size_t)(unsafe.Pointer(n))))
}

// CommitterNew is rk_committer_new.
func CommitterNew(theRange *Range, strategy uint32, grace uint64, replace uint32, seed uint64, committer **Committer, theError *Error) Result {
	var c_committer *C.rk_committer
	var c_error aligned[C.rk_error]
	result := C.rk_committer_new((*C.rk_range)(unsafe.Pointer(theRange)), C.uint32_t(strategy), C.uint64_t(grace), C.uint32_t(replace), C.uint64_t(seed), &c_committer, &c_error.c)
	if result == C.RK_RESULT_OK {
		*committer = (*Committer)(newHandle(unsafe.Pointer(c_committer), freeCommitter))
	}
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// CommitterSubmit is rk_committer_submit.
func CommitterSubmit(committer *Committer, submitted []Operation, values []Value, tickets []uint64, theError *Error) Result {
	c_committer, entered := (*handle)(committer).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(committer).leave()
	var pinner runtime.Pinner
	defer pinner.Unpin()
	c_submitted := make([]C.rk_operation, len(submitted))
	for i := range c_submitted {
		c_submitted[i] = submitted[i].toC(&pinner)
	}
	var c_error aligned[C.rk_error]
	result := C.rk_committer_submit((*C.rk_committer)(c_committer), unsafe.SliceData(c_submitted), C.size_t(len(tickets)), (*C.rk_value)(unsafe.Pointer(unsafe.SliceData(values))), C.size_t(len(values)), (*C.uint64_t)(unsafe.Pointer(unsafe.SliceData(tickets))), &c_error.c)
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// CommitterCancel is rk_committer_cancel.
func CommitterCancel(committer *Committer, ticket uint64) Result {
	c_committer, entered := (*handle)(committer).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(committer).leave()
	return Result(C.rk_committer_cancel((*C.rk_committer)(c_committer), C.uint64_t(ticket)))
}

// CommitterAbandon is rk_committer_abandon.
func CommitterAbandon(committer *Committer, revision uint64, store uint32, values []Value) Result {
	c_committer, entered := (*handle)(committer).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(committer).leave()
	return Result(C.rk_committer_abandon((*C.rk_committer)(c_committer), C.uint64_t(revision), C.uint32_t(store), (*C.rk_value)(unsafe.Pointer(unsafe.SliceData(values))), C.size_t(len(values))))
}

// CommitterWritten is rk_committer_written.
func CommitterWritten(committer *Committer, values []Value) Result {
	c_committer, entered := (*handle)(committer).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(committer).leave()
	return Result(C.rk_committer_written((*C.rk_committer)(c_committer), (*C.rk_value)(unsafe.Pointer(unsafe.SliceData(values))), C.size_t(len(values))))
}

// CommitterPoll is rk_committer_poll.
func CommitterPoll(committer *Committer, now uint64, step *Step) Result {
	c_committer, entered := (*handle)(committer).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(committer).leave()
	var c_step aligned[C.rk_step]
	result := C.rk_committer_poll((*C.rk_committer)(c_committer), C.uint64_t(now), &c_step.c)
	if result == C.RK_RESULT_OK {
		step.fromC(&c_step.c)
	}
	return Result(result)
}

// CommitterHandle is rk_committer_handle.
func CommitterHandle(committer *Committer, event *Event, now uint64) Result {
	c_committer, entered := (*handle)(committer).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(committer).leave()
	var pinner runtime.Pinner
	defer pinner.Unpin()
	var c_event aligned[C.rk_event]
	var p_event *C.rk_event
	if event != nil {
		c_event.c = event.toC(&pinner)
		p_event = &c_event.c
	}
	return Result(C.rk_committer_handle((*C.rk_committer)(c_committer), p_event, C.uint64_t(now)))
}

// CommitterKnown is rk_committer_known.
func CommitterKnown(committer *Committer, known *Known) Result {
	c_committer, entered := (*handle)(committer).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(committer).leave()
	return Result(C.rk_committer_known((*C.rk_committer)(c_committer), (*C.rk_known)(unsafe.Pointer(known))))
}

// CommitterValue is rk_committer_value.
func CommitterValue(committer *Committer, buffer []uint8, theLen *uint) Result {
	c_committer, entered := (*handle)(committer).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(committer).leave()
	return Result(C.rk_committer_value((*C.rk_committer)(c_committer), (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(buffer))), C.size_t(len(buffer)), (*C.size_t)(unsafe.Pointer(theLen))))
}

// CommitterFinished is rk_committer_finished.
func CommitterFinished(committer *Committer, finished []Finished, values []Value, bytes []uint8, n *uint) Result {
	c_committer, entered := (*handle)(committer).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(committer).leave()
	c_finished := make([]C.rk_finished, len(finished))
	result := C.rk_committer_finished((*C.rk_committer)(c_committer), unsafe.SliceData(c_finished), C.size_t(len(finished)), (*C.rk_value)(unsafe.Pointer(unsafe.SliceData(values))), C.size_t(len(values)), (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(bytes))), C.size_t(len(bytes)), (*C.size_t)(unsafe.Pointer(n)))
	if result == C.RK_RESULT_OK {
		for i := range c_finished[:min(len(c_finished), int(*n))] {
			finished[i].fromC(&c_finished[i])
		}
	}
	return Result(result)
}

// CommitterSubmitEdit is rk_committer_submit_edit.
func CommitterSubmitEdit(committer *Committer, edit *Edit, deadline uint64, ticket *uint64, theError *Error) Result {
	c_committer, entered := (*handle)(committer).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(committer).leave()
	var pinner runtime.Pinner
	defer pinner.Unpin()
	var c_edit aligned[C.rk_edit]
	var p_edit *C.rk_edit
	if edit != nil {
		c_edit.c = edit.toC(&pinner)
		p_edit = &c_edit.c
	}
	var c_error aligned[C.rk_error]
	result := C.rk_committer_submit_edit((*C.rk_committer)(c_committer), p_edit, C.uint64_t(deadline), (*C.uint64_t)(unsafe.Pointer(ticket)), &c_error.c)
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// RepairPassNew is rk_repair_pass_new.
func RepairPassNew(tracker *LeakTracker, pass **RepairPass) Result {
	c_tracker, entered := (*handle)(tracker).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(tracker).leave()
	var c_pass *C.rk_repair_pass
	result := C.rk_repair_pass_new((*C.rk_leak_tracker)(c_tracker), &c_pass)
	if result == C.RK_RESULT_OK {
		*pass = (*RepairPass)(newHandle(unsafe.Pointer(c_pass), freeRepairPass))
	}
	return Result(result)
}

// RepairPassBegin is rk_repair_pass_begin.
func RepairPassBegin(pass *RepairPass, committer *Committer, theError *Error) Result {
	c_pass, entered := (*handle)(pass).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(pass).leave()
	c_committer, entered := (*handle)(committer).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(committer).leave()
	var c_error aligned[C.rk_error]
	result := C.rk_repair_pass_begin((*C.rk_repair_pass)(c_pass), (*C.rk_committer)(c_committer), &c_error.c)
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// RepairPassRead is rk_repair_pass_read.
func RepairPassRead(pass *RepairPass, committer *Committer, revision uint64, data []uint8, now uint64, needsFence *bool, theError *Error) Result {
	c_pass, entered := (*handle)(pass).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(pass).leave()
	c_committer, entered := (*handle)(committer).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(committer).leave()
	var c_error aligned[C.rk_error]
	result := C.rk_repair_pass_read((*C.rk_repair_pass)(c_pass), (*C.rk_committer)(c_committer), C.uint64_t(revision), (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(data))), C.size_t(len(data)), C.uint64_t(now), (*C.bool)(unsafe.Pointer(needsFence)), &c_error.c)
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// RepairPassFenced is rk_repair_pass_fenced.
func RepairPassFenced(pass *RepairPass, committer *Committer, fence uint64, look uint64, theError *Error) Result {
	c_pass, entered := (*handle)(pass).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(pass).leave()
	c_committer, entered := (*handle)(committer).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(committer).leave()
	var c_error aligned[C.rk_error]
	result := C.rk_repair_pass_fenced((*C.rk_repair_pass)(c_pass), (*C.rk_committer)(c_committer), C.uint64_t(fence), C.uint64_t(look), &c_error.c)
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// RepairPassAudit is rk_repair_pass_audit.
func RepairPassAudit(pass *RepairPass, ipaddresses bool, unixSeconds *int64, audit **Audit, theError *Error) Result {
	c_pass, entered := (*handle)(pass).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(pass).leave()
	var c_audit *C.rk_audit
	var c_error aligned[C.rk_error]
	result := C.rk_repair_pass_audit((*C.rk_repair_pass)(c_pass), C.bool(ipaddresses), (*C.int64_t)(unsafe.Pointer(unixSeconds)), &c_audit, &c_error.c)
	if result == C.RK_RESULT_OK {
		*audit = (*Audit)(newHandle(unsafe.Pointer(c_audit), freeAudit))
	}
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// RepairPassFinish is rk_repair_pass_finish.
func RepairPassFinish(pass *RepairPass, audit *Audit, report **Report, theError *Error) Result {
	c_pass, entered := (*handle)(pass).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(pass).leave()
	c_audit, entered := (*handle)(audit).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(audit).leave()
	var c_report *C.rk_report
	var c_error aligned[C.rk_error]
	result := C.rk_repair_pass_finish((*C.rk_repair_pass)(c_pass), (*C.rk_audit)(c_audit), &c_report, &c_error.c)
	if result == C.RK_RESULT_OK {
		*report = (*Report)(newHandle(unsafe.Pointer(c_report), freeReport))
	}
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// RepairPassCheck is rk_repair_pass_check.
func RepairPassCheck(pass *RepairPass, committer *Committer, theError *Error) Result {
	c_pass, entered := (*handle)(pass).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(pass).leave()
	c_committer, entered := (*handle)(committer).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(committer).leave()
	var c_error aligned[C.rk_error]
	result := C.rk_repair_pass_check((*C.rk_repair_pass)(c_pass), (*C.rk_committer)(c_committer), &c_error.c)
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// CommitterSubmitRepair is rk_committer_submit_repair.
func CommitterSubmitRepair(committer *Committer, pass *RepairPass, listed uint64, isGuarded bool, deadline uint64, ticket *uint64, theError *Error) Result {
	c_committer, entered := (*handle)(committer).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(committer).leave()
	c_pass, entered := (*handle)(pass).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(pass).leave()
	var c_error aligned[C.rk_error]
	result := C.rk_committer_submit_repair((*C.rk_committer)(c_committer), (*C.rk_repair_pass)(c_pass), C.uint64_t(listed), C.bool(isGuarded), C.uint64_t(deadline), (*C.uint64_t)(unsafe.Pointer(ticket)), &c_error.c)
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// IndexNew is rk_index_new.
func IndexNew(seed uint64, index **Index) Result {
	var c_index *C.rk_index
	result := C.rk_index_new(C.uint64_t(seed), &c_index)
	if result == C.RK_RESULT_OK {
		*index = (*Index)(newHandle(unsafe.Pointer(c_index), freeIndex))
	}
	return Result(result)
}

// IndexInsertCIDR is rk_index_insert_cidr.
func IndexInsertCIDR(index *Index, cidr *ServiceCIDR, added *bool) Result {
	c_index, entered := (*handle)(index).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(index).leave()
	return Result(C.rk_index_insert_cidr((*C.rk_index)(c_index), (*C.rk_service_cidr)(unsafe.Pointer(cidr)), (*C.bool)(unsafe.Pointer(added))))
}

// IndexRemoveCIDR is rk_index_remove_cidr.
func IndexRemoveCIDR(index *Index, cidr *ServiceCIDR, removed *bool) Result {
	c_index, entered := (*handle)(index).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(index).leave()
	return Result(C.rk_index_remove_cidr((*C.rk_index)(c_index), (*C.rk_service_cidr)(unsafe.Pointer(cidr)), (*C.bool)(unsafe.Pointer(removed))))
}

// IndexUsage is rk_index_usage.
func IndexUsage(index *Index, cidr *ServiceCIDR, used *uint64, free *uint64) Result {
	c_index, entered := (*handle)(index).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(index).leave()
	return Result(C.rk_index_usage((*C.rk_index)(c_index), (*C.rk_service_cidr)(unsafe.Pointer(cidr)), (*C.uint64_t)(unsafe.Pointer(used)), (*C.uint64_t)(unsafe.Pointer(free))))
}

// IndexIsTaken is rk_index_is_taken.
func IndexIsTaken(index *Index, value *Value, isTaken *bool) Result {
	c_index, entered := (*handle)(index).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(index).leave()
	return Result(C.rk_index_is_taken((*C.rk_index)(c_index), (*C.rk_value)(unsafe.Pointer(value)), (*C.bool)(unsafe.Pointer(isTaken))))
}

// IndexReserve is rk_index_reserve.
func IndexReserve(index *Index, cidrs []ServiceCIDR, until uint64, reservation *Reservation) Result {
	c_index, entered := (*handle)(index).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(index).leave()
	return Result(C.rk_index_reserve((*C.rk_index)(c_index), (*C.rk_service_cidr)(unsafe.Pointer(unsafe.SliceData(cidrs))), C.size_t(len(cidrs)), C.uint64_t(until), (*C.rk_reservation)(unsafe.Pointer(reservation))))
}

// IndexReserveAddress is rk_index_reserve_address.
func IndexReserveAddress(index *Index, value *Value, until uint64, reservation *Reservation) Result {
	c_index, entered := (*handle)(index).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(index).leave()
	return Result(C.rk_index_reserve_address((*C.rk_index)(c_index), (*C.rk_value)(unsafe.Pointer(value)), C.uint64_t(until), (*C.rk_reservation)(unsafe.Pointer(reservation))))
}

// IndexConfirm is rk_index_confirm.
func IndexConfirm(index *Index, reservation *Reservation, revision uint64) Result {
	c_index, entered := (*handle)(index).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(index).leave()
	return Result(C.rk_index_confirm((*C.rk_index)(c_index), (*C.rk_reservation)(unsafe.Pointer(reservation)), C.uint64_t(revision)))
}

// IndexCreated is rk_index_created.
func IndexCreated(index *Index, address *Value, revision uint64) Result {
	c_index, entered := (*handle)(index).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(index).leave()
	return Result(C.rk_index_created((*C.rk_index)(c_index), (*C.rk_value)(unsafe.Pointer(address)), C.uint64_t(revision)))
}

// IndexAbort is rk_index_abort.
func IndexAbort(index *Index, reservation *Reservation) Result {
	c_index, entered := (*handle)(index).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(index).leave()
	return Result(C.rk_index_abort((*C.rk_index)(c_index), (*C.rk_reservation)(unsafe.Pointer(reservation))))
}

// IndexAlreadyExists is rk_index_already_exists.
func IndexAlreadyExists(index *Index, reservation *Reservation) Result {
	c_index, entered := (*handle)(index).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(index).leave()
	return Result(C.rk_index_already_exists((*C.rk_index)(c_index), (*C.rk_reservation)(unsafe.Pointer(reservation))))
}

// IndexExpire is rk_index_expire.
func IndexExpire(index *Index, now uint64, expired *uint) Result {
	c_index, entered := (*handle)(index).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(index).leave()
	return Result(C.rk_index_expire((*C.rk_index)(c_index), C.uint64_t(now), (*C.size_t)(unsafe.Pointer(expired))))
}

// IndexAdded is rk_index_added.
func IndexAdded(index *Index, value *Value, revision uint64) Result {
	c_index, entered := (*handle)(index).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(index).leave()
	return Result(C.rk_index_added((*C.rk_index)(c_index), (*C.rk_value)(unsafe.Pointer(value)), C.uint64_t(revision)))
}

// IndexRemoved is rk_index_removed.
func IndexRemoved(index *Index, value *Value, revision uint64) Result {
	c_index, entered := (*handle)(index).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(index).leave()
	return Result(C.rk_index_removed((*C.rk_index)(c_index), (*C.rk_value)(unsafe.Pointer(value)), C.uint64_t(revision)))
}

// IndexReplace is rk_index_replace.
func IndexReplace(index *Index, values []Value, revision uint64, changes *IndexChanges) Result {
	c_index, entered := (*handle)(index).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(index).leave()
	return Result(C.rk_index_replace((*C.rk_index)(c_index), (*C.rk_value)(unsafe.Pointer(unsafe.SliceData(values))), C.size_t(len(values)), C.uint64_t(revision), (*C.rk_index_changes)(unsafe.Pointer(changes))))
}

// IPAddressJudge is rk_ip_address_judge.
func IPAddressJudge(managed bool, parent uint32, unusedFor uint64, grace uint64, verdict *uint32, wait *uint64) Result {
	return Result(C.rk_ip_address_judge(C.bool(managed), C.uint32_t(parent), C.uint64_t(unusedFor), C.uint64_t(grace), (*C.uint32_t)(unsafe.Pointer(verdict)), (*C.uint64_t)(unsafe.Pointer(wait))))
}

// ClusterIPJudge is rk_cluster_ip_judge.
func ClusterIPJudge(theObject *AddressObject, verdict *uint32) Result {
	return Result(C.rk_cluster_ip_judge((*C.rk_address_object)(unsafe.Pointer(theObject)), (*C.uint32_t)(unsafe.Pointer(verdict))))
}

// LedgerValueText is rk_ledger_value_text.
func LedgerValueText(value *LedgerValue, buffer []byte, theLen *uint) Result {
	return Result(C.rk_ledger_value_text((*C.rk_ledger_value)(unsafe.Pointer(value)), (*C.char)(unsafe.Pointer(unsafe.SliceData(buffer))), C.size_t(len(buffer)), (*C.size_t)(unsafe.Pointer(theLen))))
}

// LedgerNew is rk_ledger_new.
func LedgerNew(pool string, stored []uint8, seed uint64, ledger **Ledger, theError *Error) Result {
	var c_ledger *C.rk_ledger
	var c_error aligned[C.rk_error]
	result := C.rk_ledger_new((*C.char)(unsafe.Pointer(unsafe.StringData(pool))), C.size_t(len(pool)), (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(stored))), C.size_t(len(stored)), C.uint64_t(seed), &c_ledger, &c_error.c)
	if result == C.RK_RESULT_OK {
		*ledger = (*Ledger)(newHandle(unsafe.Pointer(c_ledger), freeLedger))
	}
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// LedgerApply is rk_ledger_apply.
func LedgerApply(ledger *Ledger, change *LedgerChange, owner string, now uint64, allocations []LedgerAllocation, n *uint, theError *Error) Result {
	c_ledger, entered := (*handle)(ledger).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(ledger).leave()
	var c_error aligned[C.rk_error]
	result := C.rk_ledger_apply((*C.rk_ledger)(c_ledger), (*C.rk_ledger_change)(unsafe.Pointer(change)), (*C.char)(unsafe.Pointer(unsafe.StringData(owner))), C.size_t(len(owner)), C.uint64_t(now), (*C.rk_ledger_allocation)(unsafe.Pointer(unsafe.SliceData(allocations))), C.size_t(len(allocations)), (*C.size_t)(unsafe.Pointer(n)), &c_error.c)
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// LedgerParseValue is rk_ledger_parse_value.
func LedgerParseValue(ledger *Ledger, spec string, value *LedgerValue, theError *Error) Result {
	c_ledger, entered := (*handle)(ledger).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(ledger).leave()
	var c_error aligned[C.rk_error]
	result := C.rk_ledger_parse_value((*C.rk_ledger)(c_ledger), (*C.char)(unsafe.Pointer(unsafe.StringData(spec))), C.size_t(len(spec)), (*C.rk_ledger_value)(unsafe.Pointer(value)), &c_error.c)
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// LedgerOwnerOf is rk_ledger_owner_of.
func LedgerOwnerOf(ledger *Ledger, value *LedgerValue, inUse *bool, buffer []byte, theLen *uint, theError *Error) Result {
	c_ledger, entered := (*handle)(ledger).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(ledger).leave()
	var c_error aligned[C.rk_error]
	result := C.rk_ledger_owner_of((*C.rk_ledger)(c_ledger), (*C.rk_ledger_value)(unsafe.Pointer(value)), (*C.bool)(unsafe.Pointer(inUse)), (*C.char)(unsafe.Pointer(unsafe.SliceData(buffer))), C.size_t(len(buffer)), (*C.size_t)(unsafe.Pointer(theLen)), &c_error.c)
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// LedgerOwnedBy is rk_ledger_owned_by.
func LedgerOwnedBy(ledger *Ledger, owner string, allocations []LedgerAllocation, theLen *uint) Result {
	c_ledger, entered := (*handle)(ledger).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(ledger).leave()
	return Result(C.rk_ledger_owned_by((*C.rk_ledger)(c_ledger), (*C.char)(unsafe.Pointer(unsafe.StringData(owner))), C.size_t(len(owner)), (*C.rk_ledger_allocation)(unsafe.Pointer(unsafe.SliceData(allocations))), C.size_t(len(allocations)), (*C.size_t)(unsafe.Pointer(theLen))))
}

// LedgerValues is rk_ledger_values.
func LedgerValues(ledger *Ledger, fromOffset uint64, values []LedgerValue, n *uint, nextOffset *uint64) Result {
	c_ledger, entered := (*handle)(ledger).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(ledger).leave()
	return Result(C.rk_ledger_values((*C.rk_ledger)(c_ledger), C.uint64_t(fromOffset), (*C.rk_ledger_value)(unsafe.Pointer(unsafe.SliceData(values))), C.size_t(len(values)), (*C.size_t)(unsafe.Pointer(n)), (*C.uint64_t)(unsafe.Pointer(nextOffset))))
}

// LedgerCount is rk_ledger_count.
func LedgerCount(ledger *Ledger, usage *LedgerUsage) Result {
	c_ledger, entered := (*handle)(ledger).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(ledger).leave()
	return Result(C.rk_ledger_count((*C.rk_ledger)(c_ledger), (*C.rk_ledger_usage)(unsafe.Pointer(usage))))
}

// LedgerEncode is rk_ledger_encode.
func LedgerEncode(ledger *Ledger, buffer []uint8, theLen *uint) Result {
	c_ledger, entered := (*handle)(ledger).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(ledger).leave()
	return Result(C.rk_ledger_encode((*C.rk_ledger)(c_ledger), (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(buffer))), C.size_t(len(buffer)), (*C.size_t)(unsafe.Pointer(theLen))))
}

// LedgerAudit is rk_ledger_audit.
func LedgerAudit(ledger *Ledger, question string, buffer []byte, theLen *uint, theError *Error) Result {
	c_ledger, entered := (*handle)(ledger).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(ledger).leave()
	var c_error aligned[C.rk_error]
	result := C.rk_ledger_audit((*C.rk_ledger)(c_ledger), (*C.char)(unsafe.Pointer(unsafe.StringData(question))), C.size_t(len(question)), (*C.char)(unsafe.Pointer(unsafe.SliceData(buffer))), C.size_t(len(buffer)), (*C.size_t)(unsafe.Pointer(theLen)), &c_error.c)
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// SharedLedgerNew is rk_shared_ledger_new.
func SharedLedgerNew(pool string, seed uint64, shared **SharedLedger, theError *Error) Result {
	var c_shared *C.rk_shared_ledger
	var c_error aligned[C.rk_error]
	result := C.rk_shared_ledger_new((*C.char)(unsafe.Pointer(unsafe.StringData(pool))), C.size_t(len(pool)), C.uint64_t(seed), &c_shared, &c_error.c)
	if result == C.RK_RESULT_OK {
		*shared = (*SharedLedger)(newHandle(unsafe.Pointer(c_shared), freeSharedLedger))
	}
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// SharedLedgerSubmit is rk_shared_ledger_submit.
func SharedLedgerSubmit(shared *SharedLedger, change *LedgerChange, owner string, ticket *uint64, theError *Error) Result {
	c_shared, entered := (*handle)(shared).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(shared).leave()
	var c_error aligned[C.rk_error]
	result := C.rk_shared_ledger_submit((*C.rk_shared_ledger)(c_shared), (*C.rk_ledger_change)(unsafe.Pointer(change)), (*C.char)(unsafe.Pointer(unsafe.StringData(owner))), C.size_t(len(owner)), (*C.uint64_t)(unsafe.Pointer(ticket)), &c_error.c)
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// SharedLedgerCancel is rk_shared_ledger_cancel.
func SharedLedgerCancel(shared *SharedLedger, ticket uint64) Result {
	c_shared, entered := (*handle)(shared).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(shared).leave()
	return Result(C.rk_shared_ledger_cancel((*C.rk_shared_ledger)(c_shared), C.uint64_t(ticket)))
}

// SharedLedgerPoll is rk_shared_ledger_poll.
func SharedLedgerPoll(shared *SharedLedger, now uint64, request *LedgerRequest) Result {
	c_shared, entered := (*handle)(shared).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(shared).leave()
	return Result(C.rk_shared_ledger_poll((*C.rk_shared_ledger)(c_shared), C.uint64_t(now), (*C.rk_ledger_request)(unsafe.Pointer(request))))
}

// SharedLedgerPut is rk_shared_ledger_put.
func SharedLedgerPut(shared *SharedLedger, value []uint8, token []uint8) Result {
	c_shared, entered := (*handle)(shared).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(shared).leave()
	return Result(C.rk_shared_ledger_put((*C.rk_shared_ledger)(c_shared), (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(value))), C.size_t(len(value)), (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(token))), C.size_t(len(token))))
}

// SharedLedgerAnswered is rk_shared_ledger_answered.
func SharedLedgerAnswered(shared *SharedLedger, answer uint32, now uint64, value []uint8, token []uint8, theError *Error) Result {
	c_shared, entered := (*handle)(shared).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(shared).leave()
	var c_error aligned[C.rk_error]
	result := C.rk_shared_ledger_answered((*C.rk_shared_ledger)(c_shared), C.uint32_t(answer), C.uint64_t(now), (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(value))), C.size_t(len(value)), (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(token))), C.size_t(len(token)), &c_error.c)
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// SharedLedgerOutcome is rk_shared_ledger_outcome.
func SharedLedgerOutcome(shared *SharedLedger, ticket uint64, allocations []LedgerAllocation, n *uint, theError *Error) Result {
	c_shared, entered := (*handle)(shared).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(shared).leave()
	var c_error aligned[C.rk_error]
	result := C.rk_shared_ledger_outcome((*C.rk_shared_ledger)(c_shared), C.uint64_t(ticket), (*C.rk_ledger_allocation)(unsafe.Pointer(unsafe.SliceData(allocations))), C.size_t(len(allocations)), (*C.size_t)(unsafe.Pointer(n)), &c_error.c)
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// SharedLedgerKnown is rk_shared_ledger_known.
func SharedLedgerKnown(shared *SharedLedger, ledger **Ledger) Result {
	c_shared, entered := (*handle)(shared).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(shared).leave()
	var c_ledger *C.rk_ledger
	result := C.rk_shared_ledger_known((*C.rk_shared_ledger)(c_shared), &c_ledger)
	if result == C.RK_RESULT_OK {
		*ledger = (*Ledger)(newHandle(unsafe.Pointer(c_ledger), freeLedger))
	}
	return Result(result)
}

// BootstrapNew is rk_bootstrap_new.
func BootstrapNew(config string, bootstrap **Bootstrap, theError *Error) Result {
	var c_bootstrap *C.rk_bootstrap
	var c_error aligned[C.rk_error]
	result := C.rk_bootstrap_new((*C.char)(unsafe.Pointer(unsafe.StringData(config))), C.size_t(len(config)), &c_bootstrap, &c_error.c)
	if result == C.RK_RESULT_OK {
		*bootstrap = (*Bootstrap)(newHandle(unsafe.Pointer(c_bootstrap), freeBootstrap))
	}
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// BootstrapPoll is rk_bootstrap_poll.
func BootstrapPoll(bootstrap *Bootstrap, now uint64, buffer []byte, theLen *uint) Result {
	c_bootstrap, entered := (*handle)(bootstrap).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(bootstrap).leave()
	return Result(C.rk_bootstrap_poll((*C.rk_bootstrap)(c_bootstrap), C.uint64_t(now), (*C.char)(unsafe.Pointer(unsafe.SliceData(buffer))), C.size_t(len(buffer)), (*C.size_t)(unsafe.Pointer(theLen))))
}

// BootstrapAnswered is rk_bootstrap_answered.
func BootstrapAnswered(bootstrap *Bootstrap, now uint64, iD uint64, answer string, theError *Error) Result {
	c_bootstrap, entered := (*handle)(bootstrap).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(bootstrap).leave()
	var c_error aligned[C.rk_error]
	result := C.rk_bootstrap_answered((*C.rk_bootstrap)(c_bootstrap), C.uint64_t(now), C.uint64_t(iD), (*C.char)(unsafe.Pointer(unsafe.StringData(answer))), C.size_t(len(answer)), &c_error.c)
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// BootstrapWatched is rk_bootstrap_watched.
func BootstrapWatched(bootstrap *Bootstrap, now uint64, event string, theError *Error) Result {
	c_bootstrap, entered := (*handle)(bootstrap).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(bootstrap).leave()
	var c_error aligned[C.rk_error]
	result := C.rk_bootstrap_watched((*C.rk_bootstrap)(c_bootstrap), C.uint64_t(now), (*C.char)(unsafe.Pointer(unsafe.StringData(event))), C.size_t(len(event)), &c_error.c)
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// BootstrapStop is rk_bootstrap_stop.
func BootstrapStop(bootstrap *Bootstrap, now uint64) Result {
	c_bootstrap, entered := (*handle)(bootstrap).enter()
	if entered != ResultOK {
		return entered
	}
	defer (*handle)(bootstrap).leave()
	return Result(C.rk_bootstrap_stop((*C.rk_bootstrap)(c_bootstrap), C.uint64_t(now)))
}

// BootstrapPlan is rk_bootstrap_plan.
func BootstrapPlan(question string, buffer []byte, theLen *uint, theError *Error) Result {
	var c_error aligned[C.rk_error]
	result := C.rk_bootstrap_plan((*C.char)(unsafe.Pointer(unsafe.StringData(question))), C.size_t(len(question)), (*C.char)(unsafe.Pointer(unsafe.SliceData(buffer))), C.size_t(len(buffer)), (*C.size_t)(unsafe.Pointer(theLen)), &c_error.c)
	if result != C.RK_RESULT_OK {
		theError.fromC(&c_error.c)
	}
	return Result(result)
}

// AllocatorFree is rk_allocator_free.
func AllocatorFree(allocator *Allocator) {
	(*handle)(allocator).close()
}

func freeAllocator(c unsafe.Pointer) {
	C.rk_allocator_free((*C.rk_allocator)(c))
}

// RangeAllocationFree is rk_range_allocation_free.
func RangeAllocationFree(theObject *RangeAllocation) {
	(*handle)(theObject).close()
}

func freeRangeAllocation(c unsafe.Pointer) {
	C.rk_range_allocation_free((*C.rk_range_allocation)(c))
}

// LeakCountersFree is rk_leak_counters_free.
func LeakCountersFree(counters *LeakCounters) {
	(*handle)(counters).close()
}

func freeLeakCounters(c unsafe.Pointer) {
	C.rk_leak_counters_free((*C.rk_leak_counters)(c))
}

// LeakTrackerFree is rk_leak_tracker_free.
func LeakTrackerFree(tracker *LeakTracker) {
	(*handle)(tracker).close()
}

func freeLeakTracker(c unsafe.Pointer) {
	C.rk_leak_tracker_free((*C.rk_leak_tracker)(c))
}

// AuditFree is rk_audit_free.
func AuditFree(audit *Audit) {
	(*handle)(audit).close()
}

func freeAudit(c unsafe.Pointer) {
	C.rk_audit_free((*C.rk_audit)(c))
}

// ReportFree is rk_report_free.
func ReportFree(report *Report) {
	(*handle)(report).close()
}

func freeReport(c unsafe.Pointer) {
	C.rk_report_free((*C.rk_report)(c))
}

// CommitterFree is rk_committer_free.
func CommitterFree(committer *Committer) {
	(*handle)(committer).close()
}

func freeCommitter(c unsafe.Pointer) {
	C.rk_committer_free((*C.rk_committer)(c))
}

// RepairPassFree is rk_repair_pass_free.
func RepairPassFree(pass *RepairPass) {
	(*handle)(pass).close()
}

func freeRepairPass(c unsafe.Pointer) {
	C.rk_repair_pass_free((*C.rk_repair_pass)(c))
}

// IndexFree is rk_index_free.
func IndexFree(index *Index) {
	(*handle)(index).close()
}

func freeIndex(c unsafe.Pointer) {
	C.rk_index_free((*C.rk_index)(c))
}

// LedgerFree is rk_ledger_free.
func LedgerFree(ledger *Ledger) {
	(*handle)(ledger).close()
}

func freeLedger(c unsafe.Pointer) {
	C.rk_ledger_free((*C.rk_ledger)(c))
}

// SharedLedgerFree is rk_shared_ledger_free.
func SharedLedgerFree(shared *SharedLedger) {
	(*handle)(shared).close()
}

func freeSharedLedger(c unsafe.Pointer) {
	C.rk_shared_ledger_free((*C.rk_shared_ledger)(c))
}

// BootstrapFree is rk_bootstrap_free.
func BootstrapFree(bootstrap *Bootstrap) {
	(*handle)(bootstrap).close()
}

func freeBootstrap(c unsafe.Pointer) {
	C.rk_bootstrap_free((*C.rk_bootstrap)(c))
}
