//! Stored bitmaps of any length and content against a reading bit by bit: a restore takes all bits, or none.
//!
//! The first two bytes are the length of the range, the third selects the bits that are set before, the rest is the
//! stored bitmap. If the third byte's highest bit is set, the range ends within two offsets of the last stored bit.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rangekeeper::allocator::{Allocator, RestoreError, Strategy};
use rangekeeper::bitmap::Bitmap;
use rangekeeper::ports::PortRange;
use rangekeeper_fuzz::bits;

fuzz_target!(|input: &[u8]| {
    let [high, low, before, data @ ..] = input else { return };
    let offsets = bits::offsets(data);
    let len = match offsets.last().map(|highest| u16::try_from(highest + 1)) {
        Some(Ok(len)) if *before >= 128 => len.saturating_add(u16::from(*low % 5)).saturating_sub(2),
        _ => u16::from_be_bytes([*high, *low]),
    };
    let mut bitmap = Bitmap::new(len.into());
    for offset in 0..u32::from(len).min(256) {
        if before >> (offset % 8) & 1 == 1 {
            bitmap.insert(offset);
        }
    }
    let unchanged = bitmap.clone();
    let result = bitmap.restore(data);

    if let Some(highest) = offsets.last().filter(|highest| **highest >= u64::from(len)) {
        let error = result.expect_err("an offset past the range");
        assert_eq!((error.offset, error.size), (*highest, u32::from(len)));
        assert_eq!(error.byte, data.len() - 1 - (*highest / 8) as usize);
        assert_eq!(data[..error.byte].iter().find(|byte| **byte != 0), None);
        assert_eq!(bitmap, unchanged);
        assert_eq!(bitmap.count(), unchanged.count());
    } else {
        result.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(bitmap.iter().map(u64::from).collect::<Vec<_>>(), offsets);
        assert_eq!(bitmap.count() as usize, offsets.len());
        let significant = data.iter().position(|byte| *byte != 0).map_or(&[][..], |first| &data[first..]);
        assert_eq!(bitmap.snapshot(), significant);

        let mut set = vec![false; len.into()];
        offsets.iter().for_each(|offset| set[*offset as usize] = true);
        assert_eq!(bits::stored(&set), significant);
        for from in [0, 1, 63, 64, 65, usize::from(*before), set.len() / 2, set.len().saturating_sub(1), set.len()] {
            let next = (from..set.len()).find(|offset| !set[*offset]);
            assert_eq!(bitmap.next_clear(from as u32), next.map(|offset| offset as u32), "from {from}");
            let next = (from..set.len()).find(|offset| set[*offset]);
            assert_eq!(bitmap.next_set(from as u32), next.map(|offset| offset as u32), "from {from}");
        }
        let mut inserted = Bitmap::new(len.into());
        offsets.iter().for_each(|offset| assert!(inserted.insert(*offset as u32)));
        assert_eq!(inserted, bitmap);
    }

    let Some(range) = len.checked_sub(1).and_then(|high| PortRange::new(0, high)) else { return };
    let mut allocator = Allocator::new(range, Strategy::Contiguous);
    let _ = allocator.allocate(0);
    let other = allocator.restore("1-65535", data).expect_err("another range");
    assert!(matches!(other, RestoreError::MismatchedRange { .. }), "{other}");
    assert_eq!(allocator.used(), 1);
    match allocator.restore(&range.to_string(), data) {
        Ok(()) => assert_eq!(allocator.bitmap(), &bitmap),
        Err(error) => {
            assert!(matches!(error, RestoreError::BitsPastRange(_)), "{error}");
            assert_eq!(bitmap, unchanged);
            assert_eq!(allocator.snapshot(), [1]);
        }
    }
});
