//! Stored objects in YAML: a rewrite changes the lines of range and data, and no other.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rangekeeper::range_allocation::{Form, RangeAllocation};

fuzz_target!(|stored: &[u8]| {
    let object = match RangeAllocation::decode(stored) {
        Ok(object) if object.form() == Form::Yaml => object,
        Ok(_) => return,
        Err(error) => {
            assert!(error.offset() <= stored.len(), "{error}");
            assert!(error.to_string().len() < 1024, "{error}");
            return;
        }
    };
    let text = String::from_utf8_lossy(stored);
    let own = (&*object.range.clone(), &*object.data.clone());
    for (range, data) in [own, (&*text, stored), ("30000-32767", b"\x01"), ("", b"")] {
        let mut rewritten = b"left over".to_vec();
        object.encode_with(range, data, &mut rewritten);
        let again = RangeAllocation::decode(&rewritten).expect("what was encoded");
        assert_eq!((&*again.range, &*again.data, again.form()), (range, data, Form::Yaml));
        assert_eq!(again.encode().escape_ascii().to_string(), rewritten.escape_ascii().to_string());
        let rewritten = String::from_utf8(rewritten).expect("what was encoded is UTF-8");
        assert_eq!(others(&rewritten), others(&text));
    }
});

/// The lines without range and data.
fn others(text: &str) -> Vec<&str> {
    text.split('\n').filter(|line| !line.starts_with("range: ") && !line.starts_with("data: ")).collect()
}
