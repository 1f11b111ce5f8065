#ifndef RANGEKEEPER_H
#define RANGEKEEPER_H

/* Generated from ffi/src by ffi/header.sh: do not edit. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Has the compiler warn of a result that is ignored: of each function that can fail. */
#if (defined(__cplusplus) && __cplusplus >= 201703L) || (defined(__STDC_VERSION__) && __STDC_VERSION__ >= 202311L)
#define RK_MUST_CHECK [[nodiscard]]
#elif defined(__GNUC__)
#define RK_MUST_CHECK __attribute__((warn_unused_result))
#else
#define RK_MUST_CHECK
#endif

/*
 * Rangekeeper: allocates Service ClusterIPs and NodePorts from ranges, stores them as kube-apiserver does, and repairs
 * drift. These conventions hold for every function; its own comment says only what goes beyond them, and puts the names
 * of its parameters between `backticks`, and ends with the results that it adds to those named here.
 *
 * Needs C99 or C++11. Begin with examples/c/allocate.c; docs/c-contract.md has more.
 *
 * The parts. Each uses those above it in its group; functions that build values and batches are at the end:
 *
 *   rk_range             a CIDR or a range of ports, which numbers its values by offsets: a plain value
 *   rk_allocator         the values of a range that are allocated, in memory; its snapshot is the stored bitmap
 *   rk_range_allocation  the stored object around a snapshot, as kube-apiserver writes it
 *   rk_leak_counters     for how many passes in a row each value of a range was leaked
 *   rk_leak_tracker      the leak counters of all ranges of a server, from one audit or repair pass to the next
 *   rk_service_cidr      a CIDR of a ServiceCIDR object: a plain value
 *   rk_services          a batch of Services, with rk_service_names; rk_ip_addresses is one of IPAddress objects
 *   rk_audit             compares ranges and objects with all Services, and ends as a report
 *   rk_report            findings, leaks, and the diff that repairs each bitmap
 *
 *   rk_committer         writes allocations, releases, edits and repairs of many callers into one stored object
 *   rk_repair_pass       an audit of the objects of committers; they write its diffs
 *
 *   rk_index             which addresses are free where ClusterIPs are IPAddress objects
 *
 *   rk_ledger            which values of any range are in use, and by whom: integers, addresses, blocks of them
 *   rk_shared_ledger     writes the changes of many callers into one ledger, in any store
 *
 *   rk_bootstrap         the bootstrap controller: system namespaces, the Service kubernetes, its endpoints
 *
 * Words. A value is allocated if the stored object records it; it is in use if a Service has it. A value that is
 * allocated and not in use is leaked.
 *
 * Results. A function that can fail returns an rk_result. Its parameters are a handle, inputs, outputs, and last, where
 * there is one, an rk_error. Outputs are written only on success, except for the length of a buffer that is too small.
 * The rk_error is written only on failure and may be NULL: a sentence that names the parameter, and where it can, the
 * place. There is no "last error".
 *
 * Pointers. A pointer must be valid until the call returns; no function keeps one. NULL is RK_RESULT_NULL_POINTER
 * unless the function allows it. A pointer that is not aligned, or a length beyond the address space, is
 * RK_RESULT_INVALID_ARGUMENT. Memory that is written must not overlap with other arguments.
 *
 * Values. An rk_value that does not follow its kind (a port above 65535, a high that should be 0), a range that no
 * function has written, a number that is none of its type's constants, and a place past the end, except where a page
 * begins, are RK_RESULT_INVALID_ARGUMENT.
 *
 * Times. Nanoseconds of a clock of the caller's that never goes back; in ledgers, nanoseconds since 1970. A parameter
 * `unix_seconds` is in seconds since 1970.
 *
 * Text and bytes. A pointer and a length. Neither inputs nor outputs end with a NUL, unless a comment says so. NULL is
 * allowed if the length is 0. Text that is not UTF-8 is RK_RESULT_INVALID_UTF8, in a batch of objects
 * RK_RESULT_INVALID_BATCH.
 *
 * Buffers. A pointer, a capacity, and a size_t * for the length. If the capacity is too small, the function returns
 * RK_RESULT_BUFFER_TOO_SMALL, writes the required length, and changes nothing else. So NULL with capacity 0 queries the
 * length.
 *
 * Pages. A function that lists items starts at the place or offset that it is passed, writes at most capacity items,
 * and their number to *n or *len. Fewer than capacity means the end; otherwise call again with *next_offset, or with
 * the place after the last item.
 *
 * Handles. A function that writes an rk_X * makes the caller its owner, and the new handle needs no other. rk_X_free
 * destroys a handle: once, as the last call with it; NULL is allowed. rk_audit_finish and rk_repair_pass_finish end an
 * audit: every later call with it returns RK_RESULT_ENDED, and it must still be freed. A function that takes a const
 * rk_X * does not change its state.
 *
 * Threads. Every function may be called from any thread, and all except rk_X_free beside others on the same handle: it
 * has a lock inside, unless it is immutable.
 *
 * Faults. A panic inside Rangekeeper does not unwind into the caller: the call returns RK_RESULT_PANIC, and every later
 * call with that handle RK_RESULT_POISONED.
 */


#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------------------------------------------------- Handles */

/** Records which values of a range are in use, and picks free ones. */
typedef struct rk_allocator rk_allocator;

/** A stored RangeAllocation: range, data, and everything else that a rewrite must preserve. */
typedef struct rk_range_allocation rk_range_allocation;

/** A counter for each value of a range: how many passes in a row it was leaked. */
typedef struct rk_leak_counters rk_leak_counters;

/** The leak counters of all ranges of a server's repair, kept from one pass to the next, and when they may advance. */
typedef struct rk_leak_tracker rk_leak_tracker;

/** An audit in progress: one pass over all Services. */
typedef struct rk_audit rk_audit;

/**
 * The result of an audit. Only rk_report_record_repair, rk_report_observe_claimants and
 * rk_report_find_full_ranges change it.
 */
typedef struct rk_report rk_report;

/** One stored object and the operations on it: a state machine that does no I/O. */
typedef struct rk_committer rk_committer;

/** A repair pass over the objects of committers; rk_repair_pass_new has its steps. */
typedef struct rk_repair_pass rk_repair_pass;

/** Which addresses of ServiceCIDRs are free, where the creation of an IPAddress object is what allocates. */
typedef struct rk_index rk_index;

/** Which values of a range are in use, and by whom. */
typedef struct rk_ledger rk_ledger;

/** The changes of one program to a ledger that others change, too: a state machine that does no I/O. */
typedef struct rk_shared_ledger rk_shared_ledger;

/** The bootstrap controller of one server: a state machine that does no I/O. */
typedef struct rk_bootstrap rk_bootstrap;

/* ---------------------------------------------------------------------------------------------------------- Version */

/**
 * The version of the C ABI that this header describes: the number in the soname of the shared library. It grows when
 * programs that were built against an older header must be rebuilt.
 */
#define RK_ABI_VERSION 0

/** The version of Rangekeeper that this header belongs to: major, minor, patch. */
#define RK_VERSION_MAJOR 0

/** See RK_VERSION_MAJOR. */
#define RK_VERSION_MINOR 1

/** See RK_VERSION_MAJOR. */
#define RK_VERSION_PATCH 0

/**
 * Returns the ABI version of the linked library. A program that loads the library itself compares it with
 * RK_ABI_VERSION.
 */
uint32_t rk_abi_version(void);

/* ---------------------------------------------------------------------------------------------------------- Results */

/** How a call ended. Numbers never change and are never reused. */
typedef uint32_t rk_result;
enum {
  /** Success. */
  RK_RESULT_OK = 0,
  /** A pointer is NULL that must not be. */
  RK_RESULT_NULL_POINTER = 1,
  /** The caller's buffer is too small. The required length was written, and nothing else. */
  RK_RESULT_BUFFER_TOO_SMALL = 2,
  /**
   * An argument has no meaning: an unknown number, a malformed value, an index past the end, a length beyond the
   * address space, a pointer that is not aligned.
   */
  RK_RESULT_INVALID_ARGUMENT = 3,
  /** A text is not UTF-8. */
  RK_RESULT_INVALID_UTF8 = 4,
  /** A fault in Rangekeeper was caught, and the handle is poisoned. */
  RK_RESULT_PANIC = 5,
  /** An earlier call with this handle returned RK_RESULT_PANIC. The handle can only be freed. */
  RK_RESULT_POISONED = 6,
  /** The pass or audit has ended. */
  RK_RESULT_ENDED = 7,
  /** Every value of the range is allocated. */
  RK_RESULT_FULL = 16,
  /** The value is allocated. */
  RK_RESULT_ALREADY_ALLOCATED = 17,
  /** The value cannot be allocated from the range. */
  RK_RESULT_NOT_IN_RANGE = 18,
  /** The stored data belongs to another range. */
  RK_RESULT_MISMATCHED_RANGE = 19,
  /** The stored bitmap has bits past the end of its range. */
  RK_RESULT_BITS_PAST_RANGE = 20,
  /** A text is not a range. */
  RK_RESULT_INVALID_RANGE = 21,
  /** There already is a range for values of that kind. */
  RK_RESULT_SAME_KIND = 22,
  /** The value has an owner, which alone can release it. */
  RK_RESULT_OWNED = 23,
  /** The owner has something else already. */
  RK_RESULT_HAS_OTHER = 24,
  /** A stored object is not a RangeAllocation. */
  RK_RESULT_INVALID_OBJECT = 32,
  /** A stored object is encrypted at rest. */
  RK_RESULT_ENCRYPTED = 33,
  /** A batch is malformed; nothing of it was recorded. */
  RK_RESULT_INVALID_BATCH = 34,
  /** A stored object is missing or was never initialised. */
  RK_RESULT_NOT_INITIALISED = 48,
  /** The store refused a request. */
  RK_RESULT_REFUSED = 49,
  /** An operation's deadline passed before it was sent. */
  RK_RESULT_DEADLINE_EXCEEDED = 50,
  /** An operation was cancelled. */
  RK_RESULT_CANCELLED = 51,
  /**
   * A list is too old: of Services before the range of a repair was read, of IPAddress objects before what the index
   * has observed.
   */
  RK_RESULT_STALE_LIST = 52,
  /** Values are recorded as allocated, and no Service was observed. */
  RK_RESULT_NO_SERVICES = 53,
  /** No compare-and-swap is under way. */
  RK_RESULT_NO_SWAP = 54,
  /** Objects of the cluster could not be read. */
  RK_RESULT_UNREADABLE = 55,
  /** A repair would replace a stored range, or create one, that Services need otherwise. */
  RK_RESULT_RANGE_IN_USE = 56,
  /**
   * A Service was written after those of an edit were listed, or the look that proves the list is gone
   * (rk_repair_pass_fenced).
   */
  RK_RESULT_SERVICES_WRITTEN = 57,
  /** A write had no answer: whether the change took effect is unknown, and it is not repeated. */
  RK_RESULT_UNANSWERED = 58,
  /** A change has not ended, or its outcome was told before. */
  RK_RESULT_NOT_ENDED = 59,
  /** A text is not JSON, or not of the documented form. */
  RK_RESULT_INVALID_JSON = 64,
  /** A configuration cannot be used, or a question about a plan has no answer. */
  RK_RESULT_INVALID_CONFIG = 65,
};

/* ----------------------------------------------------------------------------------------------------------- Errors */

/**
 * Returns the name of a result without its prefix, such as "ALREADY_ALLOCATED"; "UNKNOWN" for any other number.
 * The text is static: never NULL, never freed.
 */
const char *rk_result_name(uint32_t result);

/** Bytes in the message of an rk_error, the NUL at its end included. */
#define RK_ERROR_MESSAGE_CAPACITY 512

/** The member of an rk_detail that is valid. */
typedef uint32_t rk_detail_kind;
enum {
  /** There is no detail. */
  RK_DETAIL_NONE = 0,
  /** detail.byte is valid. */
  RK_DETAIL_BYTE = 1,
  /** detail.bits is valid. */
  RK_DETAIL_BITS = 2,
  /** detail.request is valid. */
  RK_DETAIL_REQUEST = 3,
};

/** The bits past the end of a range in a stored bitmap. */
typedef struct rk_bits_past_range {
  /** The highest offset that is set. */
  uint64_t highest_offset;
  /** The position of the byte of the input that holds it, from 0. */
  uint64_t byte;
} rk_bits_past_range;

/** Where a failure lies; the kind determines which member is valid. */
typedef union rk_detail {
  /** The position of the wrong byte in the input, from 0. */
  uint64_t byte;
  /** The bits that are wrong. */
  rk_bits_past_range bits;
  /** The position of the request of a batch that could not be served, from 0. */
  uint64_t request;
  /** Room for a kind that comes later. */
  uint64_t reserved[4];
} rk_detail;

/** Details of a failure. */
typedef struct rk_error {
  /** The member of the detail that is valid. */
  rk_detail_kind detail_kind;
  /** Where the failure lies. */
  rk_detail detail;
  /** Bytes in message, without the NUL at its end. */
  size_t message_len;
  /** For people: UTF-8 with a terminating NUL, cut at a character if it is too long. */
  char message[RK_ERROR_MESSAGE_CAPACITY];
} rk_error;

/* ----------------------------------------------------------------------------------------------------------- Values */

/** The kinds of values. */
typedef uint32_t rk_value_kind;
enum {
  /** Any free value: only as a request of a batch. low and high are 0. */
  RK_VALUE_KIND_ANY = 0,
  /** A port: low is its number, high is 0. */
  RK_VALUE_KIND_PORT = 1,
  /** An IPv4 address: low is its 32-bit number (10.0.0.1 is 0x0a000001), high is 0. */
  RK_VALUE_KIND_IPV4 = 4,
  /** An IPv6 address: high and low are the halves of its 128-bit number. An IPv4-mapped address is the IPv4 address. */
  RK_VALUE_KIND_IPV6 = 6,
  /** A text that should be an address and is not: only in findings. */
  RK_VALUE_KIND_TEXT = 7,
  /**
   * No value: that of a claim whose text is no address, and a missing one in bindings. No range has it, and low and
   * high are 0.
   */
  RK_VALUE_KIND_NONE = 8,
  /** A number of a range of numbers: low is below 2^32, high is 0. */
  RK_VALUE_KIND_NUMBER = 9,
};

/**
 * An address, a port or a number; its kind determines the meaning of high and low. rk_value_port, rk_value_number,
 * rk_value_ipv4, rk_value_ipv6 and rk_value_any, at the end of this header, build one.
 */
typedef struct rk_value {
  /** High half; see the kinds. */
  uint64_t high;
  /** Low half; see the kinds. */
  uint64_t low;
  /** The kind. */
  rk_value_kind kind;
} rk_value;

/**
 * Parses an address as Kubernetes does, leniently: leading zeros are decimal, and an IPv4-mapped IPv6 address is the
 * IPv4 address. No zones, no surrounding space.
 *
 * RK_RESULT_INVALID_ARGUMENT if the text is not an address.
 */
RK_MUST_CHECK
rk_result rk_address_parse(const char *address, size_t address_len, rk_value *value);

/**
 * Writes a value as text, at most 45 bytes without a terminating NUL: an address in its canonical form, a port or a
 * number in decimal.
 */
RK_MUST_CHECK
rk_result rk_value_text(const rk_value *value, char *buffer, size_t capacity, size_t *len);

/* --------------------------------------------------------------------- Ranges, and the CIDRs of ServiceCIDR objects */

/** The kinds of ranges. */
typedef uint32_t rk_range_kind;
enum {
  /** Addresses of a CIDR. */
  RK_RANGE_KIND_CIDR = 1201,
  /** Ports. */
  RK_RANGE_KIND_PORTS = 1202,
  /** Plain numbers from 0 on, for callers that keep the offset of each of their values. */
  RK_RANGE_KIND_NUMBERS = 1203,
};

/** Bytes in the text of an rk_range_description, the NUL at its end included: more than any range needs. */
#define RK_RANGE_TEXT_CAPACITY 48

/**
 * A range: which values it has, and the offset of each. rk_range_parse writes one. It may be copied, and nothing of it
 * is freed.
 */
typedef struct rk_range {
  /** The network address, the lowest port, or of numbers the size of the static band. */
  rk_value first;
  /** The length of the prefix, the highest port, or how many numbers there are. */
  uint32_t extent;
} rk_range;

/** A range in numbers, and its text. */
typedef struct rk_range_description {
  /**
   * How many values can be allocated; offsets are below that. In IPv6 they are at most 65,535, as in a bitmap of
   * kube-apiserver's; 0 is possible ("10.0.0.1/32").
   */
  uint32_t size;
  /** How many of the lowest offsets form the static band, which dynamic allocation uses last (KEP-3070, KEP-3668). */
  uint32_t static_band;
  /** Bytes in text, without the NUL at its end. */
  size_t text_len;
  /** The canonical text, as it is stored beside the bitmap, with a terminating NUL. */
  char text[RK_RANGE_TEXT_CAPACITY];
  /** 0. Room for a field that comes later: the struct never becomes longer. */
  uint64_t reserved[2];
} rk_range_description;

