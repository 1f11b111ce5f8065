//! The parts of the C ABI that take batches or questions, declared as in `include/rangekeeper.h` and called as C calls
//! them, and a plain decoder of batches by that header's description.

use std::ffi::c_char;
use std::ptr;

use rangekeeper::audit::{Leak, Remedy, Report};
use rangekeeper::finding::{Finding, Reason, Subject};

use crate::service::{Address, NodePort, OwnedService, Protocol};

// Nothing is used by name: the entry points are found by the linker.
extern crate rangekeeper_abi as _;

/// `RK_RESULT_OK`.
pub const OK: u32 = 0;
/// `RK_RESULT_NULL_POINTER`.
pub const NULL_POINTER: u32 = 1;
/// `RK_RESULT_INVALID_ARGUMENT`.
pub const INVALID_ARGUMENT: u32 = 3;
/// `RK_RESULT_INVALID_UTF8`.
pub const INVALID_UTF8: u32 = 4;
/// `RK_RESULT_INVALID_BATCH`.
pub const INVALID_BATCH: u32 = 34;
/// `RK_RESULT_INVALID_JSON`.
pub const INVALID_JSON: u32 = 64;
/// `RK_RESULT_INVALID_CONFIG`.
pub const INVALID_CONFIG: u32 = 65;

const BUFFER_TOO_SMALL: u32 = 2;

const SAME_TEXT: u32 = u32::MAX;
const PROTOCOL_TEXT: u32 = 16;

/// `rk_batch`, and so `rk_services`, `rk_service_names` and `rk_ip_addresses`, which consist of one.
#[repr(C)]
struct RawBatch {
    words: *const u32,
    words_len: usize,
    words_capacity: usize,
    text: *const u8,
    text_len: usize,
    text_capacity: usize,
    count: usize,
}

/// `rk_error`.
#[repr(C)]
struct RawError {
    detail_kind: u32,
    /// The byte of the input, in what this calls; the union has room for four numbers.
    detail: [u64; 4],
    message_len: usize,
    message: [c_char; 512],
}

/// `rk_value`.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq)]
struct RawValue {
    high: u64,
    low: u64,
    kind: u32,
}

/// `rk_range`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawRange {
    first: RawValue,
    extent: u32,
}

/// `rk_found_value`.
#[repr(C)]
#[derive(Clone, Copy)]
union RawFoundValue {
    address: RawValue,
    port: i32,
}

impl Default for RawFoundValue {
    fn default() -> Self {
        Self { address: RawValue::default() }
    }
}

/// `rk_finding`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawFinding {
    reason: u32,
    subject_kind: u32,
    subject: u64,
    range: u32,
    remedy: u32,
    value_kind: u32,
    value: RawFoundValue,
    reserved: [u64; 2],
}

/// `rk_leak`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawLeak {
    value: RawValue,
    range: u32,
    object: u64,
    remedy: u32,
    severity: u32,
    stays: bool,
    reserved: [u64; 2],
}

#[repr(C)]
struct Opaque {
    _private: [u8; 0],
}

