//! Batches of objects: flat words and one text, so that a pass over all Services crosses the border a few times.
//!
//! A batch is walked twice: the first walk checks all of it and keeps nothing, the second one hands the objects over.
//! Memory is allocated per batch, not per object.

use std::ffi::c_char;
use std::fmt::{self, Display, Formatter};

use rangekeeper_core::ipaddress::IpAddressObject;
use rangekeeper_core::service::{Claim, Service, ServicePort};

use crate::error::{Failure, Named, rk_error};
use crate::guard::guard_error;
use crate::result::rk_result;
use crate::scope::{Array, Out, Scope, borrow, slice};
use crate::value::{RK_VALUE_KIND_NONE, rk_value};

/// As the length of an entry: its text is that of the entry before, and has no bytes in rk_batch.text.
pub const RK_SAME_TEXT: u32 = 0xffff_ffff;
/// The protocol of a port, in a batch of Services.
pub type rk_protocol = u32;
/// As a port's protocol: TCP.
pub const RK_PROTOCOL_TCP: rk_protocol = 0;
/// As a port's protocol: UDP.
pub const RK_PROTOCOL_UDP: rk_protocol = 1;
/// As a port's protocol: SCTP.
pub const RK_PROTOCOL_SCTP: rk_protocol = 2;
/// As a port's protocol: another one. The length of its name, which is in rk_batch.text, is added to this.
pub const RK_PROTOCOL_TEXT: rk_protocol = 16;

/// Objects in flat form, so that many cross in one call: numbers in words, in the machine's byte order, and texts in
/// text, back to back in the order in which their byte lengths stand among the words. rk_batch_in begins one.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rk_batch {
    /// The words.
    pub words: *mut u32,
    /// How many words.
    pub words_len: usize,
    /// For how many words there is room; only the writer uses it.
    pub words_capacity: usize,
    /// The texts.
    pub text: *mut c_char,
    /// Bytes in text.
    pub text_len: usize,
    /// For how many bytes there is room; only the writer uses it.
    pub text_capacity: usize,
    /// How many objects.
    pub count: usize,
}

/// A batch of Services, which rk_services_add writes. The words of a Service are:
///
/// 1. the number of entries (1 to 65535), plus 65536 times the number of ports
/// 2. spec.healthCheckNodePort as int32_t; 0 for none
/// 3. per entry one word: the length of its text, or RK_SAME_TEXT. Entry 0 is spec.clusterIP and never RK_SAME_TEXT,
///    the others are spec.clusterIPs
/// 4. per port two words: nodePort as int32_t, and RK_PROTOCOL_* or RK_PROTOCOL_TEXT + length
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rk_services {
    /// The Services.
    pub batch: rk_batch,
}

/// The names of the Services of a batch, in the same order, which rk_service_names_add writes. The words of a Service
/// are the low and high half of metadata.creationTimestamp in seconds since 1970 (int64_t; 0 if unknown), the low and
/// high half of etcd's create revision (uint64_t; 0 if unknown), then the lengths of its namespace and of its name.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rk_service_names {
    /// The names.
    pub batch: rk_batch,
}

/// What a Service claims by one of its fields.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_claim {
    /// The value; of the kind RK_VALUE_KIND_NONE if the Service has a text there that is no address.
    pub value: rk_value,
    /// The Service, by its place in the batch: 0 is the first.
    pub service: u64,
    /// Where the Service's text of an address begins in rk_batch.text. 0 of a port.
    pub text: u64,
    /// How many bytes the text has. 0 of a port.
    pub text_len: u64,
    /// 0. Room for a field that comes later: the struct never becomes longer.
    pub reserved: [u64; 2],
}

/// A batch of IPAddress objects, which rk_ip_addresses_add writes. The words of an object are the low and high half of
/// metadata.creationTimestamp in seconds since 1970 (int64_t), the low and high half of metadata.resourceVersion
/// (uint64_t; 0 if unknown) and whether there is no spec.parentRef (0 or 1), then the lengths of metadata.name, of the
/// label ipaddress.kubernetes.io/managed-by, and of spec.parentRef's group, resource, namespace and name.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rk_ip_addresses {
    /// The objects.
    pub batch: rk_batch,
}

/// Why an object of a batch cannot be read. As text it follows the object.
#[derive(Clone, Copy, Debug)]
enum Malformed {
    Words,
    Text,
    NotUtf8,
    NoClusterIp,
    Protocol(u32),
}

