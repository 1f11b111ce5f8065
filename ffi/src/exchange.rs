//! The steps of a repair pass with a committer that is in the memory of another instance of the library: WebAssembly,
//! which becomes the Go back end. See [`rangekeeper_core::commit::exchange`]. The Go back end takes what one side says
//! to the other, as bytes that it does not look into: numbers of 8. `exchange.h` has these functions, too.

use std::num::NonZeroU64;
use std::time::Duration;

use rangekeeper_core::any::AnyRange;
use rangekeeper_core::bitmap::Bitmap;
use rangekeeper_core::commit::exchange::{Follow, Followed, HandedOut, Needs, Since};
use rangekeeper_core::commit::{Diff, Operation};
use rangekeeper_core::range::Range;

use crate::committer::rk_committer;
use crate::committer_input;
use crate::error::{Failure, Named, rk_error};
use crate::guard::guard_error;
use crate::range::{self, rk_range};
use crate::repair_pass::{listed, look_of, rk_repair_pass, view};
use crate::result::rk_result;
use crate::scope::{Buffer, Out, borrow, slice};

/// Numbers that the other side has said.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    /// The first number that is left.
    fn next(&mut self) -> Result<u64, Failure> {
        let (first, rest) =
            self.0.split_first_chunk().ok_or(Failure::new(rk_result::InvalidArgument, "a number is missing"))?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*first))
    }

    /// Offsets, with their number before them.
    fn offsets(&mut self) -> Result<Vec<u32>, Failure> {
        let n = self.next()?;
        (0..n).map(|_| Ok(self.next()? as u32)).collect()
    }

    fn bitmap(&mut self, of: AnyRange) -> Result<Bitmap, Failure> {
        let mut bitmap = Bitmap::new(of.size());
        for offset in self.offsets()? {
            bitmap.insert(offset);
        }
        Ok(bitmap)
    }
}

fn put(words: &mut Vec<u64>, offsets: impl IntoIterator<Item = u32>) {
    let at = words.len();
    words.push(0);
    words.extend(offsets.into_iter().map(u64::from));
    words[at] = (words.len() - at - 1) as u64;
}

fn write(said: Buffer<'_, u8>, words: &[u64]) -> Result<(), Failure> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    said.write(&bytes).map_err(|result| Failure::new(result, "the caller asks again, with a longer buffer"))
}

/// Writes the range of a committer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_exchange_range(
    committer: *const rk_committer,
    range: *mut rk_range,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (committer, out) =
                (borrow(scope, committer).named("committer")?, Out::new(scope, range).named("range")?);
            committer.with(|committer| {
                out.write(AnyRange::from(committer.range()).into());
                Ok(())
            })
        })
    }
}

/// `RepairPass::begin_range`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_exchange_begin(
    pass: *const rk_repair_pass,
    range: *const rk_range,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (pass, range) = (borrow(scope, pass).named("pass")?, range::range(scope, range).named("range")?);
            pass.reading(|passes, pass| Ok(pass.begin_range(passes, range)?))
        })
    }
}

/// `Committer::keep_history`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_exchange_keep(committer: *const rk_committer, error: *mut rk_error) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            borrow(scope, committer).named("committer")?.with(|committer| {
                committer.keep_history(true);
                Ok(())
            })
        })
    }
}

/// `RepairPass::since`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_exchange_since(
    pass: *const rk_repair_pass,
    range: *const rk_range,
    revision: u64,
    said: *mut u8,
    capacity: usize,
    len: *mut usize,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (pass, range) = (borrow(scope, pass).named("pass")?, range::range(scope, range).named("range")?);
            let said = Buffer::new(scope, said, capacity, len).named("said")?;
            let Since { view, before, leaks } =
                pass.reading(|passes, pass| Ok(pass.since(passes, range, revision)?))?;
            let (read, store) = before.unwrap_or_default();
            let mut words = vec![view, before.is_some().into(), read, store.into()];
            put(&mut words, leaks);
            write(said, &words)
        })
    }
}

/// `Committer::followed`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_exchange_followed(
    committer: *const rk_committer,
    since: *const u8,
    since_len: usize,
    said: *mut u8,
    capacity: usize,
    len: *mut usize,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (committer, mut since) =
                (borrow(scope, committer).named("committer")?, Words(slice(scope, since, since_len).named("since")?));
            let said = Buffer::new(scope, said, capacity, len).named("said")?;
            let (view, has_before, read, store) = (since.next()?, since.next()?, since.next()?, since.next()?);
            let before = (has_before != 0).then_some((read, store as u32));
            let since = Since { view, before, leaks: since.offsets()? };
            let Followed { store, is_own, initialised, changed } =
                committer.with(|committer| Ok(committer.followed(&since)))?;
            let mut words = vec![store.into(), is_own.into(), initialised.into(), changed.is_some().into()];
            put(&mut words, changed.iter().flatten());
            write(said, &words)
        })
    }
}

/// `RepairPass::read_range`; the last part of rk_repair_pass_read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_exchange_read(
    pass: *const rk_repair_pass,
    range: *const rk_range,
    followed: *const u8,
    followed_len: usize,
    revision: u64,
    data: *const u8,
    data_len: usize,
    now: u64,
    needs_fence: *mut bool,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (pass, range) = (borrow(scope, pass).named("pass")?, range::range(scope, range).named("range")?);
            let mut followed = Words(slice(scope, followed, followed_len).named("followed")?);
            let (data, needs_fence) =
                (slice(scope, data, data_len).named("data")?, Out::new(scope, needs_fence).named("needs_fence")?);
            let (store, is_own, initialised) = (followed.next()? as u32, followed.next()? != 0, followed.next()? != 0);
            let (is_known, changed) = (followed.next()? != 0, followed.bitmap(range)?);
            let followed = Followed { store, is_own, initialised, changed: is_known.then_some(changed) };
            let view = view(range, revision, data)?;
            pass.reading(|passes, pass| {
                needs_fence.write(pass.read_range(passes, range, &followed, &view, Duration::from_nanos(now))?);
                Ok(())
            })
        })
    }
}