/**
 * Parses a range. `kind` is RK_RANGE_KIND_CIDR for "10.96.0.0/12" and the like (IPv4 or IPv6; host bits are cleared),
 * RK_RANGE_KIND_PORTS for "30000-32767", "30000+2767" or one port, or RK_RANGE_KIND_NUMBERS for "100000 numbers, 16
 * static".
 *
 * RK_RESULT_INVALID_RANGE.
 */
RK_MUST_CHECK
rk_result rk_range_parse(const char *spec, size_t spec_len, rk_range_kind kind, rk_range *range, rk_error *error);

/** Writes the size, static band and text of a range. */
RK_MUST_CHECK
rk_result rk_range_describe(const rk_range *range, rk_range_description *description);

/**
 * Writes the offset of a value.
 *
 * RK_RESULT_NOT_IN_RANGE if it cannot be allocated from the range: network and broadcast addresses, values of another
 * kind.
 */
RK_MUST_CHECK
rk_result rk_range_offset_of(const rk_range *range, const rk_value *value, uint32_t *offset);

/**
 * Writes the value at an offset.
 *
 * RK_RESULT_NOT_IN_RANGE if the offset is not below the size.
 */
RK_MUST_CHECK
rk_result rk_range_value_at(const rk_range *range, uint32_t offset, rk_value *value);

/**
 * Writes to `excludes` whether one cluster cannot have both ranges: two of one IP family (KEP-563), or two of node
 * ports.
 */
RK_MUST_CHECK
rk_result rk_range_excludes(const rk_range *range, const rk_range *other, bool *excludes);

/**
 * Compares two snapshots of a range (see rk_allocator_snapshot): writes a page of the values that only one of them
 * contains, ascending, and for each to `allocated` whether `after` contains it.
 *
 * RK_RESULT_BITS_PAST_RANGE, with the bits in `error`.
 */
RK_MUST_CHECK
rk_result rk_range_changes(const rk_range *range, const uint8_t *before, size_t before_len, const uint8_t *after,
                           size_t after_len, uint32_t from_offset, rk_value *values, bool *allocated, size_t capacity,
                           size_t *n, uint32_t *next_offset, rk_error *error);

/**
 * A CIDR of a ServiceCIDR object: which addresses it has, and in which order they are tried. rk_service_cidr_parse
 * writes one. It may be copied, and nothing of it is freed.
 */
typedef struct rk_service_cidr {
  /** The network address. */
  rk_value network;
  /** The length of the prefix. */
  uint32_t prefix;
} rk_service_cidr;

/** A CIDR of a ServiceCIDR object in numbers. */
typedef struct rk_service_cidr_description {
  /** How many addresses can be allocated, at most UINT64_MAX; offsets are below that. 0 is possible ("10.0.0.1/32"). */
  uint64_t size;
  /** How many of the lowest offsets form the static band, which dynamic allocation uses last (KEP-3070). */
  uint32_t static_band;
  /** 0. Room for a field that comes later: the struct never becomes longer. */
  uint64_t reserved[2];
} rk_service_cidr_description;

/**
 * Parses a CIDR of a ServiceCIDR object, such as "10.96.0.0/12" or "fd00::/64"; host bits are cleared.
 *
 * RK_RESULT_INVALID_RANGE.
 */
RK_MUST_CHECK
rk_result rk_service_cidr_parse(const char *spec, size_t spec_len, rk_service_cidr *cidr, rk_error *error);

/** Writes the size and the static band of a CIDR. */
RK_MUST_CHECK
rk_result rk_service_cidr_describe(const rk_service_cidr *cidr, rk_service_cidr_description *description);

/**
 * Writes the offset of an address.
 *
 * RK_RESULT_NOT_IN_RANGE if it cannot be allocated from the CIDR: network and broadcast addresses, values of another
 * kind.
 */
RK_MUST_CHECK
rk_result rk_service_cidr_offset_of(const rk_service_cidr *cidr, const rk_value *value, uint64_t *offset);

/**
 * Writes the address at an offset.
 *
 * RK_RESULT_NOT_IN_RANGE if the offset is not below the size.
 */
RK_MUST_CHECK
rk_result rk_service_cidr_value_at(const rk_service_cidr *cidr, uint64_t offset, rk_value *value);

/* ------------------------------------------------------------------------------------------------------- Allocators */

/** How an allocator picks free values. */
typedef uint32_t rk_strategy;
enum {
  /** Picks the lowest free value. */
  RK_STRATEGY_CONTIGUOUS = 1001,
  /** Picks the first free value from a random offset on, with wrap. */
  RK_STRATEGY_RANDOM_SCAN = 1002,
  /** Picks as RK_STRATEGY_RANDOM_SCAN in the dynamic band; in the static band only if the dynamic band is full. */
  RK_STRATEGY_DYNAMIC_BAND_FIRST = 1003,
};

/**
 * Creates an allocator with nothing in use. Memory: one bit per value.
 *
 * `strategy` determines the values that rk_allocator_allocate_next picks. `seed`
 * starts the generator of the random strategies (xoshiro256++): the same seed and the same calls return the same
 * values.
 */
RK_MUST_CHECK
rk_result rk_allocator_new(const rk_range *range, rk_strategy strategy, uint64_t seed, rk_allocator **allocator,
                           rk_error *error);

/**
 * Creates an independent copy in the same state: a call on the copy ends as it would on the original, and changes
 * nothing there. Cost: a copy of the bitmap.
 */
RK_MUST_CHECK
rk_result rk_allocator_dry_run(const rk_allocator *allocator, rk_allocator **dry_run);

/**
 * Allocates a value.
 *
 * RK_RESULT_ALREADY_ALLOCATED; RK_RESULT_NOT_IN_RANGE, also for a value of another kind than the range's.
 */
RK_MUST_CHECK
rk_result rk_allocator_allocate(rk_allocator *allocator, const rk_value *value);

/**
 * Allocates a free value that the strategy picks. Cost: some nanoseconds at any fill.
 *
 * RK_RESULT_FULL if none is free.
 */
RK_MUST_CHECK
rk_result rk_allocator_allocate_next(rk_allocator *allocator, rk_value *value);

/**
 * Releases a value; one that is free or not in range is no error. Writes whether the value was in use to
 * `was_used`, which may be NULL.
 */
RK_MUST_CHECK
rk_result rk_allocator_release(rk_allocator *allocator, const rk_value *value, bool *was_used);

/** Writes whether a value is allocated: false for one that is not in range. */
RK_MUST_CHECK
rk_result rk_allocator_has(const rk_allocator *allocator, const rk_value *value, bool *is_used);

/**
 * Writes how many values are in use; all others of the range are free. Cost: O(1); O(size / 64) for the first call
 * after a restore.
 */
RK_MUST_CHECK
rk_result rk_allocator_used(const rk_allocator *allocator, uint32_t *used);

/**
 * Serves all `n` requests, or none. A request of kind RK_VALUE_KIND_ANY allocates any free value; requests for a
 * named value are served first, wherever they stand. `values` has room for `n` values, in the order of the
 * requests.
 *
 * RK_RESULT_ALREADY_ALLOCATED, RK_RESULT_NOT_IN_RANGE, RK_RESULT_FULL and, for a request that does not follow its
 * kind, RK_RESULT_INVALID_ARGUMENT, each with the request that failed in `error`.
 */
RK_MUST_CHECK
rk_result rk_allocator_allocate_batch(rk_allocator *allocator, const rk_value *requests, size_t n, rk_value *values,
                                      rk_error *error);

/**
 * Writes the stored form of the allocated values: one big-endian unsigned integer without leading zero bytes, in
 * which bit k stands for offset k; no bytes if nothing is allocated. (size + 7) / 8 bytes always suffice.
 */
RK_MUST_CHECK
rk_result rk_allocator_snapshot(const rk_allocator *allocator, uint8_t *buffer, size_t capacity, size_t *len);

/**
 * Replaces the state by a stored snapshot: `range` is the text of its range, `data` has the form of
 * rk_allocator_snapshot, in which leading zero bytes are accepted.
 *
 * RK_RESULT_MISMATCHED_RANGE; RK_RESULT_BITS_PAST_RANGE, with the bits in `error`. The state stays as it was then.
 */
RK_MUST_CHECK
rk_result rk_allocator_restore(rk_allocator *allocator, const char *range, size_t range_len, const uint8_t *data,
                               size_t data_len, rk_error *error);

/* --------------------------------------------------------------------------------------------------- Stored objects */

/** The forms of a stored object. */
typedef uint32_t rk_form;
enum {
  /** Kubernetes' protobuf, as every current kube-apiserver stores it. */
  RK_FORM_PROTOBUF = 1,
  /** A JSON object. */
  RK_FORM_JSON = 2,
  /** A YAML mapping. */
  RK_FORM_YAML = 3,
};

/** Creates an object with empty range and data, as kube-apiserver creates one. */
RK_MUST_CHECK
rk_result rk_range_allocation_new(rk_form form, rk_range_allocation **object);

/**
 * Decodes a stored value; its first bytes determine the form. Metadata and unknown fields are preserved.
 *
 * RK_RESULT_INVALID_OBJECT and RK_RESULT_ENCRYPTED, with the byte in `error`.
 */
RK_MUST_CHECK
rk_result rk_range_allocation_decode(const uint8_t *stored, size_t stored_len, rk_range_allocation **object,
                                     rk_error *error);

/** Writes the text of the object's range; empty if no range was ever written. */
RK_MUST_CHECK
rk_result rk_range_allocation_range(const rk_range_allocation *object, char *buffer, size_t capacity, size_t *len);

/** Writes the object's data, a bitmap in the form of rk_allocator_snapshot. */
RK_MUST_CHECK
rk_result rk_range_allocation_data(const rk_range_allocation *object, uint8_t *buffer, size_t capacity, size_t *len);

/** Replaces range and data, without a check of either. */
RK_MUST_CHECK
rk_result rk_range_allocation_set(rk_range_allocation *object, const char *range, size_t range_len, const uint8_t *data,
                                  size_t data_len, rk_error *error);

/** Writes the object in its stored form. An object of kube-apiserver that nobody changed comes out byte for byte. */
RK_MUST_CHECK
rk_result rk_range_allocation_encode(const rk_range_allocation *object, uint8_t *buffer, size_t capacity, size_t *len);

/* ---------------------------------------------------------------------------------------------------- Leak counters */

/**
 * Creates counters at 0. A leak is due to be cleaned if this many `passes` in a row have seen it; kube-apiserver
 * waits for 3.
 *
 * RK_RESULT_INVALID_ARGUMENT if `passes` is 0.
 */
RK_MUST_CHECK
rk_result rk_leak_counters_new(const rk_range *range, uint8_t passes, rk_leak_counters **counters, rk_error *error);

/**
 * Counts a pass that saw exactly the `n` values of `leaked`, and writes those that are due to be cleaned,
 * ascending. Their counters, and the counter of every value that is not in `leaked`, return to 0. `due` needs room
 * for `n` values: with less, RK_RESULT_BUFFER_TOO_SMALL, and `*due_len` is `n`.
 *
 * RK_RESULT_NOT_IN_RANGE. On failure nothing is counted.
 */
RK_MUST_CHECK
rk_result rk_leak_counters_advance(rk_leak_counters *counters, const rk_value *leaked, size_t n, rk_value *due,
                                   size_t due_capacity, size_t *due_len);

/**
 * Writes how many passes in a row have seen a value leaked, the last one included.
 *
 * RK_RESULT_NOT_IN_RANGE.
 */
RK_MUST_CHECK
rk_result rk_leak_counters_count(const rk_leak_counters *counters, const rk_value *value, uint8_t *count);

/**
 * Creates a tracker whose counters are 0. A leak is cleaned if this many `passes` in a row have seen it;
 * kube-apiserver waits for 3.
 *
 * In an rk_repair_pass, counters advance only if passes are at least 0.9 of `interval` (in nanoseconds) apart and
 * the value was in use all the time between. In rk_audit_finish every pass counts, and `interval` has no meaning.
 *
 * With `keeps_leaks`, leaks are never cleaned. Only an address that a bitmap beside IPAddress objects records alone
 * (RK_REASON_BITMAP_DISAGREES) is cleared, after so many passes: an API server refuses it.
 *
 * RK_RESULT_INVALID_ARGUMENT if `passes` is 0.
 */
RK_MUST_CHECK
rk_result rk_leak_tracker_new(uint8_t passes, uint64_t interval, bool keeps_leaks, rk_leak_tracker **tracker,
                              rk_error *error);

/* --------------------------------------------------------------------- Batches of Services and of IPAddress objects */

/** As the length of an entry: its text is that of the entry before, and has no bytes in rk_batch.text. */
#define RK_SAME_TEXT 4294967295

/** The protocol of a port, in a batch of Services. */
typedef uint32_t rk_protocol;
enum {
  /** As a port's protocol: TCP. */
  RK_PROTOCOL_TCP = 0,
  /** As a port's protocol: UDP. */
  RK_PROTOCOL_UDP = 1,
  /** As a port's protocol: SCTP. */
  RK_PROTOCOL_SCTP = 2,
  /** As a port's protocol: another one. The length of its name, which is in rk_batch.text, is added to this. */
  RK_PROTOCOL_TEXT = 16,
};

/**
 * Objects in flat form, so that many cross in one call: numbers in words, in the machine's byte order, and texts in
 * text, back to back in the order in which their byte lengths stand among the words. rk_batch_in begins one.
 */
typedef struct rk_batch {
  /** The words. */
  uint32_t *words;
  /** How many words. */
  size_t words_len;
  /** For how many words there is room; only the writer uses it. */
  size_t words_capacity;
  /** The texts. */
  char *text;
  /** Bytes in text. */
  size_t text_len;
  /** For how many bytes there is room; only the writer uses it. */
  size_t text_capacity;
  /** How many objects. */
  size_t count;
} rk_batch;

/**
 * A batch of Services, which rk_services_add writes. The words of a Service are:
 *
 * 1. the number of entries (1 to 65535), plus 65536 times the number of ports
 * 2. spec.healthCheckNodePort as int32_t; 0 for none
 * 3. per entry one word: the length of its text, or RK_SAME_TEXT. Entry 0 is spec.clusterIP and never RK_SAME_TEXT,
 *    the others are spec.clusterIPs
 * 4. per port two words: nodePort as int32_t, and RK_PROTOCOL_* or RK_PROTOCOL_TEXT + length
 */
typedef struct rk_services {
  /** The Services. */
  rk_batch batch;
} rk_services;

/**
 * The names of the Services of a batch, in the same order, which rk_service_names_add writes. The words of a Service
 * are the low and high half of metadata.creationTimestamp in seconds since 1970 (int64_t; 0 if unknown), the low and
 * high half of etcd's create revision (uint64_t; 0 if unknown), then the lengths of its namespace and of its name.
 */
typedef struct rk_service_names {
  /** The names. */
  rk_batch batch;
} rk_service_names;

/** What a Service claims by one of its fields. */
typedef struct rk_claim {
  /** The value; of the kind RK_VALUE_KIND_NONE if the Service has a text there that is no address. */
  rk_value value;
  /** The Service, by its place in the batch: 0 is the first. */
  uint64_t service;
  /** Where the Service's text of an address begins in rk_batch.text. 0 of a port. */
  uint64_t text;
  /** How many bytes the text has. 0 of a port. */
  uint64_t text_len;
  /** 0. Room for a field that comes later: the struct never becomes longer. */
  uint64_t reserved[2];
} rk_claim;

/**
 * A batch of IPAddress objects, which rk_ip_addresses_add writes. The words of an object are the low and high half of
 * metadata.creationTimestamp in seconds since 1970 (int64_t), the low and high half of metadata.resourceVersion
 * (uint64_t; 0 if unknown) and whether there is no spec.parentRef (0 or 1), then the lengths of metadata.name, of the
 * label ipaddress.kubernetes.io/managed-by, and of spec.parentRef's group, resource, namespace and name.
 */
typedef struct rk_ip_addresses {
  /** The objects. */
  rk_batch batch;
} rk_ip_addresses;

/**
 * Writes a page of what the Services of a batch claim, as an audit takes it for theirs: in the order of Services, the
 * addresses of each first, in their order there. A value comes twice if a Service has it twice; a number that is no
 * port does not come.
 *
 * Cost: linear in the batch for each page.
 */
RK_MUST_CHECK
rk_result rk_services_claims(const rk_services *batch, size_t from, rk_claim *claims, size_t capacity, size_t *n,
                             rk_error *error);

/* ----------------------------------------------------------------------------------------------------------- Audits */

/** What is stored under the key of a bitmap. */
typedef uint32_t rk_presence;
enum {
  /** The object does not exist. */
  RK_PRESENCE_MISSING = 0,
  /** The object has no range: no kube-apiserver has initialised it yet. */
  RK_PRESENCE_UNINITIALISED = 1,
  /** The object has a range. */
  RK_PRESENCE_INITIALISED = 2,
  /** The source does not show whether there is an object, as the Kubernetes API does not. */
  RK_PRESENCE_UNSEEN = 3,
  /** There is an object that cannot be read. */
  RK_PRESENCE_UNREADABLE = 4,
};