impl Display for Malformed {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Words => f.write_str("has more words than there are"),
            Self::Text => f.write_str("has a text that ends behind the text of the batch, or inside a character"),
            Self::NotUtf8 => f.write_str("has text that is not UTF-8"),
            Self::NoClusterIp => f.write_str("has no text for spec.clusterIP"),
            Self::Protocol(number) => write!(f, "has a port of the unknown protocol {number}"),
        }
    }
}

/// The words and the text of a batch that are not read yet.
#[derive(Clone, Copy)]
struct Rest<'a> {
    words: &'a [u32],
    text: &'a str,
    /// Whether the text was longer, and is not UTF-8 from here on: the first object that needs more of it is at fault.
    is_cut: bool,
}

impl<'a> Rest<'a> {
    /// # Safety
    /// What the batch points to is valid for reads during `'a`.
    unsafe fn new(scope: &'a Scope, batch: &'a rk_batch) -> Result<Self, Failure> {
        // SAFETY: as promised to this function; a c_char has the size and alignment of u8.
        let (words, text) = unsafe {
            (
                slice(scope, batch.words, batch.words_len).named("words")?,
                slice(scope, batch.text.cast::<u8>(), batch.text_len).named("text")?,
            )
        };
        let (text, is_cut) = match std::str::from_utf8(text) {
            Ok(text) => (text, false),
            Err(_) => (text.utf8_chunks().next().map_or("", |chunk| chunk.valid()), true),
        };
        Ok(Self { words, text, is_cut })
    }

    fn words(&mut self, count: usize) -> Result<&'a [u32], Malformed> {
        let (words, rest) = self.words.split_at_checked(count).ok_or(Malformed::Words)?;
        self.words = rest;
        Ok(words)
    }

    fn array<const N: usize>(&mut self) -> Result<[u32; N], Malformed> {
        let (words, rest) = self.words.split_first_chunk().ok_or(Malformed::Words)?;
        self.words = rest;
        Ok(*words)
    }

    fn text(&mut self, len: u32) -> Result<&'a str, Malformed> {
        // Fails past the end and inside a character.
        let (text, rest) = self.text.split_at_checked(len as usize).ok_or_else(|| self.text_fault())?;
        self.text = rest;
        Ok(text)
    }

    #[cold]
    fn text_fault(&self) -> Malformed {
        if self.is_cut { Malformed::NotUtf8 } else { Malformed::Text }
    }

    fn end(self) -> Result<(), Failure> {
        if self.words.is_empty() && self.text.is_empty() && !self.is_cut {
            return Ok(());
        }
        let message = "the batch has words or text behind those of its last object";
        Err(Failure::new(rk_result::InvalidBatch, message))
    }

    /// Reads all objects of a batch.
    fn read<T>(
        mut self,
        count: usize,
        kind: &str,
        mut one: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Failure> {
        let mut all = Vec::new();
        for index in 0..count {
            all.push(one(&mut self).map_err(|malformed| malformed.failure(kind, index))?);
        }
        self.end()?;
        Ok(all)
    }
}

impl Malformed {
    #[cold]
    fn failure(self, kind: &str, index: usize) -> Failure {
        Failure::new(rk_result::InvalidBatch, format_args!("{kind} {index} of the batch {self}"))
    }
}

/// The words of one Service.
struct ServiceWords<'a> {
    health_check_node_port: i32,
    /// The lengths of spec.clusterIP and of spec.clusterIPs, or RK_SAME_TEXT.
    entries: &'a [u32],
    /// Node port and protocol.
    ports: &'a [[u32; 2]],
}

/// A Service with one address that stands in both of its fields, and without ports: by far the most common shape, for
/// which both walks have a short way.
struct PlainService {
    health_check_node_port: i32,
    /// The length of the address.
    len: u32,
}

impl<'a> Rest<'a> {
    #[inline]
    fn plain_service(&mut self) -> Option<PlainService> {
        match self.words {
            [2, health, len, RK_SAME_TEXT, rest @ ..] if *len != RK_SAME_TEXT => {
                self.words = rest;
                Some(PlainService { health_check_node_port: health.cast_signed(), len: *len })
            }
            _ => None,
        }
    }

