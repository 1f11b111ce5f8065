//! The ports of the API servers, which three objects have: the Service `kubernetes`, its Endpoints and its
//! EndpointSlice.

use k8s_openapi::api::core::v1::{EndpointPort, Endpoints, Service, ServicePort};
use k8s_openapi::api::discovery::v1::{EndpointPort as SlicePort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::endpoints::{has_right_form, is_valid, port_key};

/// The ports of which two of the objects agree, or those of the Endpoints if no other object has any. `None` if
/// nobody can tell which are right: a server that runs keeps the ports that it finds, so that wrong ones would stay.
///
/// A server writes its port into each of them (kubernetes `pkg/controlplane/controller/kubernetesservice`): as the
/// target of the Service's port, and as that of its endpoints.
pub(crate) fn agreed(
    service: Option<&Service>,
    endpoints: Option<&Endpoints>,
    slice: Option<&EndpointSlice>,
) -> Option<Vec<EndpointPort>> {
    // The Endpoints come first: their ports are kept as they are.
    let mut known = [of_endpoints(endpoints), of_slice(slice), of_service(service)];
    for ports in &mut known {
        ports.take_if(|ports| ports.is_empty() || !is_valid(ports));
    }
    let same = |a: &[EndpointPort], b: &[EndpointPort]| a.iter().map(port_key).eq(b.iter().map(port_key));
    match known {
        [Some(endpoints), None, None] => Some(endpoints),
        [Some(endpoints), slice, service] if slice.iter().chain(&service).any(|ports| same(ports, &endpoints)) => {
            Some(endpoints)
        }
        [_, Some(slice), Some(service)] if same(&slice, &service) => Some(slice),
        _ => None,
    }
}

fn of_endpoints(endpoints: Option<&Endpoints>) -> Option<Vec<EndpointPort>> {
    let subsets = endpoints.filter(|endpoints| has_right_form(endpoints))?.subsets.as_deref()?;
    subsets.first()?.ports.clone()
}

fn of_slice(slice: Option<&EndpointSlice>) -> Option<Vec<EndpointPort>> {
    let port = |port: &SlicePort| {
        let SlicePort { name, port, protocol, app_protocol } = port.clone();
        Some(EndpointPort { name, port: port?, protocol, app_protocol })
    };
    slice?.ports.iter().flatten().map(port).collect()
}

fn of_service(service: Option<&Service>) -> Option<Vec<EndpointPort>> {
    let port = |port: &ServicePort| {
        let target = match port.target_port.clone() {
            Some(IntOrString::Int(target)) => target,
            Some(IntOrString::String(_)) => return None, // a name in Pods, which the Service does not have
            None => port.port,
        };
        let ServicePort { name, protocol, app_protocol, .. } = port.clone();
        Some(EndpointPort { name, port: target, protocol, app_protocol })
    };
    service?.spec.as_ref()?.ports.iter().flatten().map(port).collect()
}
