//! A committer with a store that always answers.

use std::time::Duration;

use rand_xoshiro::Xoshiro256PlusPlus;
use rangekeeper::commit::{Answer, Change, Committer, Event, KeyValue, Operation, Outcome, Step};
use rangekeeper::range::Range;
use rangekeeper_simulation::store::{Store, Writer};

/// Lets a committer carry out one operation. Its watch reports every change that it asks for.
pub(crate) fn run<R: Range>(
    store: &mut Store,
    committer: &mut Committer<R, Xoshiro256PlusPlus>,
    now: Duration,
    operation: Operation<R>,
) -> Outcome<R> {
    let ticket = committer.submit(operation, Duration::MAX);
    let mut now = now;
    // What has changed since the last operation is in a new watch.
    committer.handle(Event::WatchEnded, now);
    loop {
        match committer.poll(now) {
            Step::Finished(mut all) => {
                let own = all.iter().position(|finished| finished.ticket == ticket);
                if let Some(own) = own {
                    return all.swap_remove(own).outcome;
                }
            }
            Step::Watch { from } => {
                for version in store.log.iter().filter(|version| version.revision >= from) {
                    let change = match &version.key {
                        Some(key) => Change::Put(KeyValue { state: key.state, value: &key.value }),
                        None => Change::Delete { revision: version.revision },
                    };
                    committer.handle(Event::Watched(change), now);
                }
            }
            Step::Send(request) => {
                let reply = store.perform(request, Writer::Server(0));
                let key = reply.key.as_ref().map(|key| KeyValue { state: key.state, value: &key.value });
                let answer = if reply.held { Answer::Held } else { Answer::Current(key) };
                committer.handle(Event::Answered { header: reply.header, answer }, now);
            }
            Step::Wait(until) => now = until,
            Step::StopWatch => {}
            Step::Idle => panic!("{ticket:?} is left"),
        }
    }
}
