//! Lease values: those of real servers to the byte, and damaged ones.

use flate2::read::GzDecoder;
use rangekeeper_bootstrap::leases::{DecodeError, Fault, Lease, StoredLease, key, survey};
use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::common::Random;

const DIRECTORY: &str = "/registry/masterleases/";

/// The values under `/registry/masterleases/` in a snapshot of a real cluster's etcd, found by their key and the length
/// that stands before them.
fn stored_in(cluster: &str) -> Vec<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testing/testdata").join(cluster).join("clean.db.gz");
    let mut bytes = Vec::new();
    GzDecoder::new(File::open(path).unwrap()).read_to_end(&mut bytes).unwrap();
    let starts = bytes.windows(DIRECTORY.len()).enumerate().filter(|(_, window)| *window == DIRECTORY.as_bytes());
    let mut values: Vec<Vec<u8>> = Vec::new();
    for (start, _) in starts {
        // The value of a key is field 5 of etcd's KeyValue: `2a`, its length, `k8s\0`.
        let rest = &bytes[start..(start + 200).min(bytes.len())];
        let Some(at) = rest.windows(6).position(|window| window[0] == 0x2a && &window[2..] == b"k8s\0") else {
            continue;
        };
        let length = usize::from(rest[at + 1]);
        let value = rest[at + 2..at + 2 + length].to_vec();
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values
}

#[test]
fn values_of_real_servers_are_read_and_written_to_the_byte() {
    let mut read = 0;
    for cluster in ["kube-1.32-dual-stack", "kube-1.36-single-stack"] {
        for value in stored_in(cluster) {
            let lease = Lease::decode(&value).unwrap();
            assert_eq!(lease.address, "10.0.9.9");
            assert!(lease.generation >= 1);
            assert_eq!(lease.encode(), value, "{cluster}");
            read += 1;
        }
    }
    println!("{read} values");
    assert!(read >= 2);
}

#[test]
fn what_is_encoded_is_decoded() {
    let mut random = Random::new(11);
    let mut cases = 0;
    for _ in 0..20_000 {
        let bits = random.below(64) + 1;
        let generation = (random.below(u64::MAX) >> (64 - bits)) as i64;
        let address = match random.percent(50) {
            true => format!("10.{}.{}.{}", random.below(256), random.below(256), random.below(256)),
            false => format!("fd00::{:x}:{:x}", 1 + random.below(65_535), 1 + random.below(65_535)),
        };
        let lease = Lease { address, generation };
        assert_eq!(Lease::decode(&lease.encode()), Ok(lease));
        cases += 1;
    }
    assert_eq!(cases, 20_000);
}

#[test]
fn json_of_old_clusters_is_read() {
    let json = br#" {"kind":"Endpoints","apiVersion":"v1","metadata":{"generation":7},
        "subsets":[{"addresses":[{"ip":"10.0.0.1"},{"ip":"10.0.0.2"}]},{"addresses":[{"ip":"10.0.0.3"}]}]}"#;
    assert_eq!(Lease::decode(json), Ok(Lease { address: "10.0.0.1".into(), generation: 7 }));
    let Err(DecodeError::Json { message }) = Lease::decode(br#"{"kind":"Endpoints","subsets":[{"#) else {
        panic!("it is cut off")
    };
    assert!(message.contains("line 1 column"), "{message}");
}

/// As kube-apiserver 1.37.2 with `--storage-media-type=application/yaml` stored it.
const YAML: &str =
    "apiVersion: v1\nkind: Endpoints\nmetadata:\n  generation: 7\nsubsets:\n- addresses:\n  - ip: 10.0.0.1\n";

#[test]
fn yaml_is_read() {
    assert_eq!(Lease::decode(YAML.as_bytes()), Ok(Lease { address: "10.0.0.1".into(), generation: 7 }));
    // By k8s.io/api/core/v1, Endpoints: more fields, addresses and subsets, in the order of their names.
    let more = "apiVersion: v1\nkind: Endpoints\nmetadata:\n  annotations:\n    a: |\n      generation: 8\n      ip: 10.0.0.8\n  \
                generation: 7\n  name: a\nsubsets:\n- addresses:\n  - hostname: a\n    ip: fd00::1\n    nodeName: b\n  - ip: 10.0.0.2\n  \
                notReadyAddresses:\n  - ip: 10.0.0.3\n  ports:\n  - name: ip\n    port: 6443\n- addresses:\n  - ip: 10.0.0.4\n";
    assert_eq!(Lease::decode(more.as_bytes()), Ok(Lease { address: "fd00::1".into(), generation: 7 }));
    let bare = "apiVersion: v1\nkind: Endpoints\nmetadata: {}\nsubsets:\n- addresses:\n  - ip: 10.0.0.1\n";
    assert_eq!(Lease::decode(bare.as_bytes()), Ok(Lease { address: "10.0.0.1".into(), generation: 0 }));

    let yaml = |message: &str| Err(DecodeError::Yaml { message: message.into() });
    for (value, expected) in [
        (YAML.replace("Endpoints", "Service"), Err(DecodeError::Kind { kind: "Service".into() })),
        (YAML.replace("kind: Endpoints\n", ""), Err(DecodeError::Kind { kind: String::new() })),
        (YAML.replace("addresses", "notReadyAddresses"), Err(DecodeError::NoAddress)),
        (YAML.replace("  - ip: 10.0.0.1", "  - hostname: a"), Err(DecodeError::NoAddress)),
        (YAML.replace("10.0.0.1", "10"), yaml("ip at byte 87 is a number, not a string")),
        (
            YAML.replace("10.0.0.1", "*a"),
            yaml("ip at byte 87 is YAML in another form than kube-apiserver writes, not a string"),
        ),
        (YAML.replace(": 7", ": seven"), yaml("generation: invalid digit found in string")),
        (YAML.trim_end().to_owned(), yaml("the value is cut off at byte 95")),
        (
            YAML.replace("metadata", "\tmetadata"),
            yaml("YAML at byte 31, in line 3: this is not a key with a value, as kube-apiserver writes it"),
        ),
        ("---\n".to_owned() + YAML, Err(DecodeError::Unknown)),
        ("- a: b\n".to_owned(), Err(DecodeError::Unknown)),
        ("text".to_owned(), Err(DecodeError::Unknown)),
    ] {
        assert_eq!(Lease::decode(value.as_bytes()), expected, "{value}");
    }
}