unsafe extern "C" {
    fn rk_bootstrap_plan(
        question: *const c_char,
        question_len: usize,
        buffer: *mut c_char,
        capacity: usize,
        len: *mut usize,
        error: *mut RawError,
    ) -> u32;
    fn rk_range_parse(spec: *const c_char, len: usize, kind: u32, range: *mut RawRange, error: *mut Opaque) -> u32;
    fn rk_audit_new(tracker: *const Opaque, ip_addresses: bool, now: *const i64, audit: *mut *mut Opaque) -> u32;
    fn rk_audit_free(audit: *mut Opaque);
    fn rk_audit_add_bitmap(
        audit: *const Opaque,
        configured: *const RawRange,
        stored_range: *const c_char,
        stored_range_len: usize,
        stored_data: *const u8,
        stored_data_len: usize,
        error: *mut Opaque,
    ) -> u32;
    fn rk_audit_add_service_cidr(
        audit: *const Opaque,
        cidr: *const c_char,
        len: usize,
        is_ready: bool,
        error: *mut Opaque,
    ) -> u32;
    fn rk_audit_observe_ip_addresses(audit: *const Opaque, batch: *const RawBatch, error: *mut Opaque) -> u32;
    fn rk_audit_observe_services(
        audit: *const Opaque,
        names: *const RawBatch,
        batch: *const RawBatch,
        error: *mut Opaque,
    ) -> u32;
    fn rk_audit_finish(audit: *const Opaque, report: *mut *mut Opaque, error: *mut Opaque) -> u32;
    fn rk_report_free(report: *mut Opaque);
    fn rk_report_services(report: *const Opaque, services: *mut u64) -> u32;
    fn rk_report_findings(
        report: *const Opaque,
        from: usize,
        findings: *mut RawFinding,
        capacity: usize,
        n: *mut usize,
    ) -> u32;
    fn rk_report_finding_texts(
        report: *const Opaque,
        from: usize,
        buffer: *mut c_char,
        capacity: usize,
        ends: *mut usize,
        n: usize,
        written: *mut usize,
    ) -> u32;
    fn rk_report_leaks(report: *const Opaque, from: usize, leaks: *mut RawLeak, capacity: usize, n: *mut usize) -> u32;
}

/// A finding as C sees it: reason, subject's kind and number, range, remedy, the value as text, and the message.
pub type FoundByC = (&'static str, u32, u64, u32, u32, String, String);

/// What C has for no range.
const NO_RANGE: u32 = u32::MAX;

/// A core's finding as C must see it.
pub fn as_c(report: &Report, finding: &Finding) -> FoundByC {
    let (kind, subject) = match finding.subject {
        Subject::Service(ordinal) => (0, ordinal),
        Subject::IpAddress(ordinal) => (1, ordinal),
        Subject::ServiceCidr(range) => (2, range),
        Subject::Range(range) => (3, range),
        Subject::Stored(bitmap) => (4, bitmap as u64),
    };
    let reason = finding.reason;
    let range = finding.range.map_or(NO_RANGE, |range| range as u32);
    let remedy = match report.remedy(finding) {
        Remedy::Repair => 0,
        Remedy::ApiServer => 1,
        Remedy::Owner => 2,
    };
    (reason.as_str(), kind, subject, range, remedy, finding.value.to_string(), finding.to_string())
}

/// The reasons by their numbers in C, from 1 on.
const REASONS: [Reason; 21] = [
    Reason::ClusterIpNotValid,
    Reason::ClusterIpNotAllocated,
    Reason::ClusterIpAlreadyAllocated,
    Reason::ClusterIpOutOfRange,
    Reason::ServiceCidrFull,
    Reason::IpAddressNotAllocated,
    Reason::IpAddressWrongReference,
    Reason::PortNotAllocated,
    Reason::PortAlreadyAllocated,
    Reason::PortOutOfRange,
    Reason::BitmapDisagrees,
    Reason::IpAddressWithoutParent,
    Reason::IpAddressNotCanonical,
    Reason::ClusterIpNotCanonical,
    Reason::RangeFull,
    Reason::RangeNearlyFull,
    Reason::RangeNotReadable,
    Reason::RangeMissing,
    Reason::ClusterIpMissing,
    Reason::NodePortMissing,
    Reason::HealthCheckNodePortMissing,
];

/// A batch of any kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// The words.
    pub words: Vec<u32>,
    /// The texts.
    pub text: Vec<u8>,
    /// How many objects it says to have.
    pub count: usize,
}

/// An IPAddress object of a batch.
#[derive(arbitrary::Arbitrary, Clone, Debug, PartialEq, Eq)]
pub struct OwnedIpAddress {
    /// `metadata.name`.
    pub name: Address,
    /// Seconds since 1970.
    pub created: i64,
    /// `metadata.resourceVersion`.
    pub revision: u64,
    /// Whether there is no `spec.parentRef`.
    pub without_parent: bool,
    /// The label managed-by, then the parent's group, resource, namespace and name.
    pub rest: [String; 5],
}

