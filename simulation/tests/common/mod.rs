//! A committer with a store that always answers.

use std::time::Duration;

use rand_xoshiro::Xoshiro256PlusPlus;
use rangekeeper::commit::{Answer, Change, Committer, KeyValue, Operation, Outcome, Step};
use rangekeeper::range::Range;
use rangekeeper_simulation::store::{Store, Writer};

/// Lets a committer carry out one operation. Its watch tells all that it asks for.
pub(crate) fn run<R: Range>(
    store: &mut Store,
    committer: &mut Committer<R, Xoshiro256PlusPlus>,
    now: Duration,
    operation: Operation<R>,
) -> Outcome<R> {
    let ticket = committer.submit(operation, Duration::MAX);
    let mut now = now;
    loop {
        if let Some(finished) = committer.take_finished().into_iter().find(|finished| finished.ticket == ticket) {
            return finished.outcome;
        }
        if let Some(from) = committer.watch_from() {
            for version in store.log.iter().filter(|version| version.revision >= from) {
                committer.watched(match &version.key {
                    Some(key) => Change::Put(KeyValue { state: key.state, value: &key.value }),
                    None => Change::Delete { revision: version.revision },
                });
            }
        }
        match committer.poll(now) {
            Step::Send(request) => {
                let reply = store.perform(request, Writer::Server(0));
                let key = reply.key.as_ref().map(|key| KeyValue { state: key.state, value: &key.value });
                let answer = if reply.held { Answer::Held } else { Answer::Current(key) };
                committer.answered(now, reply.header, answer);
            }
            Step::WaitUntil(until) => now = until,
            Step::Idle => panic!("{ticket:?} is left"),
        }
    }
}