#[test]
fn damaged_values_give_an_error_or_a_lease_and_never_a_panic() {
    let good = Lease { address: "10.0.0.1".into(), generation: 300 }.encode();
    let mut random = Random::new(12);
    let (mut read, mut refused) = (0, 0);
    for at in 0..good.len() {
        let error = Lease::decode(&good[..at]).err();
        // Without the two last fields, and without one of them, nothing is missing.
        assert!(error.is_some() || at + 4 == good.len() || at + 2 == good.len(), "{at}");
    }
    for _ in 0..200_000 {
        let mut damaged = good.clone();
        for _ in 0..1 + random.below(3) {
            let at = random.below(damaged.len() as u64) as usize;
            match random.below(8) {
                0..=5 => damaged[at] = random.below(256) as u8,
                6 => drop(damaged.remove(at)),
                _ => damaged.insert(at, random.below(256) as u8),
            }
        }
        match Lease::decode(&damaged) {
            Ok(lease) => {
                assert!(!lease.address.is_empty());
                read += 1;
            }
            Err(DecodeError::Malformed { offset }) => {
                assert!(offset <= damaged.len());
                refused += 1;
            }
            Err(_) => refused += 1,
        }
    }
    println!("{read} read, {refused} refused");
    assert!(read > 5_000 && refused > 50_000);
}

/// Protobuf has no field number above 2^29 - 1: a value with one is not a lease of a server.
#[test]
fn field_numbers_end_where_those_of_protobuf_end() {
    let good = Lease { address: "10.0.0.1".into(), generation: 3 }.encode();
    let with_field = |number: u64| {
        let mut value = good.clone();
        let mut tag = number << 3;
        while tag >= 0x80 {
            value.push(tag as u8 | 0x80);
            tag >>= 7;
        }
        value.extend([tag as u8, 1]);
        Lease::decode(&value)
    };
    assert!(with_field((1 << 29) - 1).is_ok());
    for number in [0, 1 << 29, 1 << 32 | 2, 1 << 60] {
        assert_eq!(with_field(number), Err(DecodeError::Malformed { offset: good.len() }), "{number}");
    }
}

fn stored(key_of: &str, value: Vec<u8>, lease_id: i64) -> StoredLease {
    StoredLease { key: key(DIRECTORY, key_of), value, mod_revision: 5, lease_id }
}

fn value(address: &str) -> Vec<u8> {
    Lease { address: address.into(), generation: 3 }.encode()
}

#[test]
fn leases_are_listed_by_value_and_no_key_is_forgotten() {
    let leases = [
        stored("10.0.0.1", value("10.0.0.1"), 7),
        stored("10.0.0.2", value("10.0.0.9"), 7),
        stored("10.0.0.3", b"garbage".to_vec(), 7),
        stored("10.0.0.4", value("127.0.0.1"), 7),
        stored("10.0.0.5", value("10.0.0.5"), 0),
        stored("not-an-address", value("10.0.0.6"), 7),
        stored("fd00::7", value("fd00:0:0::7"), 7),
        // Another server holds this address properly.
        stored("10.0.0.8", value("10.0.0.8"), 7),
        stored("10.0.0.10", value("10.0.0.8"), 7),
        stored("10.0.0.11", Vec::new(), 7),
    ];
    let survey = survey(DIRECTORY, &leases);
    assert_eq!(survey.live, ["10.0.0.1", "10.0.0.5", "10.0.0.6", "10.0.0.8", "10.0.0.9", "fd00::7"]);
    assert_eq!(survey.doubtful, ["10.0.0.10", "10.0.0.11", "10.0.0.2", "10.0.0.3", "10.0.0.4"]);
    let said: Vec<String> = survey.faults.iter().map(ToString::to_string).collect();
    for (key, word) in [
        ("10.0.0.2", "10.0.0.9"),
        ("10.0.0.3", "cannot be read"),
        ("10.0.0.4", "127.0.0.1"),
        ("10.0.0.5", "no time to live"),
        ("not-an-address", "10.0.0.6"),
        ("10.0.0.10", "10.0.0.8"),
        ("10.0.0.11", "cannot be read"),
    ] {
        let key = format!("{DIRECTORY}{key} ");
        assert!(said.iter().any(|text| text.contains(&key) && text.contains(word)), "{key}: {said:?}");
    }
    assert_eq!(said.len(), 7);
    assert_eq!(survey.faults.iter().filter(|fault| matches!(fault, Fault::NeverExpires { .. })).count(), 1);
}