/** Where a cluster records its ClusterIPs (KEP-1880). */
typedef uint32_t rk_cluster_ip_records;
enum {
  /** Nothing that records ClusterIPs is stored: no kube-apiserver has started. */
  RK_CLUSTER_IP_RECORDS_UNKNOWN = 0,
  /** ClusterIPs are recorded in bitmaps. */
  RK_CLUSTER_IP_RECORDS_BITMAPS = 1,
  /** ClusterIPs are recorded in IPAddress objects. There is no bitmap, or the source does not show bitmaps. */
  RK_CLUSTER_IP_RECORDS_OBJECTS = 2,
  /**
   * ClusterIPs are recorded in IPAddress objects, and there are bitmaps beside them, which servers may still write:
   * rk_audit_compare_bitmap finds that out.
   */
  RK_CLUSTER_IP_RECORDS_BOTH = 3,
};

/** What a store has of a cluster. */
typedef uint32_t rk_store_content;
enum {
  /** All of it, or what a kube-apiserver keeps beside its Services in another store. */
  RK_STORE_CONTENT_CLUSTER = 0,
  /**
   * The Services, stored ranges, and nothing else: the other store of a kube-apiserver with
   * --etcd-servers-overrides=/services#....
   */
  RK_STORE_CONTENT_SERVICES = 1,
};

/** The bitmaps that a cluster can have. */
typedef uint32_t rk_bitmap;
enum {
  /** The primary range of ClusterIPs: serviceips. */
  RK_BITMAP_SERVICE_IPS = 0,
  /** The range of the other IP family: secondaryserviceips. */
  RK_BITMAP_SECONDARY_SERVICE_IPS = 1,
  /** The range of node ports: servicenodeports. */
  RK_BITMAP_SERVICE_NODE_PORTS = 2,
};

/**
 * Returns where a cluster records its ClusterIPs. `objects` is how many ServiceCIDR and
 * IPAddress objects are stored, those among them that cannot be read; `bitmap` is the presence of the primary range
 * or if that is missing of the secondary one; another number counts as RK_PRESENCE_UNSEEN.
 */
rk_cluster_ip_records rk_cluster_ip_records_of(uint64_t objects, rk_presence bitmap);

/**
 * Returns what a store has of a cluster. `services` is the number of Services, `objects` as of
 * rk_cluster_ip_records_of, `others` the number of other objects, such as the Namespace kube-system, which each
 * cluster has.
 */
rk_store_content rk_store_content_of(uint64_t services, uint64_t objects, uint64_t others);

/**
 * Begins an audit without ranges. Read the stored ranges first, and list the Services after that.
 *
 * With a `tracker`, a leak in a bitmap stays until enough audits in a row have seen it: rk_audit_finish counts this
 * one. The tracker may be freed before that. With NULL, leaks are cleaned at once, which is right only where nobody
 * else allocates.
 *
 * Without `ip_addresses`, ClusterIPs are recorded in bitmaps. With it, they are recorded in IPAddress objects, and
 * bitmaps of addresses are stale unless rk_audit_compare_bitmap finds that servers still write them: they are counted,
 * and not compared with the Services. An IPAddress object that is at most 60 s old at `unix_seconds` may still wait
 * for its Service, and is no leak; with NULL every object counts, which is right for data at rest.
 */
RK_MUST_CHECK
rk_result rk_audit_new(rk_leak_tracker *tracker, bool ip_addresses, const int64_t *unix_seconds, rk_audit **audit);

/**
 * Adds a configured range of addresses or ports that is stored as a bitmap, with the stored text of its range and
 * the stored bitmap; an empty text means that nothing is stored yet. Ranges and CIDRs count from 0 in the order in
 * which they are added; the first range of addresses is the primary one. Add all of them before the first Service
 * is observed: RK_RESULT_INVALID_ARGUMENT after that, since the values of those Services would look leaked.
 *
 * The stored range may differ from the configured one: values that both have are kept. RK_RESULT_SAME_KIND if the
 * audit already has a range of ports, or of this IP family. For the stored data: RK_RESULT_INVALID_RANGE;
 * RK_RESULT_MISMATCHED_RANGE if it is of another kind; RK_RESULT_BITS_PAST_RANGE, with the bits in `error`.
 */
RK_MUST_CHECK
rk_result rk_audit_add_bitmap(rk_audit *audit, const rk_range *configured, const char *stored_range,
                              size_t stored_range_len, const uint8_t *stored_data, size_t stored_data_len,
                              rk_error *error);

/**
 * Adds a range whose stored bitmap the caller cannot read, as over the Kubernetes API; otherwise as
 * rk_audit_add_bitmap. The report then has findings about values outside the range and about values of two Services,
 * and none about a value that is not recorded. `known` has a bit for each value that is known to be recorded, as an
 * API server refuses it: those that no Service uses are leaks. Other leaks of the range are unknown.
 *
 * If `range` is NULL, not all ranges of ClusterIPs are known, and no range is added: of addresses of an IP family
 * without one, only those that are not valid and those of two Services are findings. RK_RESULT_BITS_PAST_RANGE as of
 * rk_audit_add_bitmap.
 */
RK_MUST_CHECK
rk_result rk_audit_add_unseen(rk_audit *audit, const rk_range *range, const uint8_t *known, size_t known_len,
                              rk_error *error);

/**
 * Compares the bitmap of ClusterIPs at place `range` with the IPAddress objects and the Services, if servers still
 * write it: those of Kubernetes 1.33 do, those of 1.34 or later do not, and leave it in etcd. `written` is the
 * revision of its last write, `upgraded` the create revision of an object that only servers of 1.34 or later write, 0
 * if there is none. Without this call the bitmap is RK_RECORD_STALE.
 *
 * RK_RESULT_INVALID_ARGUMENT if there is no such bitmap beside IPAddress objects, or a Service was observed.
 */
RK_MUST_CHECK
rk_result rk_audit_compare_bitmap(rk_audit *audit, size_t range, uint64_t written, uint64_t upgraded, rk_error *error);

/**
 * Adds one CIDR of a ServiceCIDR object; CIDRs may overlap. It counts as one of the ranges. From one that is not
 * ready, or is being deleted, servers allocate no new address, and it has no free ones; the addresses that Services
 * have stay theirs.
 *
 * RK_RESULT_INVALID_RANGE; RK_RESULT_INVALID_ARGUMENT if ClusterIPs are recorded in bitmaps, or a Service was
 * observed.
 */
RK_MUST_CHECK
rk_result rk_audit_add_service_cidr(rk_audit *audit, const char *cidr, size_t cidr_len, bool is_ready, rk_error *error);

/**
 * Records a batch of IPAddress objects; see rk_ip_addresses_add.
 *
 * RK_RESULT_INVALID_BATCH, and nothing of the batch is recorded; RK_RESULT_INVALID_ARGUMENT if ClusterIPs are recorded
 * in bitmaps, or a Service was observed.
 */
RK_MUST_CHECK
rk_result rk_audit_observe_ip_addresses(rk_audit *audit, const rk_ip_addresses *batch, rk_error *error);

/**
 * Records a batch of Services; see rk_services_add. `names` are needed only where ClusterIPs are recorded in
 * IPAddress objects, and may be NULL otherwise. Cost: some 30 ns per address or port in bitmaps.
 *
 * RK_RESULT_INVALID_BATCH, also if there are not as many names as Services, and nothing of the batch is recorded;
 * RK_RESULT_INVALID_ARGUMENT if names are needed and NULL.
 */
RK_MUST_CHECK
rk_result rk_audit_observe_services(rk_audit *audit, const rk_service_names *names, const rk_services *batch,
                                    rk_error *error);

/** The kind of object that a finding is about. */
typedef uint32_t rk_subject_kind;
enum {
  /** A finding is about a Service. */
  RK_SUBJECT_KIND_SERVICE = 0,
  /** A finding is about an IPAddress object. */
  RK_SUBJECT_KIND_IP_ADDRESS = 1,
  /** A finding is about an address of a CIDR of a ServiceCIDR object that no other object has. */
  RK_SUBJECT_KIND_SERVICE_CIDR = 2,
  /** A finding is about a range itself. */
  RK_SUBJECT_KIND_RANGE = 3,
  /** A finding is about the stored object of a range that the audit does not have: one of RK_BITMAP_*. */
  RK_SUBJECT_KIND_STORED = 4,
};

/**
 * Says that the cluster has one more object, which could not be read; `kind` is its kind. It may use
 * or record any value: all leaks stay, no IPAddress object is repaired, and rk_audit_check_cluster refuses repairs. If
 * a ServiceCIDR could not be read, an address that no other one has is not reported. The `name` of an IPAddress object
 * is that of its key, whatever bytes these are; if it is the canonical text of an address, the address counts as
 * recorded. Of other kinds it is not read, and may be NULL.
 *
 * RK_RESULT_INVALID_ARGUMENT for an unknown kind.
 */
RK_MUST_CHECK
rk_result rk_audit_observe_unreadable(rk_audit *audit, rk_subject_kind kind, const char *name, size_t name_len,
                                      rk_error *error);

/**
 * Says, once all Services are observed, that this audit covers a whole cluster, whose bitmaps are in the given states
 * (RK_PRESENCE_*). A range that is missing though there are Services, and one that servers read and cannot decode, are
 * findings; all else is judged without it. `upgraded` is as of rk_audit_compare_bitmap: since then servers that record
 * ClusterIPs in IPAddress objects read no bitmap of them.
 *
 * RK_RESULT_NO_SERVICES if `cleans_leaks` says that leaks are cleaned after the audit, values are recorded as
 * allocated, and no Service was observed: a cluster has the kubernetes Service at least, so its Services are stored
 * elsewhere. It is so whatever is cleaned if IPAddress objects refer to Services of which none, or nearly none of
 * many, was observed, and the node ports are not RK_PRESENCE_UNSEEN; an audit that goes on finds nothing about these
 * objects. RK_RESULT_UNREADABLE if objects could not be read, and leaks are cleaned after the audit, or the audit is
 * that of an rk_repair_pass, or more Services or IPAddress objects could not be read than could; an audit that goes on
 * does not judge then what they use or record.
 */
RK_MUST_CHECK
rk_result rk_audit_check_cluster(rk_audit *audit, rk_presence service_ips, rk_presence secondary_service_ips,
                                 rk_presence service_node_ports, uint64_t upgraded, bool cleans_leaks, rk_error *error);

/**
 * Ends and closes the audit.
 *
 * RK_RESULT_INVALID_ARGUMENT if the audit belongs to an rk_repair_pass: rk_repair_pass_finish ends it.
 */
RK_MUST_CHECK
rk_result rk_audit_finish(rk_audit *audit, rk_report **report, rk_error *error);

/** What the ranges that a cluster names, and the values that its Services use, say together. */
typedef uint32_t rk_ranges_outcome;
enum {
  /** All ranges are the same, and not nearly all of the values lie outside. */
  RK_RANGES_OUTCOME_AGREE = 0,
  /** The ranges differ, and nearly all values lie in those that are not wrong. */
  RK_RANGES_OUTCOME_DECIDED = 1,
  /** The ranges differ, and nearly all values lie in each of them, as after a range was widened. */
  RK_RANGES_OUTCOME_HARMLESS = 2,
  /** Nearly all values lie outside of the only range, or no range has nearly all of them. */
  RK_RANGES_OUTCOME_UNDECIDED = 3,
};

/** The judgement on the ranges that a cluster names. */
typedef struct rk_ranges_verdict {
  /** What they say together. */
  rk_ranges_outcome outcome;
  /** Whether the values show that the flag is wrong. */
  bool flag_is_wrong;
  /** Whether they show that the ServiceCIDR object is. */
  bool service_cidr_is_wrong;
  /** Whether they show that the bitmaps are. */
  bool bitmap_is_wrong;
  /** How many values there are. */
  uint64_t values;
  /** How many of them lie in the ranges of the flag. */
  uint64_t in_flag;
  /** How many lie in those of the ServiceCIDR object. */
  uint64_t in_service_cidr;
  /** How many lie in those of the bitmaps. */
  uint64_t in_bitmap;
  /** 0. Room for a field that comes later: the struct never becomes longer. */
  uint64_t reserved[2];
} rk_ranges_verdict;

/**
 * Judges by the `values` that Services use which of the ranges that a cluster names is the wrong one: those of the
 * servers' `flag` (--service-cluster-ip-range or --service-node-port-range), of the ServiceCIDR object kubernetes, and
 * of the stored bitmaps. Each text has a range, or two that are separated by a comma, or is empty if nothing is known
 * or stored. Nearly all values are nine of ten.
 *
 * RK_RESULT_INVALID_RANGE; RK_RESULT_NOT_IN_RANGE for a value that is none.
 */
RK_MUST_CHECK
rk_result rk_ranges_judge(const char *flag, size_t flag_len, const char *service_cidr, size_t service_cidr_len,
                          const char *bitmap, size_t bitmap_len, const rk_value *values, size_t values_len,
                          rk_ranges_verdict *verdict, rk_error *error);

/* --------------------------------------------------------------------------------------------- Findings and reports */

/** As the range of a finding or leak: the audit has no range of addresses. */
#define RK_NO_RANGE 4294967295

/** Who remedies a finding. */
typedef uint32_t rk_remedy;
enum {
  /** A repair of the bitmap remedies it. */
  RK_REMEDY_REPAIR = 0,
  /** The API server remedies it: it repairs IPAddress objects when it starts, and every few minutes after that. */
  RK_REMEDY_API_SERVER = 1,
  /**
   * People remedy it: the owner of a Service recreates it, or an administrator widens the range or deletes the
   * IPAddress object.
   */
  RK_REMEDY_OWNER = 2,
};

/** What a finding or leak means for users. Numbers never change. */
typedef uint32_t rk_severity;
enum {
  /** The number is that of no reason. */
  RK_SEVERITY_NONE = 0,
  /**
   * Two Services answer on one value (on a port if their protocols are the same), or no range hands the value out, so
   * that nothing is bound to forward it; or an IPAddress object is one that no API server accepts; or the range itself
   * is missing or cannot be read, so that no Service with a value of it is created.
   */
  RK_SEVERITY_BREAKS_TRAFFIC = 1,
  /** The value is in use and not recorded, or not for good, so that a server may allocate it a second time. */
  RK_SEVERITY_DUPLICATE_RISK = 2,
  /** The value is recorded and not in use, so that no server allocates it. */
  RK_SEVERITY_WASTED = 3,
  /**
   * No value or few values are free, so that new Services are refused, or soon will be. It is worse than
   * RK_SEVERITY_WASTED.
   */
  RK_SEVERITY_EXHAUSTED = 4,
};

/** The bands of a range (KEP-3070). */
typedef uint32_t rk_band;
enum {
  /** The low offsets, which dynamic allocation uses last. */
  RK_BAND_STATIC = 0,
  /** All other offsets. */
  RK_BAND_DYNAMIC = 1,
};

/**
 * The reason of a finding, as in kube-apiserver's Events if they have it. Numbers never change and are never reused.
 */
typedef uint32_t rk_reason;
enum {
  /** A ClusterIP that is no address, or of a family that no range has. */
  RK_REASON_CLUSTER_IP_NOT_VALID = 1,
  /** A Service uses an address that is not recorded as allocated. */
  RK_REASON_CLUSTER_IP_NOT_ALLOCATED = 2,
  /** Two Services use one address. */
  RK_REASON_CLUSTER_IP_ALREADY_ALLOCATED = 3,
  /** A Service uses an address that no range hands out. */
  RK_REASON_CLUSTER_IP_OUT_OF_RANGE = 4,
  /** A Service uses an address of a range that has no allocatable address at all. */
  RK_REASON_SERVICE_CIDR_FULL = 5,
  /** An IPAddress object of the allocator refers to something other than a Service. */
  RK_REASON_IP_ADDRESS_NOT_ALLOCATED = 6,
  /** An IPAddress object refers to a Service that does not use the address. */
  RK_REASON_IP_ADDRESS_WRONG_REFERENCE = 7,
  /** A Service uses a port that is not recorded as allocated. */
  RK_REASON_PORT_NOT_ALLOCATED = 8,
  /** Two Services use one port, with the same protocol or not. */
  RK_REASON_PORT_ALREADY_ALLOCATED = 9,
  /** A Service uses a port outside the range. */
  RK_REASON_PORT_OUT_OF_RANGE = 10,
  /**
   * A bitmap of ClusterIPs that servers still write beside IPAddress objects records an address that no object and
   * no Service has, or does not record one that they have. No Event has this reason.
   */
  RK_REASON_BITMAP_DISAGREES = 11,
  /**
   * An IPAddress object that kube-apiserver's repair reads has no spec.parentRef. No server repairs it. No Event has
   * this reason.
   */
  RK_REASON_IP_ADDRESS_WITHOUT_PARENT = 12,
  /**
   * The name of an IPAddress object is not the canonical text of an address, by which servers look for it. No Event
   * has this reason.
   */
  RK_REASON_IP_ADDRESS_NOT_CANONICAL = 13,
  /**
   * A Service has an address in another text than the canonical one, which is the name of its IPAddress object. No
   * Event has this reason.
   */
  RK_REASON_CLUSTER_IP_NOT_CANONICAL = 14,
  /** No value of a range is free. No Event has this reason. */
  RK_REASON_RANGE_FULL = 15,
  /** Few values of a range are free. No Event has this reason. */
  RK_REASON_RANGE_NEARLY_FULL = 16,
  /** The stored object of a range that servers read cannot be read. No Event has this reason. */
  RK_REASON_RANGE_NOT_READABLE = 17,
  /**
   * The stored object of a range is missing or not initialised, though there are Services. No Event
   * has this reason.
   */
  RK_REASON_RANGE_MISSING = 18,
  /** A Service that needs a ClusterIP, or one of each IP family, has none. No Event has this reason. */
  RK_REASON_CLUSTER_IP_MISSING = 19,
  /** A Service of type NodePort or LoadBalancer has a port without a node port. No Event has this reason. */
  RK_REASON_NODE_PORT_MISSING = 20,
  /**
   * A Service of type LoadBalancer with externalTrafficPolicy Local has no healthCheckNodePort. No Event has this
   * reason.
   */
  RK_REASON_HEALTH_CHECK_NODE_PORT_MISSING = 21,
};

