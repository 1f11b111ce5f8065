//! Runs the scripts of testdata/commit, whose README says what their lines mean. The C ABI and the Go binding run them,
//! too.

use std::collections::HashMap;
use std::fs;
use std::num::NonZeroU64;
use std::path::Path;
use std::time::Duration;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use rangekeeper::Range;
use rangekeeper::allocator::{AllocateError, BatchError, Request as Wanted, Strategy};
use rangekeeper::bitmap::Bitmap;
use rangekeeper::commit::{
    Answer, Change, Committer, Config, Edit, EditKind, Edited, Event, Failure, Fate, Guard, Header, KeyValue,
    Operation, Outcome, Replace, Request, Step, Ticket,
};
use rangekeeper::ports::PortRange;
use rangekeeper::range_allocation::{Form, RangeAllocation};

#[test]
fn every_script_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/commit");
    let mut scripts = 0;
    for entry in fs::read_dir(folder).expect("testdata/commit") {
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
}

fn number(word: &str, place: &str) -> u64 {
    word.parse().expect(place)
}

fn state(word: &str, place: &str) -> Guard {
    let numbers: Vec<u64> = word.split('/').map(|word| number(word, place)).collect();
    let [mod_revision, version, create_revision] = numbers[..] else { panic!("{place}") };
    Guard { mod_revision, version, create_revision }
}

impl Story {
    fn new(range: PortRange) -> Self {
        let config =
            Config { strategy: Strategy::Contiguous, grace: Duration::from_secs(360), replace: Replace::Always };
        let committer = Committer::new(range, config, Xoshiro256PlusPlus::seed_from_u64(1));
        Self { range, committer, now: Duration::from_secs(1), names: HashMap::new(), outcomes: HashMap::new() }
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
            ["written", name] => {
                let Some(Outcome::Allocated { values, .. }) = self.outcomes.get(name) else { panic!("{place}") };
                values.iter().for_each(|value| self.committer.written(*value));
            }
            ["handle", ref event @ ..] => self.handle(event, place),
            ["poll", ref expected @ ..] => {
                let step = self.committer.poll(self.now);
                let step = self.text(step);
                assert_eq!(step, expected.join(" "), "{place}");
            }
            _ => panic!("{place}: an unknown line"),
        }
    }

    fn submit(&mut self, name: &str, deadline: Duration, words: &[&str], place: &str) {
        let port = |word: &str| number(word, place) as u16;
        let operation = match *words {
            ["create"] => Operation::Create,
            ["read"] => Operation::Read,
            ["release", value, as_of, oldest, ref store @ ..] => {
                let (as_of, oldest) = (number(as_of, place), number(oldest, place));
                let store = store.first().map_or(0, |store| number(store, place) as u32);
                Operation::Release { value: port(value), as_of, oldest, store }
            }
            ["allocate", ref values @ ..] => {
                let wanted = |word: &&str| if *word == "any" { Wanted::Next } else { Wanted::This(port(word)) };
                Operation::Allocate(values.iter().map(wanted).collect())
            }
            ["edit", kind, listed, since, ref rest @ ..] => {
                Operation::Edit(Box::new(self.edit(kind, number(listed, place), number(since, place), rest, place)))
            }
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
        let guard = |guard: Guard| format!("{}/{}/{}", guard.mod_revision, guard.version, guard.create_revision);
        match step {
            Step::Idle => "idle".to_owned(),
            Step::Wait(until) => {
                self.now = until;
                "wait".to_owned()
            }
            Step::Watch { from } => format!("watch {from}"),
            Step::StopWatch => "stop-watch".to_owned(),
            Step::Send(Request::Read) => "read".to_owned(),
            Step::Send(Request::ReadAt { revision }) => format!("read-at {revision}"),
            Step::Send(Request::Confirm { guard: state }) => format!("confirm {}", guard(state)),
            Step::Send(Request::Swap { guard: state, value, look, .. }) => {
                let mut used = Bitmap::new(self.range.size());
                used.restore(&RangeAllocation::decode(&value).expect("its own value").data).expect("of the range");
                let look = look.map_or("", |_| " look");
                format!("swap {}{look}{}", guard(state), self.ports(&used))
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
            Outcome::Repaired(_) => panic!("scripts do not repair"),
        }
    }
}