    fn service(&mut self) -> Result<ServiceWords<'a>, Malformed> {
        let [shape, health] = self.array()?;
        let entries = self.words((shape & 0xffff) as usize)?;
        let ports = self.words(2 * (shape >> 16) as usize)?.as_chunks().0;
        Ok(ServiceWords { health_check_node_port: health.cast_signed(), entries, ports })
    }

    /// Reads the words of a Service, and moves `end` behind its texts; the text itself stays.
    #[inline(always)]
    fn check_service(&mut self, end: &mut usize) -> Result<(), Malformed> {
        if let Some(service) = self.plain_service() {
            return self.advance(end, service.len);
        }
        let service = self.service()?;
        if matches!(service.entries, [] | [RK_SAME_TEXT, ..]) {
            return Err(Malformed::NoClusterIp);
        }
        for len in service.entries.iter().filter(|len| **len != RK_SAME_TEXT) {
            self.advance(end, *len)?;
        }
        for [_, protocol] in service.ports {
            match protocol.checked_sub(RK_PROTOCOL_TEXT) {
                Some(len) => self.advance(end, len)?,
                None if *protocol <= RK_PROTOCOL_SCTP => {}
                None => return Err(Malformed::Protocol(*protocol)),
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn advance(&self, end: &mut usize, len: u32) -> Result<(), Malformed> {
        *end = end.saturating_add(len as usize);
        // False past the end, too.
        if self.text.is_char_boundary(*end) { Ok(()) } else { Err(self.text_fault()) }
    }

    /// Puts a Service of any shape together in lists that are used again for the next one.
    #[inline(never)]
    fn borrow_service<'l>(
        &mut self,
        cluster_ips: &'l mut Vec<&'a str>,
        ports: &'l mut Vec<ServicePort<'a>>,
    ) -> Result<Service<'l>, Malformed> {
        let service = self.service()?;
        let (len, others) = service.entries.split_first().ok_or(Malformed::NoClusterIp)?;
        let cluster_ip = self.text(*len)?;
        cluster_ips.clear();
        let mut last = cluster_ip;
        for len in others {
            if *len != RK_SAME_TEXT {
                last = self.text(*len)?;
            }
            cluster_ips.push(last);
        }
        ports.clear();
        for [node_port, protocol] in service.ports {
            let protocol = match *protocol {
                RK_PROTOCOL_TCP => "TCP",
                RK_PROTOCOL_UDP => "UDP",
                RK_PROTOCOL_SCTP => "SCTP",
                protocol => self.text(protocol - RK_PROTOCOL_TEXT)?,
            };
            ports.push(ServicePort { protocol, node_port: node_port.cast_signed() });
        }
        let health_check_node_port = service.health_check_node_port;
        Ok(Service { cluster_ip, cluster_ips, ports, health_check_node_port, ..Service::default() })
    }
}

/// A batch of Services, checked.
pub(crate) struct Services<'a> {
    rest: Rest<'a>,
    pub(crate) count: usize,
}

impl<'a> Services<'a> {
    /// # Safety
    /// `batch` is NULL, or it and what it points to is valid for reads during `'a`.
    pub(crate) unsafe fn new(scope: &'a Scope, batch: *const rk_services) -> Result<Self, Failure> {
        // SAFETY: as promised to this function.
        let (rest, count) = unsafe {
            let batch = &borrow(scope, batch).named("batch")?.batch;
            (Rest::new(scope, batch)?, batch.count)
        };
        let services = Self { rest, count };
        services.check()?;
        Ok(services)
    }

    /// Reads the words alone: the lengths must add up to the text, and none may end inside a character.
    fn check(&self) -> Result<(), Failure> {
        let mut rest = self.rest;
        let mut end = 0;
        for index in 0..self.count {
            rest.check_service(&mut end).map_err(|malformed| malformed.failure("Service", index))?;
        }
        rest.text = &rest.text[end..];
        rest.end()
    }

    /// Hands each Service over. It cannot fail, since all was checked.
    #[inline(always)]
    pub(crate) fn for_each(self, mut each: impl FnMut(&Service<'_>)) -> Result<(), Failure> {
        let mut rest = self.rest;
        let (mut cluster_ips, mut ports) = (Vec::new(), Vec::new());
        for index in 0..self.count {
            let own;
            let failure = |malformed: Malformed| malformed.failure("Service", index);
            // One call of `each`, so that it becomes part of this loop.
            each(&if let Some(PlainService { health_check_node_port, len }) = rest.plain_service() {
                let cluster_ip = rest.text(len).map_err(failure)?;
                own = [cluster_ip];
                Service { cluster_ip, cluster_ips: &own, health_check_node_port, ..Service::default() }
            } else {
                rest.borrow_service(&mut cluster_ips, &mut ports).map_err(failure)?
            });
        }
        Ok(())
    }
}

/// The name of a Service, its creation time and its create revision.
#[derive(Clone, Copy, Default)]
pub(crate) struct ServiceName<'a> {
    namespace: &'a str,
    name: &'a str,
    created: i64,
    create_revision: u64,
}