/** The value of a finding; the kind determines which member is valid, for a text none. */
typedef union rk_found_value {
  /** An address. */
  rk_value address;
  /** A port as the Service has it, in range or not. */
  int32_t port;
} rk_found_value;

/** Something that is wrong with a Service, an IPAddress object or an address. */
typedef struct rk_finding {
  /** The reason. */
  rk_reason reason;
  /** The kind of object that it is about. */
  rk_subject_kind subject_kind;
  /**
   * Which Service or IPAddress object, by its place among those that were observed: 0 is the first. For a CIDR of a
   * ServiceCIDR object, and for a range, its place among the ranges; for a stored object its RK_BITMAP_*.
   */
  uint64_t subject;
  /**
   * The range it concerns: its place in the order in which they were added; RK_NO_RANGE if there is no range of
   * addresses.
   */
  uint32_t range;
  /** Who remedies it. */
  rk_remedy remedy;
  /** Whether the repair leaves it for now, since a Service that uses the value may still be under way. */
  bool stays;
  /** The kind of value that it is about: RK_VALUE_KIND_IPV4, _IPV6, _PORT or _TEXT. A range, or its name, is a text. */
  rk_value_kind value_kind;
  /** The value; for a text see rk_report_finding_texts. */
  rk_found_value value;
  /** 0. Room for a field that comes later: the struct never becomes longer. */
  uint64_t reserved[2];
} rk_finding;

/** The state of one value of a range. */
typedef struct rk_offset_state {
  /** Its band. */
  rk_band band;
  /** Whether it was recorded as allocated. */
  bool stored;
  /** Whether a Service uses it. */
  bool in_use;
  /** Whether more than one Service claims it. */
  bool duplicate;
  /** Whether it is allocated after the repair. */
  bool next;
  /** 0. Room for a field that comes later: the struct never becomes longer. */
  uint64_t reserved[2];
} rk_offset_state;

/** Counts for one stretch of a range, for an occupancy map. */
typedef struct rk_cell {
  /** Offset of its first value. */
  uint64_t first;
  /** How many values it has. */
  uint64_t len;
  /** Values that Services use. */
  uint64_t in_use;
  /** Values recorded as allocated that no Service uses. */
  uint64_t leaked;
  /** Values that Services use though they are not recorded as allocated; part of in_use. */
  uint64_t lost;
  /** Values that more than one Service claims; part of in_use. */
  uint64_t duplicate;
  /** 0. Room for a field that comes later: the struct never becomes longer. */
  uint64_t reserved[2];
} rk_cell;

/**
 * Returns a reason as text, such as "ClusterIPNotAllocated" in kube-apiserver's Events; "Unknown" for any other
 * number. The text is static: never NULL, never freed.
 */
const char *rk_reason_name(uint32_t reason);

/** Returns the severity of the findings with this reason; RK_SEVERITY_NONE for any other number. */
rk_severity rk_reason_severity(uint32_t reason);

/** The sets of values that a report has for each bitmap. */
typedef uint32_t rk_values;
enum {
  /** Values that the repair allocates. */
  RK_VALUES_SET = 1301,
  /** Values that the repair releases. */
  RK_VALUES_CLEAR = 1302,
  /** Values recorded as allocated that no Service uses, whether this repair releases them or not. */
  RK_VALUES_LEAKED = 1303,
  /** Values that more than one Service claims. */
  RK_VALUES_DUPLICATES = 1304,
  /** Values that were recorded as allocated before the audit. */
  RK_VALUES_STORED = 1305,
  /** Values that Services use. */
  RK_VALUES_IN_USE = 1306,
  /** Values that are allocated after the repair. */
  RK_VALUES_NEXT = 1307,
};

/** As the object of a leak: a bitmap records the value. As that of a repair: there is none. */
#define RK_NO_OBJECT 18446744073709551615ull

/** How allocations from a range are recorded. */
typedef uint32_t rk_record;
enum {
  /** A range that is stored as a bitmap. */
  RK_RECORD_BITMAP = 0,
  /**
   * A bitmap of ClusterIPs that is left over, since ClusterIPs are IPAddress objects: it was only counted, and all of
   * it is taken as in use.
   */
  RK_RECORD_STALE = 1,
  /** A CIDR of a ServiceCIDR object, whose values are IPAddress objects. */
  RK_RECORD_IP_ADDRESSES = 2,
  /** A range whose bitmap could not be read: values that Services use count as recorded. */
  RK_RECORD_UNSEEN = 3,
};

/** How the repair of a range ended. */
typedef uint32_t rk_repair_outcome;
enum {
  /** All that was due was tried. The finding is dropped: its Service came after the range was read. */
  RK_REPAIR_DONE = 0,
  /** Somebody chose of what was due. The finding stays. */
  RK_REPAIR_CHOSEN = 1,
  /** The repair has failed, and nothing is known to have been set or cleared. The finding is left. */
  RK_REPAIR_FAILED = 2,
};

/** A value that is recorded as allocated though no Service uses it. */
typedef struct rk_leak {
  /** The value. */
  rk_value value;
  /**
   * The first range that has it, by the order in which ranges were added. For an address that none has, the first
   * range of its family; RK_NO_RANGE if there is no range of addresses.
   */
  uint32_t range;
  /**
   * The IPAddress object that records it, by the order in which objects were observed; RK_NO_OBJECT if a bitmap
   * records it.
   */
  uint64_t object;
  /** RK_REMEDY_REPAIR or RK_REMEDY_API_SERVER: who frees it, if it does not stay. */
  rk_remedy remedy;
  /** RK_SEVERITY_WASTED. */
  rk_severity severity;
  /** Whether the repair leaves it for now, since a Service that uses it may still be under way. */
  bool stays;
  /** 0. Room for a field that comes later: the struct never becomes longer. */
  uint64_t reserved[2];
} rk_leak;

/** A Service that claims a value that is claimed more than once. */
typedef struct rk_claimant {
  /** Which Service, by its place among those that were observed: 0 is the first. */
  uint64_t service;
  /** Whether it keeps the value, as rk_report_observe_claimants says. */
  bool keeps;
  /**
   * Whether only the names decide that it keeps the value, or that another one does: it may as well be the other way
   * round.
   */
  bool tied;
  /** 0. Room for a field that comes later: the struct never becomes longer. */
  uint64_t reserved[2];
} rk_claimant;

/** A write of the API server's repair of IPAddress objects. */
typedef struct rk_object_repair {
  /** The address. */
  rk_value address;
  /**
   * The IPAddress object that is removed or replaced, by the order in which objects were observed; RK_NO_OBJECT if
   * there is none.
   */
  uint64_t removed;
  /**
   * The Service for which an object is created, by the order in which Services were observed; RK_NO_OBJECT if none
   * is.
   */
  uint64_t service;
  /** 0. Room for a field that comes later: the struct never becomes longer. */
  uint64_t reserved[2];
} rk_object_repair;

/** A run of adjacent values, from first to last: kind and high are the same, and low grows by one. */
typedef struct rk_run {
  /** First value. */
  rk_value first;
  /** Last value, included. */
  rk_value last;
  /** How many values: at least 1. */
  uint64_t len;
} rk_run;

/** Counts of one range. */
typedef struct rk_range_report {
  /** How allocations from it are recorded. */
  rk_record record;
  /** How many of the lowest values form the static band. */
  uint32_t static_band;
  /** How many values it has; at most UINT64_MAX. */
  uint64_t size;
  /** Values that were recorded as allocated before the audit, without those in dropped. */
  uint64_t stored;
  /** Values that Services use. */
  uint64_t in_use;
  /** Values recorded as allocated that no Service uses. */
  uint64_t leaked;
  /** Values that are allocated after the repair. */
  uint64_t next;
  /** Values that the repair allocates. */
  uint64_t set;
  /** Values that the repair frees. */
  uint64_t clear;
  /** Values that more than one Service claims. */
  uint64_t duplicates;
  /** Values recorded as allocated that the configured range does not have: not 0 only after a change of the range. */
  uint64_t dropped;
  /** 0. Room for a field that comes later: the struct never becomes longer. */
  uint64_t reserved[2];
} rk_range_report;

/**
 * Records the outcome of the repair of the bitmap at place `range`: `set` and `cleared` are the values that were set
 * and cleared, as in rk_repaired. From then on RK_VALUES_SET and _CLEAR are these values, RK_VALUES_NEXT those that
 * were read and not cleared, or were set; the other leaks stay. `outcome` determines what becomes of a
 * finding whose remedy is to set the value, and whose value was not set.
 *
 * RK_RESULT_INVALID_ARGUMENT if the range is not a bitmap that was compared with the Services, or RK_REPAIR_FAILED has
 * values; RK_RESULT_NOT_IN_RANGE. The report stays as it was then.
 */
RK_MUST_CHECK
rk_result rk_report_record_repair(rk_report *report, size_t range, rk_repair_outcome outcome, const rk_value *set,
                                  size_t set_len, const rk_value *cleared, size_t cleared_len, rk_error *error);

/** Writes how many Services were observed. */
RK_MUST_CHECK
rk_result rk_report_services(const rk_report *report, uint64_t *services);

/** Writes a page of findings, those about Services first, each kind in the order of observation. */
RK_MUST_CHECK
rk_result rk_report_findings(const rk_report *report, size_t from, rk_finding *findings, size_t capacity, size_t *n);

/**
 * Writes the texts of findings from the one at place `from` on, back to back: for each the value that it is about,
 * and its message. Writes at most `n` findings, and only whole ones. The value of the i-th finding ends at byte
 * ends[2 * i] of `buffer`, where its message begins; the message ends at byte ends[2 * i + 1]. So `ends` has room
 * for 2 * n. `*written` is the number of findings, 0 past their end.
 *
 * RK_RESULT_BUFFER_TOO_SMALL if not even one fits; no length is written then.
 */
RK_MUST_CHECK
rk_result rk_report_finding_texts(const rk_report *report, size_t from, char *buffer, size_t capacity, size_t *ends,
                                  size_t n, size_t *written);

/**
 * Adds a finding for each range without a free value, and for each of which less than `percent` of a hundred is free:
 * free is what is neither recorded nor in use. The CIDRs of ServiceCIDR objects of one IP family count as one range,
 * as servers allocate from all of them; the finding is about the first, and its value names all. Of a range whose
 * bitmap could not be read, more may be in use. Stale bitmaps, and those beside IPAddress objects, have none. A second
 * call replaces the findings of the first.
 *
 * RK_RESULT_INVALID_ARGUMENT if percent is above 100.
 */
RK_MUST_CHECK
rk_result rk_report_find_full_ranges(rk_report *report, uint8_t percent);

/**
 * The form of a Service: which values it should have, and whether it has them, as a sum of RK_SERVICE_FORM_*. One of
 * type ClusterIP with an address in spec.clusterIP is RK_SERVICE_FORM_ONE_ADDRESS alone.
 */
typedef uint32_t rk_service_form;
enum {
  /** spec.type is NodePort. */
  RK_SERVICE_FORM_NODE_PORT = 1,
  /** spec.type is LoadBalancer. */
  RK_SERVICE_FORM_LOAD_BALANCER = 2,
  /** spec.type is ExternalName. */
  RK_SERVICE_FORM_EXTERNAL_NAME = 4,
  /** spec.clusterIP is None. */
  RK_SERVICE_FORM_HEADLESS = 8,
  /** It has one ClusterIP. */
  RK_SERVICE_FORM_ONE_ADDRESS = 16,
  /** It has two ClusterIPs, or more. */
  RK_SERVICE_FORM_TWO_ADDRESSES = 32,
  /** spec.ipFamilyPolicy is RequireDualStack. */
  RK_SERVICE_FORM_REQUIRES_DUAL_STACK = 64,
  /** spec.allocateLoadBalancerNodePorts is false. */
  RK_SERVICE_FORM_WITHOUT_NODE_PORTS = 128,
  /** One of spec.ports has no node port. */
  RK_SERVICE_FORM_LACKS_NODE_PORT = 256,
  /** spec.externalTrafficPolicy is Local. */
  RK_SERVICE_FORM_LOCAL = 512,
  /** There is a spec.healthCheckNodePort. */
  RK_SERVICE_FORM_HEALTH_CHECK_NODE_PORT = 1024,
};

/**
 * Adds findings about values that Services should have and have not. `forms` are those of all Services of the audit,
 * in the order in which they were observed.
 *
 * RK_RESULT_INVALID_ARGUMENT if there are not as many as Services.
 */
RK_MUST_CHECK
rk_result rk_report_observe_forms(rk_report *report, const rk_service_form *forms, size_t forms_len, rk_error *error);

/**
 * Observes the Services of the audit a second time, in the same order, with names and creation times. This is needed
 * if a value is claimed more than once. After the last one, each finding about such a value is about a Service that
 * does not keep it, findings are sorted by subject_kind and subject, and rk_report_claimants writes all Services that
 * claim it.
 *
 * The Service that the IPAddress object refers to keeps an address; the others that claim it keep no port either that
 * another Service claims. Else the oldest Service keeps the value. One without a time counts as the youngest; of
 * several with one time, the one that an object refers to keeps it, or else the one with the lowest create revision,
 * or else the first by namespace and name.
 *
 * RK_RESULT_INVALID_BATCH, and nothing of the batch is observed; RK_RESULT_INVALID_ARGUMENT if there are more Services
 * than in the audit.
 */
RK_MUST_CHECK
rk_result rk_report_observe_claimants(rk_report *report, const rk_service_names *names, const rk_services *batch,
                                      rk_error *error);

/**
 * Writes the Services that claim the value of the finding at this place, the one that keeps it first, then by age.
 * There are none unless the value is claimed more than once, and all Services were observed a second time. `claimants`
 * is a buffer, and `*n` its length.
 */
RK_MUST_CHECK
rk_result rk_report_claimants(const rk_report *report, size_t finding, rk_claimant *claimants, size_t capacity,
                              size_t *n);

/**
 * Writes a page of the writes of the API server's repair of IPAddress objects, which a shell does in data at rest:
 * first those for Services, then the removals, both in the order of observation. After rk_report_observe_claimants the
 * object of an address that is claimed more than once is that of the Service that keeps it.
 */
RK_MUST_CHECK
rk_result rk_report_object_repairs(const rk_report *report, size_t from, rk_object_repair *repairs, size_t capacity,
                                   size_t *n);

/**
 * Writes a page of leaks: those of bitmaps by range and value, due to be cleaned or not; then the IPAddress
 * objects of the allocator whose Service does not exist and whose address no other Service uses, in the order of
 * observation.
 */
RK_MUST_CHECK
rk_result rk_report_leaks(const rk_report *report, size_t from, rk_leak *leaks, size_t capacity, size_t *n);

/** Writes the counts of the range at place `range`. */
RK_MUST_CHECK
rk_result rk_report_range(const rk_report *report, size_t range, rk_range_report *numbers);

/**
 * Writes a page of the maximal runs of values of the range at place `range` that belong to `set` (one of
 * RK_VALUES_*), or if `members` is false do not, ascending. A run that contains `from_offset` begins there.
 */
RK_MUST_CHECK
rk_result rk_report_runs(const rk_report *report, size_t range, rk_values set, bool members, uint64_t from_offset,
                         rk_run *runs, size_t capacity, size_t *n, uint64_t *next_offset);

/**
 * Writes a set of values, RK_VALUES_*, of the bitmap at place `range`, in the form of rk_allocator_snapshot.
 * RK_VALUES_NEXT is what a repair stores.
 *
 * RK_RESULT_INVALID_ARGUMENT if there is no bitmap at that place.
 */
RK_MUST_CHECK
rk_result rk_report_snapshot(const rk_report *report, size_t range, rk_values values, uint8_t *buffer, size_t capacity,
                             size_t *len);

/**
 * Writes the state of one value of the range at place `range`. For a value that IPAddress objects record,
 * rk_offset_state.next is the state after the API server's own repair.
 *
 * RK_RESULT_NOT_IN_RANGE.
 */
RK_MUST_CHECK
rk_result rk_report_state(const rk_report *report, size_t range, const rk_value *value, rk_offset_state *state);

