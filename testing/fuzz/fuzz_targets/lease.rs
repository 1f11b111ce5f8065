//! Values of leases against a plain decoder: both accept the same values, with the same address and generation.

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
        // Fields that are ignored may have names, texts and numbers that a JSON value cannot hold.
        && let Ok(object) = serde_json::from_slice(stored)
    {
        // The crate of the Endpoints type decides the rest of the JSON form.
        assert_eq!(told, lease::decode_json(&object));
    }
});
