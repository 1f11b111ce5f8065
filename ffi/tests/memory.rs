//! How much memory things take: allocate, allocate next, release and has none from the heap, and neither does a Service
//! of a repair pass that is in order; a committer as much as it says. The core forbids the unsafe code that it takes to
//! see this, so the tests stand here.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::net::IpAddr;
use std::time::Duration;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use rangekeeper_core::allocator::{AllocateError, Allocator, Request, Strategy};
use rangekeeper_core::any::{AnyRange, AnyValue};
use rangekeeper_core::audit::{Audit, Leaks, Stored};
use rangekeeper_core::cidr::CidrRange;
use rangekeeper_core::commit::{
    Answer, Change, Committer, Config, Event, Header, KeyState, KeyValue, Operation, Outcome, Replace, Step,
    StoreRequest,
};
use rangekeeper_core::ports::PortRange;
use rangekeeper_core::range::Range;
use rangekeeper_core::service::{Service, ServicePort};

/// The system's allocator, with a count for each thread: tests run side by side.
struct Counting;

thread_local!(static ALLOCATIONS: Cell<u64> = const { Cell::new(0) });
// Blocks that go from thread to thread are counted by both; the tests here keep theirs.
thread_local!(static BYTES: Cell<isize> = const { Cell::new(0) });

fn count(bytes: usize) {
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
    BYTES.set(BYTES.get() + bytes as isize);
}

fn uncount(bytes: usize) {
    BYTES.set(BYTES.get() - bytes as isize);
}

