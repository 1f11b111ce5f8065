//! The stored RangeAllocation against values that real kube-apiservers and the reference's own
//! codec wrote, against a naive encoder, and on damaged input.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rangekeeper::range_allocation::{DecodeError, Form, RangeAllocation};

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testing/testdata")
}

fn gunzip(path: &Path) -> Vec<u8> {
    let mut value = Vec::new();
    let file = fs::File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    flate2::read::GzDecoder::new(file)
        .read_to_end(&mut value)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    value
}

/// Paths and contents of every raw etcd value among the fixtures.
fn fixtures() -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for cluster in fs::read_dir(testdata()).expect("testdata") {
        let cluster = cluster.expect("testdata").path();
        if !cluster.file_name().is_some_and(|name| name.to_string_lossy().starts_with("kube-")) {
            continue;
        }
        for file in fs::read_dir(cluster).expect("cluster") {
            let path = file.expect("cluster").path();
            if path.to_string_lossy().ends_with(".bin.gz") {
                let value = gunzip(&path);
                found.push((path, value));
            }
        }
    }
    found
}

/// A generator that any seed serves (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn bytes(&mut self, below: usize) -> Vec<u8> {
        (0..self.below(below)).map(|_| self.next() as u8).collect()
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            items.swap(index, self.below(index + 1));
        }
    }
}

fn decode(stored: &[u8]) -> RangeAllocation {
    RangeAllocation::decode(stored).unwrap_or_else(|error| panic!("{error}: {}", stored.escape_ascii()))
}

fn decode_error(stored: &[u8]) -> DecodeError {
    match RangeAllocation::decode(stored) {
        Ok(object) => panic!("accepted {}: {object:?}", stored.escape_ascii()),
        Err(error) => error,
    }
}

// What real servers wrote.

#[test]
fn fixtures_encode_to_the_bytes_they_were_read_from() {
    let fixtures = fixtures();
    for (path, stored) in &fixtures {
        let name = path.file_name().expect("name").to_string_lossy();
        let dual_write = path.to_string_lossy().contains("kube-1.33-dual-stack");
        let range = match (name.split_once('-').expect("STATE-NAME").1, dual_write) {
            ("serviceips.bin.gz", false) => "10.96.0.0/12",
            ("serviceips.bin.gz", true) => "10.96.0.0/16",
            ("secondaryserviceips.bin.gz", false) => "fd00:10:96::/108",
            ("secondaryserviceips.bin.gz", true) => "fd00:10:96::/112",
            ("servicenodeports.bin.gz", _) => "30000-32767",
            other => panic!("unknown range {other:?}"),
        };
        let object = decode(stored);
        assert_eq!(object.form(), Form::Protobuf, "{name}");
        assert_eq!(object.range, range, "{name}");
        assert!(object.is_initialised(), "{name}");
        assert_eq!(object.encode(), *stored, "{name}");

        // The same range and data in a fresh object: the fixtures have empty metadata.
        let mut fresh = RangeAllocation::new(Form::Protobuf);
        fresh.range = range.to_owned();
        fresh.data.clone_from(&object.data);
        assert_eq!(fresh.encode(), *stored, "{name}");
    }
    assert!(fixtures.len() >= 16, "only {} fixtures", fixtures.len());
}

#[test]
fn reference_envelopes_encode_to_the_bytes_they_were_read_from() {
    let path = testdata().join("reference/envelopes.json");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let file: serde_json::Value = serde_json::from_str(&text).expect("envelopes.json");
    let rows = file["rows"].as_array().expect("rows");
    let mut fresh_compared = 0;
    for row in rows {
        let name = row["name"].as_str().expect("name");
        let range = row["range"].as_str().expect("range");
        let data = row["data"].as_str().map(|data| STANDARD.decode(data).expect("data"));
        for (form, column) in [(Form::Protobuf, "protobuf"), (Form::Json, "json"), (Form::Yaml, "yaml")] {
            // The reference cannot write each text in YAML.
            let Some(stored) = row[column].as_str() else { continue };
            let stored = STANDARD.decode(stored).expect("base64");
            let object = decode(&stored);
            assert_eq!(object.form(), form, "{name}");
            assert_eq!(object.range, range, "{name}");
            assert_eq!(object.data, data.as_deref().unwrap_or_default(), "{name}");
            assert_eq!(object.is_initialised(), !range.is_empty(), "{name}");
            assert_eq!(object.encode().escape_ascii().to_string(), stored.escape_ascii().to_string(), "{name}");

            let has_metadata = match form {
                Form::Protobuf => !contains(&stored, b"\x0a\x10\x0a\0\x12\0\x1a\0\x22\0\x2a\0\x32\0\x38\0\x42\0"),
                Form::Json => !contains(&stored, br#""metadata":{}"#),
                Form::Yaml => !contains(&stored, b"metadata: {}"),
            };
            if let Some(data) = &data
                && !has_metadata
            {
                let mut out = b"left over".to_vec();
                RangeAllocation::new(form).encode_with(range, data, &mut out);
                assert_eq!(out.escape_ascii().to_string(), stored.escape_ascii().to_string(), "{name}, fresh");
                fresh_compared += 1;
            }
        }
    }
    assert!(rows.len() >= 60, "only {} rows", rows.len());
    assert!(fresh_compared >= 150, "only {fresh_compared} fresh objects");
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

#[test]
fn a_fresh_object_is_not_initialised() {
    for form in [Form::Protobuf, Form::Json, Form::Yaml] {
        let fresh = RangeAllocation::new(form);
        assert_eq!(fresh.form(), form);
        assert!(!fresh.is_initialised());
        assert_eq!(decode(&fresh.encode()), fresh);
    }
}

#[test]
fn encode_into_reuses_the_buffer() {
    for form in [Form::Protobuf, Form::Json, Form::Yaml] {
        let object = RangeAllocation::new(form);
        let data = vec![0x5a; 1 << 17];
        let mut out = Vec::new();
        object.encode_with("10.96.0.0/12", &data, &mut out);
        assert_eq!(decode(&out).data, data);
        let (pointer, capacity) = (out.as_ptr(), out.capacity());
        for _ in 0..3 {
            object.encode_with("10.96.0.0/12", &data, &mut out);
        }
        assert_eq!((out.as_ptr(), out.capacity()), (pointer, capacity), "{form:?}");
        object.encode_into(&mut out);
        assert_eq!(out, object.encode());
    }
}

// Protobuf against a naive encoder.

/// One protobuf field, encoded. `part` marks those that a rewrite changes.
#[derive(Clone, PartialEq)]
struct Field {
    part: Option<&'static str>,
    bytes: Vec<u8>,
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (value % 128) as u8;
        value /= 128;
        if value == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low + 128);
    }
}

