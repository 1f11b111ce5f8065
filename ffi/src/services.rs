//! Batches of objects: flat words and one text, so that a pass over all Services crosses the border a few times.
//!
//! A batch is walked twice: the first walk checks all of it and keeps nothing, the second one hands the objects over.
//! Memory is allocated per batch, not per object.

use std::ffi::c_char;

use rangekeeper_core::ipaddress::IpAddressObject;
use rangekeeper_core::service::{Service, ServicePort};

use crate::result::rk_result;
use crate::scope::{Scope, borrow, slice, text};

/// As the length of an entry: the same text as that of the entry before, and no bytes in text.
pub const RK_SAME_TEXT: u32 = 0xffff_ffff;
/// As a port's protocol: TCP.
pub const RK_PROTOCOL_TCP: u32 = 0;
/// As a port's protocol: UDP.
pub const RK_PROTOCOL_UDP: u32 = 1;
/// As a port's protocol: SCTP.
pub const RK_PROTOCOL_SCTP: u32 = 2;
/// As a port's protocol: another one, whose text stands in text; its length is added to this.
pub const RK_PROTOCOL_TEXT: u32 = 16;

/// Objects in flat form, so that many cross in one call: numbers in words, in the machine's byte order, and texts in text,
/// back to back in the order in which their byte lengths stand among the words. rk_batch_in begins one.
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
/// 3. per entry one word: the length of its text, or RK_SAME_TEXT. Entry 0 is spec.clusterIP and never RK_SAME_TEXT, the
///    others are spec.clusterIPs
/// 4. per port two words: nodePort as int32_t, and RK_PROTOCOL_* or RK_PROTOCOL_TEXT + length
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rk_services {
    /// The Services.
    pub batch: rk_batch,
}

/// The names of the Services of a batch, in the same order, which rk_service_names_add writes. The words of a Service are
/// the lengths of its namespace and of its name.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rk_service_names {
    /// The names.
    pub batch: rk_batch,
}

/// A batch of IPAddress objects, which rk_ip_addresses_add writes. The words of an object are the low and high half of
/// metadata.creationTimestamp in seconds since 1970 (int64_t), then the lengths of metadata.name, of the label
/// ipaddress.kubernetes.io/managed-by, and of spec.parentRef's group, resource, namespace and name.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rk_ip_addresses {
    /// The objects.
    pub batch: rk_batch,
}

/// The words and the text of a batch that are not read yet.
#[derive(Clone, Copy)]
struct Rest<'a> {
    words: &'a [u32],
    text: &'a str,
}

impl<'a> Rest<'a> {
    /// # Safety
    /// What the batch points to is valid for reads during `'a`.
    unsafe fn new(scope: &'a Scope, batch: &'a rk_batch) -> Result<Self, rk_result> {
        // SAFETY: as promised to this function.
        unsafe {
            Ok(Self {
                words: slice(scope, batch.words, batch.words_len)?,
                text: text(scope, batch.text, batch.text_len)?,
            })
        }
    }

