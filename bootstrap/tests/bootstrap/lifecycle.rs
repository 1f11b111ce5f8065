//! What is due when: the orders and periods of kube-apiserver 1.20 and 1.36, failures, stops, and clocks that jump.

use std::time::Duration;

use rangekeeper_bootstrap::config::{Form, Periods, Placement};
use rangekeeper_bootstrap::lifecycle::{Lifecycle, Phase, Work};

/// Plays a lifecycle: what is due takes as long as `takes` says and ends as `ends` says.
struct Play<T, E> {
    lifecycle: Lifecycle,
    takes: T,
    ends: E,
    running: Vec<(u64, Work)>,
    /// When what began, in ms.
    begun: Vec<(u64, Work)>,
    fatal: Vec<(u64, Work)>,
    now: u64,
}

impl<T: Fn(Work) -> u64, E: FnMut(u64, Work) -> bool> Play<T, E> {
    fn new(form: Form, placement: Placement, takes: T, ends: E) -> Self {
        let lifecycle = Lifecycle::new(form, placement, Periods::default());
        Self { lifecycle, takes, ends, running: Vec::new(), begun: Vec::new(), fatal: Vec::new(), now: 0 }
    }

    fn run_until(&mut self, until: u64) {
        let mut turns = 0;
        loop {
            turns += 1;
            assert!(turns < 1_000_000, "it turns on the spot at {}", self.now);
            self.lifecycle.advance(Duration::from_millis(self.now));
            while let Some(at) = self.running.iter().position(|(at, _)| *at <= self.now) {
                let (_, work) = self.running.remove(at);
                let succeeds = (self.ends)(self.now, work);
                if self.lifecycle.done(work, succeeds) {
                    self.fatal.push((self.now, work));
                }
            }
            let (due, fatal) = self.lifecycle.start();
            self.fatal.extend(fatal.map(|work| (self.now, work)));
            for work in due {
                self.begun.push((self.now, work));
                self.running.push((self.now + (self.takes)(work), work));
            }
            let next = self.lifecycle.next().map(|at| at.as_millis() as u64);
            let ends = self.running.iter().map(|(at, _)| *at);
            let next = ends.chain(next).min().unwrap_or(u64::MAX).max(self.now);
            self.lifecycle.waits(Some(Duration::from_millis(next - self.now)));
            if next > until {
                break;
            }
            self.now = next;
        }
        self.now = until;
        self.lifecycle.advance(Duration::from_millis(until));
    }

    fn times(&self, work: Work) -> Vec<u64> {
        self.begun.iter().filter(|(_, begun)| *begun == work).map(|(at, _)| *at).collect()
    }
}

fn every(first: u64, period: u64, count: u64) -> Vec<u64> {
    (0..count).map(|turn| first + turn * period).collect()
}

/// 1.36: three independent hooks, the loop of the Service from when the server is ready. Its turns do not shift, the
/// others begin one period after the last one has ended.
#[test]
fn hooks_begin_at_once_and_keep_their_periods() {
    let takes = |work| match work {
        Work::KubernetesService => 3000,
        Work::Readiness => 0,
        _ => 500,
    };
    let mut play = Play::new(Form::Hooks, Placement::Inside, takes, |now, work| work != Work::Readiness || now >= 1000);
    play.run_until(600_000);
    assert_eq!(play.lifecycle.ready_path(), "/readyz");
    for work in [Work::Namespaces, Work::RepairClusterIps, Work::RepairNodePorts, Work::RemoveStaleEndpoint] {
        assert_eq!(play.times(work)[0], 0, "{work:?}");
    }
    assert_eq!(play.times(Work::RemoveStaleEndpoint).len(), 1);
    assert_eq!(play.times(Work::Readiness), every(500, 100, 6));
    assert_eq!(play.times(Work::KubernetesService), every(1000, 10_000, 60));
    assert_eq!(play.times(Work::Namespaces), every(0, 60_500, 10));
    assert_eq!(play.times(Work::RepairClusterIps), every(0, 180_500, 4));
    assert_eq!(play.times(Work::RepairNodePorts), every(0, 180_500, 4));
    assert_eq!(play.lifecycle.phase(), Phase::Running);
}