fn length_delimited(number: u64, content: &[u8]) -> Vec<u8> {
    [varint(number * 8 + 2), varint(content.len() as u64), content.to_vec()].concat()
}

fn other(bytes: Vec<u8>) -> Field {
    Field { part: None, bytes }
}

fn unknown_field(random: &mut Random) -> Field {
    let number = 5 + random.next() % 4000;
    other(match random.below(5) {
        0 => [varint(number * 8), varint(random.next() >> random.below(64))].concat(),
        1 => [varint(number * 8 + 1), random.next().to_le_bytes().to_vec()].concat(),
        2 => [varint(number * 8 + 5), vec![7; 4]].concat(),
        // A length written in more bytes than it needs is kept as it is, too.
        3 => [varint(number * 8 + 2), vec![0x83, 0x80, 0], vec![1, 2, 3]].concat(),
        _ => length_delimited(number, &random.bytes(200)),
    })
}

fn type_meta(fields: &[Vec<u8>]) -> Field {
    other(length_delimited(1, &fields.concat()))
}

/// What a message holds after a rewrite: of the fields that are rewritten only the last of each
/// number remains, at its place and with the new content.
fn rewritten(fields: &[Field], part: &'static str, number: u64, content: &[u8]) -> Vec<Field> {
    let last = fields.iter().rposition(|field| field.part == Some(part));
    fields
        .iter()
        .enumerate()
        .filter(|&(index, field)| field.part != Some(part) || Some(index) == last)
        .map(|(_, field)| match field.part {
            Some(found) if found == part => Field { part: Some(part), bytes: length_delimited(number, content) },
            _ => field.clone(),
        })
        .collect()
}

fn concat(fields: &[Field]) -> Vec<u8> {
    fields.iter().flat_map(|field| field.bytes.clone()).collect()
}

