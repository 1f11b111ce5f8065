//! Sequences of operations on two bitmaps against two lists of flags.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use rangekeeper::bitmap::Bitmap;
use rangekeeper_fuzz::bits;

#[derive(Arbitrary, Debug)]
struct Input {
    lens: [u16; 2],
    steps: Vec<(bool, Step)>,
}

/// One operation; the other bitmap is the operand.
#[derive(Arbitrary, Clone, Debug)]
enum Step {
    Insert(u16),
    Remove(u16),
    InsertAll(u16, u16),
    RemoveAll(u16, u16),
    Fill,
    Clear,
    Union,
    Difference,
    Intersection,
    Restore(Vec<u8>),
    Search(u16),
    Count(u16, u16),
    Runs(u16),
}

impl Step {
    /// The same with other offsets.
    fn map(self, to: impl Fn(u16) -> u16) -> Self {
        match self {
            Self::Insert(offset) => Self::Insert(to(offset)),
            Self::Remove(offset) => Self::Remove(to(offset)),
            Self::InsertAll(first, last) => Self::InsertAll(to(first), to(last)),
            Self::RemoveAll(first, last) => Self::RemoveAll(to(first), to(last)),
            Self::Search(from) => Self::Search(to(from)),
            Self::Count(from, end) => Self::Count(to(from), to(end)),
            Self::Runs(from) => Self::Runs(to(from)),
            other => other,
        }
    }
}

fuzz_target!(|input: Input| {
    // Most are short, so that words are often filled; 4096 offsets fill one word of the summary's lowest level.
    let lens = input.lens.map(|len| usize::from(if len % 4 == 0 { len % 9000 } else { len % 300 }));
    let mut bitmaps = lens.map(|len| Bitmap::new(len as u32));
    let mut sets = lens.map(|len| vec![false; len]);
    for (second, step) in input.steps.iter().take(64) {
        let [first_bitmap, second_bitmap] = &mut bitmaps;
        let [first_set, second_set] = &mut sets;
        let (bitmap, set, other_bitmap, other_set) = if *second {
            (second_bitmap, second_set, &*first_bitmap, &*first_set)
        } else {
            (first_bitmap, first_set, &*second_bitmap, &*second_set)
        };
        apply(step, bitmap, set, other_bitmap, other_set);
        assert_eq!(bitmap.count() as usize, set.iter().filter(|set| **set).count(), "{step:?}");
        for from in [0, 64, set.len().saturating_sub(130)] {
            let next = (from..set.len()).find(|at| !set[*at]).map(|at| at as u32);
            assert_eq!(bitmap.next_clear(from as u32), next, "{step:?}, from {from}");
        }
    }
    for (bitmap, set) in bitmaps.iter().zip(&sets) {
        let ones: Vec<u32> = (0..set.len()).filter(|at| set[*at]).map(|at| at as u32).collect();
        assert_eq!(bitmap.iter().collect::<Vec<_>>(), ones);
        assert_eq!(bitmap.is_empty(), ones.is_empty());
        assert_eq!(bitmap.snapshot(), bits::stored(set));
        assert_eq!(bitmap.len() as usize, set.len());
    }
    let same = sets[0] == sets[1];
    assert_eq!(bitmaps[0] == bitmaps[1], same);
});

fn apply(step: &Step, bitmap: &mut Bitmap, set: &mut [bool], other_bitmap: &Bitmap, other_set: &[bool]) {
    let of_other = |at: usize| other_set.get(at).copied().unwrap_or(false);
    // Offsets in range or a little past it.
    let near = |offset: u16| (usize::from(offset) % (set.len() + 3)) as u16;
    match step.clone().map(near) {
        Step::Insert(offset) => assert_eq!(bitmap.insert(offset.into()), change(set, offset, true)),
        Step::Remove(offset) => assert_eq!(bitmap.remove(offset.into()), change(set, offset, false)),
        Step::InsertAll(first, last) => {
            for offset in first..=last {
                assert_eq!(bitmap.insert(offset.into()), change(set, offset, true));
            }
        }
        Step::RemoveAll(first, last) => {
            for offset in first..=last {
                assert_eq!(bitmap.remove(offset.into()), change(set, offset, false));
            }
        }
        Step::Fill => {
            for (offset, flag) in set.iter_mut().enumerate() {
                assert_eq!(bitmap.insert(offset as u32), !*flag);
                *flag = true;
            }
            assert_eq!(bitmap.count() as usize, set.len());
        }
        Step::Clear => {
            bitmap.clear();
            set.fill(false);
        }
        Step::Union => {
            bitmap.union_with(other_bitmap);
            (0..set.len()).for_each(|at| set[at] |= of_other(at));
        }
        Step::Difference => {
            let result = bitmap.difference(other_bitmap);
            bitmap.difference_with(other_bitmap);
            assert_eq!(result, *bitmap);
            (0..set.len()).for_each(|at| set[at] &= !of_other(at));
        }
        Step::Intersection => {
            bitmap.intersect_with(other_bitmap);
            (0..set.len()).for_each(|at| set[at] &= of_other(at));
        }
        Step::Restore(data) => {
            let offsets = bits::offsets(&data);
            let fits = offsets.last().is_none_or(|highest| *highest < set.len() as u64);
            assert_eq!(bitmap.restore(&data).is_ok(), fits);
            if fits {
                set.fill(false);
                offsets.iter().for_each(|offset| set[*offset as usize] = true);
            }
        }
        Step::Search(from) => {
            let find = |wanted| (from.into()..set.len()).find(|at| set[*at] == wanted).map(|at| at as u32);
            assert_eq!(bitmap.next_clear(from.into()), find(false));
            assert_eq!(bitmap.next_set(from.into()), find(true));
            assert_eq!(bitmap.contains(from.into()), set.get(usize::from(from)).copied().unwrap_or(false));
        }
        Step::Count(from, to) => {
            let count = (from..to).filter(|at| set.get(usize::from(*at)).copied().unwrap_or(false)).count();
            assert_eq!(bitmap.count_range(from.into(), to.into()) as usize, count);
        }
        Step::Runs(from) => {
            let set_runs: Vec<_> = bitmap.runs_set(from.into()).map(|run| (run.first, run.last)).collect();
            assert_eq!(set_runs, bits::runs(set, from.into(), true));
            let clear_runs: Vec<_> = bitmap.runs_clear(from.into()).map(|run| (run.first, run.last)).collect();
            assert_eq!(clear_runs, bits::runs(set, from.into(), false));
        }
    }
}

/// Whether that changed anything.
fn change(set: &mut [bool], offset: u16, to: bool) -> bool {
    set.get_mut(usize::from(offset)).is_some_and(|flag| std::mem::replace(flag, to) != to)
}
