//! Runs the scripts of testing/testdata/commit, whose README says what their lines mean. The C ABI and the Go binding
//! run them, too.

use std::collections::HashMap;
use std::fs;
use std::num::{NonZeroU8, NonZeroU64};
use std::path::Path;
use std::time::Duration;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use rangekeeper::Range;
use rangekeeper::allocator::{AllocateError, BatchError, Request, Strategy};
use rangekeeper::audit::Audit;
use rangekeeper::bitmap::Bitmap;
use rangekeeper::commit::{
    Answer, Change, Committer, Config, Deferral, Edit, EditKind, Edited, Event, Failure, Fate, Found, Header, KeyState,
    KeyValue, LeakTracker, Operation, Outcome, RepairPass, Repaired, Replace, ServiceList, Step, StoreRequest, Ticket,
};
use rangekeeper::ports::PortRange;
use rangekeeper::range_allocation::{Form, RangeAllocation};
use rangekeeper::service::Service;

#[test]
fn every_script_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testing/testdata/commit");
    let mut scripts = 0;
    for entry in fs::read_dir(folder).expect("testing/testdata/commit") {
        let path = entry.expect("a file").path();
        if path.extension().is_some_and(|extension| extension == "txt") {
            scripts += 1;
            run(&path);
        }
    }
    assert!(scripts > 0);
}

fn run(path: &Path) {
    let mut story = None;
    for (index, line) in fs::read_to_string(path).expect("a script").lines().enumerate() {
        let place = format!("{}:{}: {line}", path.display(), index + 1);
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            [""] | ["#", ..] => {}
            ["committer", range] => story = Some(Story::new(range.parse().expect(&place))),
            _ => story.as_mut().expect(&place).line(&words, &place),
        }
    }
}

struct Story {
    range: PortRange,
    committer: Committer<PortRange, Xoshiro256PlusPlus>,
    now: Duration,
    names: HashMap<Ticket, String>,
    outcomes: HashMap<String, Outcome<PortRange>>,
    /// The stores that were known.
    stores: HashMap<String, u32>,
    passes: Option<LeakTracker>,
    /// The pass under way, until its Services are listed.
    pass: Option<RepairPass>,
    /// What the pass has found after that.
    found: Option<Found>,
}

fn number(word: &str, place: &str) -> u64 {
    word.parse().expect(place)
}

fn state(word: &str, place: &str) -> KeyState {
    let numbers: Vec<u64> = word.split('/').map(|word| number(word, place)).collect();
    let [mod_revision, version, create_revision] = numbers[..] else { panic!("{place}") };
    KeyState { mod_revision, version, create_revision }
}

impl Story {
    fn new(range: PortRange) -> Self {
        let config =
            Config { strategy: Strategy::Contiguous, grace: Duration::from_secs(360), replace: Replace::Always };
        let committer = Committer::new(range, config, Xoshiro256PlusPlus::seed_from_u64(1));
        Self {
            range,
            committer,
            now: Duration::from_secs(1),
            names: HashMap::new(),
            outcomes: HashMap::new(),
            stores: HashMap::new(),
            passes: None,
            pass: None,
            found: None,
        }
    }

