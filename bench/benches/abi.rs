//! The batches of the C ABI, declared as in `include/rangekeeper.h` and called as C calls them, beside the same work in
//! Rust.

use std::ffi::c_char;
use std::hint::black_box;
use std::ptr;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use rangekeeper::allocator::Request;
use rangekeeper::any::AnyRange;
use rangekeeper::{Allocator, Audit, Range, Service, Strategy};
use rangekeeper_bench::{generator, slash_12, some_values};

// Nothing is used by name: the linker finds the entry points.
extern crate rangekeeper_bench_abi as _;

/// The operations of a batch.
const BATCH: usize = 64;
/// The Services of a batch.
const SERVICES: u32 = 1000;

const OK: u32 = 0;
const STRATEGY_RANDOM_SCAN: u32 = 1002;
const RANGE_KIND_CIDR: u32 = 1201;

/// `rk_value`. All 0 is a request for any value.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawValue {
    high: u64,
    low: u64,
    kind: u32,
}

/// `rk_range`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawRange {
    first: RawValue,
    extent: u32,
}

/// `rk_services`.
#[repr(C)]
struct RawBatch {
    words: *const u32,
    words_len: usize,
    words_capacity: usize,
    text: *const u8,
    text_len: usize,
    text_capacity: usize,
    count: usize,
}

#[repr(C)]
struct Opaque {
    _private: [u8; 0],
}

unsafe extern "C" {
    fn rk_range_parse(spec: *const c_char, len: usize, kind: u32, range: *mut RawRange, error: *mut Opaque) -> u32;
    fn rk_allocator_new(
        range: *const RawRange,
        strategy: u32,
        seed: u64,
        allocator: *mut *mut Opaque,
        error: *mut Opaque,
    ) -> u32;
    fn rk_allocator_free(allocator: *mut Opaque);
    fn rk_allocator_allocate_batch(
        allocator: *const Opaque,
        requests: *const RawValue,
        n: usize,
        values: *mut RawValue,
        error: *mut Opaque,
    ) -> u32;
    fn rk_allocator_release(allocator: *const Opaque, value: *const RawValue, was_used: *mut bool) -> u32;
    fn rk_audit_new(tracker: *const Opaque, ip_addresses: bool, now: *const i64, audit: *mut *mut Opaque) -> u32;
    fn rk_audit_free(audit: *mut Opaque);
    fn rk_audit_add_bitmap(
        audit: *const Opaque,
        configured: *const RawRange,
        stored_range: *const c_char,
        stored_range_len: usize,
        stored_data: *const u8,
        stored_data_len: usize,
        error: *mut Opaque,
    ) -> u32;
    fn rk_audit_observe_services(
        audit: *const Opaque,
        names: *const RawBatch,
        batch: *const RawBatch,
        error: *mut Opaque,
    ) -> u32;
}

fn raw_range(range: impl Range) -> RawRange {
    let (text, mut raw) = (range.to_string(), RawRange::default());
    // SAFETY: the text and the out-parameter live until the call returns; error may be NULL.
    let result =
        unsafe { rk_range_parse(text.as_ptr().cast(), text.len(), RANGE_KIND_CIDR, &mut raw, ptr::null_mut()) };
    assert_eq!(result, OK);
    raw
}