/// `RepairPass::fenced_range`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_exchange_fenced(
    pass: *const rk_repair_pass,
    range: *const rk_range,
    fence: u64,
    look: u64,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (pass, range) = (borrow(scope, pass).named("pass")?, range::range(scope, range).named("range")?);
            let look = look_of(look)?;
            pass.reading(|passes, pass| Ok(pass.fenced_range(passes, range, fence, look)?))
        })
    }
}

/// `Found::needs`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_exchange_needs(
    pass: *const rk_repair_pass,
    range: *const rk_range,
    sets: *mut bool,
    outside: *mut u32,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (pass, range) = (borrow(scope, pass).named("pass")?, range::range(scope, range).named("range")?);
            let (sets, outside) = (Out::new(scope, sets).named("sets")?, Out::new(scope, outside).named("outside")?);
            let needs = pass.found(|_, found| Ok(found.needs(range)?))?;
            sets.write(needs.sets);
            outside.write(needs.outside);
            Ok(())
        })
    }
}

/// `Committer::refusal`; the last part of rk_repair_pass_check.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_exchange_check(
    committer: *const rk_committer,
    sets: bool,
    outside: u32,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            borrow(scope, committer).named("committer")?.with(|committer| {
                match committer.refusal(Needs { sets, outside }) {
                    None => Ok(()),
                    Some(refusal) => Err(refusal.into()),
                }
            })
        })
    }
}

/// `Found::due`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_exchange_due(
    pass: *const rk_repair_pass,
    range: *const rk_range,
    said: *mut u8,
    capacity: usize,
    len: *mut usize,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (pass, range) = (borrow(scope, pass).named("pass")?, range::range(scope, range).named("range")?);
            let said = Buffer::new(scope, said, capacity, len).named("said")?;
            let mut words = Vec::new();
            pass.found(|passes, found| {
                put(&mut words, found.due(passes, range)?);
                Ok(())
            })?;
            write(said, &words)
        })
    }
}

/// `Committer::handed_out`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_exchange_handed_out(
    committer: *const rk_committer,
    due: *const u8,
    due_len: usize,
    said: *mut u8,
    capacity: usize,
    len: *mut usize,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (committer, mut due) =
                (borrow(scope, committer).named("committer")?, Words(slice(scope, due, due_len).named("due")?));
            let said = Buffer::new(scope, said, capacity, len).named("said")?;
            let HandedOut { offsets, grace, is_restored } = committer.with(|committer| {
                let due = due.bitmap(committer.range().into())?;
                Ok(committer.handed_out(&due))
            })?;
            let mut words = vec![grace.as_secs(), grace.subsec_nanos().into(), is_restored.into()];
            put(&mut words, offsets);
            write(said, &words)
        })
    }
}

/// `Found::diff_of`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_exchange_diff(
    pass: *const rk_repair_pass,
    range: *const rk_range,
    handed_out: *const u8,
    handed_out_len: usize,
    at: u64,
    is_guarded: bool,
    said: *mut u8,
    capacity: usize,
    len: *mut usize,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (pass, range) = (borrow(scope, pass).named("pass")?, range::range(scope, range).named("range")?);
            let mut words = Words(slice(scope, handed_out, handed_out_len).named("handed_out")?);
            let said = Buffer::new(scope, said, capacity, len).named("said")?;
            let grace = Duration::new(words.next()?, words.next()? as u32);
            let is_restored = words.next()? != 0;
            let handed_out = HandedOut { offsets: words.offsets()?, grace, is_restored };
            let listed = listed(at, is_guarded)?;
            let (diff, follow) =
                pass.found(|passes, found| Ok(found.diff_of(passes, range, &handed_out, listed)?))?;
            let look = diff.look.map_or(0, NonZeroU64::get);
            let mut words = vec![diff.read, diff.outside.into(), look, follow.since];
            put(&mut words, &diff.set);
            put(&mut words, &diff.clear);
            put(&mut words, diff.duplicates);
            put(&mut words, follow.leaks);
            write(said, &words)
        })
    }
}

/// `Committer::follow`, and the last part of rk_committer_submit_repair.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_exchange_submit(
    committer: *const rk_committer,
    diff: *const u8,
    diff_len: usize,
    at: u64,
    is_guarded: bool,
    deadline: u64,
    ticket: *mut u64,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (committer, mut diff) =
                (borrow(scope, committer).named("committer")?, Words(slice(scope, diff, diff_len).named("diff")?));
            let ticket = Out::new(scope, ticket).named("ticket")?;
            let listed = listed(at, is_guarded)?;
            committer.with(|committer| {
                let range = committer.range().into();
                let (read, outside) = (diff.next()?, diff.next()? as u32);
                let (look, since) = (NonZeroU64::new(diff.next()?), diff.next()?);
                let (set, clear, duplicates) = (diff.bitmap(range)?, diff.bitmap(range)?, diff.offsets()?);
                committer.follow(&Follow { since, leaks: diff.offsets()? });
                let repair = Operation::Repair(Box::new(Diff { read, set, clear, duplicates, outside, listed, look }));
                ticket.write(committer.submit(repair, committer_input::deadline(deadline)).0);
                Ok(())
            })
        })
    }
}