/**
 * Divides the range at place `range` into at most `count` cells, and at most 1,048,576, of equal length (the last may
 * be shorter) and writes the counts of each; a range of size 0 has no cells, and count 0 is for none. `cells` is a
 * buffer, and `*n` its length.
 */
RK_MUST_CHECK
rk_result rk_report_occupancy(const rk_report *report, size_t range, uint32_t count, rk_cell *cells, size_t capacity,
                              size_t *n);

/* ------------------------------------------------------------------------------------------------------- Committers */

/** What an operation does. */
typedef uint32_t rk_operation_kind;
enum {
  /** Serve all requests of data.allocate, or none. */
  RK_OPERATION_ALLOCATE = 1,
  /** Release the value of data.release. */
  RK_OPERATION_RELEASE = 2,
  /** Read what is stored. */
  RK_OPERATION_READ = 3,
  /** Create the object if it is missing or was never initialised. */
  RK_OPERATION_CREATE = 4,
};

/** What the store says. */
typedef uint32_t rk_event_kind;
enum {
  /** The store has answered, and the guard of the request held: data.held. */
  RK_EVENT_HELD = 1,
  /** The store has answered a read, or a request whose guard did not hold, with the current key: data.current. */
  RK_EVENT_CURRENT = 2,
  /** It is unknown whether the request has taken or will take effect. */
  RK_EVENT_UNKNOWN = 3,
  /** The store refuses the request (no space, no permission), which will not take effect later: data.refused. */
  RK_EVENT_REFUSED = 4,
  /** The connection to the store is new. Report this before anything that came over it. */
  RK_EVENT_RECONNECTED = 5,
  /** The watch has seen changes of the key: data.watched. */
  RK_EVENT_WATCHED = 6,
  /** The watch has ended without an RK_STEP_STOP_WATCH, and can be started again. */
  RK_EVENT_WATCH_ENDED = 7,
  /** The watch has ended, and changes that it has not reported are compacted. */
  RK_EVENT_WATCH_FAILED = 8,
  /** The store has answered RK_STEP_READ_AT: data.current, with the key as it was. */
  RK_EVENT_PAST = 9,
  /** The store no longer has the state that RK_STEP_READ_AT asks for. */
  RK_EVENT_COMPACTED = 10,
};

/** The requests of an allocation. */
typedef struct rk_allocate {
  /** How many of the requests belong to it. */
  size_t requests;
} rk_allocate;

/** A release on behalf of the owner of a value. Both revisions are those of the range's etcd. */
typedef struct rk_release {
  /** The value. */
  rk_value value;
  /**
   * The revision at which the owner stopped having the value, that of the Service's deletion or update, or for a
   * rollback that of the allocation. The value is freed only if it has been in use without a break since then.
   */
  uint64_t as_of;
  /**
   * The revision at which the owner was last stored with the value: the Service's before its deletion or update, or
   * for a rollback that of the allocation. The value is freed only if it has been in use without a break since then,
   * as far back as the history goes; 0 for all of that.
   */
  uint64_t oldest;
  /**
   * The store of rk_known as it was when the owner began the request by which it gave the value up, or of
   * rk_allocated for a rollback. If that is not the present store of this committer, the release is deferred: the
   * store before a restore, and those of other committers, may have had another history. 0 names none, as in a
   * release as of a read: then revisions count, but after a restore of etcd that the committer has noticed those do
   * not that etcd had reached before it.
   */
  uint32_t store;
} rk_release;

/** The data of an operation; the kind determines which member is valid. */
typedef union rk_operation_data {
  /** RK_OPERATION_ALLOCATE. */
  rk_allocate allocate;
  /** RK_OPERATION_RELEASE. */
  rk_release release;
} rk_operation_data;

/** An operation to be submitted. */
typedef struct rk_operation {
  /** When it ends at the latest, in nanoseconds by the caller's clock; UINT64_MAX for never. */
  uint64_t deadline;
  /** What it does. */
  rk_operation_kind kind;
  /** Data that the kind determines. */
  rk_operation_data data;
} rk_operation;

/** The state of a key in etcd; all 0 if there is no key. */
typedef struct rk_key_state {
  /** The revision of its last change. */
  uint64_t mod_revision;
  /** How many changes it has had since it was created, the creation included. */
  uint64_t version;
  /** The revision at which it was created. */
  uint64_t create_revision;
} rk_key_state;

/** A key and its value. */
typedef struct rk_key {
  /** Its revisions and version. */
  rk_key_state state;
  /** The value. */
  const uint8_t *value;
  /** How many bytes. */
  size_t value_len;
} rk_key;

/** The header of an answer of etcd. */
typedef struct rk_header {
  /** The cluster that answered. */
  uint64_t cluster_id;
  /** The store's revision after the request. */
  uint64_t revision;
  /** The raft term. */
  uint64_t raft_term;
} rk_header;

/** An answer that brings the key. */
typedef struct rk_current {
  /** The header of the answer. */
  rk_header header;
  /** The key; its state is all 0 if there is none. */
  rk_key key;
} rk_current;

/** A refusal of the store. */
typedef struct rk_refused {
  /** The store's error message. */
  const char *reason;
  /** How many bytes. */
  size_t reason_len;
} rk_refused;

/** Changes of the key, in their order. */
typedef struct rk_watched {
  /**
   * The key after each change, as etcd reports it: after a deletion version is 0, and mod_revision that of the
   * deletion.
   */
  const rk_key *changes;
  /** How many. */
  size_t n;
} rk_watched;

/** The data of an event; the kind determines which member is valid. */
typedef union rk_event_data {
  /** RK_EVENT_HELD. */
  rk_header held;
  /** RK_EVENT_CURRENT and RK_EVENT_PAST. */
  rk_current current;
  /** RK_EVENT_REFUSED. */
  rk_refused refused;
  /** RK_EVENT_WATCHED. */
  rk_watched watched;
} rk_event_data;

/** Something that happened. */
typedef struct rk_event {
  /** What the store says. */
  rk_event_kind kind;
  /** Data that the kind determines. */
  rk_event_data data;
} rk_event;

/** What the caller of a committer does next. */
typedef uint32_t rk_step_kind;
enum {
  /** Nothing to do until something happens. */
  RK_STEP_IDLE = 0,
  /** Nothing to do before the time of data.wait, unless something happens. */
  RK_STEP_WAIT = 1,
  /** Read the key, linearizably. */
  RK_STEP_READ = 2,
  /** Perform a transaction: if the key is as in data.swap, put the value of rk_committer_value, else read the key. */
  RK_STEP_SWAP = 3,
  /** Perform a transaction: if the key is as in data.confirm, do nothing, else read the key. */
  RK_STEP_CONFIRM = 4,
  /**
   * Fetch outcomes with rk_committer_finished, and pass them to their callers: data.finished. Operations that these
   * submit before the next poll join the next compare-and-swap.
   */
  RK_STEP_FINISHED = 5,
  /** Watch the key from the revision of data.watch on. */
  RK_STEP_WATCH = 6,
  /** End the watch. Report none of its events after that. */
  RK_STEP_STOP_WATCH = 7,
  /** Read the key as it was at the revision of data.read_at. */
  RK_STEP_READ_AT = 8,
};

/** How an operation ended. */
typedef uint32_t rk_outcome;
enum {
  /** The caller owns the values of data.allocated. */
  RK_OUTCOME_ALLOCATED = 1,
  /** The value is free: data.released. */
  RK_OUTCOME_RELEASED = 2,
  /** The value was not freed, and is left to a repair pass: data.deferred. */
  RK_OUTCOME_DEFERRED = 3,
  /** The object was read: data.read. */
  RK_OUTCOME_READ = 4,
  /** The object exists: data.created. */
  RK_OUTCOME_CREATED = 5,
  /** The diff was applied as far as it was still right: data.repaired. */
  RK_OUTCOME_REPAIRED = 6,
  /** Nothing was changed: data.failed. */
  RK_OUTCOME_FAILED = 7,
  /**
   * The outcome is unknown: the operation may have taken effect, or may do so later. Values that it may have allocated
   * must not be used.
   */
  RK_OUTCOME_UNKNOWN = 8,
  /** The change by hand was made as far as its kind lets it, or not at all: data.edited. */
  RK_OUTCOME_EDITED = 9,
};

/** Why a value was left to a repair pass. */
typedef uint32_t rk_deferral;
enum {
  /** The history of the value since the as-of revision is unknown. */
  RK_DEFERRAL_HISTORY_MISSING = 1,
  /** More than one Service had the value in the last repair pass. */
  RK_DEFERRAL_DUPLICATE = 2,
};

/** A wait. */
typedef struct rk_step_wait {
  /** When it ends, in nanoseconds by the caller's clock. */
  uint64_t until;
} rk_step_wait;

/** What a swap does with the witness. */
typedef uint32_t rk_witness;
enum {
  /** The transaction leaves the witness (rk_repair_pass_fenced) as it is. */
  RK_WITNESS_KEEP = 0,
  /** It puts the witness, with any value. */
  RK_WITNESS_PUT = 1,
  /** It deletes the witness: it creates the object, in which no value that was allocated before is recorded. */
  RK_WITNESS_DELETE = 2,
};

/** A compare-and-swap. */
typedef struct rk_step_swap {
  /** The state that the key must have, in all three fields. */
  rk_key_state guard;
  /**
   * A further condition of the transaction, if not 0: no key of a Service has a later mod revision than this (in
   * etcd a compare with a range_end).
   */
  uint64_t services_unchanged_since;
  /** A further condition of the transaction, if not 0: the look of this number is there. See rk_repair_pass_fenced. */
  uint64_t look;
  /** How many bytes rk_committer_value writes. */
  size_t value_len;
  /** What becomes of the witness. */
  rk_witness witness;
} rk_step_swap;

/** A confirmation. */
typedef struct rk_step_confirm {
  /** The state that the key must have, in all three fields. */
  rk_key_state guard;
} rk_step_confirm;

/** The sizes of the arrays that rk_committer_finished fills. */
typedef struct rk_step_finished {
  /** How many outcomes. */
  size_t outcomes;
  /** How many values belong to them. */
  size_t values;
  /** How many bytes belong to them. */
  size_t bytes;
} rk_step_finished;

/** A watch. */
typedef struct rk_step_watch {
  /** The revision of the first change to report. */
  uint64_t from;
} rk_step_watch;

/** A read of the past. */
typedef struct rk_step_read_at {
  /** The revision. */
  uint64_t revision;
} rk_step_read_at;

/** The data of a step; the kind determines which member is valid. */
typedef union rk_step_data {
  /** RK_STEP_WAIT. */
  rk_step_wait wait;
  /** RK_STEP_SWAP. */
  rk_step_swap swap;
  /** RK_STEP_CONFIRM. */
  rk_step_confirm confirm;
  /** RK_STEP_FINISHED. */
  rk_step_finished finished;
  /** RK_STEP_WATCH. */
  rk_step_watch watch;
  /** RK_STEP_READ_AT. */
  rk_step_read_at read_at;
  /** Room for a kind that comes later. */
  uint64_t reserved[8];
} rk_step_data;

/** A step to take. */
typedef struct rk_step {
  /** What to do. */
  rk_step_kind kind;
  /** Data that the kind determines. */
  rk_step_data data;
} rk_step;

/** An allocation that has taken effect. */
typedef struct rk_allocated {
  /** How many of the values belong to it, in the order of the requests. */
  size_t values;
  /** The revision of the allocation: the as-of revision of a rollback. */
  uint64_t revision;
  /** Which store that was: that of rk_known then. */
  uint32_t store;
  /** The time until which a Service with the values must be written, in nanoseconds by the caller's clock. */
  uint64_t use_until;
} rk_allocated;

/** A release that has ended. */
typedef struct rk_released {
  /** Whether this operation freed the value. Otherwise it was free already, or has another owner. */
  bool freed;
} rk_released;

/** A release that is left to a repair pass. */
typedef struct rk_deferred {
  /** Why. */
  rk_deferral reason;
} rk_deferred;

/** The stored object, as the store confirmed it after the operation was submitted. */
typedef struct rk_view {
  /** The store's revision at which this is the state. */
  uint64_t revision;
  /** How many of the bytes belong to it: the values in use, in the form of rk_allocator_snapshot. */
  size_t bytes;
  /** Whether the object exists and is initialised. */
  bool initialised;
} rk_view;

/** An object that exists. */
typedef struct rk_created {
  /** Whether this operation created it. Otherwise it existed already, for the same range. */
  bool created;
} rk_created;

/** A diff that was applied as far as it was still right. */
typedef struct rk_repaired {
  /** How many of the values were set, ascending. */
  size_t set;
  /** How many of the values after these were cleared, ascending. */
  size_t cleared;
  /** How many values of the diff stay as they are, because they or Services have or may have changed. */
  uint32_t changed;
} rk_repaired;

/** An operation that has failed. */
typedef struct rk_failed {
  /** The reason. */
  rk_result result;
  /** Which request of an allocation, or value of an edit, failed; else 0. */
  uint32_t request;
  /**
   * How many of the values belong to it: 1, the value that could not be allocated, if the request named one; else 0.
   */
  size_t values;
  /** How many of the bytes are the stored range: with RK_RESULT_MISMATCHED_RANGE; else 0. */
  size_t stored_range;
  /**
   * How many of the bytes after these are the reason: with RK_RESULT_INVALID_OBJECT, RK_RESULT_REFUSED and
   * RK_RESULT_RANGE_IN_USE; else 0.
   */
  size_t reason;
} rk_failed;

/** A change by hand that has ended. */
typedef struct rk_edited {
  /** The revision of the write; if nothing had to be or could be written, that at which it was so. */
  uint64_t revision;
  /**
   * How many of the values belong to it, and as many of the bytes, an rk_fate for each: the values to record, in
   * their order, then those that were picked, then those to free.
   */
  size_t values;
  /**
   * Whether all was done that can be. Otherwise nothing was, as one of the values could not be changed; the fates of
   * the others say what they would have been.
   */
  bool is_done;
} rk_edited;

/** The data of an outcome; rk_finished.outcome determines which member is valid. */
typedef union rk_outcome_data {
  /** RK_OUTCOME_ALLOCATED. */
  rk_allocated allocated;
  /** RK_OUTCOME_RELEASED. */
  rk_released released;
  /** RK_OUTCOME_DEFERRED. */
  rk_deferred deferred;
  /** RK_OUTCOME_READ. */
  rk_view read;
  /** RK_OUTCOME_CREATED. */
  rk_created created;
  /** RK_OUTCOME_REPAIRED. */
  rk_repaired repaired;
  /** RK_OUTCOME_FAILED. */
  rk_failed failed;
  /** RK_OUTCOME_EDITED. */
  rk_edited edited;
  /** Room for a kind that comes later. */
  uint64_t reserved[8];
} rk_outcome_data;

/** An operation that has ended. */
typedef struct rk_finished {
  /** The ticket of the operation. */
  uint64_t ticket;
  /** How it ended. */
  rk_outcome outcome;
  /** Data that the outcome determines. */
  rk_outcome_data data;
} rk_finished;

/** Whether a repair may replace a stored range by another one. */
typedef uint32_t rk_replace;
enum {
  /**
   * A repair replaces a stored object for another range of the same kind only if no value is recorded in the object and
   * no Service has one; nor does it create a missing object while a Service has a value outside of the configured
   * range. Else it ends with RK_RESULT_RANGE_IN_USE.
   */
  RK_REPLACE_IF_UNUSED = 1101,
  /** As RK_REPLACE_ALWAYS until the stored range was the configured one once, and then as RK_REPLACE_IF_UNUSED. */
  RK_REPLACE_ONCE = 1102,
  /** A repair always replaces it, as that of kube-apiserver does. */
  RK_REPLACE_ALWAYS = 1103,
};

/** The newest state of the object that the committer has seen. */
typedef struct rk_known {
  /**
   * The revision of that state; 0 if none was seen, or there is no key. A value that is in use in it can be released
   * as of this revision.
   */
  uint64_t revision;
  /** How many values were in use; 0 if the object was missing or never initialised. */
  uint32_t used;
  /** Whether the object existed and was initialised. */
  bool initialised;
  /**
   * Which store the committer talks to: a release names it. No other committer has this number, and it is never 0.
   * It changes with the first answer, too, as a restore before that goes unnoticed: who gives up a value before it,
   * has its release deferred. So submit an RK_OPERATION_READ first.
   */
  uint32_t store;
  /**
   * How often another store has answered than before, or an older state of it, as after a restore from a backup.
   * What others remember of the store, such as the watch cache of an API server, is wrong from then on.
   */
  uint32_t restores;
  /** 0. Room for a field that comes later: the struct never becomes longer. */
  uint64_t reserved[2];
} rk_known;

/**
 * Creates a committer that knows nothing of the store yet.
 *
 * `grace` is the time in nanoseconds in which a Service has to be written once
 * its values are allocated: two intervals of repair, 6 minutes in Kubernetes; a creator that takes longer may lose
 * them. Where the write of a Service has no conditions on the witness (rk_repair_pass_fenced), all programs that share
 * the range must have the same grace: a shorter one takes values from owners who still have time. `seed` starts the
 * generator for choices, back-off and the numbers of stores (rk_known): a random one for each committer. Memory: up to
 * 1 MiB for a /12 beside the object.
 */
