//! The sidecar: a key beside that of the range, by which a swap without an answer is decided.
//!
//! Each writer has a sidecar of its own. A swap holds only if the sidecar is still what its writer knows, and puts into
//! it which swap it was, in the same transaction. If no answer comes, the writer sends a fence: if the sidecar is still
//! the same, put a fence into it, and then read. If the fence is found, the swap was not written and cannot be any more.
//! If the swap's own mark is found, the swap was written, at the revision of the sidecar. Anything else is somebody
//! else's doing, and tells nothing.

use std::time::Duration;

use rand_core::Rng;

use crate::range::Range;

use super::faults::Fault;
use super::request::{Answer, Guard, Header, KeyValue, Request, SIDECAR_LEN, SidecarPut, Step};
use super::{Committer, Flight};

/// What the value begins with. Then come nonce, number and kind, each in 8 bytes, the highest first.
const MAGIC: [u8; 8] = *b"rkwriter";

/// Who wrote the sidecar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Swap = 1,
    Fence = 2,
}

/// What a committer knows of its sidecar.
#[derive(Clone, Debug)]
pub(super) struct Sidecar {
    /// Tells this committer from all others that ever wrote the same key.
    nonce: u64,
    /// The number of the last swap.
    number: u64,
    /// Of the key as it was in the last answer; 0 if there is none.
    mod_revision: u64,
}

/// How far a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It is under way.
    Sent,
    /// A swap had no answer, or none that tells what became of it: this is to be sent.
    Undecided(Inquiry),
    /// This is under way.
    Asked(Inquiry),
}

/// What tells what became of a swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inquiry {
    Fence,
    /// The swap was refused: if it was not written yet it will not be.
    Read,
}

/// What became of a swap, or of a confirm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Its guard held, at this revision.
    Held(u64),
    /// It was not carried out, and will not be.
    Never,
    Unknown,
}

impl Sidecar {
    pub(super) fn new(rng: &mut impl Rng) -> Self {
        Self { nonce: rng.next_u64(), number: 0, mod_revision: 0 }
    }

    /// What the next swap puts.
    pub(super) fn next_swap(&mut self) -> SidecarPut {
        self.number += 1;
        self.put(Kind::Swap)
    }

    /// What the fence puts that comes after the last swap.
    pub(super) fn fence(&self) -> SidecarPut {
        self.put(Kind::Fence)
    }

    fn put(&self, kind: Kind) -> SidecarPut {
        SidecarPut { mod_revision: self.mod_revision, value: self.value(kind) }
    }

    fn value(&self, kind: Kind) -> [u8; SIDECAR_LEN] {
        let mut value = [0; SIDECAR_LEN];
        let numbers = [self.nonce, self.number, kind as u64].map(u64::to_be_bytes);
        for (place, part) in value.chunks_exact_mut(8).zip([MAGIC].iter().chain(&numbers)) {
            place.copy_from_slice(part);
        }
        value
    }

    /// Whether there is no key. A swap does not go out then: if the key were deleted after it, that would look as if it
    /// had never been written.
    pub(super) fn is_missing(&self) -> bool {
        self.mod_revision == 0 && !Fault::SwapWithoutSidecar.is_on()
    }

    /// Whether it is as it was in the last answer.
    fn is_unchanged(&self, found: Option<KeyValue<'_>>) -> bool {
        found.map_or(0, |found| found.state.mod_revision) == self.mod_revision
    }

    /// What became of the last swap if this is found.
    fn judge(&self, found: Option<KeyValue<'_>>) -> Verdict {
        let Some(found) = found.filter(|_| !self.is_unchanged(found)) else { return Verdict::Unknown };
        if self.is_own(found.value, Kind::Swap) && !Fault::ProvenTakenForDead.is_on() {
            Verdict::Held(found.state.mod_revision)
        } else if self.is_own(found.value, Kind::Fence) || Fault::ForeignTakenForDead.is_on() {
            Verdict::Never
        } else {
            Verdict::Unknown
        }
    }

    /// Whether this is what the last swap, or the fence after it, puts.
    fn is_own(&self, found: &[u8], kind: Kind) -> bool {
        let own = self.value(kind);
        found == own
            || (Fault::NonceIgnored.is_on() && found[16..] == own[16..])
            || (Fault::NumberIgnored.is_on() && found[..16] == own[..16] && found[24..] == own[24..])
    }
}

