//! What a committer knows of the stored object.

use crate::allocator::{Allocator, Strategy};
use crate::bitmap::Bitmap;
use crate::range::Range;
use crate::range_allocation::{Form, RangeAllocation};
use crate::snapshot::restore_for;

use super::config::Replace;
use super::failure::Failure;
use super::request::{KeyState, KeyValue};

/// The stored object in one state of its key.
#[derive(Clone, Debug)]
pub(super) struct Base<R: Range> {
    pub(super) state: KeyState,
    pub(super) content: Content<R>,
}

/// What stands under the key.
#[derive(Clone, Debug)]
pub(super) enum Content<R: Range> {
    Readable(Readable<R>),
    /// Something that is no RangeAllocation with a range of this kind. It is never overwritten.
    Unreadable {
        message: String,
        /// Nothing: there is nothing in use that is known.
        none: Bitmap,
    },
}

/// A RangeAllocation, or none yet.
#[derive(Clone, Debug)]
pub(super) struct Readable<R: Range> {
    /// The object without its data.
    pub(super) object: RangeAllocation,
    /// What is in use, in the offsets of the configured range.
    pub(super) used: Allocator<R>,
    pub(super) range_state: RangeState,
}

/// Whether values may be taken from the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RangeState {
    Initialised,
    /// The object is missing, or has no range.
    Uninitialised,
    /// The object is for this other range of the same kind, and records so many values.
    OtherRange {
        range: String,
        recorded: u32,
    },
}

impl<R: Range> Base<R> {
    pub(super) fn decode(key: Option<KeyValue<'_>>, range: R, strategy: Strategy) -> Self {
        let Some(key) = key else {
            let (object, used) = (RangeAllocation::new(Form::Protobuf), Allocator::new(range, strategy));
            let content = Content::Readable(Readable { object, used, range_state: RangeState::Uninitialised });
            return Self { state: KeyState::default(), content };
        };
        let content = match decode(key.value, range, strategy) {
            Ok(readable) => Content::Readable(readable),
            Err(message) => Content::Unreadable { message, none: Bitmap::new(range.size()) },
        };
        Self { state: key.state, content }
    }

    /// See [`Readable::refuses`]; what cannot be read is never written over.
    pub(super) fn refuses(&self, replace: Replace, is_used: bool, outside: u32) -> Option<Failure<R>> {
        match &self.content {
            Content::Readable(readable) => readable.refuses(replace, is_used, outside),
            Content::Unreadable { message, .. } => Some(Failure::Unreadable { message: message.clone() }),
        }
    }

    /// Whether values may be taken from it.
    pub(super) fn is_initialised(&self) -> bool {
        matches!(&self.content, Content::Readable(readable) if readable.range_state == RangeState::Initialised)
    }

    /// What is in use; nothing if it cannot be read.
    pub(super) fn used(&self) -> &Bitmap {
        match &self.content {
            Content::Readable(readable) => readable.used.bitmap(),
            Content::Unreadable { none, .. } => none,
        }
    }
}

impl<R: Range> Readable<R> {
    /// Why a repair must not write the configured range here. `is_used`: Services use values of the configured range
    /// that are not recorded.
    pub(super) fn refuses(&self, replace: Replace, is_used: bool, outside: u32) -> Option<Failure<R>> {
        if replace != Replace::IfUnused {
            return None;
        }
        let (found, recorded, is_needed) = match &self.range_state {
            RangeState::Initialised => return None,
            RangeState::Uninitialised => ("", 0, false),
            RangeState::OtherRange { range, recorded } => (range.as_str(), *recorded, *recorded > 0 || is_used),
        };
        let expected = self.used.range();
        let failure = || Failure::RangeInUse { expected, found: found.to_owned(), recorded, outside };
        (is_needed || outside > 0).then(failure)
    }
}

fn decode<R: Range>(value: &[u8], range: R, strategy: Strategy) -> Result<Readable<R>, String> {
    let mut object = RangeAllocation::decode(value).map_err(|error| error.to_string())?;
    let data = std::mem::take(&mut object.data);
    let (used, range_state) = if object.is_initialised() {
        let stored = object.range.parse::<R>().ok().filter(|stored| range.is_same_kind(stored));
        let Some(stored) = stored else {
            return Err(format!("its range {:?} is not of the kind of {range}", object.range));
        };
        let (used, dropped) = restore_for(range, stored, &data).map_err(|error| format!("range {stored}: {error}"))?;
        let other = || RangeState::OtherRange { range: object.range.clone(), recorded: used.count() + dropped };
        let range_state = if stored == range { RangeState::Initialised } else { other() };
        (used, range_state)
    } else {
        let (used, _) = restore_for(range, range, &data).map_err(|error| error.to_string())?;
        (used, RangeState::Uninitialised)
    };
    Ok(Readable { object, used: Allocator::with_used(range, strategy, used), range_state })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{SIZE, base, bitmap, port, range, state, stored};
    use super::*;

    /// A RangeAllocation with this range and offset 1 in use.
    fn with_range(text: &str) -> Vec<u8> {
        let mut object = RangeAllocation::decode(&stored([1])).expect("it was encoded");
        object.range = text.to_owned();
        object.encode()
    }

    #[test]
    fn values_are_taken_only_from_an_object_of_the_configured_range() {
        let wider = format!("{}-{}", port(0) - 1, port(SIZE));
        for (text, expected) in [
            (range().to_string(), Some((RangeState::Initialised, bitmap([1])))),
            (String::new(), Some((RangeState::Uninitialised, bitmap([1])))),
            // The same port has another offset.
            (wider.clone(), Some((RangeState::OtherRange { range: wider, recorded: 1 }, bitmap([0])))),
            ("10.0.0.0/24".to_owned(), None),
            ("no range".to_owned(), None),
        ] {
            let base = base(state(3), &with_range(&text));
            assert_eq!(base.is_initialised(), text == range().to_string(), "{text:?}");
            let found = match base.content {
                Content::Readable(readable) => Some((readable.range_state, readable.used.bitmap().clone())),
                Content::Unreadable { .. } => None,
            };
            assert_eq!(found, expected, "{text:?}");
        }
    }

    #[test]
    fn bits_past_the_range_make_an_object_unreadable() {
        let mut object = RangeAllocation::decode(&stored([])).expect("it was encoded");
        object.data = vec![0xff; SIZE as usize / 8 + 1];
        let base = base(state(3), &object.encode());
        assert!(matches!(&base.content, Content::Unreadable { .. }), "{base:?}");
        assert_eq!(base.used(), &bitmap([]));
    }
}