RK_MUST_CHECK
rk_result rk_committer_new(const rk_range *range, rk_strategy strategy, uint64_t grace, rk_replace replace,
                           uint64_t seed, rk_committer **committer, rk_error *error);

/**
 * Submits `n` operations and writes the ticket of each. `values` are the requests of all allocations, back to
 * back, as rk_allocator_allocate_batch takes them.
 *
 * RK_RESULT_INVALID_ARGUMENT also if `values_len` differs from the number of requests. On failure nothing is
 * submitted.
 */
RK_MUST_CHECK
rk_result rk_committer_submit(rk_committer *committer, const rk_operation *submitted, size_t n, const rk_value *values,
                              size_t values_len, uint64_t *tickets, rk_error *error);

/**
 * Ends an operation that its caller no longer waits for; one that has ended is left alone. If the operation takes
 * effect nevertheless, the values that it allocates are released again.
 */
RK_MUST_CHECK
rk_result rk_committer_cancel(rk_committer *committer, uint64_t ticket);

/**
 * Releases the `n` values of an RK_OUTCOME_ALLOCATED with this `revision` and `store`, whose caller no longer waits
 * for it.
 */
RK_MUST_CHECK
rk_result rk_committer_abandon(rk_committer *committer, uint64_t revision, uint32_t store, const rk_value *values,
                               size_t n);

/**
 * Records that the Services for which this committer allocated these `n` values are stored. Until then a value is set
 * again in a store that is restored from a backup. A value of another range or kind is ignored.
 */
RK_MUST_CHECK
rk_result rk_committer_written(rk_committer *committer, const rk_value *values, size_t n);

/**
 * Writes the step to take at the time `now`, in nanoseconds by a clock that never goes back. Take it and poll
 * again, until the step is to wait or to do nothing; poll also after each call that submits, cancels, abandons or
 * handles something.
 *
 * RK_STEP_FINISHED is repeated until the outcomes are fetched. A request (RK_STEP_READ, RK_STEP_READ_AT, RK_STEP_SWAP,
 * RK_STEP_CONFIRM) ends by an event, RK_EVENT_HELD to RK_EVENT_REFUSED, RK_EVENT_PAST or RK_EVENT_COMPACTED; until
 * then there is no other.
 */
RK_MUST_CHECK
rk_result rk_committer_poll(rk_committer *committer, uint64_t now, rk_step *step);

/** Reports an event at the time `now`. On failure nothing of it is handled. */
RK_MUST_CHECK
rk_result rk_committer_handle(rk_committer *committer, const rk_event *event, uint64_t now);

/**
 * Writes the newest state of the object that the committer has seen. It may be out of date.
 *
 * Cost: O(1); after a change by others O(size / 64), some 10 us for a million values.
 */
RK_MUST_CHECK
rk_result rk_committer_known(const rk_committer *committer, rk_known *known);

/**
 * Writes the value that the RK_STEP_SWAP under way stores.
 *
 * RK_RESULT_NO_SWAP before such a step, and after the event that ends it.
 */
RK_MUST_CHECK
rk_result rk_committer_value(const rk_committer *committer, uint8_t *buffer, size_t capacity, size_t *len);

/**
 * Writes the outcomes of an RK_STEP_FINISHED, in the order in which the operations ended, and their values and
 * bytes, each back to back; and to `*n` the number of outcomes, 0 if all were fetched before.
 *
 * RK_RESULT_BUFFER_TOO_SMALL if one of the capacities is less than the step says: nothing is fetched, and no
 * length is written.
 */
RK_MUST_CHECK
rk_result rk_committer_finished(rk_committer *committer, rk_finished *finished, size_t capacity, rk_value *values,
                                size_t values_capacity, uint8_t *bytes, size_t bytes_capacity, size_t *n);

/** What an edit is for. */
typedef uint32_t rk_edit_kind;
enum {
  /**
   * A value to record has to be free, and no Service may use it. A value to free may not be used by a Service. All is
   * written or nothing; what is free already stays so.
   */
  RK_EDIT_CHANGE = 1401,
  /** As RK_EDIT_CHANGE, also if a Service uses the value. */
  RK_EDIT_FORCE = 1402,
  /**
   * A value to record has to be free, and a Service has to use it. A value to free has to be recorded without a break
   * since rk_edit.since, and no Service may use it. All is written or nothing.
   */
  RK_EDIT_PLAN = 1403,
  /**
   * A value to record may be recorded already. A value to free is freed as with RK_EDIT_PLAN. What can be changed is.
   */
  RK_EDIT_UNDO = 1404,
};

/** What became of a value of an edit, or what stands against its change. */
typedef uint8_t rk_fate;
enum {
  /** The value is recorded now. */
  RK_FATE_SET = 0,
  /** The value is free now. */
  RK_FATE_CLEARED = 1,
  /** The value was recorded already. */
  RK_FATE_ALREADY_SET = 2,
  /** The value was free already. */
  RK_FATE_ALREADY_CLEAR = 3,
  /** A Service uses the value. */
  RK_FATE_IN_USE = 4,
  /** No Service uses the value. */
  RK_FATE_UNUSED = 5,
  /**
   * The value was free for a moment, or this committer has just handed it out: its record may be of a Service that is
   * being created.
   */
  RK_FATE_REALLOCATED = 6,
  /** Whether the value was free for a moment is not known. */
  RK_FATE_UNSURE = 7,
};

/**
 * A change by hand: what an operator allocates, releases, carries out as planned, or takes back. It is written only if
 * no Service has been written after the list.
 */
typedef struct rk_edit {
  /** What it is for. */
  rk_edit_kind kind;
  /** How many values to record beside those of set, chosen by the strategy. No Service has one of them. */
  uint32_t pick;
  /** The values to record. */
  const rk_value *set;
  /** How many. */
  size_t set_len;
  /** The values to free. */
  const rk_value *clear;
  /** How many. */
  size_t clear_len;
  /** The values that Services use, in the form of rk_allocator_snapshot: RK_VALUES_IN_USE of a report. */
  const uint8_t *in_use;
  /** How many bytes. */
  size_t in_use_len;
  /** The revision of the etcd of the range at which Services were listed: that of the look. */
  uint64_t listed;
  /**
   * With RK_EDIT_PLAN and RK_EDIT_UNDO the revision from which on a value to free has to be recorded without a
   * break.
   */
  uint64_t since;
  /**
   * The number of the look (rk_repair_pass_fenced) at the Services. With 0 it is a dry run: nothing is picked or
   * written, and the outcome says what would be done.
   */
  uint64_t look;
  /** 0. Room for a field that comes later: the struct never becomes longer. */
  uint64_t reserved[4];
} rk_edit;

/**
 * Submits a change by hand and writes its ticket. It ends by RK_OUTCOME_EDITED, or fails with RK_RESULT_NOT_IN_RANGE,
 * RK_RESULT_FULL, RK_RESULT_STALE_LIST, RK_RESULT_SERVICES_WRITTEN and as any operation.
 *
 * On failure nothing is submitted.
 */
RK_MUST_CHECK
rk_result rk_committer_submit_edit(rk_committer *committer, const rk_edit *edit, uint64_t deadline, uint64_t *ticket,
                                   rk_error *error);

/* ---------------------------------------------------------------------------------------------------- Repair passes */

/**
 * Starts a pass. An earlier pass of this tracker that has not ended is given up, and its steps are refused. The steps,
 * in this order; another order is refused:
 *
 * 1. rk_repair_pass_new.
 * 2. For each committer rk_repair_pass_begin, then an RK_OPERATION_READ, and after its outcome rk_repair_pass_read.
 *    Once all ranges are read, write the fence of each that needs one, and call rk_repair_pass_fenced.
 * 3. rk_repair_pass_audit begins an rk_audit with the ranges. After that, list the Services linearizably and observe
 *    them.
 * 4. rk_repair_pass_finish ends the audit.
 * 5. For each committer rk_committer_submit_repair.
 *
 * If a step fails, free the pass and start another.
 */
RK_MUST_CHECK
rk_result rk_repair_pass_new(rk_leak_tracker *tracker, rk_repair_pass **pass);

/**
 * Makes the committer keep the history of its key. Call it before the read of the pass is submitted.
 *
 * RK_RESULT_INVALID_ARGUMENT if the committer's range has begun already, all ranges are read, or a later pass has
 * started.
 */
RK_MUST_CHECK
rk_result rk_repair_pass_begin(rk_repair_pass *pass, rk_committer *committer, rk_error *error);

/**
 * Records the read of a committer's object: `revision` and `data` are the revision and the bitmap of its outcome.
 * Services are listed after `now`, in nanoseconds of the caller's clock. A counter goes on only if the value has
 * been in use ever since the previous pass; if that is unknown, or that pass was too recent, all counters of the
 * range start again.
 *
 * Writes to `needs_fence` whether the caller has to write the fence before it lists Services: the pass may clean leaks
 * of this range, or create the object, or others may have recreated that. See rk_repair_pass_fenced.
 *
 * RK_RESULT_INVALID_ARGUMENT if the committer's range has not begun, or is read already, or a later pass has
 * started; RK_RESULT_BITS_PAST_RANGE, with the bits in `error`.
 */
RK_MUST_CHECK
rk_result rk_repair_pass_read(rk_repair_pass *pass, const rk_committer *committer, uint64_t revision,
                              const uint8_t *data, size_t data_len, uint64_t now, bool *needs_fence, rk_error *error);

/**
 * Records that the fence of a committer's object was written, with a look; `fence` is the revision of etcd after that,
 * and `look` the number of the look, not 0.
 *
 * Beside the object is another key in its etcd, the witness, whose value has no meaning. An RK_STEP_SWAP that sets
 * values puts it in its transaction (RK_WITNESS_*), and the fence is its deletion. The transaction that writes a
 * Service with new values has the condition that the witness was created at the revision of their allocation or
 * before, and written at that or later. So after the fence a Service with a leaked value is in the list or is never
 * written, however late its write reaches etcd.
 *
 * Revisions do not tell one history of etcd from another: if etcd is restored between the list and the swap, and
 * written to since, the range can be as the swap expects it, with other Services. So the transaction of the fence also
 * puts the look, a key with a random name, for which the number stands. While it is there, the history of etcd up to
 * the look is the same. Each fence of a pass but the first has the condition that the look before it is there.
 * Services are listed at the revision of the last fence: with a list of another revision, or without a fence, leaks
 * stay (rk_committer_submit_repair). A swap that depends on the look has its number.
 *
 * RK_RESULT_INVALID_ARGUMENT if `look` is 0, the committer's range has not begun, a range of the pass is not read,
 * `fence` is before the read or the fence of one, all ranges are audited, or a later pass has started.
 */
RK_MUST_CHECK
rk_result rk_repair_pass_fenced(rk_repair_pass *pass, const rk_committer *committer, uint64_t fence, uint64_t look,
                                rk_error *error);

/**
 * Begins the audit of the pass, with the ranges that were read, in the order of rk_repair_pass_begin. The caller may
 * add more, and observes Services that it lists from now on. `ip_addresses` and `unix_seconds` are as in
 * rk_audit_new. A failure ends the pass.
 *
 * RK_RESULT_INVALID_ARGUMENT if a range has begun and is not read, or a later pass has started; RK_RESULT_SAME_KIND.
 */
RK_MUST_CHECK
rk_result rk_repair_pass_audit(rk_repair_pass *pass, bool ip_addresses, const int64_t *unix_seconds, rk_audit **audit,
                               rk_error *error);

/**
 * Ends and closes the audit of the pass. Leaks stay until enough passes in a row have seen them. A failure ends the
 * pass.
 *
 * RK_RESULT_INVALID_ARGUMENT if the pass has no audit yet or another one, or a later pass has started.
 */
RK_MUST_CHECK
rk_result rk_repair_pass_finish(rk_repair_pass *pass, rk_audit *audit, rk_report **report, rk_error *error);

/**
 * Looks, after rk_repair_pass_finish, whether the committer will refuse to repair its range, as far as it knows the
 * stored object: for a dry run, which submits no repair. With RK_REPLACE_ONCE it does not refuse, and
 * RK_RESULT_RANGE_IN_USE is what it overrides.
 *
 * RK_RESULT_RANGE_IN_USE, RK_RESULT_INVALID_OBJECT. RK_RESULT_INVALID_ARGUMENT if the pass has not finished its audit,
 * or does not have the committer's range.
 */
RK_MUST_CHECK
rk_result rk_repair_pass_check(const rk_repair_pass *pass, const rk_committer *committer, rk_error *error);

/**
 * Submits the operation that repairs the committer's range, after rk_repair_pass_finish. Submit it even if the
 * pass found nothing: from it the committer learns which values more than one Service claims. It may be submitted
 * again if it has failed. `deadline` is as in rk_operation.
 *
 * `listed` is the revision of the list of Services if it was read from the object's etcd itself, else 0. A list from
 * before the pass's read ends the operation with RK_RESULT_STALE_LIST. With 0, as for a list over an API server, whose
 * watch cache may have missed what a restored etcd has, nothing is changed once the committer has noticed a restore.
 * With `is_guarded`, nothing is cleared once a Service was written after the list, so that a creator that takes longer
 * than the grace period keeps its value. Where Services are written all the time, leaks then stay.
 *
 * A leak stays, and is due again in the next pass, if it was first seen less than the grace period ago, if this
 * committer allocated it within the grace period, if the list is from before the fence, or if a Service was written
 * after a list that guards.
 *
 * RK_RESULT_INVALID_ARGUMENT if the pass has not finished its audit, does not have the committer's range, or a
 * later one has started, and for a guarded list without a revision.
 */
RK_MUST_CHECK
rk_result rk_committer_submit_repair(rk_committer *committer, rk_repair_pass *pass, uint64_t listed, bool is_guarded,
                                     uint64_t deadline, uint64_t *ticket, rk_error *error);

/* --------------------------------------------------------- The index of addresses, and repairs of IPAddress objects */

/** The right to create the IPAddress object of an address. */
typedef struct rk_reservation {
  /** The address. */
  rk_value address;
  /** The number of this reservation. */
  uint64_t id;
} rk_reservation;

/** The changes by a full list. */
typedef struct rk_index_changes {
  /** How many addresses were free before and are taken now. */
  uint64_t added;
  /** How many addresses were taken before and are free now. */
  uint64_t removed;
  /** 0. Room for a field that comes later: the struct never becomes longer. */
  uint64_t reserved[2];
} rk_index_changes;

/**
 * Creates an index without CIDRs and addresses. The seed decides the random choices; keep it from those who may choose
 * IPv6 addresses.
 *
 * Times are nanoseconds of a clock of the caller's that never goes back; revisions are those of the objects in etcd.
 */
RK_MUST_CHECK
rk_result rk_index_new(uint64_t seed, rk_index **index);

/**
 * Adds a CIDR, which may overlap with others; *added is false if it is there already. Addresses that were observed
 * before and lie in it are taken. Cost: O(n log n) for n addresses taken in CIDRs that overlap with it and in none.
 */
RK_MUST_CHECK
rk_result rk_index_insert_cidr(rk_index *index, const rk_service_cidr *cidr, bool *added);

/**
 * Removes a CIDR, so that its addresses are not offered any more; *removed is false if it is not there. The index
 * remembers which of them are taken. Cost: O(n log n) for n addresses taken in it.
 */
RK_MUST_CHECK
rk_result rk_index_remove_cidr(rk_index *index, const rk_service_cidr *cidr, bool *removed);

/**
 * Writes how many addresses of a CIDR are taken, reserved ones included, and how many are free. Cost: O(CIDRs).
 *
 * RK_RESULT_INVALID_ARGUMENT if the index does not have the CIDR.
 */
RK_MUST_CHECK
rk_result rk_index_usage(const rk_index *index, const rk_service_cidr *cidr, uint64_t *used, uint64_t *free);

/**
 * Writes whether an address is taken.
 *
 * RK_RESULT_INVALID_ARGUMENT if it is no address.
 */
RK_MUST_CHECK
rk_result rk_index_is_taken(const rk_index *index, const rk_value *value, bool *is_taken);

/**
 * Reserves a free address of these CIDRs until a time. A CIDR is chosen with the probability of its share in the free
 * addresses of all dynamic bands, or, if there are none, of all static bands (KEP-3070). CIDRs that the index does not
 * have count as full. Cost: O(len * CIDRs + log addresses), at any fill.
 *
 * RK_RESULT_FULL.
 */
RK_MUST_CHECK
rk_result rk_index_reserve(rk_index *index, const rk_service_cidr *cidrs, size_t len, uint64_t until,
                           rk_reservation *reservation);

/**
 * Reserves this address until a time.
 *
 * RK_RESULT_ALREADY_ALLOCATED if it is taken, RK_RESULT_NOT_IN_RANGE if no CIDR has it, RK_RESULT_INVALID_ARGUMENT if
 * it is no address.
 */
RK_MUST_CHECK
rk_result rk_index_reserve_address(rk_index *index, const rk_value *value, uint64_t until, rk_reservation *reservation);