    fn words(&mut self, count: usize) -> Result<&'a [u32], rk_result> {
        let (words, rest) = self.words.split_at_checked(count).ok_or(rk_result::InvalidBatch)?;
        self.words = rest;
        Ok(words)
    }

    fn array<const N: usize>(&mut self) -> Result<[u32; N], rk_result> {
        let (words, rest) = self.words.split_first_chunk().ok_or(rk_result::InvalidBatch)?;
        self.words = rest;
        Ok(*words)
    }

    fn text(&mut self, len: u32) -> Result<&'a str, rk_result> {
        // Fails past the end and inside a character.
        let (text, rest) = self.text.split_at_checked(len as usize).ok_or(rk_result::InvalidBatch)?;
        self.text = rest;
        Ok(text)
    }

    fn end(self) -> Result<(), rk_result> {
        if self.words.is_empty() && self.text.is_empty() { Ok(()) } else { Err(rk_result::InvalidBatch) }
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

    fn service(&mut self) -> Result<ServiceWords<'a>, rk_result> {
        let [shape, health] = self.array()?;
        let entries = self.words((shape & 0xffff) as usize)?;
        let ports = self.words(2 * (shape >> 16) as usize)?.as_chunks().0;
        Ok(ServiceWords { health_check_node_port: health.cast_signed(), entries, ports })
    }

    /// Puts a Service of any shape together in lists that are used again for the next one.
    #[inline(never)]
    fn borrow_service<'l>(
        &mut self,
        cluster_ips: &'l mut Vec<&'a str>,
        ports: &'l mut Vec<ServicePort<'a>>,
    ) -> Result<Service<'l>, rk_result> {
        let service = self.service()?;
        let (len, others) = service.entries.split_first().ok_or(rk_result::InvalidBatch)?;
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
    pub(crate) unsafe fn new(scope: &'a Scope, batch: *const rk_services) -> Result<Self, rk_result> {
        // SAFETY: as promised to this function.
        let (rest, count) = unsafe {
            let batch = &borrow(scope, batch)?.batch;
            (Rest::new(scope, batch)?, batch.count)
        };
        let services = Self { rest, count };
        services.check()?;
        Ok(services)
    }

    /// Reads the words alone: the lengths must add up to the text, and none may end inside a character.
    fn check(&self) -> Result<(), rk_result> {
        let mut rest = self.rest;
        let text = rest.text;
        let mut end = 0_usize;
        let mut advance = |len: u32| {
            end = end.saturating_add(len as usize);
            // False past the end, too.
            if text.is_char_boundary(end) { Ok(()) } else { Err(rk_result::InvalidBatch) }
        };
        for _ in 0..self.count {
            if let Some(service) = rest.plain_service() {
                advance(service.len)?;
                continue;
            }
            let service = rest.service()?;
            if matches!(service.entries, [] | [RK_SAME_TEXT, ..]) {
                return Err(rk_result::InvalidBatch);
            }
            for len in service.entries.iter().filter(|len| **len != RK_SAME_TEXT) {
                advance(*len)?;
            }
            for [_, protocol] in service.ports {
                match protocol.checked_sub(RK_PROTOCOL_TEXT) {
                    Some(len) => advance(len)?,
                    None if *protocol <= RK_PROTOCOL_SCTP => {}
                    None => return Err(rk_result::InvalidBatch),
                }
            }
        }
        if rest.words.is_empty() && end == text.len() { Ok(()) } else { Err(rk_result::InvalidBatch) }
    }

    /// Hands each Service over. It cannot fail, since all was checked.
    #[inline(always)]
    pub(crate) fn for_each(self, mut each: impl FnMut(&Service<'_>)) -> Result<(), rk_result> {
        let mut rest = self.rest;
        let (mut cluster_ips, mut ports) = (Vec::new(), Vec::new());
        for _ in 0..self.count {
            let own;
            // One call of `each`, so that it becomes part of this loop.
            each(&if let Some(PlainService { health_check_node_port, len }) = rest.plain_service() {
                let cluster_ip = rest.text(len)?;
                own = [cluster_ip];
                Service { cluster_ip, cluster_ips: &own, health_check_node_port, ..Service::default() }
            } else {
                rest.borrow_service(&mut cluster_ips, &mut ports)?
            });
        }
        Ok(())
    }
}

/// Namespace and name of each Service of a batch, checked.
///
/// # Safety
/// As [`Services::new`].
pub(crate) unsafe fn service_names(
    scope: &Scope,
    batch: *const rk_service_names,
) -> Result<Vec<(&str, &str)>, rk_result> {
    // SAFETY: as promised to this function.
    let (mut rest, count) = unsafe {
        let batch = &borrow(scope, batch)?.batch;
        (Rest::new(scope, batch)?, batch.count)
    };
    let mut names = Vec::new();
    for _ in 0..count {
        let [namespace, name] = rest.array()?;
        names.push((rest.text(namespace)?, rest.text(name)?));
    }
    rest.end()?;
    Ok(names)
}

/// The IPAddress objects of a batch, checked.
///
/// # Safety
/// As [`Services::new`].
pub(crate) unsafe fn ip_addresses<'a>(
    scope: &'a Scope,
    batch: *const rk_ip_addresses,
) -> Result<Vec<IpAddressObject<'a>>, rk_result> {
    // SAFETY: as promised to this function.
    let (mut rest, count) = unsafe {
        let batch = &borrow(scope, batch)?.batch;
        (Rest::new(scope, batch)?, batch.count)
    };
    let mut objects = Vec::new();
    for _ in 0..count {
        let [low, high, name, managed_by, group, resource, namespace, parent_name] = rest.array()?;
        objects.push(IpAddressObject {
            name: rest.text(name)?,
            managed_by: rest.text(managed_by)?,
            created: (u64::from(high) << 32 | u64::from(low)).cast_signed(),
            parent_group: rest.text(group)?,
            parent_resource: rest.text(resource)?,
            parent_namespace: rest.text(namespace)?,
            parent_name: rest.text(parent_name)?,
        });
    }
    rest.end()?;
    Ok(objects)
}
