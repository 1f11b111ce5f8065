//! Stored objects in protobuf against a plain decoder of the wire format: both accept the same objects, with the same
//! content, and encode them to the same bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rangekeeper::range_allocation::{Form, RangeAllocation};
use rangekeeper_fuzz::protobuf;

fuzz_target!(|stored: &[u8]| {
    if !stored.starts_with(b"k8s\0") {
        return;
    }
    let naive = protobuf::decode(stored);
    let object = match RangeAllocation::decode(stored) {
        Ok(object) => object,
        Err(error) => {
            assert_eq!(naive, None, "{error}");
            assert!(error.offset() <= stored.len(), "{error}");
            assert!(error.to_string().len() < 512, "{error}");
            return;
        }
    };
    let naive = naive.expect("no plain decoder reads what was accepted");
    assert_eq!((&object.range, &object.data, object.form()), (&naive.range, &naive.data, Form::Protobuf));
    assert_eq!(object.is_initialised(), !naive.range.is_empty());
    let encoded = object.encode();
    assert_eq!(encoded.escape_ascii().to_string(), naive.encoded.escape_ascii().to_string());
    assert_eq!(RangeAllocation::decode(&encoded).as_ref(), Ok(&object));

    // A rewrite changes range and data and nothing else.
    for (range, data) in [("30000-32767", stored), ("", stored), ("10.96.0.0/12", b""), ("", b"")] {
        let mut rewritten = b"left over".to_vec();
        object.encode_with(range, data, &mut rewritten);
        let mut again = RangeAllocation::decode(&rewritten).expect("a rewritten object");
        assert_eq!((&*again.range, &*again.data), (range, data));
        assert_eq!(protobuf::decode(&rewritten).map(|naive| naive.encoded).as_ref(), Some(&rewritten));
        // A missing or empty field may become an empty one; the others are the same as before.
        if !object.range.is_empty() && !object.data.is_empty() {
            again.range.clone_from(&object.range);
            again.data.clone_from(&object.data);
            assert_eq!(again.encode(), encoded);
        }
    }
});