/**
 * Records that the object was created at revision. Its address stays taken until a removal of that revision or a later
 * one is observed, or a later list without it. A reservation that has expired can be confirmed, too; that changes
 * nothing if a later revision was observed, as the object was reported then, or will be.
 */
RK_MUST_CHECK
rk_result rk_index_confirm(rk_index *index, const rk_reservation *reservation, uint64_t revision);

/**
 * Records that the object of an address was created at `revision` without a reservation: rk_index_reserve_address
 * returned RK_RESULT_ALREADY_ALLOCATED, and the API server, which knows better, was asked all the same. Otherwise like
 * rk_index_confirm.
 */
RK_MUST_CHECK
rk_result rk_index_created(rk_index *index, const rk_value *address, uint64_t revision);

/**
 * Records that no object was created. If that is not certain, the API server must refuse a second creation, as it
 * does of an IPAddress object: the watch reports the object then. Has no effect once the reservation has ended.
 */
RK_MUST_CHECK
rk_result rk_index_abort(rk_index *index, const rk_reservation *reservation);

/**
 * Records that another client has created the object, as the API server says. The address stays taken until that is
 * observed, or until the reservation expires. Has no effect once the reservation has ended.
 */
RK_MUST_CHECK
rk_result rk_index_already_exists(rk_index *index, const rk_reservation *reservation);

/**
 * Ends the reservations whose time is `now` or before, and writes their number. Also ends the wait for their confirmed
 * creations, if later revisions were observed: a creation and removal during a watch gap is never reported. Cost:
 * O(reservations + confirmed creations that were not observed).
 */
RK_MUST_CHECK
rk_result rk_index_expire(rk_index *index, uint64_t now, size_t *expired);

/**
 * Records that a watch reports an address's object as added or changed, at revision.
 *
 * RK_RESULT_INVALID_ARGUMENT if it is no address.
 */
RK_MUST_CHECK
rk_result rk_index_added(rk_index *index, const rk_value *value, uint64_t revision);

/**
 * Records that a watch reports an address's object as removed, at revision.
 *
 * RK_RESULT_INVALID_ARGUMENT if it is no address.
 */
RK_MUST_CHECK
rk_result rk_index_removed(rk_index *index, const rk_value *value, uint64_t revision);

/**
 * Records a list of the addresses of all objects as of revision, and writes what it has changed. Reservations stay,
 * and so do objects that were created later. Cost: O(n log n) for n objects and addresses taken before.
 *
 * RK_RESULT_STALE_LIST if a later revision was observed before, RK_RESULT_INVALID_ARGUMENT if one is no address;
 * nothing has changed then.
 */
RK_MUST_CHECK
rk_result rk_index_replace(rk_index *index, const rk_value *values, size_t len, uint64_t revision,
                           rk_index_changes *changes);

/** The object that an IPAddress object refers to. */
typedef uint32_t rk_parent;
enum {
  /** An IPAddress object refers to something other than a Service, or to nothing. */
  RK_PARENT_NO_SERVICE = 0,
  /** An IPAddress object refers to a Service that does not exist. */
  RK_PARENT_MISSING = 1,
  /** An IPAddress object refers to a Service that does not use the address. */
  RK_PARENT_OTHER = 2,
  /** An IPAddress object refers to a Service that uses the address. */
  RK_PARENT_USES = 3,
  /** As the parent in an rk_address_object: the IPAddress object refers to the Service that is judged. */
  RK_PARENT_SELF = 4,
};

/** What is to become of an IPAddress object. */
typedef uint32_t rk_ip_address_verdict;
enum {
  /** Keep the IPAddress object. */
  RK_IP_ADDRESS_KEEP = 0,
  /** Nothing uses the address, but a pending request may still come to use it: judge the object again later. */
  RK_IP_ADDRESS_WAIT = 1,
  /** Remove the object: it does not refer to a Service. */
  RK_IP_ADDRESS_NO_SERVICE = 2,
  /** Remove the object: its Service does not use the address. */
  RK_IP_ADDRESS_WRONG_REFERENCE = 3,
  /** Remove the object: its Service does not exist. */
  RK_IP_ADDRESS_LEAKED = 4,
};

/** What is to become of the IPAddress object of a ClusterIP. */
typedef uint32_t rk_cluster_ip_verdict;
enum {
  /** The IPAddress object of the ClusterIP is right. */
  RK_CLUSTER_IP_KEEP = 0,
  /** Its object refers to another Service, which may need it: wait for the verdict on the object. */
  RK_CLUSTER_IP_WAIT = 1,
  /** It has no object: create one. */
  RK_CLUSTER_IP_CREATE = 2,
  /** Its object lacks labels of the allocator: set them in place, without an Event. */
  RK_CLUSTER_IP_RESHAPE = 3,
  /** Its object does not refer to its Service: make it do so, in place if the store allows that. */
  RK_CLUSTER_IP_REPLACE = 4,
  /** Another Service has the address: the owner of one of the two has to recreate it. */
  RK_CLUSTER_IP_TAKEN = 5,
};

/** The IPAddress object of an address that a Service uses. */
typedef struct rk_address_object {
  /** Whether its label says that the allocator manages it. */
  bool managed;
  /** Whether its labels are those that the allocator sets. */
  bool labelled;
  /** The object that it refers to. */
  rk_parent parent;
  /** 0. Room for a field that comes later: the struct never becomes longer. */
  uint64_t reserved[2];
} rk_address_object;

/**
 * Judges an IPAddress object. `managed` is whether its label says that the
 * allocator manages it; `parent` is the object that it refers to, and not RK_PARENT_SELF. `unused_for` is how long at
 * least nothing has used the address, `grace` the longest time that a request can take, both in nanoseconds. With
 * RK_IP_ADDRESS_WAIT, `*wait` is the number of nanoseconds after which to judge again; otherwise it is 0.
 */
RK_MUST_CHECK
rk_result rk_ip_address_judge(bool managed, rk_parent parent, uint64_t unused_for, uint64_t grace,
                              rk_ip_address_verdict *verdict, uint64_t *wait);

/**
 * Judges an address that a Service uses and a ServiceCIDR contains, by its IPAddress object `object`, NULL if
 * there is none.
 */
RK_MUST_CHECK
rk_result rk_cluster_ip_judge(const rk_address_object *object, rk_cluster_ip_verdict *verdict);

/* ---------------------------------------------------------------------------------------------------------- Ledgers */

/** The kinds of values of a ledger. */
typedef uint32_t rk_ledger_value_kind;
enum {
  /** An integer: low is the integer; high and size are 0. */
  RK_LEDGER_VALUE_KIND_INTEGER = 1501,
  /** Integers in a row: low is the lowest one, size their number; high is 0. */
  RK_LEDGER_VALUE_KIND_BLOCK = 1502,
  /** An IPv4 address: low is its 32-bit number; high and size are 0. */
  RK_LEDGER_VALUE_KIND_IPV4 = 1503,
  /** An IPv6 address: high and low are the halves of its 128-bit number; size is 0. */
  RK_LEDGER_VALUE_KIND_IPV6 = 1504,
  /** A network of IPv4: its address as RK_LEDGER_VALUE_KIND_IPV4, size is the length of the prefix. */
  RK_LEDGER_VALUE_KIND_IPV4_NETWORK = 1505,
  /** A network of IPv6: its address as RK_LEDGER_VALUE_KIND_IPV6, size is the length of the prefix. */
  RK_LEDGER_VALUE_KIND_IPV6_NETWORK = 1506,
};

/**
 * A value of a ledger: an integer or an address, or a block of them. Its kind determines the meaning of the numbers.
 */
typedef struct rk_ledger_value {
  /** High half; see the kinds. */
  uint64_t high;
  /** Low half; see the kinds. */
  uint64_t low;
  /** How large the value is; see the kinds. */
  uint64_t size;
  /** The kind. */
  rk_ledger_value_kind kind;
} rk_ledger_value;

/** Writes a value as text: "4096", "1000010000/10000", "10.96.0.10" or "10.0.3.16/28". */
RK_MUST_CHECK
rk_result rk_ledger_value_text(const rk_ledger_value *value, char *buffer, size_t capacity, size_t *len);

/** Values in a row that are in use. */
typedef struct rk_ledger_allocation {
  /** The first value. */
  rk_ledger_value first;
  /** How many values; 1 at least. */
  uint32_t len;
} rk_ledger_allocation;

/** What a change does. */
typedef uint32_t rk_ledger_change_kind;
enum {
  /** Allocates any free value, as the pool chooses. */
  RK_LEDGER_CHANGE_ALLOCATE = 1601,
  /** Allocates value, if it is free or cools down. */
  RK_LEDGER_CHANGE_ALLOCATE_VALUE = 1602,
  /** Allocates n values in a row; n is at least 1. */
  RK_LEDGER_CHANGE_ALLOCATE_RUN = 1603,
  /**
   * Allocates 2^n values in a row, of which the first one is a multiple of 2^n; n is at most 31. For an address that is
   * its number, so that the block is a network; in a range of blocks its place in the range.
   */
  RK_LEDGER_CHANGE_ALLOCATE_BLOCK = 1604,
  /** Releases value, which must have no owner; one that is not in use is no error. */
  RK_LEDGER_CHANGE_RELEASE_VALUE = 1605,
  /** Releases all that the owner has. */
  RK_LEDGER_CHANGE_RELEASE_OWNER = 1606,
  /**
   * Changes nothing: in a shared ledger it ends once the store was read after its submission. Then call
   * rk_shared_ledger_known, before the next poll.
   */
  RK_LEDGER_CHANGE_READ = 1607,
};

/** A change to a ledger; its kind determines what the fields mean. */
typedef struct rk_ledger_change {
  /** The value; see the kinds. Ignored otherwise. */
  rk_ledger_value value;
  /** What to do. */
  rk_ledger_change_kind kind;
  /** A number; see the kinds. Ignored otherwise. */
  uint32_t n;
} rk_ledger_change;

/** How many values of a ledger are in use. */
typedef struct rk_ledger_usage {
  /** How many values are in use. */
  uint64_t used;
  /** How many values are out of use for some time after their release. */
  uint64_t cooling;
  /** How many values are handed out at all: those of the range that are not excluded; at most UINT64_MAX. */
  uint64_t size;
  /** 0. Room for a field that comes later: the struct never becomes longer. */
  uint64_t reserved[2];
} rk_ledger_usage;

/**
 * Creates a ledger of a pool, which is JSON (docs/ledger-json.md): one in which nothing is in use if `stored_len` is
 * 0, else the one that was stored, by rk_ledger_encode or by kube-apiserver. The seed decides the random choices; keep
 * it from those who may choose values of a range of more than 2^24.
 *
 * RK_RESULT_INVALID_JSON, with the byte in `error`; RK_RESULT_INVALID_RANGE; RK_RESULT_INVALID_OBJECT, with the byte
 * if it is known; RK_RESULT_ENCRYPTED; RK_RESULT_MISMATCHED_RANGE; RK_RESULT_BITS_PAST_RANGE, with the bits.
 */
RK_MUST_CHECK
rk_result rk_ledger_new(const char *pool, size_t pool_len, const uint8_t *stored, size_t stored_len, uint64_t seed,
                        rk_ledger **ledger, rk_error *error);

/**
 * Makes a change for an owner, or for nobody if `owner_len` is 0, at the time `now`, in nanoseconds since 1970. Writes
 * what was allocated or released to `allocations`: one for an allocation, and as many as the owner has for a release.
 *
 * An owner that has what it wants gets it again, and nothing changes. Do not use the name of an owner again: take a
 * UID, for example.
 *
 * RK_RESULT_BUFFER_TOO_SMALL: nothing has changed. RK_RESULT_FULL; RK_RESULT_ALREADY_ALLOCATED;
 * RK_RESULT_NOT_IN_RANGE, also for an excluded value; RK_RESULT_HAS_OTHER; RK_RESULT_OWNED; RK_RESULT_INVALID_ARGUMENT
 * also for a number of values that the range cannot have in a row, or an owner of more than 1,024 bytes.
 */
RK_MUST_CHECK
rk_result rk_ledger_apply(rk_ledger *ledger, const rk_ledger_change *change, const char *owner, size_t owner_len,
                          uint64_t now, rk_ledger_allocation *allocations, size_t capacity, size_t *n, rk_error *error);

/**
 * Reads a text as a value of the ledger's range: "4096", "1000010000/10000", "10.96.0.10" or "10.0.3.16/28".
 *
 * RK_RESULT_INVALID_ARGUMENT if it is no such text; RK_RESULT_NOT_IN_RANGE.
 */
RK_MUST_CHECK
rk_result rk_ledger_parse_value(const rk_ledger *ledger, const char *spec, size_t spec_len, rk_ledger_value *value,
                                rk_error *error);

/** Writes whether a value is in use, and its owner, which is empty if it has none. */
RK_MUST_CHECK
rk_result rk_ledger_owner_of(const rk_ledger *ledger, const rk_ledger_value *value, bool *in_use, char *buffer,
                             size_t capacity, size_t *len, rk_error *error);

/** Writes what an owner has, ascending: one allocation, unless another program stored more. */
RK_MUST_CHECK
rk_result rk_ledger_owned_by(const rk_ledger *ledger, const char *owner, size_t owner_len,
                             rk_ledger_allocation *allocations, size_t capacity, size_t *len);

/**
 * Writes a page of the values in use, ascending, from an offset of the range on. After a value at offset UINT64_MAX,
 * *next_offset is that again. Cost: in a range of more than 2^24
 * values they are sorted first.
 */
RK_MUST_CHECK
rk_result rk_ledger_values(const rk_ledger *ledger, uint64_t from_offset, rk_ledger_value *values, size_t capacity,
                           size_t *n, uint64_t *next_offset);

/** Writes how many values are in use. */
RK_MUST_CHECK
rk_result rk_ledger_count(const rk_ledger *ledger, rk_ledger_usage *usage);

/** Writes the bytes to store: a RangeAllocation, as docs/stored-format.md says. */
RK_MUST_CHECK
rk_result rk_ledger_encode(const rk_ledger *ledger, uint8_t *buffer, size_t capacity, size_t *len);

/**
 * Compares the owners with those that exist, and counts how often each was gone. `question` and the answer are JSON
 * (docs/ledger-json.md).
 *
 * RK_RESULT_INVALID_JSON, with the byte in `error`.
 */
RK_MUST_CHECK
rk_result rk_ledger_audit(const rk_ledger *ledger, const char *question, size_t question_len, char *buffer,
                          size_t capacity, size_t *len, rk_error *error);

/* ------------------------------------------------------------------- Ledgers in a store that several programs write */

/** What is to be asked of the store. */
typedef uint32_t rk_ledger_request_kind;
enum {
  /** Nothing: no change waits, or a request is under way. */
  RK_LEDGER_REQUEST_NONE = 1701,
  /**
   * Get the value and its token. The answer is RK_LEDGER_ANSWER_GOT, RK_LEDGER_ANSWER_MISSING or RK_LEDGER_ANSWER_NONE.
   */
  RK_LEDGER_REQUEST_GET = 1702,
  /**
   * Put the value, as there is none. The answer is RK_LEDGER_ANSWER_PUT, RK_LEDGER_ANSWER_CHANGED,
   * RK_LEDGER_ANSWER_TOO_LARGE or RK_LEDGER_ANSWER_NONE.
   */
  RK_LEDGER_REQUEST_CREATE = 1703,
  /** Put the value if that in the store still has this token. The answer is as to RK_LEDGER_REQUEST_CREATE. */
  RK_LEDGER_REQUEST_REPLACE = 1704,
  /** Nothing before the time `until`, as others write, too. Then poll again. */
  RK_LEDGER_REQUEST_WAIT = 1705,
};

/** What is to be asked of the store. */
typedef struct rk_ledger_request {
  /** When to go on, in nanoseconds since 1970: of RK_LEDGER_REQUEST_WAIT, else 0. */
  uint64_t until;
  /** The bytes of the value: of RK_LEDGER_REQUEST_CREATE and RK_LEDGER_REQUEST_REPLACE, else 0. */
  size_t value_len;
  /** The bytes of the token: of RK_LEDGER_REQUEST_REPLACE, else 0. */
  size_t token_len;
  /** What to ask. */
  rk_ledger_request_kind kind;
} rk_ledger_request;

/** How a request has ended. */
typedef uint32_t rk_ledger_answer;
enum {
  /** There was no answer, or one that does not say whether the value was put. */
  RK_LEDGER_ANSWER_NONE = 1801,
  /**
   * The store has this value with this token. It is empty only at a place that never had a ledger: if somebody has
   * emptied one, answer RK_LEDGER_ANSWER_NONE.
   */
  RK_LEDGER_ANSWER_GOT = 1802,
  /** The store has no value. */
  RK_LEDGER_ANSWER_MISSING = 1803,
  /** The value was put, and has this token. */
  RK_LEDGER_ANSWER_PUT = 1804,
  /** The value was not put, as the one in the store has another token, or is missing or not missing. */
  RK_LEDGER_ANSWER_CHANGED = 1805,
  /**
   * The value was not put, and never will be, as it is larger than the store allows. The next writes have fewer
   * changes; one that is alone ends with RK_RESULT_REFUSED.
   */
  RK_LEDGER_ANSWER_TOO_LARGE = 1806,
};