impl Batch {
    fn push_text(&mut self, text: &str) {
        self.words.push(text.len() as u32);
        self.text.extend_from_slice(text.as_bytes());
    }

    /// A batch of Services; `short` uses the abbreviations for equal texts and known protocols.
    pub fn of_services(services: &[OwnedService], short: bool) -> Self {
        let mut batch = Self { count: services.len(), ..Self::default() };
        for service in services {
            let entries: Vec<&Address> = std::iter::once(&service.cluster_ip).chain(&service.cluster_ips).collect();
            batch.words.push(entries.len() as u32 + 65_536 * service.ports.len() as u32);
            batch.words.push(service.health_check_node_port.0.cast_unsigned());
            for (index, entry) in entries.iter().enumerate() {
                if short && index > 0 && entries[index - 1] == *entry {
                    batch.words.push(SAME_TEXT);
                } else {
                    batch.push_text(&entry.0);
                }
            }
            for (NodePort(port), Protocol(protocol)) in &service.ports {
                batch.words.push(port.cast_unsigned());
                match ["TCP", "UDP", "SCTP"].iter().position(|known| *known == protocol) {
                    Some(known) if short => batch.words.push(known as u32),
                    _ => {
                        batch.words.push(PROTOCOL_TEXT + protocol.len() as u32);
                        batch.text.extend_from_slice(protocol.as_bytes());
                    }
                }
            }
        }
        batch
    }

    /// A batch of namespaces and names, without times and revisions.
    pub fn of_names(names: &[(String, String)]) -> Self {
        let mut batch = Self { count: names.len(), ..Self::default() };
        for (namespace, name) in names {
            batch.words.extend([0; 4]);
            batch.push_text(namespace);
            batch.push_text(name);
        }
        batch
    }

    /// A batch of IPAddress objects.
    pub fn of_ip_addresses(objects: &[OwnedIpAddress]) -> Self {
        let mut batch = Self { count: objects.len(), ..Self::default() };
        for object in objects {
            let created = object.created.cast_unsigned();
            batch.words.extend([created as u32, (created >> 32) as u32]);
            batch.words.extend([object.revision as u32, (object.revision >> 32) as u32]);
            batch.words.push(u32::from(object.without_parent));
            batch.push_text(&object.name.0);
            object.rest.iter().for_each(|text| batch.push_text(text));
        }
        batch
    }

    /// The Services of the batch, or the expected result code.
    pub fn services(&self) -> Result<Vec<OwnedService>, u32> {
        self.read(|words, text| {
            let shape = words.next()?;
            let health = words.next()?;
            let (entries, ports) = (shape % 65_536, shape / 65_536);
            let mut addresses: Vec<Address> = Vec::new();
            for _ in 0..entries {
                let address = match words.next()? {
                    SAME_TEXT => addresses.last()?.clone(),
                    len => Address(text.take(len)?),
                };
                addresses.push(address);
            }
            let cluster_ip = (!addresses.is_empty()).then(|| addresses.remove(0))?;
            // All words of the ports are looked for before the first text of theirs; either way the batch is refused.
            let mut listed = Vec::new();
            for _ in 0..ports {
                let port = NodePort(words.next()?.cast_signed());
                let protocol = match words.next()? {
                    0 => "TCP".to_owned(),
                    1 => "UDP".to_owned(),
                    2 => "SCTP".to_owned(),
                    other => text.take(other.checked_sub(PROTOCOL_TEXT)?)?,
                };
                listed.push((port, Protocol(protocol)));
            }
            let health_check_node_port = NodePort(health.cast_signed());
            Some(OwnedService { cluster_ip, cluster_ips: addresses, ports: listed, health_check_node_port })
        })
    }

    /// The names of the batch, or the expected result code.
    pub fn names(&self) -> Result<Vec<(String, String)>, u32> {
        self.read(|words, text| {
            words.long()?; // when it was created
            words.long()?; // its create revision
            let (namespace, name) = (words.next()?, words.next()?);
            Some((text.take(namespace)?, text.take(name)?))
        })
    }

