//! Stored bitmaps, bit by bit.

/// The offsets that a stored bitmap has set, ascending.
pub fn offsets(stored: &[u8]) -> Vec<u64> {
    let mut offsets = Vec::new();
    for (place, byte) in stored.iter().rev().enumerate() {
        for bit in 0..8 {
            if byte & (1 << bit) != 0 {
                offsets.push(place as u64 * 8 + bit);
            }
        }
    }
    offsets
}

/// The stored form of a set of offsets.
pub fn stored(set: &[bool]) -> Vec<u8> {
    let Some(highest) = set.iter().rposition(|set| *set) else { return Vec::new() };
    let mut bytes = vec![0; highest / 8 + 1];
    for offset in 0..=highest {
        if set[offset] {
            bytes[highest / 8 - offset / 8] += 1 << (offset % 8);
        }
    }
    bytes
}

/// First and last offset of each run of `wanted` at `from` and above.
pub fn runs(set: &[bool], from: usize, wanted: bool) -> Vec<(u32, u32)> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for (offset, _) in set.iter().enumerate().skip(from).filter(|(_, flag)| **flag == wanted) {
        match runs.last_mut() {
            Some((_, last)) if *last as usize + 1 == offset => *last = offset as u32,
            _ => runs.push((offset as u32, offset as u32)),
        }
    }
    runs
}