/// 1.20: first the stale endpoint, then one repair after the other, then the loops.
#[test]
fn the_single_controller_repairs_before_anything_else() {
    let takes = |work| if work == Work::Readiness { 0 } else { 500 };
    let ready = |now, work| work != Work::Readiness || now >= 2000;
    let mut play = Play::new(Form::SingleController, Placement::Inside, takes, ready);
    play.run_until(1400);
    assert_eq!(play.lifecycle.phase(), Phase::Starting);
    play.run_until(200_000);
    assert_eq!(play.lifecycle.ready_path(), "/healthz");
    let first: Vec<(u64, Work)> = play.begun[..5].to_vec();
    let expected = [
        (0, Work::RemoveStaleEndpoint),
        (500, Work::RepairClusterIps),
        (1000, Work::RepairNodePorts),
        (1500, Work::Readiness),
        (1500, Work::Namespaces),
    ];
    assert_eq!(first, expected);
    assert_eq!(play.times(Work::KubernetesService)[..3], [2000, 12_000, 22_000]);
    // Not again at once: two passes in a row would halve the grace of a leak.
    assert_eq!(play.times(Work::RepairClusterIps), [500, 181_000]);
    assert_eq!(play.times(Work::RepairNodePorts), [1000, 181_500]);
}

#[test]
fn beside_a_server_nothing_begins_before_it_is_ready() {
    for form in [Form::Hooks, Form::SingleController] {
        let mut play = Play::new(form, Placement::Beside, |_| 0, |now, work| work != Work::Readiness || now >= 90_000);
        play.run_until(89_999);
        assert!(play.begun.iter().all(|(_, work)| *work == Work::Readiness));
        assert_eq!(play.begun.len(), 900);
        play.run_until(90_000);
        assert!(play.times(Work::RemoveStaleEndpoint).is_empty(), "the server is ready: its endpoint is not stale");
        assert_eq!(play.lifecycle.phase(), Phase::Running, "no minute has passed since it is ready");
        assert_eq!(play.times(Work::KubernetesService), [90_000]);
    }
}

#[test]
fn a_first_repair_that_fails_is_fatal_for_the_single_controller() {
    for (failing, at) in [(Work::RepairClusterIps, 0), (Work::RepairNodePorts, 0)] {
        let mut play = Play::new(Form::SingleController, Placement::Inside, |_| 0, |_, work| work != failing);
        play.run_until(1000);
        assert_eq!(play.fatal, [(at, failing)]);
        assert!(play.times(Work::KubernetesService).is_empty());
        assert!(play.times(Work::RemoveEndpoint).is_empty());
        assert_eq!(play.lifecycle.phase(), Phase::Stopped { removed: false, fatal: true });
    }
    // Later it is not.
    let ends = |now, work| work != Work::RepairNodePorts || now < 1000;
    let mut play = Play::new(Form::SingleController, Placement::Inside, |_| 0, ends);
    play.run_until(1_000_000);
    assert_eq!((play.fatal.len(), play.lifecycle.phase()), (0, Phase::Running));
}

#[test]
fn hooks_try_the_first_repairs_for_a_minute() {
    let mut play =
        Play::new(Form::Hooks, Placement::Inside, |_| 0, |now, work| work != Work::RepairNodePorts || now >= 50_000);
    play.run_until(70_000);
    assert_eq!(play.times(Work::RepairNodePorts), [0, 1000, 3000, 7000, 15_000, 31_000]);
    assert_eq!(play.fatal, [(60_000, Work::RepairNodePorts)], "the next try would come at 63 s");

    let mut play =
        Play::new(Form::Hooks, Placement::Inside, |_| 0, |now, work| work != Work::RepairNodePorts || now >= 30_000);
    play.run_until(70_000);
    assert_eq!((play.fatal.len(), play.lifecycle.phase()), (0, Phase::Running));
}

#[test]
fn what_has_failed_is_tried_again_soon_but_less_and_less() {
    let ends = |now, work| work != Work::KubernetesService || now >= 40_000;
    let mut play = Play::new(Form::Hooks, Placement::Inside, |_| 0, ends);
    play.run_until(60_000);
    let expected = [0, 1000, 3000, 7000, 10_000, 20_000, 30_000, 40_000, 50_000, 60_000];
    assert_eq!(play.times(Work::KubernetesService), expected);
}

#[test]
fn a_change_makes_the_next_turn_due_and_regular_turns_do_not_shift() {
    let takes = |work| if work == Work::KubernetesService { 100 } else { 0 };
    let times = |writes: bool| {
        let mut play = Play::new(Form::Hooks, Placement::Inside, takes, |_, _| true);
        // At once, during a turn, and all the time.
        for at in [5000, 10_050].into_iter().chain((10_100..20_000).step_by(100)).chain([27_000, 40_000]) {
            play.run_until(at);
            if writes {
                play.lifecycle.writes();
            }
            play.lifecycle.changed();
            play.run_until(at);
        }
        play.times(Work::KubernetesService)
    };
    let expected = [0, 5000, 10_000, 10_500, 11_500, 13_500, 17_500, 20_000, 27_000, 30_000, 40_000];
    assert_eq!(times(true), expected, "turns that undo what another writer does become rare");
    let expected = [0, 5000].into_iter().chain((10_000..=20_000).step_by(500)).chain([27_000, 30_000, 40_000]);
    assert_eq!(times(false), expected.collect::<Vec<_>>());
}