    /// The IPAddress objects of the batch, or the expected result code.
    pub fn ip_addresses(&self) -> Result<Vec<OwnedIpAddress>, u32> {
        self.read(|words, text| {
            let created = words.long()?.cast_signed();
            let revision = words.long()?;
            let without_parent = words.next()? != 0;
            let name = Address(text.take(words.next()?)?);
            let mut rest: [String; 5] = Default::default();
            for part in &mut rest {
                *part = text.take(words.next()?)?;
            }
            Some(OwnedIpAddress { name, created, revision, without_parent, rest })
        })
    }

    fn read<T>(&self, mut one: impl FnMut(&mut Words<'_>, &mut Text<'_>) -> Option<T>) -> Result<Vec<T>, u32> {
        let mut text = Text(str::from_utf8(&self.text).map_err(|_| INVALID_BATCH)?);
        let mut words = Words(&self.words);
        let mut items = Vec::new();
        for _ in 0..self.count {
            items.push(one(&mut words, &mut text).ok_or(INVALID_BATCH)?);
        }
        if words.0.is_empty() && text.0.is_empty() { Ok(items) } else { Err(INVALID_BATCH) }
    }

    fn raw(&self) -> RawBatch {
        // C callers often have NULL where there is nothing.
        RawBatch {
            words: if self.words.is_empty() { ptr::null() } else { self.words.as_ptr() },
            words_len: self.words.len(),
            words_capacity: 0,
            text: if self.text.is_empty() { ptr::null() } else { self.text.as_ptr() },
            text_len: self.text.len(),
            text_capacity: 0,
            count: self.count,
        }
    }
}

struct Words<'a>(&'a [u32]);

impl Words<'_> {
    fn next(&mut self) -> Option<u32> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn long(&mut self) -> Option<u64> {
        let (low, high) = (self.next()?, self.next()?);
        Some(u64::from(high) << 32 | u64::from(low))
    }
}

struct Text<'a>(&'a str);

impl Text<'_> {
    fn take(&mut self, len: u32) -> Option<String> {
        let taken = self.0.get(..len as usize)?;
        self.0 = &self.0[len as usize..];
        Some(taken.to_owned())
    }
}

/// A change to a batch that may break it.
#[derive(arbitrary::Arbitrary, Clone, Debug)]
pub enum Damage {
    /// Another word.
    Word(u16, u32),
    /// The sign for an equal text, wherever that is.
    SameText(u16),
    /// A word that is a little more or less.
    Shift(u16, i8),
    /// Another byte of text.
    Byte(u16, u8),
    /// Words past the end are cut off.
    CutWords(u16),
    /// Text past the end is cut off.
    CutText(u16),
    /// More words.
    AddWords(Vec<u32>),
    /// More text.
    AddText(Vec<u8>),
    /// Another count.
    Count(i8),
}

impl Damage {
    /// Changes the batch.
    pub fn apply(&self, batch: &mut Batch) {
        let (words, text) = (batch.words.len().max(1), batch.text.len().max(1));
        match self {
            Self::Word(at, word) => {
                batch.words.get_mut(usize::from(*at) % words).into_iter().for_each(|to| *to = *word)
            }
            Self::SameText(at) => Self::Word(*at, SAME_TEXT).apply(batch),
            Self::Shift(at, by) => batch
                .words
                .get_mut(usize::from(*at) % words)
                .into_iter()
                .for_each(|to| *to = to.wrapping_add_signed((*by).into())),
            Self::Byte(at, byte) => batch.text.get_mut(usize::from(*at) % text).into_iter().for_each(|to| *to = *byte),
            Self::CutWords(len) => batch.words.truncate(usize::from(*len) % words),
            Self::CutText(len) => batch.text.truncate(usize::from(*len) % text),
            Self::AddWords(words) => batch.words.extend(words),
            Self::AddText(text) => batch.text.extend(text),
            Self::Count(by) => batch.count = batch.count.wrapping_add_signed((*by).into()),
        }
    }
}