    fn line(&mut self, words: &[&str], place: &str) {
        match *words {
            ["clock", at] => self.now = Duration::from_millis(number(at, place)),
            ["submit", name, "by", at, ref rest @ ..] => {
                self.submit(name, Duration::from_millis(number(at, place)), rest, place);
            }
            ["submit", name, ref rest @ ..] => self.submit(name, Duration::MAX, rest, place),
            ["cancel", name] => {
                let ticket = self.names.iter().find(|(_, one)| *one == name).expect(place).0;
                self.committer.cancel(*ticket);
            }
            ["abandon", name] => self.committer.abandon(self.outcomes.remove(name).expect(place)),
            ["store", name] => _ = self.stores.insert(name.to_owned(), self.committer.known().store),
            ["written", name] => {
                let Some(Outcome::Allocated { values, .. }) = self.outcomes.get(name) else { panic!("{place}") };
                values.iter().for_each(|value| self.committer.written(*value));
            }
            ["passes", count, interval] => {
                let passes = NonZeroU8::new(number(count, place) as u8).expect(place);
                self.passes = Some(LeakTracker::new(passes, Duration::from_millis(number(interval, place))));
            }
            ["pass" | "pass-read" | "pass-fenced" | "pass-list", ..] => self.pass(words, place),
            ["handle", ref event @ ..] => self.handle(event, place),
            ["poll", ref expected @ ..] => {
                let step = self.committer.poll(self.now);
                let step = self.text(step);
                assert_eq!(step, expected.join(" "), "{place}");
            }
            _ => panic!("{place}: an unknown line"),
        }
    }

    /// A step of a repair pass.
    fn pass(&mut self, words: &[&str], place: &str) {
        let passes = self.passes.as_mut().expect(place);
        if *words == ["pass"] {
            let mut pass = passes.start();
            pass.begin(passes, &mut self.committer).expect(place);
            (self.pass, self.found) = (Some(pass), None);
            return;
        }
        let pass = self.pass.as_mut().expect(place);
        match *words {
            ["pass-read", name, expected] => {
                let Some(Outcome::Read(view)) = self.outcomes.get(name) else { panic!("{place}") };
                let needs_fence = pass.read(passes, &self.committer, view, self.now).expect(place);
                assert_eq!(if needs_fence { "fence" } else { "no-fence" }, expected, "{place}");
            }
            ["pass-fenced", revision, look] => {
                let look = NonZeroU64::new(number(look, place)).expect(place);
                pass.fenced(passes, &self.committer, number(revision, place), look).expect(place);
            }
            ["pass-list", ref ports @ ..] => {
                let mut audit = Audit::new();
                let listing = pass.clone().audit(passes, &mut audit).expect(place);
                for port in ports {
                    let health_check_node_port = number(port, place) as i32;
                    audit.observe(&Service { health_check_node_port, ..Service::default() });
                }
                let (found, _) = listing.finish(passes, audit).expect(place);
                (self.pass, self.found) = (None, Some(found));
            }
            _ => panic!("{place}: an unknown line"),
        }
    }

    /// What the pass has found, with a list of Services that was made like this.
    fn repair(&mut self, listed: &[&str], place: &str) -> Operation<PortRange> {
        let listed = match *listed {
            ["elsewhere"] => ServiceList::Elsewhere,
            ["at", revision] => ServiceList::At(number(revision, place)),
            ["guarding", revision] => ServiceList::Guarding(number(revision, place)),
            _ => panic!("{place}: an unknown list"),
        };
        let (passes, found) = (self.passes.as_mut().expect(place), self.found.as_ref().expect(place));
        Operation::Repair(Box::new(found.diff(passes, &mut self.committer, listed).expect(place)))
    }

    fn submit(&mut self, name: &str, deadline: Duration, words: &[&str], place: &str) {
        let port = |word: &str| number(word, place) as u16;
        let operation = match *words {
            ["create"] => Operation::Create,
            ["read"] => Operation::Read,
            ["release", value, as_of, oldest, ref store @ ..] => {
                let (as_of, oldest) = (number(as_of, place), number(oldest, place));
                let store = match *store {
                    [] => 0,
                    [name] => self.stores[name],
                    _ => panic!("{place}"),
                };
                Operation::Release { value: port(value), as_of, oldest, store }
            }
            ["allocate", ref values @ ..] => {
                let wanted = |word: &&str| if *word == "any" { Request::Any } else { Request::Named(port(word)) };
                Operation::Allocate(values.iter().map(wanted).collect())
            }
            ["edit", kind, listed, since, ref rest @ ..] => {
                Operation::Edit(Box::new(self.edit(kind, number(listed, place), number(since, place), rest, place)))
            }
            ["repair", ref listed @ ..] => self.repair(listed, place),
            _ => panic!("{place}: an unknown operation"),
        };
        self.names.insert(self.committer.submit(operation, deadline), name.to_owned());
    }