// SAFETY: every call goes on to the system's allocator as it is; counting neither allocates nor panics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promise is the system allocator's condition.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        uncount(layout.size());
        count(size);
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        uncount(layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// What `work` gives, and how often it asked for memory.
fn counted<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = ALLOCATIONS.get();
    let result = black_box(work());
    (result, ALLOCATIONS.get() - before)
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn range<R: Range>(text: &str) -> R {
    text.parse().unwrap_or_else(|_| panic!("{text} is a range"))
}

#[test]
fn the_count_sees_what_allocates() {
    let mut allocator = Allocator::new(range::<AnyRange>("10.0.0.0/24"), Strategy::Contiguous);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    allocator.allocate_next(&mut rng).expect("empty");
    assert_eq!(counted(|| allocator.snapshot().to_vec()), (vec![1], 1));
    assert_eq!(counted(|| Box::new(allocator.used())), (Box::new(1), 1));
    assert_eq!(counted(|| vec![0_u8; 100]).1, 1);
    let mut growing = vec![1_u8];
    assert_eq!(counted(|| growing.reserve_exact(100_000)).1, 1);
    assert!(counted(|| allocator.dry_run()).1 >= 1);
    assert!(counted(|| Allocator::new(allocator.range(), Strategy::Contiguous)).1 >= 1);
    assert_eq!(counted(|| black_box(7)), (7, 0));
}

/// Fills a range to the brim and empties it again, with every outcome on the way. Returns the number of calls.
fn fill_and_empty<R: Range>(range: R, foreign: R::Value, strategy: Strategy) -> u64 {
    let mut allocator = Allocator::new(range, strategy);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
    let (mut calls, mut taken, mut outside, mut full) = (0_u64, 0, 0, 0);
    let ((), allocations) = counted(|| {
        while allocator.free() > 0 {
            let value = allocator.allocate_next(&mut rng).expect("some are free");
            taken += u64::from(matches!(allocator.allocate(value), Err(AllocateError::AlreadyAllocated { .. })));
            outside += u64::from(matches!(allocator.allocate(foreign), Err(AllocateError::NotInRange { .. })));
            assert!(allocator.has(value) && !allocator.has(foreign) && !allocator.release(foreign));
            // Every other one is given back and taken by name.
            if rng.next_u64().is_multiple_of(2) {
                assert!(allocator.release(value) && !allocator.release(value) && !allocator.has(value));
                allocator.allocate(value).expect("just released");
            }
            calls += 6;
        }
        for offset in 0..range.size() {
            full += u64::from(allocator.allocate_next(&mut rng).is_err());
            let value = range.value_at(offset).expect("in range");
            assert!(allocator.release(value));
            assert_eq!(allocator.allocate_next(&mut rng), Ok(value));
            calls += 3;
        }
        // To look at it costs nothing either.
        assert_eq!(allocator.iter().count() as u32, range.size());
        assert_eq!((allocator.bitmap().runs_set(0).count(), allocator.bitmap().runs_clear(0).count()), (1, 0));
        assert_eq!(allocator.snapshot().len() as u32, range.size().div_ceil(8));
        for offset in 0..range.size() {
            assert!(allocator.release(range.value_at(offset).expect("in range")));
            calls += 1;
        }
    });
    assert_eq!(allocations, 0, "{range}, {strategy:?}");
    let size = u64::from(range.size());
    assert_eq!((taken, outside, full, allocator.used()), (size, size, size, 0), "{range}, {strategy:?}");
    calls
}

#[test]
fn the_hot_path_does_not_allocate() {
    let mut calls = 0;
    for strategy in [Strategy::Contiguous, Strategy::RandomScan, Strategy::DynamicBandFirst] {
        for (text, foreign) in [
            ("10.96.0.0/16", AnyValue::Address(address("10.96.0.0"))),
            ("10.96.0.0/27", AnyValue::Address(address("fd00::1"))),
            ("fd00::/108", AnyValue::Address(address("fd00::1:0"))),
            ("30000-32767", AnyValue::Port(29_999)),
        ] {
            calls += fill_and_empty(range::<AnyRange>(text), foreign, strategy);
        }
        calls += fill_and_empty(range::<CidrRange>("10.96.0.0/17"), address("10.97.0.0"), strategy);
        calls += fill_and_empty(range::<PortRange>("1-60000"), 0, strategy);
    }
    println!("{calls} calls");
    assert!(calls >= 5_000_000);
}

/// Services that are in order cost no memory, however wide the ranges are; only findings do.
#[test]
fn a_service_in_order_does_not_allocate() {
    const SERVICES: usize = 200;
    let texts: Vec<[String; 2]> =
        (1..=SERVICES).map(|host| [format!("10.96.0.{host}"), format!("fd00::{host:x}")]).collect();
    let all_set = |offsets: usize| vec![0xff; offsets / 8];
    let mut observed = 0;
    for (ipv4, ipv6, ports) in [("10.96.0.0/24", "fd00::/120", "30000-30207"), ("10.96.0.0/12", "fd00::/64", "1-65535")]
    {
        let mut pass = Audit::new();
        let data = all_set(SERVICES);
        pass.add_cluster_ips(range(ipv4), Stored { range: ipv4, data: &data }).expect("fits");
        pass.add_cluster_ips(range(ipv6), Stored { range: ipv6, data: &data }).expect("fits");
        let ports_range: PortRange = range(ports);
        let low = ports_range.low();
        pass.add_node_ports(ports_range, Stored { range: ports, data: &data }).expect("fits");
        let ((), allocations) = counted(|| {
            for (index, [ipv4, ipv6]) in texts.iter().enumerate() {
                let node_port = i32::from(low) + index as i32;
                let ports = ["TCP", "UDP"].map(|protocol| ServicePort { protocol, node_port });
                let cluster_ips = [ipv4.as_str(), ipv6];
                pass.observe(&Service {
                    cluster_ip: ipv4,
                    cluster_ips: &cluster_ips,
                    ports: &ports,
                    ..Service::default()
                });
                observed += 1;
            }
        });
        assert_eq!(allocations, 0, "{ipv4}, {ipv6} and {ports}");
        let twice = Service { cluster_ip: &texts[0][0], ..Service::default() };
        let ((), allocations) = counted(|| (0..SERVICES).for_each(|_| pass.observe(&twice)));
        assert!(allocations > 0, "findings are kept somewhere");
        let outcome = pass.finish(Leaks::CleanAtOnce);
        assert_eq!(outcome.findings.len(), SERVICES);
        assert!(outcome.bitmaps().all(|(_, range)| range.in_use().count() as usize == SERVICES));
    }
    println!("{observed} Services");
    assert!(observed >= 2 * SERVICES);
}

/// A committer of a /12 that has all of its memory in use: it hands out and frees addresses all through the last grace,
/// and waits for a watch.
#[test]
fn a_committer_takes_at_most_a_mebibyte_beside_the_object() {
    const GRACE: Duration = Duration::from_secs(360);
    let before = BYTES.get();
    let config = Config { strategy: Strategy::DynamicBandFirst, grace: GRACE, replace: Replace::Always };
    let mut committer =
        Committer::new(range::<CidrRange>("10.96.0.0/12"), config, Xoshiro256PlusPlus::seed_from_u64(3));
    committer.keep_history(true);
    let (mut state, mut revision, mut stored): (KeyState, u64, Option<Vec<u8>>) = (KeyState::default(), 0, None);
    let mut owned: Vec<(IpAddr, u64)> = Vec::new();
    let (mut now, mut most, mut peak_swaps) = (Duration::ZERO, 0, 0);
    committer.submit(Operation::Create, Duration::MAX);
    for _ in 0..400 {
        now += GRACE / 100;
        for _ in 0..40 {
            committer.submit(Operation::Allocate(vec![Request::Any; 25]), Duration::MAX);
        }
        for (value, as_of) in owned.drain(..owned.len() / 2) {
            committer.submit(Operation::Release { value, as_of, oldest: as_of, store: 0 }, Duration::MAX);
        }
        loop {
            let request = match committer.poll(now) {
                Step::Send(request) => request,
                Step::Finished(all) => {
                    for finished in all {
                        if let Outcome::Allocated { values, revision, .. } = finished.outcome {
                            owned.extend(values.into_iter().map(|value| (value, revision)));
                        }
                    }
                    continue;
                }
                Step::Watch { .. } | Step::StopWatch => continue,
                Step::Wait(until) => {
                    now = until;
                    continue;
                }
                Step::Idle => break,
            };
            let held = match request {
                StoreRequest::Swap { guard, value, .. } if guard == state => {
                    revision += 1;
                    let create_revision = if state.version == 0 { revision } else { state.create_revision };
                    state = KeyState { mod_revision: revision, version: state.version + 1, create_revision };
                    stored = Some(value);
                    peak_swaps += 1;
                    true
                }
                StoreRequest::Confirm { guard } => guard == state,
                _ => false,
            };
            let key = stored.as_ref().map(|value| KeyValue { state, value });
            let answer = if held { Answer::Held } else { Answer::Current(key) };
            let header = Header { cluster_id: 1, revision, raft_term: 1 };
            committer.handle(Event::Answered { header, answer }, now);
        }
        // Others write twice: a gap, which only the watch could fill.
        if let Some(value) = &stored {
            state = KeyState { mod_revision: revision + 2, version: state.version + 2, ..state };
            revision += 2;
            let change =
                KeyValue { state: KeyState { mod_revision: revision - 1, version: state.version - 1, ..state }, value };
            committer.handle(Event::Watched(Change::Put(change)), now);
        }
        let own = size_of_val(owned.as_slice()).max(owned.capacity() * size_of::<(IpAddr, u64)>());
        let object = stored.as_ref().map_or(0, Vec::capacity);
        most = most.max(BYTES.get() - before - (own + object) as isize);
    }
    println!("{peak_swaps} swaps, at most {} KiB, the object included", most / 1024);
    assert!(peak_swaps >= 400 && most > 300 << 10, "too little happens");
    assert!(most <= (1024 + 128) << 10, "{} KiB", most / 1024);
}