#[test]
fn protobuf_fields_in_any_order_survive_a_rewrite() {
    let mut random = Random(1);
    let (mut without_data, mut without_range, mut repeated) = (0, 0, 0);
    for _ in 0..20_000 {
        let mut object = Vec::new();
        let mut range = String::new();
        let mut data = Vec::new();
        for _ in 0..random.below(3) {
            let metadata = [length_delimited(1, &random.bytes(40)), unknown_field(&mut random).bytes];
            object.push(other(length_delimited(1, &metadata.concat())));
        }
        let ranges = random.below(3);
        for index in 0..ranges {
            let text = format!("10.{index}.0.0/{}", random.below(33));
            object.push(Field { part: Some("range"), bytes: length_delimited(2, text.as_bytes()) });
        }
        let datas = random.below(3);
        for _ in 0..datas {
            object.push(Field { part: Some("data"), bytes: length_delimited(3, &random.bytes(300)) });
        }
        for _ in 0..random.below(4) {
            object.push(unknown_field(&mut random));
        }
        random.shuffle(&mut object);
        for field in &object {
            // One byte of tag; contents of less than 128 bytes have one byte of length, others two.
            let content = &field.bytes[if field.bytes[1] < 128 { 2 } else { 3 }..];
            match field.part {
                Some("range") => range = String::from_utf8(content.to_vec()).expect("range"),
                Some(_) => data = content.to_vec(),
                None => {}
            }
        }

        let api_version = length_delimited(1, b"v1");
        let kind = length_delimited(2, b"RangeAllocation");
        let stray = unknown_field(&mut random).bytes;
        let mut unknown = match random.below(4) {
            0 => vec![type_meta(&[api_version, kind])],
            1 => vec![type_meta(&[kind, stray, api_version])],
            2 => vec![type_meta(&[api_version, stray]), type_meta(&[kind])],
            _ => vec![type_meta(&[length_delimited(1, b"v0"), api_version, length_delimited(2, b"x"), kind])],
        };
        for _ in 0..1 + random.below(2) {
            let content = concat(&object);
            unknown.push(Field { part: Some("raw"), bytes: length_delimited(2, &content) });
        }
        if random.below(2) == 0 {
            unknown.push(other(length_delimited(3, b"")));
            unknown.push(other(length_delimited(4, &random.bytes(20))));
        }
        for _ in 0..random.below(3) {
            unknown.push(unknown_field(&mut random));
        }
        random.shuffle(&mut unknown);

        let stored = [b"k8s\0".to_vec(), concat(&unknown)].concat();
        let decoded = decode(&stored);
        assert_eq!(decoded.range, range);
        assert_eq!(decoded.data, data);

        let (new_range, new_data) = match random.below(3) {
            0 => (range, data),
            1 => (String::new(), Vec::new()),
            _ => ("30000-32767".to_owned(), random.bytes(300)),
        };
        let mut expected = rewritten(&object, "range", 2, new_range.as_bytes());
        expected = rewritten(&expected, "data", 3, &new_data);
        if datas == 0 && !new_data.is_empty() {
            expected.push(Field { part: Some("data"), bytes: length_delimited(3, &new_data) });
        }
        if ranges == 0 && !new_range.is_empty() {
            let before = expected.iter().position(|field| field.part == Some("data"));
            let field = Field { part: Some("range"), bytes: length_delimited(2, new_range.as_bytes()) };
            expected.insert(before.unwrap_or(expected.len()), field);
        }
        let expected = rewritten(&unknown, "raw", 2, &concat(&expected));
        let expected = [b"k8s\0".to_vec(), concat(&expected)].concat();
        let mut out = Vec::new();
        decoded.encode_with(&new_range, &new_data, &mut out);
        assert_eq!(out.escape_ascii().to_string(), expected.escape_ascii().to_string());
        let again = decode(&out);
        assert_eq!((again.range, again.data), (new_range, new_data));

        without_range += usize::from(ranges == 0);
        without_data += usize::from(datas == 0);
        repeated += usize::from(ranges > 1 || datas > 1);
    }
    println!("20000 objects: {without_range} without range, {without_data} without data, {repeated} with repeats");
    assert!(without_range > 5_000 && without_data > 5_000 && repeated > 5_000);
}

#[test]
fn the_last_raw_counts() {
    let raw = |range: &[u8]| length_delimited(2, &length_delimited(2, range));
    let type_meta =
        length_delimited(1, &[length_delimited(1, b"v1"), length_delimited(2, b"RangeAllocation")].concat());
    let stored = [b"k8s\0", &raw(b"1-2")[..], &type_meta, &raw(b"3-4")].concat();
    let object = decode(&stored);
    assert_eq!(object.range, "3-4");
    assert_eq!(object.encode(), [b"k8s\0", &type_meta[..], &raw(b"3-4")].concat());
}

// Bad protobuf.

/// `k8s\0` and a typeMeta, so that `fields` begin at offset 27.
fn enveloped(fields: &[u8]) -> Vec<u8> {
    [b"k8s\0\x0a\x15\x0a\x02v1\x12\x0fRangeAllocation", fields].concat()
}

#[test]
fn lengths_past_the_end_are_refused_without_being_believed() {
    for length in [3, 1 << 20, (1 << 32) - 1, 1 << 32, 1 << 63, u64::MAX] {
        // In raw itself, an unknown field of the envelope, data, metadata, and typeMeta.
        for (head, tail) in [
            (enveloped(b"\x12"), &b"\x1a\x00"[..]),
            (enveloped(b"\x2a"), b"\0\0"),
            (enveloped(b"\x12\x40\x1a"), b"\x07\x07"),
            (b"k8s\0\x0a".to_vec(), b"\0\0"),
        ] {
            let stored = [head.clone(), varint(length), tail.to_vec()].concat();
            let error = decode_error(&stored);
            if head.ends_with(b"\x12\x40\x1a") {
                // raw is made as long as what is there, so that only the claim inside it is wrong.
                let mut stored = stored;
                let raw_len = stored.len() - 29;
                stored[28] = raw_len as u8;
                let error = decode_error(&stored);
                assert_eq!(error, DecodeError::LengthPastEnd { offset: 30, length, available: 2 });
                continue;
            }
            assert_eq!(error, DecodeError::LengthPastEnd { offset: head.len(), length, available: 2 });
        }
    }
}