/// The result of `rk_bootstrap_plan`, the place of a fault, and the answer.
pub fn bootstrap_plan(question: &[u8]) -> (u32, u64, Vec<u8>) {
    let mut error = RawError { detail_kind: 0, detail: [u64::MAX; 4], message_len: 0, message: [0; 512] };
    let mut answer: Vec<u8> = Vec::new();
    loop {
        let (first, length) = (question.as_ptr().cast(), question.len());
        let mut len = 0;
        // SAFETY: question, answer and both out-parameters live until the call returns; so many bytes may be written.
        let result =
            unsafe { rk_bootstrap_plan(first, length, answer.as_mut_ptr().cast(), answer.len(), &mut len, &mut error) };
        if result != BUFFER_TOO_SMALL {
            answer.truncate(if result == OK { len } else { 0 });
            return (result, error.detail[0], answer);
        }
        assert!(len > answer.len(), "{len} bytes do not fit into {}", answer.len());
        answer.resize(len, 0);
    }
}

/// `rk_audit`.
pub struct Audit(*mut Opaque);

impl Audit {
    /// An audit of these bitmaps, for which nothing is stored.
    pub fn of_bitmaps(ranges: &[&str]) -> Self {
        let mut audit = ptr::null_mut();
        // SAFETY: the out-parameter lives until the call returns.
        assert_eq!(unsafe { rk_audit_new(ptr::null_mut(), false, ptr::null(), &mut audit) }, OK);
        for text in ranges {
            let mut range = RawRange::default();
            // RK_RANGE_KIND_CIDR, RK_RANGE_KIND_PORTS.
            let kind = if text.contains('/') { 1201 } else { 1202 };
            // SAFETY: the text and the out-parameter live until the call returns; error may be NULL.
            let result = unsafe { rk_range_parse(text.as_ptr().cast(), text.len(), kind, &mut range, ptr::null_mut()) };
            assert_eq!(result, OK);
            // SAFETY: the audit was just made; empty texts may be NULL; error may be NULL.
            let result = unsafe { rk_audit_add_bitmap(audit, &range, ptr::null(), 0, ptr::null(), 0, ptr::null_mut()) };
            assert_eq!(result, OK);
        }
        Self(audit)
    }

    /// An audit of IPAddress objects and these CIDRs.
    pub fn of_ip_addresses(now: Option<i64>, cidrs: &[&str]) -> Self {
        let mut audit = ptr::null_mut();
        let now = now.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: the time and the out-parameter live until the call returns.
        assert_eq!(unsafe { rk_audit_new(ptr::null_mut(), true, now, &mut audit) }, OK);
        for text in cidrs {
            // SAFETY: the handle was just made, the text lives until the call returns; error may be NULL.
            let result =
                unsafe { rk_audit_add_service_cidr(audit, text.as_ptr().cast(), text.len(), true, ptr::null_mut()) };
            assert_eq!(result, OK);
        }
        Self(audit)
    }

    /// Hands over a batch of IPAddress objects.
    pub fn observe_ip_addresses(&self, batch: &Batch) -> u32 {
        // SAFETY: the handle is freed by drop only; the batch and its arrays live until the call returns.
        unsafe { rk_audit_observe_ip_addresses(self.0, &batch.raw(), ptr::null_mut()) }
    }

    /// Hands over a batch of Services without names.
    pub fn observe(&self, batch: &Batch) -> u32 {
        // SAFETY: as above; names may be NULL.
        unsafe { rk_audit_observe_services(self.0, ptr::null(), &batch.raw(), ptr::null_mut()) }
    }

    /// Hands over a batch of Services with their names.
    pub fn observe_services(&self, names: &Batch, batch: &Batch) -> u32 {
        // SAFETY: as above.
        unsafe { rk_audit_observe_services(self.0, &names.raw(), &batch.raw(), ptr::null_mut()) }
    }

