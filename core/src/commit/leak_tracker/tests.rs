use super::super::testing::*;
use super::*;

/// Half a grace: a leak that the third pass sees has been leaked for a grace.
const INTERVAL: Duration = Duration::from_secs(5);

/// A server, and what its passes have seen of a range with the offsets 1 and 2 in use.
struct Server {
    passes: LeakTracker,
    committer: Ports,
}

fn server(passes: u8) -> Server {
    let passes = LeakTracker::new(NonZeroU8::new(passes).expect("not zero"), INTERVAL);
    let mut server = Server { passes, committer: committer(range()) };
    server.answer(30, 3);
    server
}

impl Server {
    /// A read at this revision finds the key in its nth version.
    fn answer(&mut self, revision: u64, version: u64) {
        let key = Some((state(version), &[1, 2][..]));
        read(&mut self.committer.history, &mut self.committer.protection, revision, key);
    }

    /// A watch reports the nth version of the key.
    fn watched(&mut self, version: u64, used: &[u32]) {
        watch(&mut self.committer.history, &mut self.committer.protection, state(version), used, false);
    }

    /// A pass at this time has a view of this revision, and finds both offsets leaked. Returns those that are due.
    fn pass(&mut self, revision: u64, now: Duration) -> Bitmap {
        self.committer.history.view(revision).expect("a range");
        self.pass_without_view(revision, now)
    }

    fn pass_without_view(&mut self, revision: u64, now: Duration) -> Bitmap {
        let followed = self.committer.followed(&self.passes.since(range().into(), revision));
        self.passes.seen(range().into(), &followed, revision, now);
        let mut leaked = bitmap([1, 2]);
        self.passes.counters().of(range().into()).advance(&mut leaked);
        leaked
    }

    /// The offsets that are cleared of those that are due.
    fn clear(&mut self, due: Bitmap, listed: ServiceList) -> Vec<u32> {
        let changes =
            FoundRange { range: range().into(), set: bitmap([7]), clear: due, duplicates: vec![8], outside: 0 };
        let handed_out = self.committer.handed_out(changes.due());
        let (diff, follow) = {
            let look = listed.revision().map(|listed| (LOOK, listed));
            self.passes.diff(&changes, &handed_out, listed.revision(), look, listed)
        };
        self.committer.follow(&follow);
        assert_eq!((diff.set, diff.duplicates, diff.listed), (bitmap([7]), vec![8], listed));
        diff.clear.iter().collect()
    }

    fn counts(&mut self) -> [u8; 2] {
        [1, 2].map(|offset| self.passes.counters().of(range().into()).count(offset))
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

#[test]
fn counters_advance_in_spaced_passes() {
    for (second, counts) in [(4.5, [2, 2]), (4.499, [1, 1])] {
        let mut server = server(3);
        server.pass(30, seconds(0.0));
        assert_eq!(server.counts(), [1, 1]);
        server.pass(31, seconds(second));
        assert_eq!(server.counts(), counts, "a pass after {second} s");
    }
}

#[test]
fn counters_start_again_where_an_offset_changed_or_may_have() {
    type Event = fn(&mut Server);
    let events: [(&str, Event, u64, [u8; 2]); 4] = [
        ("nothing", |_| {}, 60, [2, 2]),
        (
            "offset 1 was free meanwhile",
            |server| {
                server.watched(4, &[2]);
                server.watched(5, &[1, 2]);
            },
            60,
            [1, 2],
        ),
        ("versions that no watch has reported", |server| server.answer(60, 6), 60, [1, 1]),
        ("another store", |server| server.answer(20, 2), 20, [1, 1]),
    ];
    for (name, event, revision, counts) in events {
        let mut server = server(3);
        server.pass(30, INTERVAL);
        event(&mut server);
        server.pass(revision, INTERVAL * 2);
        assert_eq!(server.counts(), counts, "{name}");
    }
    let mut server = server(3);
    server.pass(30, INTERVAL);
    server.pass_without_view(40, INTERVAL * 2);
    assert_eq!(server.counts(), [1, 1], "a view of another committer");
}

#[test]
fn a_leak_is_cleaned_after_a_grace() {
    for (third, cleared) in [(9.999, &[][..]), (10.0, &[1, 2])] {
        let mut server = server(1);
        for (now, cleared) in [(0.0, &[][..]), (5.0, &[]), (third, cleared)] {
            let due = server.pass(30, seconds(now));
            assert_eq!(server.clear(due, ServiceList::Elsewhere), cleared, "after {now} s");
        }
    }
}

#[test]
fn a_value_that_was_handed_out_stays_due() {
    let mut server = server(3);
    server.pass(30, INTERVAL);
    server.pass(31, INTERVAL * 2);
    server.committer.protection.hand_out(1);
    for (number, cleared) in [(3, &[2][..]), (4, &[]), (5, &[1])] {
        if number == 5 {
            server.committer.protection.advance(INTERVAL * 5);
        }
        let due = server.pass(30, INTERVAL * number);
        assert_eq!(server.clear(due, ServiceList::Elsewhere), cleared, "pass {number}");
        assert_eq!(server.counts()[0], if number == 5 { 0 } else { 2 });
    }
}

#[test]
fn a_clear_that_services_may_prevent_stays_due() {
    for (listed, counts) in [(ServiceList::At(40), [0, 0]), (ServiceList::Guarding(40), [2, 2])] {
        let mut server = server(3);
        server.pass(30, INTERVAL);
        server.pass(31, INTERVAL * 2);
        let due = server.pass(32, INTERVAL * 3);
        assert_eq!(server.clear(due, listed), [1, 2]);
        assert_eq!(server.counts(), counts, "{listed:?}");
    }
}

#[test]
fn a_list_from_elsewhere_clears_nothing_once_another_store_has_answered() {
    for (revision, version, restores, cleared) in [(60, 3, 0, &[1, 2][..]), (20, 2, 1, &[])] {
        let mut server = server(1);
        server.answer(revision, version);
        assert_eq!(server.committer.known().restores, restores);
        let due = server.pass(revision, INTERVAL);
        server.clear(due, ServiceList::Elsewhere);
        let due = server.pass(revision, INTERVAL + GRACE);
        assert_eq!(server.clear(due, ServiceList::Elsewhere), cleared);
        if cleared.is_empty() {
            let due = server.pass(revision, INTERVAL + GRACE * 2);
            assert_eq!(server.clear(due, ServiceList::At(revision)), [1, 2], "a list of the store itself");
        }
    }
}

#[test]
fn history_is_kept_while_a_leak_is_counted_or_held() {
    for passes in [1, 2] {
        let mut server = server(passes);
        let due = server.pass(30, INTERVAL);
        assert!(server.clear(due, ServiceList::Elsewhere).is_empty());
        assert!(server.committer.history.is_kept());
        let due = server.pass(31, INTERVAL + GRACE);
        assert_eq!(server.clear(due, ServiceList::Elsewhere), [1, 2]);
        assert!(!server.committer.history.is_kept());
    }
}