#[test]
fn protobuf_errors_name_their_place() {
    let cases: &[(&[u8], DecodeError)] = &[
        // 0: a typeMeta that is a number; 27 on: fields behind a good typeMeta.
        (b"k8s\0\x08\x01", DecodeError::WireType { offset: 4, message: "Unknown", field: 1, wire_type: 0 }),
        (b"k8s\0", DecodeError::WrongKind { offset: 4, found: String::new() }),
        (b"k8s\0\x0a\x04\x0a\x02v1", DecodeError::WrongKind { offset: 4, found: String::new() }),
        (
            b"k8s\0\x0a\x0d\x0a\x02v1\x12\x07Service\x12\x00",
            DecodeError::WrongKind { offset: 12, found: "Service".to_owned() },
        ),
        (
            b"k8s\0\x0a\x1a\x0a\x07apps/v1\x12\x0fRangeAllocation\x12\x00",
            DecodeError::WrongApiVersion { offset: 8, found: "apps/v1".to_owned() },
        ),
        (
            b"k8s\0\x0a\x11\x12\x0fRangeAllocation\x12\x00",
            DecodeError::WrongApiVersion { offset: 4, found: String::new() },
        ),
        (&enveloped(b""), DecodeError::Truncated { offset: 27 }),
        (&enveloped(b"\x12"), DecodeError::Truncated { offset: 28 }),
        (&enveloped(b"\x12\x80\x80"), DecodeError::Truncated { offset: 30 }),
        (&enveloped(b"\x12\x00\x29\0\0"), DecodeError::Truncated { offset: 32 }),
        (&enveloped(b"\x12\x00\x2d\0\0\0"), DecodeError::Truncated { offset: 33 }),
        // A number that ends within raw's field but not within raw.
        (&enveloped(b"\x12\x02\x20\x80\x1a\x00"), DecodeError::Truncated { offset: 31 }),
        // Metadata that is not a message.
        (
            &enveloped(b"\x12\x06\x0a\x04name\x1a\x00"),
            DecodeError::WireType { offset: 31, message: "ObjectMeta", field: 13, wire_type: 6 },
        ),
        (&enveloped(b"\x12\x00\x1a\x04gzip"), DecodeError::ContentEncoding { offset: 31, found: "gzip".to_owned() }),
        (
            &enveloped(b"\x28\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02\x12\x00"),
            DecodeError::VarintTooLong { offset: 28 },
        ),
        (&enveloped(b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"), DecodeError::VarintTooLong { offset: 27 }),
        (&enveloped(b"\x00\x00"), DecodeError::FieldNumber { offset: 27, message: "Unknown", field: 0 }),
        (
            &enveloped(b"\x82\x80\x80\x80\x10\x00"),
            DecodeError::FieldNumber { offset: 27, message: "Unknown", field: 1 << 29 },
        ),
        (
            &enveloped(b"\x12\x02\x10\x05"),
            DecodeError::WireType { offset: 29, message: "RangeAllocation", field: 2, wire_type: 0 },
        ),
        (
            &enveloped(b"\x12\x05\x1d\0\0\0\0"),
            DecodeError::WireType { offset: 29, message: "RangeAllocation", field: 3, wire_type: 5 },
        ),
        // Groups: begun, and ended without a beginning.
        (
            &enveloped(b"\x2b\x2c\x12\x00"),
            DecodeError::WireType { offset: 27, message: "Unknown", field: 5, wire_type: 3 },
        ),
        (
            &enveloped(b"\x12\x01\x24"),
            DecodeError::WireType { offset: 29, message: "RangeAllocation", field: 4, wire_type: 4 },
        ),
        (&enveloped(b"\x12\x05\x12\x0310\xff"), DecodeError::InvalidUtf8 { offset: 33 }),
    ];
    for (stored, expected) in cases {
        let error = decode_error(stored);
        assert_eq!(error, *expected, "{}", stored.escape_ascii());
        assert!(error.offset() <= stored.len());
    }
    // Ten bytes that do fit 64 bits, and the highest field number.
    decode(&enveloped(b"\x28\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x12\x00"));
    decode(&enveloped(b"\xfa\xff\xff\xff\x0f\x00\x12\x00"));
}

#[test]
fn found_text_is_cut_to_a_readable_length() {
    let kind = "é".repeat(1 << 20);
    let type_meta = length_delimited(1, &length_delimited(2, kind.as_bytes()));
    match decode_error(&[b"k8s\0", &type_meta[..]].concat()) {
        DecodeError::WrongKind { found, .. } => assert_eq!(found, "é".repeat(32)),
        other => panic!("{other}"),
    }
}

#[test]
fn what_is_no_envelope_is_named() {
    assert_eq!(decode_error(b""), DecodeError::Empty { offset: 0 });
    assert_eq!(
        decode_error(b"k8s:enc:aescbc:v1:key1:\x8f\x00"),
        DecodeError::Encrypted { offset: 0, provider: "aescbc".to_owned() }
    );
    assert!(decode_error(b"k8s:enc:kms:v2:x").to_string().contains("\"kms\""));
    assert_eq!(decode_error(b"k8s:enc:"), DecodeError::Encrypted { offset: 0, provider: String::new() });
    for (stored, found) in [
        (&b"k8s"[..], "k8s"),
        (b"k8s\x01", "k8s\\x01"),
        (b"[]", "[]"),
        (b" \n", " \\n"),
        (b"\x1f\x8b\x08\0\0\0\0\0\0", "\\x1f\\x8b\\x08\\x00\\x00\\x00\\x00\\x00"),
    ] {
        assert_eq!(decode_error(stored), DecodeError::NotARangeAllocation { offset: 0, found: found.to_owned() });
    }
}

// JSON.

const HEAD: &str = r#"{"kind":"RangeAllocation","apiVersion":"v1""#;

/// `members`, with a comma in front, behind kind and apiVersion.
fn json(members: &str) -> Vec<u8> {
    format!("{HEAD}{members}}}").into_bytes()
}

fn encoded_with(stored: &[u8], range: &str, data: &[u8]) -> String {
    let mut out = Vec::new();
    decode(stored).encode_with(range, data, &mut out);
    String::from_utf8(out).expect("JSON is UTF-8")
}

#[test]
fn json_of_openshift_keeps_everything_around_range_and_data() {
    let stored = concat!(
        r#"{"apiVersion":"security.internal.openshift.io/v1","data":"HwA=","kind":"RangeAllocation","#,
        r#""metadata":{"creationTimestamp":"2021-03-04T05:06:07Z","generation":1.0e0,"name":"scc-uid","#,
        r#""managedFields":[{"fieldsV1":{"f:data":{}}}]},"range":"1000000000-1999999999/10000","x\u0041":null}"#,
    );
    let object = decode(stored.as_bytes());
    assert_eq!(object.form(), Form::Json);
    assert_eq!(object.range, "1000000000-1999999999/10000");
    assert_eq!(object.data, [0x1f, 0]);
    assert_eq!(String::from_utf8(object.encode()).expect("UTF-8"), stored);
    assert_eq!(
        encoded_with(stored.as_bytes(), "1-2/1", &[0x3f, 0]),
        stored.replace("HwA=", "PwA=").replace("1000000000-1999999999/10000", "1-2/1")
    );
}

#[test]
fn json_white_space_survives() {
    let stored = "\r\n {\n\t\"kind\" : \"RangeAllocation\",\n\t\"apiVersion\":\"v1\" ,\n\t\"range\" :  \"1-2\" ,\n \"data\":\n\"AQ==\"\n } \n\n";
    assert_eq!(decode(stored.as_bytes()).encode(), stored.as_bytes());
    assert_eq!(encoded_with(stored.as_bytes(), "1-3", &[2]), stored.replace("1-2", "1-3").replace("AQ==", "Ag=="));
}

#[test]
fn json_values_are_read_as_go_reads_them() {
    // Each was given to Kubernetes' decoder, v1.36.3, for which range and data it finds.
    let cases: &[(&str, &str, &[u8])] = &[
        ("", "", &[]),
        (r#","range":null,"data":null"#, "", &[]),
        (r#","range":"a","range":"b""#, "b", &[]),
        (r#","range":"a","range":null,"data":"AQI=","data":null"#, "a", &[]),
        (r#","Range":"a","DATA":"AQI=""#, "", &[]),
        (r#","ra\u006ege":"q""#, "q", &[]),
        (r#","data":"AQ\nI=""#, "", &[1, 2]),
        (r#","data":"AQ=\r\n=""#, "", &[1]),
        (r#","data":"AQJ=""#, "", &[1, 2]),
        (r#","range":"\u00e9\/\u003c""#, "é/<", &[]),
        (r#","kind":null,"apiVersion":null"#, "", &[]),
    ];
    for &(members, range, data) in cases {
        let object = decode(&json(members));
        assert_eq!(object.range, range, "{members}");
        assert_eq!(object.data, data, "{members}");
    }
    decode(br#"{"kind":"Service","kind":"RangeAllocation","apiVersion":"v1"}"#);
}

#[test]
fn json_members_that_were_missing_or_null() {
    let missing = json(r#","metadata":{}"#);
    assert_eq!(encoded_with(&missing, "", b"").as_bytes(), missing);
    assert_eq!(encoded_with(&missing, "1-2", &[1]).as_bytes(), json(r#","metadata":{},"range":"1-2","data":"AQ==""#));
    let data_only = json(r#","data":"AQ==""#);
    assert_eq!(encoded_with(&data_only, "1-2", b"").as_bytes(), json(r#","data":"","range":"1-2""#));
    let null = json(r#","data":null,"range":null,"x":1"#);
    assert_eq!(encoded_with(&null, "", b"").as_bytes(), null);
    assert_eq!(encoded_with(&null, "1-2", &[1]).as_bytes(), json(r#","data":"AQ==","range":"1-2","x":1"#));
}

#[test]
fn json_duplicates_are_written_once() {
    let stored = json(r#", "range" : "a" , "data":"AQ==","data":"Ag==","x":1,"range":"b","data":"Aw==" ,"y":2"#);
    assert_eq!(encoded_with(&stored, "c", &[4]).as_bytes(), json(r#", "x":1,"range":"c","data":"BA==" ,"y":2"#));
    let null = json(r#","range":"a","range":null"#);
    assert_eq!(decode(&null).encode(), json(r#","range":"a""#));
}

#[test]
fn json_strings_are_escaped_as_go_escapes_them() {
    // Written by encoding/json for these characters.
    let range = "a<>&\u{2028}\u{2029}\u{1}\u{7f}\u{8}\u{c}\n\t\r\"\\/é🦀";
    let escaped = concat!(r#"a\u003c\u003e\u0026\u2028\u2029\u0001"#, "\u{7f}", r#"\b\f\n\t\r\"\\/é🦀"#);
    let stored = json(r#","range":"""#);
    let text = encoded_with(&stored, range, b"");
    assert_eq!(text.as_bytes(), json(&format!(r#","range":"{escaped}""#)));
    assert_eq!(decode(text.as_bytes()).range, range);
}

#[test]
fn json_errors_name_their_place() {
    let type_error = |offset, field, found| DecodeError::NotAString { offset, field, found };
    let cases: &[(Vec<u8>, DecodeError)] = &[
        (json(r#","range":5"#), type_error(HEAD.len() + 9, "range", "a number")),
        (
            json(r#","range":{"#).split_last().expect("text").1.to_vec(),
            syntax(HEAD.len() + 10, "EOF while parsing an object"),
        ),
        (json(r#","data":[1,2]"#), type_error(HEAD.len() + 8, "data", "an array")),
        (json(r#","data":{}"#), type_error(HEAD.len() + 8, "data", "an object")),
        (json(r#","kind":true"#), type_error(HEAD.len() + 8, "kind", "a boolean")),
        (json(r#","kind":"X""#), DecodeError::WrongKind { offset: HEAD.len() + 8, found: "X".to_owned() }),
        (b" {}".to_vec(), DecodeError::WrongKind { offset: 1, found: String::new() }),
        (br#"{"kind":"RangeAllocation"}"#.to_vec(), DecodeError::WrongApiVersion { offset: 0, found: String::new() }),
        (json(r#","data":"AQ I=""#), DecodeError::Base64 { offset: HEAD.len() + 11 }),
        (json(r#","data":"AQI""#), DecodeError::Base64 { offset: HEAD.len() + 12 }),
        (json(r#","data":"AQ=\u0041""#), DecodeError::Base64 { offset: HEAD.len() + 8 }),
        (json(r#","data":"AQI=AQI=""#), DecodeError::Base64 { offset: HEAD.len() + 12 }),
        (json(r#","data":"AQI-""#), DecodeError::Base64 { offset: HEAD.len() + 12 }),
        ([HEAD.as_bytes(), b",\"x\":\"\xff\"}"].concat(), DecodeError::InvalidUtf8 { offset: HEAD.len() + 6 }),
    ];
    for (stored, expected) in cases {
        let error = decode_error(stored);
        assert_eq!(error, *expected, "{}", stored.escape_ascii());
        assert!(error.offset() <= stored.len());
    }

    // Syntax errors point at the byte that does not fit, on whatever line it is.
    let cases = [
        ("{", 1),
        ("{\n\n}x", 4),
        ("{\n \"a\":1\n !}", 10),
        ("{\"a\" 1}", 5),
        ("{\"a\":\u{1}}", 5),
        ("{a:1}", 1),
        ("{\"kind\":\"RangeAllocation\",\"apiVersion\":\"v1\",\n\"range\":\"\\q\"}", 55),
    ];
    for (text, place) in cases {
        match decode_error(text.as_bytes()) {
            DecodeError::JsonSyntax { offset, reason } => {
                assert_eq!(offset, place, "{text}: {reason}");
                assert!(!reason.contains("column"), "{reason}");
            }
            other => panic!("{text}: {other}"),
        }
    }
}

fn syntax(offset: usize, reason: &str) -> DecodeError {
    DecodeError::JsonSyntax { offset, reason: reason.to_owned() }
}

#[test]
fn json_may_be_nested_deeply() {
    let deep = format!("{}{}", "[".repeat(1 << 20), "]".repeat(1 << 20));
    let stored = json(&format!(r#","x":{deep}"#));
    assert_eq!(decode(&stored).encode(), stored);
    let open = json(&format!(r#","x":{}"#, "[".repeat(1 << 20)));
    assert!(matches!(decode_error(&open), DecodeError::JsonSyntax { .. }));
}

#[test]
fn many_duplicates_take_linear_time() {
    let count = 200_000;
    let fields = [b"k8s\0\x0a\x15\x0a\x02v1\x12\x0fRangeAllocation\x12", &varint(7 * count)[..]].concat();
    let stored = [fields, b"\x12\x011\x22\x00\x1a\x00".repeat(count as usize)].concat();
    let object = decode(&stored);
    assert_eq!(object.range, "1");
    assert_eq!(object.encode().len(), 4 + 23 + 4 + 2 * count as usize + 5);

    let stored = json(&r#","data":"","range":"1""#.repeat(count as usize));
    assert_eq!(decode(&stored).encode(), json(r#","data":"","range":"1""#));
}

// YAML.

/// The object that kube-apiserver writes for 10.96.0.0/12 with 10.96.0.1 in use (testing/testdata/reference).
const YAML: &str = "apiVersion: v1\ndata: AQ==\nkind: RangeAllocation\nmetadata: {}\nrange: 10.96.0.0/12\n";

#[test]
fn yaml_keeps_everything_around_range_and_data() {
    let data = STANDARD.decode("1234").expect("base64");
    let other = "range: \"10.96.0.0/12\"\nx:\n- y: 1\n  range: 3\n- z\nkind: \"RangeAllocation\"\nm:\n  range: 3\n  data: |\n    data: é\n\
                 apiVersion: v2\ndata: AQ==\n";
    for stored in [YAML, other] {
        let object = decode(stored.as_bytes());
        assert_eq!((object.form(), &*object.range, &*object.data), (Form::Yaml, "10.96.0.0/12", &[1][..]), "{stored}");
        let expected =
            stored.replace("AQ==", "\"1234\"").replace("\"10.96.0.0/12\"", "1-2").replace("10.96.0.0/12", "1-2");
        assert_eq!(encoded_with(stored.as_bytes(), "1-2", &data), expected);
    }
}

#[test]
fn yaml_values_are_read_as_kube_apiserver_reads_them() {
    let yaml = |range: &str, data: &str| YAML.replace("10.96.0.0/12", range).replace("AQ==", data);
    for empty in ["null", "~", "\"\""] {
        let object = decode(yaml(empty, empty).as_bytes());
        assert_eq!((object.is_initialised(), &*object.data), (false, &[][..]), "{empty}");
        assert_eq!(encoded_with(&object.encode(), "10.96.0.0/12", &[1]), YAML);
        let rest = encoded_with(&object.encode(), "", &[]);
        assert_eq!(rest, if "null~".contains(empty) { yaml("null", "null") } else { yaml("\"\"", "\"\"") });
    }
    assert_eq!(decode(yaml("\"\\u0031-2\"", "\"AQ==\"").as_bytes()).range, "1-2");
    // Texts that YAML 1.1 reads as a date, as a time, or as something else than a string are written between quotes.
    for range in ["2026-01-02", "1:20", "1", "0x1f", "-1", ".5", "no", "-", "a: b", "a #b", "'", "\n", "é"] {
        let stored = encoded_with(YAML.as_bytes(), range, b"");
        assert!(stored.contains("range: \""), "{stored}");
        assert_eq!(decode(stored.as_bytes()).range, range);
    }
}

#[test]
fn yaml_errors_name_their_place() {
    let end = YAML.len();
    let at = |part: &str| YAML.find(part).expect(part);
    let error = |offset, line, reason: &str| DecodeError::Yaml { offset, line, reason: reason.to_owned() };
    let type_error = |found| DecodeError::NotAString { offset: at("10.96"), field: "range", found };
    let range = |text: &str| YAML.replace("10.96.0.0/12", text);
    let (no_key, other_way) = (
        "this is not a key with a value, as kube-apiserver writes it",
        "YAML in another form than kube-apiserver writes",
    );
    for (stored, expected) in [
        (YAML.trim_end().to_owned(), DecodeError::Truncated { offset: end - 1 }),
        (YAML[..at("range")].to_owned(), error(at("range"), 4, "there is no range")),
        (YAML[..at("kind")].to_owned(), error(at("kind"), 2, "there is no kind")),
        (YAML.replace("apiVersion: v1\n", ""), error(end - 15, 4, "there is no apiVersion")),
        (YAML.replace("RangeA", "A"), DecodeError::WrongKind { offset: at("RangeA"), found: "Allocation".to_owned() }),
        (YAML.replace("v1", "\"\""), DecodeError::WrongApiVersion { offset: at("v1"), found: String::new() }),
        (range("10"), type_error("a number")),
        (range("0x1F"), type_error("a number")),
        (range("1_000.5"), type_error("a number")),
        (range("-.inf"), type_error("a number")),
        (range("yes"), type_error("a boolean")),
        (range(""), DecodeError::NotAString { offset: end - 13, field: "range", found: "nothing in its line" }),
        (range("[1-2]"), type_error(other_way)),
        (range("{1-2: 3}"), type_error(other_way)),
        (range("|"), type_error(other_way)),
        (range("'1-2'"), type_error(other_way)),
        (range("\"1-2"), type_error(other_way)),
        (range("1-2 # 3"), type_error(other_way)),
        (range("&a 1-2"), type_error(other_way)),
        (range("!!str 1-2"), type_error(other_way)),
        (range("*a"), type_error(other_way)),
        (range("<<"), type_error(other_way)),
        (range("1-2\r"), type_error(other_way)),
        (range("1-2\n  3"), error(end - 9, 6, "range has several lines")),
        (range("1-2\n- 3"), error(end - 9, 6, "range has several lines")),
        (YAML.replace("range: ", "range:"), error(at("range"), 5, no_key)),
        (YAML.replace("range: ", "range:\t"), error(at("range"), 5, no_key)),
        (YAML.replace("metadata", "\tmetadata"), error(at("metadata"), 4, no_key)),
        (YAML.replace("metadata", "# metadata"), error(at("metadata"), 4, no_key)),
        (YAML.replace("metadata", "? metadata"), error(at("metadata"), 4, no_key)),
        (YAML.replace("metadata", "\"metadata\""), error(at("metadata"), 4, no_key)),
        (format!("{YAML}range: 1-2\n"), error(end, 6, "range is there for the second time")),
        (format!("{YAML}<<: {{range: 1-2}}\n"), error(end, 6, no_key)),
        (format!("{YAML}---\n{YAML}"), error(end, 6, no_key)),
        (format!("{YAML}\n"), error(end, 6, no_key)),
        (YAML.replace("AQ==", "AQ="), DecodeError::Base64 { offset: at("AQ") + 3 }),
        (YAML.replace("AQ==", "\"A*==\""), DecodeError::Base64 { offset: at("AQ") + 2 }),
        (YAML.replace("AQ==", "12"), DecodeError::NotAString { offset: at("AQ"), field: "data", found: "a number" }),
        (YAML.replace("AQ==", "true"), DecodeError::NotAString { offset: at("AQ"), field: "data", found: "a boolean" }),
    ] {
        assert_eq!(decode_error(stored.as_bytes()), expected, "{stored}");
    }
    let text = error(3, 1, "there is no data").to_string();
    assert_eq!(text, "YAML at byte 3, in line 1: there is no data");
    let invalid = [YAML.as_bytes(), b"x: \xff\n"].concat();
    assert_eq!(decode_error(&invalid), DecodeError::InvalidUtf8 { offset: end + 3 });
    for no_yaml in ["a", "apiVersion", "- apiVersion: v1\n", "---\n", "é: b\n", "\"a\": b\n"] {
        assert!(matches!(decode_error(no_yaml.as_bytes()), DecodeError::NotARangeAllocation { .. }), "{no_yaml}");
    }
}

// Damage.

/// Decodes what may be anything: the result is an error inside the input, or a value that
/// encodes to something that decodes to it again. Says whether it was a value.
fn decode_anything(stored: &[u8]) -> bool {
    match RangeAllocation::decode(stored) {
        Ok(object) => {
            assert!(object.data.len() <= stored.len());
            let encoded = object.encode();
            let again = decode(&encoded);
            assert_eq!((&again.range, &again.data), (&object.range, &object.data));
            assert_eq!(again.encode(), encoded);
            true
        }
        Err(error) => {
            assert!(error.offset() <= stored.len(), "{error}: {}", stored.escape_ascii());
            assert!(error.to_string().len() < 400, "{error}");
            false
        }
    }
}

fn small_values() -> Vec<Vec<u8>> {
    let mut values = Vec::new();
    for form in [Form::Protobuf, Form::Json, Form::Yaml] {
        let mut object = RangeAllocation::new(form);
        values.push(object.encode());
        object.range = "10.0.0.0/24".to_owned();
        object.data = (0..31).map(|byte| byte * 8).collect();
        values.push(object.encode());
    }
    values.push(YAML.replace(" {}", "\n  labels:\n    a: \"b\"\n  name: |\n    x").into_bytes());
    values.push(json(r#","range":"\u0031-2","x":[{"y":1e5}],"data":"AQ\n==","range":null"#));
    let ports = fixtures().into_iter().find(|(path, _)| path.ends_with("clean-servicenodeports.bin.gz"));
    values.push(ports.expect("clean-servicenodeports").1);
    values
}

#[test]
fn a_truncated_value_is_refused_or_lost_nothing() {
    let (mut refused, mut accepted) = (0, 0);
    for value in small_values() {
        let whole = decode(&value);
        for length in 0..value.len() {
            if decode_anything(&value[..length]) {
                let object = decode(&value[..length]);
                assert_eq!((&object.range, &object.data), (&whole.range, &whole.data), "{length} bytes");
                accepted += 1;
            } else {
                refused += 1;
            }
        }
    }
    println!("{refused} truncations refused, {accepted} accepted");
    // Accepted are those that lack contentType, contentEncoding or the final line feed.
    assert!(refused > 800 && accepted < 20, "{refused}, {accepted}");
}

#[test]
fn flipped_inserted_and_removed_bytes_are_handled() {
    const ROUNDS: usize = 60_000;
    let values = small_values();
    let mut random = Random(2);
    let mut accepted = 0;
    for round in 0..ROUNDS {
        let mut value = values[round % values.len()].clone();
        for _ in 0..1 + random.below(4) {
            let at = random.below(value.len());
            match random.below(4) {
                0 => value.insert(at, random.next() as u8),
                1 if value.len() > 1 => {
                    value.remove(at);
                }
                _ => value[at] ^= 1 << random.below(8),
            }
        }
        accepted += usize::from(decode_anything(&value));
    }
    println!("{accepted} of {ROUNDS} damaged values accepted");
    assert!(accepted > ROUNDS / 50 && accepted < ROUNDS, "{accepted}");
}

#[test]
fn random_bytes_behind_good_beginnings_are_handled() {
    const ROUNDS: usize = 40_000;
    let mut random = Random(3);
    let mut refused = 0;
    for round in 0..ROUNDS {
        let tail = random.bytes(40);
        let value = match round % 5 {
            0 => [b"k8s\0", &tail[..]].concat(),
            1 => enveloped(&tail),
            2 => enveloped(&length_delimited(2, &tail)),
            3 => [YAML.as_bytes(), &tail].concat(),
            _ => [HEAD.as_bytes(), &tail].concat(),
        };
        refused += usize::from(!decode_anything(&value));
    }
    println!("{refused} of {ROUNDS} random values refused");
    assert!(refused > ROUNDS / 2 && refused < ROUNDS, "{refused}");
}