/**
 * Creates a shared ledger that knows nothing of the store yet. The pool and the seed are as for rk_ledger_new.
 *
 * The store gets a value with a token, and puts one if the token of the stored one is unchanged. A token is bytes that
 * the store chooses, such as a version or a resourceVersion; it must differ for each write, also of the same value.
 *
 * RK_RESULT_INVALID_JSON, with the byte in `error`; RK_RESULT_INVALID_RANGE.
 */
RK_MUST_CHECK
rk_result rk_shared_ledger_new(const char *pool, size_t pool_len, uint64_t seed, rk_shared_ledger **shared,
                               rk_error *error);

/** Adds a change to those of the next write, as rk_ledger_apply takes it, and writes its ticket. */
RK_MUST_CHECK
rk_result rk_shared_ledger_submit(rk_shared_ledger *shared, const rk_ledger_change *change, const char *owner,
                                  size_t owner_len, uint64_t *ticket, rk_error *error);

/**
 * Ends the wait for a change whose caller has gone. One that is not under way is not made. What it allocated for
 * nobody is released again, unless its write or that of the release has no answer; what it allocated for an owner is
 * not, as the owner finds it and can release it. A ticket whose outcome was told is ignored.
 */
RK_MUST_CHECK
rk_result rk_shared_ledger_cancel(rk_shared_ledger *shared, uint64_t ticket);

/**
 * Writes what to ask of the store at the time `now`, in nanoseconds since 1970. All changes that wait become one
 * write. Ask, report the answer, and poll again, until it is RK_LEDGER_REQUEST_NONE; then look at the outcomes.
 */
RK_MUST_CHECK
rk_result rk_shared_ledger_poll(rk_shared_ledger *shared, uint64_t now, rk_ledger_request *request);

/**
 * Writes the value and the token of the put under way, whose lengths the request says; no bytes if there is none.
 *
 * RK_RESULT_BUFFER_TOO_SMALL if one of the capacities is less: nothing is written.
 */
RK_MUST_CHECK
rk_result rk_shared_ledger_put(const rk_shared_ledger *shared, uint8_t *value, size_t value_capacity, uint8_t *token,
                               size_t token_capacity);

/**
 * Reports how the request under way has ended, at the time `now`. `value` is that of RK_LEDGER_ANSWER_GOT, `token`
 * that of RK_LEDGER_ANSWER_GOT and RK_LEDGER_ANSWER_PUT; else both are ignored.
 *
 * RK_RESULT_INVALID_ARGUMENT if no request is under way that this answers. The results of rk_ledger_new for a stored
 * ledger, and RK_RESULT_INVALID_OBJECT if the store had a value and has none now: the value is got again then.
 */
RK_MUST_CHECK
rk_result rk_shared_ledger_answered(rk_shared_ledger *shared, rk_ledger_answer answer, uint64_t now,
                                    const uint8_t *value, size_t value_len, const uint8_t *token, size_t token_len,
                                    rk_error *error);

/**
 * Ends as the change with this ticket has, and writes what it has allocated or released, as rk_ledger_apply does. The
 * outcome of a change is told once.
 *
 * The results of rk_ledger_apply; RK_RESULT_NOT_ENDED as long as the change waits, or if its outcome was told before;
 * RK_RESULT_UNANSWERED; RK_RESULT_REFUSED if the ledger with this change is too large for the store.
 */
RK_MUST_CHECK
rk_result rk_shared_ledger_outcome(rk_shared_ledger *shared, uint64_t ticket, rk_ledger_allocation *allocations,
                                   size_t capacity, size_t *n, rk_error *error);

/**
 * Writes a copy of what is stored, as far as is known: as of the last answer.
 *
 * RK_RESULT_NOT_INITIALISED if nothing is known: before the first answer, while a put is under way, and after one that
 * did not take effect or had no answer. Right after the call that has ended a RK_LEDGER_CHANGE_READ something is.
 */
RK_MUST_CHECK
rk_result rk_shared_ledger_known(const rk_shared_ledger *shared, rk_ledger **ledger);

/* ----------------------------------------------------------------------------------------- The bootstrap controller */

/**
 * Creates a controller that has not begun. `config` is JSON (docs/bootstrap-json.md).
 *
 * RK_RESULT_INVALID_JSON, with the byte in `error`; RK_RESULT_INVALID_CONFIG.
 */
RK_MUST_CHECK
rk_result rk_bootstrap_new(const char *config, size_t config_len, rk_bootstrap **bootstrap, rk_error *error);

/**
 * Writes the step to take at the time `now`, in nanoseconds of a monotonic clock, as JSON
 * (docs/bootstrap-json.md). A step that does not fit is kept for the next call.
 */
RK_MUST_CHECK
rk_result rk_bootstrap_poll(rk_bootstrap *bootstrap, uint64_t now, char *buffer, size_t capacity, size_t *len);

/**
 * Reports that the order `id` has ended. `answer` is JSON (docs/bootstrap-json.md). The answer to an order that
 * the controller has given up is ignored.
 *
 * RK_RESULT_INVALID_JSON, with the byte in `error`; the order stays open then.
 */
RK_MUST_CHECK
rk_result rk_bootstrap_answered(rk_bootstrap *bootstrap, uint64_t now, uint64_t id, const char *answer,
                                size_t answer_len, rk_error *error);

/**
 * Takes what a watch has seen, as JSON (docs/bootstrap-json.md): a change of what the controller keeps makes its next
 * turn due. Poll after it.
 *
 * RK_RESULT_INVALID_JSON, with the byte in `error`.
 */
RK_MUST_CHECK
rk_result rk_bootstrap_watched(rk_bootstrap *bootstrap, uint64_t now, const char *event, size_t event_len,
                               rk_error *error);

/**
 * Begins an orderly stop at the time `now`: the loops end, then the server's own lease and endpoint are removed.
 * Poll and answer until a step has the phase "stopped", at most two intervals of the endpoints later.
 */
RK_MUST_CHECK
rk_result rk_bootstrap_stop(rk_bootstrap *bootstrap, uint64_t now);

/**
 * Decides one thing without a controller: which namespaces are missing, or what to do about the Service
 * kubernetes, the server's own lease, or Endpoints and EndpointSlice. `question` and the answer are JSON
 * (docs/bootstrap-json.md). The same question has the same answer.
 *
 * RK_RESULT_INVALID_JSON, with the byte in `error`, also for an object of another kind; RK_RESULT_INVALID_CONFIG
 * for a well-formed question that has no answer.
 */
RK_MUST_CHECK
rk_result rk_bootstrap_plan(const char *question, size_t question_len, char *buffer, size_t capacity, size_t *len,
                            rk_error *error);

/* ----------------------------------------------------------------------------------------------- Destroying handles */

/** Destroys an allocator. */
void rk_allocator_free(rk_allocator *allocator);

/** Destroys an object. */
void rk_range_allocation_free(rk_range_allocation *object);

/** Destroys counters. */
void rk_leak_counters_free(rk_leak_counters *counters);

/** Destroys a tracker. */
void rk_leak_tracker_free(rk_leak_tracker *tracker);

/** Destroys an audit. */
void rk_audit_free(rk_audit *audit);

/** Destroys a report. */
void rk_report_free(rk_report *report);

/** Destroys a committer. */
void rk_committer_free(rk_committer *committer);

/** Destroys a pass. */
void rk_repair_pass_free(rk_repair_pass *pass);

/** Destroys an index. */
void rk_index_free(rk_index *index);

/** Destroys a ledger. */
void rk_ledger_free(rk_ledger *ledger);

/** Destroys a shared ledger. */
void rk_shared_ledger_free(rk_shared_ledger *shared);

/** Destroys a controller. */
void rk_bootstrap_free(rk_bootstrap *bootstrap);

/* ---------------------------------------------------------------------------------------------------------- Helpers */

/* The rest is written by hand in ffi/inline.h: it builds values and batches without a call of the library. */

/** A port. One above 65535 is refused where it is used. */
static inline rk_value rk_value_port(uint32_t port) {
  rk_value value = {0, port, RK_VALUE_KIND_PORT};
  return value;
}

/** An IPv4 address by its 4 bytes in the order of the network, as they are in struct in_addr. */
static inline rk_value rk_value_ipv4(const uint8_t bytes[4]) {
  rk_value value = {0, 0, RK_VALUE_KIND_IPV4};
  int i;
  for (i = 0; i < 4; i++) value.low = value.low << 8 | bytes[i];
  return value;
}

/** An IPv6 address by its 16 bytes in the order of the network, as they are in struct in6_addr. */
static inline rk_value rk_value_ipv6(const uint8_t bytes[16]) {
  rk_value value = {0, 0, RK_VALUE_KIND_IPV6};
  int i;
  for (i = 0; i < 8; i++) {
    value.high = value.high << 8 | bytes[i];
    value.low = value.low << 8 | bytes[i + 8];
  }
  return value;
}

/** A number of a range of numbers. One that a 32-bit integer does not hold is refused where it is used. */
static inline rk_value rk_value_number(uint64_t number) {
  rk_value value = {0, number, RK_VALUE_KIND_NUMBER};
  return value;
}

/** A request for any free value, in a batch of requests. */
static inline rk_value rk_value_any(void) {
  rk_value value = {0, 0, RK_VALUE_KIND_ANY};
  return value;
}

/** A text: UTF-8, without a terminating NUL. */
typedef struct rk_text {
  const char *bytes;
  size_t len;
} rk_text;

/** A text that ends with a NUL. */
static inline rk_text rk_text_of(const char *bytes) {
  rk_text text = {bytes, strlen(bytes)};
  return text;
}

/** One of a Service's spec.ports. */
typedef struct rk_service_port {
  rk_text protocol;
  int32_t node_port;
} rk_service_port;

/** The fields of a Service that an audit reads. */
typedef struct rk_service {
  /** spec.clusterIP as it is: empty, "None" and malformed text too. */
  rk_text cluster_ip;
  /** spec.clusterIPs; if there are none, spec.clusterIP is the only address. */
  const rk_text *cluster_ips;
  size_t cluster_ips_len;
  /** spec.ports; those without a node port may be left out. */
  const rk_service_port *ports;
  size_t ports_len;
  /** spec.healthCheckNodePort; 0 for none. */
  int32_t health_check_node_port;
} rk_service;

/** The fields of an IPAddress object that an audit reads; the text of a missing field is empty. */
typedef struct rk_ip_address {
  /** metadata.creationTimestamp in seconds since 1970. */
  int64_t created;
  /** metadata.resourceVersion: the revision of its last write; 0 if unknown. */
  uint64_t revision;
  /** metadata.name: the address. */
  rk_text name;
  /** The label ipaddress.kubernetes.io/managed-by. */
  rk_text managed_by;
  /** spec.parentRef. */
  rk_text parent_group, parent_resource, parent_namespace, parent_name;
  /** Whether there is no spec.parentRef. An empty one is a reference to nothing. */
  bool without_parent;
} rk_ip_address;

/** An empty batch in the caller's memory. Some thousand Services per batch are a good size. */
static inline rk_batch rk_batch_in(uint32_t *words, size_t words_capacity, char *text, size_t text_capacity) {
  rk_batch batch = {words, 0, words_capacity, text, 0, text_capacity, 0};
  return batch;
}

/** Empties a batch. */
static inline void rk_batch_clear(rk_batch *batch) {
  batch->words_len = batch->text_len = batch->count = 0;
}

/* Not for callers: false if there is no room. */
static inline bool rk_batch_put_word(rk_batch *batch, uint32_t word) {
  if (batch->words_len == batch->words_capacity) return false;
  batch->words[batch->words_len++] = word;
  return true;
}

/* Not for callers: adds the low and the high half of a number; false if there is no room. */
static inline bool rk_batch_put_number(rk_batch *batch, uint64_t number) {
  return rk_batch_put_word(batch, (uint32_t)number) && rk_batch_put_word(batch, (uint32_t)(number >> 32));
}

/* Not for callers: adds a text with its length, to which base is added; false if there is no room. */
static inline bool rk_batch_put_text(rk_batch *batch, rk_text text, uint32_t base) {
  /* UINT32_MAX is RK_SAME_TEXT and no length. */
  if (text.len >= UINT32_MAX - base || text.len > batch->text_capacity - batch->text_len) return false;
  if (text.len > 0) memcpy(batch->text + batch->text_len, text.bytes, text.len);
  batch->text_len += text.len;
  return rk_batch_put_word(batch, base + (uint32_t)text.len);
}

/* Not for callers: counts an object whose parts were added, or removes them if one did not fit. */
static inline rk_result rk_batch_end(rk_batch *batch, rk_batch before, bool fits) {
  if (!fits) *batch = before;
  if (fits) batch->count++;
  return fits ? RK_RESULT_OK : RK_RESULT_BUFFER_TOO_SMALL;
}

/* Not for callers: whether two texts are the same. */
static inline bool rk_text_is(rk_text a, rk_text b) {
  return a.len == b.len && (a.len == 0 || memcmp(a.bytes, b.bytes, a.len) == 0);
}

/* Not for callers: false if there is no room. */
static inline bool rk_batch_put_protocol(rk_batch *batch, rk_text protocol) {
  if (rk_text_is(protocol, rk_text_of("TCP"))) return rk_batch_put_word(batch, RK_PROTOCOL_TCP);
  if (rk_text_is(protocol, rk_text_of("UDP"))) return rk_batch_put_word(batch, RK_PROTOCOL_UDP);
  if (rk_text_is(protocol, rk_text_of("SCTP"))) return rk_batch_put_word(batch, RK_PROTOCOL_SCTP);
  return rk_batch_put_text(batch, protocol, RK_PROTOCOL_TEXT);
}

/**
 * Adds a Service to a batch for rk_audit_observe_services.
 *
 * RK_RESULT_BUFFER_TOO_SMALL if it does not fit: observe the batch, clear it, and add the Service again.
 * RK_RESULT_INVALID_ARGUMENT if it has more than 65,534 spec.clusterIPs or more than 65,535 ports.
 */
RK_MUST_CHECK
static inline rk_result rk_services_add(rk_services *services, const rk_service *service) {
  rk_batch *batch = &services->batch, before = services->batch;
  if (service->cluster_ips_len > 65534 || service->ports_len > 65535) return RK_RESULT_INVALID_ARGUMENT;
  bool fits = rk_batch_put_word(batch, (uint32_t)(1 + service->cluster_ips_len) | (uint32_t)service->ports_len << 16) &&
              rk_batch_put_word(batch, (uint32_t)service->health_check_node_port) &&
              rk_batch_put_text(batch, service->cluster_ip, 0);
  rk_text last = service->cluster_ip;
  for (size_t i = 0; fits && i < service->cluster_ips_len; last = service->cluster_ips[i++]) {
    bool same = rk_text_is(service->cluster_ips[i], last);
    fits = same ? rk_batch_put_word(batch, RK_SAME_TEXT) : rk_batch_put_text(batch, service->cluster_ips[i], 0);
  }
  for (size_t i = 0; fits && i < service->ports_len; i++) {
    fits = rk_batch_put_word(batch, (uint32_t)service->ports[i].node_port) &&
           rk_batch_put_protocol(batch, service->ports[i].protocol);
  }
  return rk_batch_end(batch, before, fits);
}

/**
 * Adds the name of the next Service of a batch, and its metadata.creationTimestamp in seconds since 1970 and etcd's
 * create revision, both 0 if unknown; RK_RESULT_BUFFER_TOO_SMALL if it does not fit.
 */
RK_MUST_CHECK
static inline rk_result rk_service_names_add(rk_service_names *names, rk_text service_namespace, rk_text name,
                                             int64_t created, uint64_t create_revision) {
  rk_batch *batch = &names->batch, before = names->batch;
  bool fits = rk_batch_put_number(batch, (uint64_t)created) && rk_batch_put_number(batch, create_revision) &&
              rk_batch_put_text(batch, service_namespace, 0) && rk_batch_put_text(batch, name, 0);
  return rk_batch_end(batch, before, fits);
}

/**
 * Adds an IPAddress object to a batch for rk_audit_observe_ip_addresses.
 *
 * RK_RESULT_BUFFER_TOO_SMALL if it does not fit: observe the batch, clear it, and add the object again.
 */
RK_MUST_CHECK
static inline rk_result rk_ip_addresses_add(rk_ip_addresses *objects, const rk_ip_address *object) {
  rk_batch *batch = &objects->batch, before = objects->batch;
  bool fits = rk_batch_put_number(batch, (uint64_t)object->created) && rk_batch_put_number(batch, object->revision) &&
              rk_batch_put_word(batch, object->without_parent) &&
              rk_batch_put_text(batch, object->name, 0) && rk_batch_put_text(batch, object->managed_by, 0) &&
              rk_batch_put_text(batch, object->parent_group, 0) && rk_batch_put_text(batch, object->parent_resource, 0) &&
              rk_batch_put_text(batch, object->parent_namespace, 0) && rk_batch_put_text(batch, object->parent_name, 0);
  return rk_batch_end(batch, before, fits);
}

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* RANGEKEEPER_H */