    /// Hands over a batch whose words lie where no word can lie, or nowhere.
    pub fn observe_misplaced(&self, batch: &Batch) -> [u32; 3] {
        let raw = batch.raw();
        let nowhere = RawBatch { words: ptr::null(), words_len: batch.words.len() + 1, ..batch.raw() };
        let unaligned = RawBatch { words: batch.words.as_ptr().wrapping_byte_add(1), words_len: 1, ..raw };
        // SAFETY: the border promises to refuse NULL and what is not aligned without reading from it.
        unsafe {
            [
                rk_audit_observe_services(self.0, ptr::null(), ptr::null(), ptr::null_mut()),
                rk_audit_observe_services(self.0, ptr::null(), &nowhere, ptr::null_mut()),
                rk_audit_observe_services(self.0, ptr::null(), &unaligned, ptr::null_mut()),
            ]
        }
    }

    /// Ends the audit: the number of Services, all findings, and range and object of each leak, `page` at a time.
    pub fn finish(self, page: usize) -> (u64, Vec<FoundByC>, Vec<(u32, u64)>) {
        let (mut report, mut services) = (ptr::null_mut(), 0);
        // SAFETY: the handle is freed by drop only; the out-parameter lives until the call returns; error may be NULL.
        assert_eq!(unsafe { rk_audit_finish(self.0, &mut report, ptr::null_mut()) }, OK);
        // SAFETY: the report was just made; the out-parameter lives until the call returns.
        assert_eq!(unsafe { rk_report_services(report, &mut services) }, OK);
        let found = findings(
            page,
            // SAFETY: the report is freed below; the array has room for as many as its length.
            |from, page, n| unsafe { rk_report_findings(report, from, page.as_mut_ptr(), page.len(), n) },
            // SAFETY: as above; ends has room for both ends of one finding.
            |from, text, ends, n| unsafe {
                let buffer = text.as_mut_ptr().cast();
                rk_report_finding_texts(report, from, buffer, text.len(), ends.as_mut_ptr(), 1, n)
            },
        );
        // SAFETY: the report is freed below; the array has room for as many as its length.
        let leaks =
            pages(page, |from, page, n| unsafe { rk_report_leaks(report, from, page.as_mut_ptr(), page.len(), n) });
        let leaks = leaks.iter().map(|leak: &RawLeak| (leak.range, leak.object)).collect();
        // SAFETY: made above and used no more.
        unsafe { rk_report_free(report) };
        (services, found, leaks)
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        // SAFETY: made by new, and nobody else has it.
        unsafe { rk_audit_free(self.0) }
    }
}

/// A core's leak as C must see it: range and object.
pub fn leak_as_c(leak: &Leak) -> (u32, u64) {
    (leak.range.map_or(NO_RANGE, |range| range as u32), leak.object.unwrap_or(u64::MAX))
}

fn pages<T: Copy + Default>(size: usize, read: impl Fn(usize, &mut [T], &mut usize) -> u32) -> Vec<T> {
    let mut all = Vec::new();
    loop {
        let (mut page, mut n) = (vec![T::default(); size], usize::MAX);
        assert_eq!(read(all.len(), &mut page, &mut n), OK);
        all.extend_from_slice(&page[..n]);
        if n < size {
            return all;
        }
    }
}

fn findings(
    size: usize,
    read: impl Fn(usize, &mut [RawFinding], &mut usize) -> u32,
    texts: impl Fn(usize, &mut [u8], &mut [usize; 2], &mut usize) -> u32,
) -> Vec<FoundByC> {
    let all = pages(size, read);
    let found = all.iter().enumerate().map(|(index, finding)| {
        let (mut buffer, mut ends, mut n) = (vec![0; 1], [0; 2], usize::MAX);
        while texts(index, &mut buffer, &mut ends, &mut n) == BUFFER_TOO_SMALL {
            buffer.resize(2 * buffer.len(), 0);
        }
        assert_eq!(n, 1);
        let text = |from: usize, to: usize| String::from_utf8(buffer[from..to].to_vec()).expect("a text is UTF-8");
        let (value, message) = (text(0, ends[0]), text(ends[0], ends[1]));
        if finding.value_kind == 1 {
            // SAFETY: this kind has a port.
            assert_eq!(unsafe { finding.value.port }.to_string(), value);
        }
        let reason = REASONS[finding.reason as usize - 1].as_str();
        (reason, finding.subject_kind, finding.subject, finding.range, finding.remedy, value, message)
    });
    found.collect()
}
