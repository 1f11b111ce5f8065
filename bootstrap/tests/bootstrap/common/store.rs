//! A model of the API server and etcd: objects with resourceVersions, keys with leases.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Endpoints;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use rangekeeper_bootstrap::leases::StoredLease;
use rangekeeper_bootstrap::object::{Kind, Object, ObjectKey};
use rangekeeper_bootstrap::request::{Answer, Event, Failure, Reason, Request};

use super::{check_endpoints, check_slice, ready, slice_ready};

pub(crate) const DIRECTORY: &str = "/registry/masterleases/";

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) lease: StoredLease,
    /// In ms; `None` for a key without a lease.
    pub(crate) expires: Option<u64>,
    pub(crate) ttl: u64,
    /// Since when the key is there without a break.
    pub(crate) since: u64,
}

#[derive(Default)]
pub(crate) struct Store {
    pub(crate) objects: BTreeMap<ObjectKey, Object>,
    /// When each object was last written.
    written: BTreeMap<ObjectKey, u64>,
    pub(crate) leases: BTreeMap<String, Entry>,
    pub(crate) revision: u64,
    /// What a watch has not delivered yet.
    pub(crate) events: Vec<Event>,
    /// What must not happen.
    pub(crate) violations: Vec<String>,
    pub(crate) erased: u64,
    pub(crate) writes: u64,
    /// The address of the Service counts as allocated though the Service does not exist, and when and which was freed.
    pub(crate) taken: bool,
    pub(crate) freed: Vec<(u64, IpAddr)>,
}

impl Store {
    pub(crate) fn endpoints(&self) -> Option<&Endpoints> {
        match self.objects.get(&ObjectKey::kubernetes(Kind::Endpoints)) {
            Some(Object::Endpoints(endpoints)) => Some(endpoints),
            _ => None,
        }
    }

    pub(crate) fn slice(&self) -> Option<&EndpointSlice> {
        match self.objects.get(&ObjectKey::kubernetes(Kind::EndpointSlice)) {
            Some(Object::EndpointSlice(slice)) => Some(slice),
            _ => None,
        }
    }

    pub(crate) fn expire(&mut self, now: u64) {
        let expired = self.leases.extract_if(.., |_, entry| entry.expires.is_some_and(|expires| expires <= now));
        self.events.extend(expired.map(|(key, _)| Event::LeaseDeleted { key }));
    }

    pub(crate) fn remove_lease(&mut self, key: &str) {
        self.leases.remove(key);
        self.events.push(Event::LeaseDeleted { key: key.to_owned() });
    }

    /// After an outage of etcd all leases begin again.
    pub(crate) fn extend_all(&mut self, now: u64) {
        for entry in self.leases.values_mut() {
            entry.expires = entry.expires.map(|_| now + entry.ttl);
        }
    }

    fn next(&mut self) -> u64 {
        self.revision += 1;
        self.revision
    }

    /// Puts an object as it is, as a person or another program would.
    pub(crate) fn put(&mut self, now: u64, mut object: Object) {
        let revision = self.next();
        let metadata = match &mut object {
            Object::Namespace(object) => &mut object.metadata,
            Object::Service(object) => &mut object.metadata,
            Object::Endpoints(object) => &mut object.metadata,
            Object::EndpointSlice(object) => &mut object.metadata,
        };
        metadata.resource_version = Some(revision.to_string());
        if metadata.uid.is_none() {
            metadata.uid = Some(format!("uid-{revision}"));
        }
        let key = object.key();
        self.written.insert(key.clone(), now);
        self.events.push(Event::Object(key.clone()));
        self.objects.insert(key, object);
    }

    pub(crate) fn delete(&mut self, key: &ObjectKey) {
        self.objects.remove(key);
        self.events.push(Event::Object(key.clone()));
    }

    /// Puts or damages a lease.
    pub(crate) fn put_lease(&mut self, now: u64, key: &str, value: Vec<u8>, ttl: Option<u64>) {
        let revision = self.next();
        let since = self.leases.get(key).map_or(now, |entry| entry.since);
        let lease_id = if ttl.is_some() { revision as i64 } else { 0 };
        let lease = StoredLease { key: key.to_owned(), value, mod_revision: revision, lease_id };
        let expires = ttl.map(|ttl| now + ttl);
        self.leases.insert(key.to_owned(), Entry { lease, expires, ttl: ttl.unwrap_or(0), since });
    }