    fn edit(&self, kind: &str, listed: u64, since: u64, words: &[&str], place: &str) -> Edit<PortRange> {
        let kind = match kind {
            "change" => EditKind::Change,
            "force" => EditKind::Force,
            "plan" => EditKind::Plan,
            "undo" => EditKind::Undo,
            _ => panic!("{place}: an unknown kind"),
        };
        let after = |list: &str| {
            let from = words.iter().position(|word| *word == list).map_or(words.len(), |at| at + 1);
            let numbers = words[from..].iter().map_while(|word| word.parse::<u16>().ok());
            numbers.collect::<Vec<_>>()
        };
        let mut in_use = Bitmap::new(self.range.size());
        for port in after("used") {
            in_use.insert(self.range.offset_of(port).expect(place));
        }
        let pick = after("pick").first().map_or(0, |count| u32::from(*count));
        Edit {
            kind,
            set: after("set"),
            pick,
            clear: after("clear"),
            in_use,
            listed,
            since,
            look: Some(NonZeroU64::MIN),
        }
    }

    fn handle(&mut self, words: &[&str], place: &str) {
        let header = |revision: &str| Header { cluster_id: 1, revision: number(revision, place), raft_term: 1 };
        let reason = words[1..].join(" ");
        let stored;
        let event = match *words {
            ["held", revision] => Event::Answered { header: header(revision), answer: Answer::Held },
            ["current", revision] => Event::Answered { header: header(revision), answer: Answer::Current(None) },
            ["current", revision, key, ref ports @ ..] => {
                stored = self.stored(ports, place);
                let key = KeyValue { state: state(key, place), value: &stored };
                Event::Answered { header: header(revision), answer: Answer::Current(Some(key)) }
            }
            ["past", revision] => Event::Answered { header: header(revision), answer: Answer::Past(None) },
            ["past", revision, key, ref ports @ ..] => {
                stored = self.stored(ports, place);
                let key = KeyValue { state: state(key, place), value: &stored };
                Event::Answered { header: header(revision), answer: Answer::Past(Some(key)) }
            }
            ["compacted"] => Event::Compacted,
            ["unknown"] => Event::Unknown,
            ["refused", ..] => Event::Refused(&reason),
            ["reconnected"] => Event::Reconnected,
            ["watched", key, ref ports @ ..] => {
                stored = self.stored(ports, place);
                let state = state(key, place);
                Event::Watched(match state.version {
                    0 => Change::Delete { revision: state.mod_revision },
                    _ => Change::Put(KeyValue { state, value: &stored }),
                })
            }
            ["watch-ended"] => Event::WatchEnded,
            ["watch-failed"] => Event::WatchFailed,
            _ => panic!("{place}: an unknown event"),
        };
        self.committer.handle(event, self.now);
    }

    /// What is stored if these ports are in use.
    fn stored(&self, ports: &[&str], place: &str) -> Vec<u8> {
        let mut used = Bitmap::new(self.range.size());
        for port in ports {
            used.insert(self.range.offset_of(number(port, place) as u16).expect(place));
        }
        let mut stored = RangeAllocation::new(Form::Protobuf);
        stored.range = self.range.to_string();
        stored.data = used.snapshot().to_vec();
        stored.encode()
    }

    /// The ports that are in use, each after a space.
    fn ports(&self, used: &Bitmap) -> String {
        used.iter().map(|offset| format!(" {}", self.range.value_at(offset).expect("of the range"))).collect()
    }

