//! Stored objects that are not protobuf, in JSON or not, against a plain reading of the members.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rangekeeper::range_allocation::{DecodeError, Form, RangeAllocation};
use rangekeeper_fuzz::json;

fuzz_target!(|stored: &[u8]| {
    if stored.starts_with(b"k8s\0") {
        return;
    }
    let naive = json::decode(stored);
    let object = match RangeAllocation::decode(stored) {
        // The target range_allocation_yaml.
        Ok(object) if object.form() == Form::Yaml => return,
        Ok(object) => object,
        Err(error) => {
            assert_eq!(naive, None, "{error}");
            assert!(error.offset() <= stored.len(), "{error}");
            assert!(error.to_string().len() < 1024, "{error}");
            assert_eq!(matches!(error, DecodeError::Empty { .. }), stored.is_empty());
            assert_eq!(matches!(error, DecodeError::Encrypted { .. }), stored.starts_with(b"k8s:enc:"));
            return;
        }
    };
    let naive = naive.expect("no plain reading gives what was accepted");
    assert_eq!((&object.range, &object.data, object.form()), (&naive.range, &naive.data, Form::Json));
    assert_eq!(object.is_initialised(), !naive.range.is_empty());
    let encoded = object.encode();
    if naive.canonical {
        assert_eq!(encoded.escape_ascii().to_string(), stored.escape_ascii().to_string());
    }
    check(&encoded, &object.range, &object.data, &naive.members);

    let text = String::from_utf8_lossy(stored);
    for (range, data) in [(&*text, stored), ("30000-32767", b"\x01"), ("", stored), ("10.0.0.0/8", b""), ("", b"")] {
        let mut rewritten = b"left over".to_vec();
        object.encode_with(range, data, &mut rewritten);
        // A member that was missing is written when it gets a value.
        let mut members = naive.members.clone();
        for (name, is_empty) in [("range", range.is_empty()), ("data", data.is_empty())] {
            if !is_empty && !members.iter().any(|(known, _)| known == name) {
                members.push((name.to_owned(), String::new()));
            }
        }
        check(&rewritten, range, data, &members);
    }
});

/// Checks that `encoded` has exactly these members, in any order, and encodes to itself.
fn check(encoded: &[u8], range: &str, data: &[u8], members: &[(String, String)]) {
    let decoded = json::decode(encoded).expect("what was encoded is an object");
    assert_eq!((&*decoded.range, &*decoded.data), (range, data), "{}", encoded.escape_ascii());
    assert!(!decoded.repeated, "{}", encoded.escape_ascii());
    let (mut found, mut expected) = (decoded.members, members.to_vec());
    found.sort();
    expected.sort();
    assert_eq!(found, expected, "{}", encoded.escape_ascii());
    let again = RangeAllocation::decode(encoded).expect("what was encoded");
    assert_eq!(again.encode().escape_ascii().to_string(), encoded.escape_ascii().to_string());
}