impl<R: Range, G: Rng> Committer<R, G> {
    /// What an answer tells of the request under way. To be called before [`learn_sidecar`](Self::learn_sidecar).
    pub(super) fn verdict(&self, flight: &Flight<R>, header: Header, answer: Answer<'_>, same_store: bool) -> Verdict {
        let verdict = match answer {
            Answer::Held if flight.stage == Stage::Sent => Verdict::Held(header.revision),
            // Nobody asked for that.
            Answer::Held => Verdict::Unknown,
            Answer::Current { sidecar, .. } => {
                let own = self.sidecar.as_ref().filter(|_| flight.is_swap);
                let told = own.map_or(Verdict::Unknown, |own| own.judge(sidecar));
                let stood_against = match told {
                    // If somebody else has written or deleted the sidecar, the swap may have been written before that:
                    // this then is the answer to a second copy of it.
                    Verdict::Unknown => own.is_none_or(|own| own.is_unchanged(sidecar)),
                    _ => Fault::OwnMarkTakenForConflict.is_on(),
                };
                match flight.stage {
                    Stage::Sent if stood_against => return Verdict::Never,
                    Stage::Asked(Inquiry::Read) if own.is_some_and(|own| own.is_unchanged(sidecar)) => Verdict::Never,
                    _ if matches!(told, Verdict::Held(_)) && Fault::ProvenAtLaterRevision.is_on() => {
                        Verdict::Held(header.revision)
                    }
                    _ => told,
                }
            }
        };
        if same_store { verdict } else { Verdict::Unknown }
    }

    /// Whether a swap failed though key and sidecar are what it expected: so it was the Services.
    pub(super) fn services_changed(&self, flight: &Flight<R>, answer: Answer<'_>) -> bool {
        let (Some(round), Answer::Current { key, sidecar }) = (&flight.round, answer) else { return false };
        let state = key.map_or(Guard::default(), |key| key.state);
        let own = self.sidecar.as_ref();
        round.services_unchanged_since.is_some()
            && flight.stage == Stage::Sent
            && round.state == state
            && own.is_none_or(|own| own.is_unchanged(sidecar))
    }

    /// Takes down what the sidecar is now.
    pub(super) fn learn_sidecar(&mut self, flight: &Flight<R>, header: Header, answer: Answer<'_>) {
        let Some(own) = &mut self.sidecar else { return };
        match answer {
            Answer::Current { sidecar, .. } => own.mod_revision = sidecar.map_or(0, |found| found.state.mod_revision),
            Answer::Held if flight.is_swap => own.mod_revision = header.revision,
            Answer::Held => {}
        }
    }

    /// Asks what became of a swap, if that is to be done.
    pub(super) fn inquire(&mut self, now: Duration) -> Option<Step> {
        let reached = self.reached();
        let (flight, own) = (self.flight.as_mut()?, self.sidecar.as_ref()?);
        let Stage::Undecided(inquiry) = flight.stage else { return None };
        if now < self.retry_at {
            return Some(self.wait(self.retry_at));
        }
        (flight.stage, flight.asked, flight.reached) = (Stage::Asked(inquiry), self.submitted, reached);
        Some(Step::Send(match inquiry {
            Inquiry::Fence => Request::Fence { sidecar: own.fence() },
            Inquiry::Read => Request::Read,
        }))
    }

    /// Keeps a swap under way until it is told what became of it; gives it back if nobody can tell.
    pub(super) fn hold(&mut self, mut flight: Flight<R>, inquiry: Inquiry) -> Option<Flight<R>> {
        if self.sidecar.is_none() || !flight.is_swap {
            return Some(flight);
        }
        if Fault::LostFenceTakenForWritten.is_on() && flight.stage == Stage::Asked(Inquiry::Fence) {
            flight.is_swap = false;
            return Some(flight);
        }
        let inquiry = if Fault::ReadTakenForFence.is_on() { Inquiry::Read } else { inquiry };
        flight.stage = Stage::Undecided(if let Stage::Asked(before) = flight.stage { before } else { inquiry });
        self.flight = Some(flight);
        None
    }
}