    /// Carries out a request of the server with the address `writer`; `stops`: it makes an orderly stop.
    pub(crate) fn apply(&mut self, now: u64, writer: &str, stops: bool, request: &Request) -> Answer {
        self.expire(now);
        match request {
            Request::Ready { .. } | Request::Repair(_) => Answer::Done,
            Request::Get { object, .. } => {
                self.objects.get(object).map_or(Answer::NotFound, |object| Answer::Object(object.clone()))
            }
            Request::Create(object) => {
                let namespace = object.key().namespace;
                if !namespace.is_empty() && !self.objects.contains_key(&ObjectKey::namespace(&namespace)) {
                    return Answer::NotFound;
                }
                if self.objects.contains_key(&object.key()) {
                    return Answer::AlreadyExists;
                }
                if self.taken && object.kind() == Kind::Service {
                    let message = "failed to allocate IP 10.96.0.1: provided IP is already allocated".into();
                    return Answer::Failed(Failure { reason: Reason::Refused, message });
                }
                self.write(now, writer, stops, object)
            }
            Request::Update(object) => match self.objects.get(&object.key()) {
                None => Answer::NotFound,
                Some(found) if found.metadata().resource_version != object.metadata().resource_version => {
                    Answer::Conflict
                }
                Some(_) => self.write(now, writer, stops, object),
            },
            Request::Delete { object, uid, resource_version } => match self.objects.get(object) {
                None => Answer::NotFound,
                Some(found)
                    if found.metadata().uid.as_ref() != Some(uid)
                        || found.metadata().resource_version.as_ref() != Some(resource_version) =>
                {
                    Answer::Conflict
                }
                Some(_) => {
                    self.delete(object);
                    Answer::Done
                }
            },
            Request::FreeServiceIp { address } => {
                self.freed.push((now, *address));
                self.taken = false;
                Answer::Done
            }
            Request::GetLease { key } => {
                Answer::Leases(self.leases.get(key).map(|entry| entry.lease.clone()).into_iter().collect())
            }
            Request::ListLeases { prefix } => {
                let found = self.leases.iter().filter(|(key, _)| key.starts_with(prefix.as_str()));
                Answer::Leases(found.map(|(_, entry)| entry.lease.clone()).collect())
            }
            Request::PutLease { key, value, ttl_seconds, mod_revision } => {
                if self.leases.get(key).map_or(0, |entry| entry.lease.mod_revision) != *mod_revision {
                    return Answer::Conflict;
                }
                self.put_lease(now, key, value.clone(), Some(ttl_seconds * 1000));
                Answer::Written { mod_revision: self.revision }
            }
            Request::DeleteLease { key, mod_revision, lease_id } => {
                let stored = self.leases.get(key).map(|entry| (entry.lease.mod_revision, entry.lease.lease_id));
                if stored != Some((*mod_revision, *lease_id)) {
                    return Answer::Conflict;
                }
                self.next();
                self.remove_lease(key);
                Answer::Done
            }
        }
    }

    fn write(&mut self, now: u64, writer: &str, stops: bool, object: &Object) -> Answer {
        let checked = match object {
            Object::Endpoints(endpoints) => check_endpoints(endpoints),
            Object::EndpointSlice(slice) => check_slice(slice),
            Object::Namespace(_) | Object::Service(_) => Ok(()),
        };
        if let Err(message) = checked {
            self.violations.push(format!("{now}: {writer} writes what is invalid: {message}"));
            return Answer::Failed(Failure { reason: Reason::Refused, message });
        }
        let addresses = |object: &Object| match object {
            Object::Endpoints(endpoints) => ready(Some(endpoints)),
            Object::EndpointSlice(slice) => slice_ready(Some(slice)),
            Object::Namespace(_) | Object::Service(_) => Vec::new(),
        };
        let before = self.objects.get(&object.key()).map(addresses).unwrap_or_default();
        let after = addresses(object);
        let version_from = self.written.get(&object.key()).copied().unwrap_or(0);
        for gone in before.iter().filter(|address| !after.contains(address) && *address != writer) {
            // A slice holds one family.
            let other_family = matches!(object, Object::EndpointSlice(_))
                && after.iter().any(|address| address.contains(':') != gone.contains(':'));
            // Its lease was there before this version, and is still: the writer must have seen it.
            let live = self.leases.get(&format!("{DIRECTORY}{gone}")).filter(|entry| entry.since <= version_from);
            if live.is_some() && !other_family {
                let kind = object.kind();
                self.violations.push(format!("{now}: {writer} removes {gone}, which lives, from {kind:?}: {after:?}"));
            }
        }
        if !before.is_empty() && after.is_empty() {
            self.erased += 1;
            if !stops {
                self.violations.push(format!("{now}: {writer} erases {before:?}"));
            }
        }
        self.writes += 1;
        self.put(now, object.clone());
        Answer::Done
    }
}