    fn text(&mut self, step: Step<PortRange>) -> String {
        let guard = |guard: KeyState| format!("{}/{}/{}", guard.mod_revision, guard.version, guard.create_revision);
        match step {
            Step::Idle => "idle".to_owned(),
            Step::Wait(until) => {
                self.now = until;
                "wait".to_owned()
            }
            Step::Watch { from } => format!("watch {from}"),
            Step::StopWatch => "stop-watch".to_owned(),
            Step::Send(StoreRequest::Read) => "read".to_owned(),
            Step::Send(StoreRequest::ReadAt { revision }) => format!("read-at {revision}"),
            Step::Send(StoreRequest::Confirm { guard: state }) => format!("confirm {}", guard(state)),
            Step::Send(StoreRequest::Swap { guard: state, value, services_unchanged_since, look, .. }) => {
                let mut used = Bitmap::new(self.range.size());
                used.restore(&RangeAllocation::decode(&value).expect("its own value").data).expect("of the range");
                let list = services_unchanged_since.map_or(String::new(), |revision| format!(" list {revision}"));
                let look = look.map_or(String::new(), |look| format!(" look {look}"));
                format!("swap {}{list}{look}{}", guard(state), self.ports(&used))
            }
            Step::Finished(all) => {
                let mut texts = Vec::new();
                for one in all {
                    let name = self.names.remove(&one.ticket).expect("a submitted operation");
                    texts.push(format!("{name} {}", self.outcome(&one.outcome)));
                    self.outcomes.insert(name, one.outcome);
                }
                format!("finished {}", texts.join(", "))
            }
        }
    }

    fn outcome(&self, outcome: &Outcome<PortRange>) -> String {
        match outcome {
            Outcome::Allocated { values, revision, .. } => {
                let values: String = values.iter().map(|value| format!("{value} ")).collect();
                format!("allocated {values}at {revision}")
            }
            Outcome::Released { freed } => if *freed { "freed" } else { "not-freed" }.to_owned(),
            Outcome::Deferred(Deferral::Duplicate) => "deferred duplicate".to_owned(),
            Outcome::Deferred(_) => "deferred".to_owned(),
            Outcome::Read(view) => format!("read {}{}", view.revision, self.ports(&view.used)),
            Outcome::Created { created } => if *created { "created" } else { "exists" }.to_owned(),
            Outcome::Unknown => "unknown".to_owned(),
            Outcome::Failed(failure) => {
                let reason = match failure {
                    Failure::Allocate(BatchError::Full { .. }) => "full",
                    Failure::Allocate(BatchError::Allocate {
                        source: AllocateError::AlreadyAllocated { .. }, ..
                    }) => "in-use",
                    Failure::NotInitialised => "not-initialised",
                    Failure::Refused { .. } => "refused",
                    Failure::StaleList { .. } => "stale-list",
                    Failure::ServicesWritten { .. } => "services-written",
                    Failure::DeadlineExceeded => "deadline",
                    Failure::Cancelled => "cancelled",
                    other => panic!("{other}"),
                };
                format!("failed {reason}")
            }
            Outcome::Edited(Edited { revision, is_done, values }) => {
                let fate = |fate| match fate {
                    Fate::Set => "set",
                    Fate::Cleared => "cleared",
                    Fate::AlreadySet => "already-set",
                    Fate::AlreadyClear => "already-clear",
                    Fate::InUse => "in-use",
                    Fate::Unused => "unused",
                    Fate::Reallocated => "reallocated",
                    Fate::Unsure => "unsure",
                };
                let values: String = values.iter().map(|(port, one)| format!(" {port} {}", fate(*one))).collect();
                format!("{} {revision}{values}", if *is_done { "edited" } else { "not-edited" })
            }
            Outcome::Repaired(Repaired { set, cleared, changed }) => {
                let list = |label: &str, ports: &[u16]| {
                    let ports: String = ports.iter().map(|port| format!(" {port}")).collect();
                    if ports.is_empty() { ports } else { format!(" {label}{ports}") }
                };
                let changed = if *changed > 0 { format!(" changed {changed}") } else { String::new() };
                format!("repaired{}{}{changed}", list("set", set), list("cleared", cleared))
            }
        }
    }
}