#[test]
fn a_change_does_not_hurry_what_fails_nor_what_has_not_begun_or_has_ended() {
    let ends = |now, work| work != Work::KubernetesService || now >= 3000;
    let mut play = Play::new(Form::Hooks, Placement::Inside, |_| 0, ends);
    play.lifecycle.changed();
    for at in 0..20 {
        play.run_until(at * 100);
        play.lifecycle.changed();
    }
    play.run_until(5000);
    assert_eq!(play.times(Work::KubernetesService), [0, 1000, 3000]);
    play.lifecycle.stop();
    play.lifecycle.changed();
    play.run_until(60_000);
    assert_eq!(play.times(Work::KubernetesService).len(), 3);
}

#[test]
fn a_stop_waits_for_the_round_under_way_and_removes_the_endpoint() {
    let takes = |work| if work == Work::KubernetesService { 700 } else { 100 };
    let mut play = Play::new(Form::Hooks, Placement::Inside, takes, |_, _| true);
    play.run_until(10_500);
    play.lifecycle.stop();
    play.lifecycle.stop();
    let begun = play.begun.len();
    play.run_until(100_000);
    assert_eq!(play.begun[begun..], [(10_900, Work::RemoveEndpoint)], "the loops have ended");
    assert_eq!(play.lifecycle.phase(), Phase::Stopped { removed: true, fatal: false });
    assert_eq!(play.lifecycle.next(), None);
}

#[test]
fn a_stop_ends_after_two_intervals_of_the_endpoints() {
    // The removal hangs, or fails, or the round before it hangs.
    for case in 0..3 {
        let takes = move |work| match work {
            Work::RemoveEndpoint if case == 0 => 1_000_000,
            Work::KubernetesService if case == 2 => 1_000_000,
            _ => 10,
        };
        let mut play = Play::new(Form::Hooks, Placement::Inside, takes, |_, work| work != Work::RemoveEndpoint);
        play.run_until(5000);
        play.lifecycle.stop();
        play.run_until(24_999);
        assert_eq!(play.lifecycle.phase(), Phase::Stopping);
        play.run_until(25_000);
        assert_eq!(play.lifecycle.phase(), Phase::Stopped { removed: false, fatal: false });
        let removals = [1, 5, 0][case];
        assert_eq!(play.times(Work::RemoveEndpoint).len(), removals);
    }
}

#[test]
fn a_clock_that_jumps_forward_makes_each_work_due_once_and_no_deadline_pass() {
    let mut play = Play::new(
        Form::Hooks,
        Placement::Inside,
        |_| 0,
        |now, work| {
            // The repairs succeed at the second try, which an hour has passed before.
            now > 3_000_000 || !matches!(work, Work::RepairClusterIps | Work::RepairNodePorts)
        },
    );
    play.run_until(500);
    assert_eq!(play.lifecycle.phase(), Phase::Starting);
    play.lifecycle.waits(Some(Duration::from_millis(500)));
    let begun = play.begun.len();
    play.now = 3_600_500;
    play.lifecycle.advance(Duration::from_millis(play.now));
    let (due, fatal) = play.lifecycle.start();
    assert_eq!((due, fatal), (vec![Work::RepairClusterIps, Work::RepairNodePorts], None));
    assert_eq!(begun, play.begun.len());
    for work in [Work::RepairClusterIps, Work::RepairNodePorts] {
        assert!(!play.lifecycle.done(work, true));
    }
    assert_eq!(play.lifecycle.phase(), Phase::Running);
}

#[test]
fn a_clock_that_goes_back_loses_one_wait_at_most() {
    let mut lifecycle = Lifecycle::new(Form::Hooks, Placement::Inside, Periods::default());
    let mut clock = 10_000_000;
    let (mut real, mut turns) = (0_u64, 0);
    while real < 600_000 {
        lifecycle.advance(Duration::from_millis(clock));
        for work in lifecycle.start().0 {
            turns += u64::from(work == Work::KubernetesService);
            lifecycle.done(work, true);
        }
        let wait = 1000;
        lifecycle.waits(Some(Duration::from_millis(wait)));
        real += wait;
        clock += wait;
        if real % 60_000 == 0 {
            clock -= 600_000;
        }
    }
    // Ten jumps, each of which hides up to a second.
    assert!((58..=60).contains(&turns), "{turns}");
}
