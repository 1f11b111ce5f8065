//! Values of leases against a plain decoder: the same are accepted, and tell the same address and generation.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rangekeeper_bootstrap::leases::{DecodeError, Lease};
use rangekeeper_fuzz::lease;

fuzz_target!(|stored: &[u8]| {
    let decoded = Lease::decode(stored);
    match &decoded {
        Ok(lease) => {
            let encoded = lease.encode();
            assert_eq!(Lease::decode(&encoded).as_ref(), Ok(lease));
            assert_eq!(lease::decode(&encoded), Some((lease.address.clone(), lease.generation)));
        }
        Err(error) => {
            assert!(!matches!(error, DecodeError::Malformed { offset } if *offset > stored.len()), "{error}");
            assert!(error.to_string().len() < 1024, "{error}");
        }
    }
    let told = decoded.ok().map(|lease| (lease.address, lease.generation));
    if stored.starts_with(b"k8s\0") {
        assert_eq!(told, lease::decode(stored));
    } else if told.is_some()
        // Names, texts and numbers that no field takes may be such as no value can hold.
        && let Ok(object) = serde_json::from_slice(stored)
    {
        // What else an Endpoints object in JSON must be is its own crate's to say.
        assert_eq!(told, lease::decode_json(&object));
    }
});
