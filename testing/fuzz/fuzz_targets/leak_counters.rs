//! Leak counters over many passes against one number per offset.

#![no_main]

use std::num::NonZeroU8;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use rangekeeper::bitmap::Bitmap;
use rangekeeper::leak::LeakCounters;

#[derive(Arbitrary, Debug)]
struct Input {
    len: u8,
    passes: NonZeroU8,
    steps: Vec<Step>,
}

#[derive(Arbitrary, Debug)]
enum Step {
    /// So many passes that see the same leaks, in a bitmap of a length of its own if there is one.
    See(u8, Vec<u8>, Option<u8>),
    Reset,
}

fuzz_target!(|input: Input| {
    let len = input.len as usize;
    let mut counters = LeakCounters::new(len as u32, input.passes);
    let mut model = vec![0_u8; len];
    assert_eq!((counters.len() as usize, counters.passes()), (len, input.passes));
    for step in input.steps.iter().take(32) {
        match step {
            Step::Reset => {
                counters.reset();
                model.fill(0);
            }
            Step::See(times, leaks, own_len) => {
                for _ in 0..=*times {
                    let mut leaked = Bitmap::new(own_len.map_or(len as u32, u32::from));
                    for offset in leaks {
                        leaked.insert((*offset).into());
                    }
                    let mut due = Vec::new();
                    for (offset, count) in model.iter_mut().enumerate() {
                        *count = if leaked.contains(offset as u32) { *count + 1 } else { 0 };
                        if *count == input.passes.get() {
                            *count = 0;
                            due.push(offset as u32);
                        }
                    }
                    counters.advance(&mut leaked);
                    assert_eq!(leaked.iter().collect::<Vec<_>>(), due);
                    assert_eq!(leaked.count() as usize, due.len());
                }
            }
        }
        for (offset, count) in model.iter().enumerate() {
            assert_eq!(counters.count(offset as u32), *count, "offset {offset}");
        }
        assert_eq!(counters.count(len as u32), 0);
        assert_eq!(counters.is_empty(), model.iter().all(|count| *count == 0));
    }
});