fn allocate_batch(c: &mut Criterion) {
    let range = AnyRange::from(slash_12());
    let mut group = c.benchmark_group(format!("abi/allocate_batch_release/12/{BATCH}"));
    group.throughput(Throughput::Elements(BATCH as u64));

    let raw = raw_range(range);
    let mut handle = ptr::null_mut();
    // SAFETY: the range and the out-parameter live until the call returns; error may be NULL.
    assert_eq!(unsafe { rk_allocator_new(&raw, STRATEGY_RANDOM_SCAN, 3, &mut handle, ptr::null_mut()) }, OK);
    let (requests, mut values) = ([RawValue::default(); BATCH], [RawValue::default(); BATCH]);
    group.bench_function("C ABI", |b| {
        b.iter(|| {
            let (requests, values) = (black_box(&requests), black_box(&mut values));
            // SAFETY: the handle is freed below; both arrays have so many values; error may be NULL.
            let result = unsafe {
                rk_allocator_allocate_batch(handle, requests.as_ptr(), BATCH, values.as_mut_ptr(), ptr::null_mut())
            };
            assert_eq!(result, OK);
            for value in values.iter() {
                // SAFETY: the handle is freed below; the value lives until the call returns; was_used may be NULL.
                assert_eq!(unsafe { rk_allocator_release(handle, value, ptr::null_mut()) }, OK);
            }
        });
    });
    // SAFETY: it was made above and is used no more.
    unsafe { rk_allocator_free(handle) };

    let (mut allocator, mut rng) = (Allocator::new(range, Strategy::RandomScan), generator(3));
    let requests = [Request::Any; BATCH];
    group.bench_function("Rust AnyRange", |b| {
        b.iter(|| {
            let values = allocator.allocate_batch(black_box(&requests), &mut rng).expect("it is nearly empty");
            values.iter().filter(|value| allocator.release(**value)).count()
        });
    });
    group.finish();
}

/// An audit of one bitmap, made through the C ABI.
struct RawAudit(*mut Opaque);

impl RawAudit {
    fn new(range: &RawRange) -> Self {
        let mut audit = ptr::null_mut();
        // SAFETY: the out-parameter lives until the call returns; tracker and time may be NULL.
        assert_eq!(unsafe { rk_audit_new(ptr::null_mut(), false, ptr::null(), &mut audit) }, OK);
        // SAFETY: the audit was just made; the range lives until the call returns; empty texts and error may be NULL.
        let result = unsafe { rk_audit_add_bitmap(audit, range, ptr::null(), 0, ptr::null(), 0, ptr::null_mut()) };
        assert_eq!(result, OK);
        Self(audit)
    }
}

impl Drop for RawAudit {
    fn drop(&mut self) {
        // SAFETY: it was made by new, and nobody else has it.
        unsafe { rk_audit_free(self.0) }
    }
}

fn observe_services(c: &mut Criterion) {
    let addresses: Vec<_> = some_values(slash_12(), SERVICES, 2).iter().map(ToString::to_string).collect();
    let mut group = c.benchmark_group(format!("abi/observe_services/12/{SERVICES}"));
    group.throughput(Throughput::Elements(SERVICES.into()));

    // Each has one text and no port, no node port for health checks, and the length of the text.
    let words: Vec<u32> = addresses.iter().flat_map(|address| [1, 0, address.len() as u32]).collect();
    let text = addresses.concat();
    let batch = RawBatch {
        words: words.as_ptr(),
        words_len: words.len(),
        words_capacity: 0,
        text: text.as_ptr(),
        text_len: text.len(),
        text_capacity: 0,
        count: addresses.len(),
    };
    let range = raw_range(slash_12());
    group.bench_function("C ABI", |b| {
        b.iter_batched_ref(
            || RawAudit::new(&range),
            |audit| {
                // SAFETY: drop frees the handle; the batch and its arrays live until the call returns; names and error
                // may be NULL.
                let result = unsafe { rk_audit_observe_services(audit.0, ptr::null(), &batch, ptr::null_mut()) };
                assert_eq!(result, OK);
            },
            BatchSize::LargeInput,
        );
    });
    let new = || {
        let mut audit = Audit::new();
        audit.add_cluster_ips(slash_12(), rangekeeper::Stored::default()).expect("nothing is stored");
        audit
    };
    group.bench_function("Rust", |b| {
        b.iter_batched_ref(
            new,
            |audit| {
                for address in &addresses {
                    audit.observe(&Service { cluster_ip: address, ..Service::default() });
                }
            },
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

criterion_group!(benches, allocate_batch, observe_services);
criterion_main!(benches);