impl<'a> ServiceName<'a> {
    /// The Service with this name.
    pub(crate) fn of(self, service: &Service<'a>) -> Service<'a> {
        let Self { namespace, name, created, create_revision } = self;
        Service { namespace, name, created, create_revision, ..*service }
    }
}

/// The name and creation time of each Service of a batch, which has `count` of them, checked.
///
/// # Safety
/// As [`Services::new`].
pub(crate) unsafe fn service_names<'a>(
    scope: &'a Scope,
    names: &'a rk_service_names,
    count: usize,
) -> Result<Vec<ServiceName<'a>>, Failure> {
    // SAFETY: as promised to this function.
    let rest = unsafe { Rest::new(scope, &names.batch)? };
    let names = rest.read(names.batch.count, "the name of Service", |rest| {
        let [low, high, low_revision, high_revision, namespace, name] = rest.array()?;
        let (namespace, name) = (rest.text(namespace)?, rest.text(name)?);
        let (created, create_revision) = (number(low, high).cast_signed(), number(low_revision, high_revision));
        Ok(ServiceName { namespace, name, created, create_revision })
    })?;
    if names.len() == count {
        return Ok(names);
    }
    let named = names.len();
    let message = format_args!("the batch has another number of names ({named}) than of Services ({count})");
    Err(Failure::new(rk_result::InvalidBatch, message))
}

/// A number in two words.
fn number(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// The IPAddress objects of a batch, checked.
///
/// # Safety
/// As [`Services::new`].
pub(crate) unsafe fn ip_addresses<'a>(
    scope: &'a Scope,
    batch: *const rk_ip_addresses,
) -> Result<Vec<IpAddressObject<'a>>, Failure> {
    // SAFETY: as promised to this function.
    let (rest, count) = unsafe {
        let batch = &borrow(scope, batch).named("batch")?.batch;
        (Rest::new(scope, batch)?, batch.count)
    };
    rest.read(count, "IPAddress object", |rest| {
        let [low, high, revision_low, revision_high, without_parent] = rest.array()?;
        let [name, managed_by, group, resource, namespace, parent_name] = rest.array()?;
        Ok(IpAddressObject {
            name: rest.text(name)?,
            managed_by: rest.text(managed_by)?,
            created: number(low, high).cast_signed(),
            revision: number(revision_low, revision_high),
            without_parent: without_parent != 0,
            parent_group: rest.text(group)?,
            parent_resource: rest.text(resource)?,
            parent_namespace: rest.text(namespace)?,
            parent_name: rest.text(parent_name)?,
        })
    })
}

/// Writes a page of what the Services of a batch claim, as an audit takes it for theirs: in the order of Services, the
/// addresses of each first, in their order there. A value comes twice if a Service has it twice; a number that is no
/// port does not come.
///
/// Cost: linear in the batch for each page.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_services_claims(
    batch: *const rk_services,
    from: usize,
    claims: *mut rk_claim,
    capacity: usize,
    n: *mut usize,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let services = Services::new(scope, batch)?;
            let claims = Array::new(scope, claims, capacity).named("claims")?;
            let n = Out::new(scope, n).named("n")?;
            let (mut all, mut service) = (Vec::new(), 0);
            let begin = services.rest.text.as_ptr().addr();
            services.for_each(|one| {
                all.extend(one.claims().map(|claim| {
                    let value =
                        claim.value().map_or(rk_value { kind: RK_VALUE_KIND_NONE, high: 0, low: 0 }, rk_value::from);
                    let (text, text_len) = match claim {
                        Claim::Address { text, .. } => ((text.as_ptr().addr() - begin) as u64, text.len() as u64),
                        Claim::Port(_) => (0, 0),
                    };
                    rk_claim { value, service, text, text_len, reserved: [0; 2] }
                }));
                service += 1;
            })?;
            n.write(claims.fill(all.into_iter().skip(from)));
            Ok(())
        })
    }
}
