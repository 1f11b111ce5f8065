//! The values that a Service should have and has not.

use crate::finding::{Finding, FoundValue, Reason, Subject};
use crate::service::{ServiceForm, ServiceType};

use super::Report;

impl Report {
    /// Adds findings about the values that a Service of this form should have and has not; it is named by its place
    /// among those that were observed.
    ///
    /// ```
    /// use rangekeeper::audit::{Audit, Leaks};
    /// use rangekeeper::service::ServiceForm;
    ///
    /// let mut report = Audit::new().finish(Leaks::CleanAtOnce);
    /// report.observe_form(0, &ServiceForm::default());
    /// assert_eq!(report.findings[0].reason.as_str(), "ClusterIPMissing");
    /// ```
    pub fn observe_form(&mut self, service: u64, form: &ServiceForm) {
        let mut find = |reason, field: &str| {
            let (subject, value) = (Subject::Service(service), FoundValue::Text(field.into()));
            self.findings.push(Finding { reason, range: None, subject, value, valid: None, outside: None });
        };
        if form.kind != ServiceType::ExternalName && !form.is_headless {
            match form.addresses {
                0 => find(Reason::ClusterIpMissing, "spec.clusterIP"),
                1 if form.requires_dual_stack => find(Reason::ClusterIpMissing, "spec.clusterIPs"),
                _ => {}
            }
        }
        let is_load_balancer = form.kind == ServiceType::LoadBalancer;
        let needs_node_ports = form.kind == ServiceType::NodePort || is_load_balancer && !form.without_node_ports;
        if needs_node_ports && form.lacks_node_port {
            find(Reason::NodePortMissing, "spec.ports[].nodePort");
        }
        if is_load_balancer && form.is_local && !form.has_health_check_node_port {
            find(Reason::HealthCheckNodePortMissing, "spec.healthCheckNodePort");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::{Audit, Leaks};

    /// Expected is what a stock kube-apiserver 1.37.2 shows and does (`controlplane/internal/cli`,
    /// `TestValuesThatServicesLack`).
    #[test]
    fn a_service_has_what_its_type_and_policies_need() {
        let one = ServiceForm { addresses: 1, ..ServiceForm::default() };
        let node_port = ServiceForm { kind: ServiceType::NodePort, lacks_node_port: true, ..one };
        let balancer = ServiceForm { kind: ServiceType::LoadBalancer, ..one };
        for (form, expected) in [
            (one, vec![]),
            (ServiceForm::default(), vec!["spec.clusterIP"]),
            (ServiceForm { is_headless: true, requires_dual_stack: true, ..ServiceForm::default() }, vec![]),
            (ServiceForm { kind: ServiceType::ExternalName, ..ServiceForm::default() }, vec![]),
            (ServiceForm { requires_dual_stack: true, ..one }, vec!["spec.clusterIPs"]),
            (ServiceForm { requires_dual_stack: true, addresses: 2, ..one }, vec![]),
            // A port without a node port is right in other types.
            (ServiceForm { lacks_node_port: true, ..one }, vec![]),
            (node_port, vec!["spec.ports[].nodePort"]),
            (ServiceForm { addresses: 0, ..node_port }, vec!["spec.clusterIP", "spec.ports[].nodePort"]),
            (ServiceForm { lacks_node_port: true, ..balancer }, vec!["spec.ports[].nodePort"]),
            (ServiceForm { lacks_node_port: true, without_node_ports: true, ..balancer }, vec![]),
            (ServiceForm { is_local: true, ..balancer }, vec!["spec.healthCheckNodePort"]),
            (ServiceForm { is_local: true, has_health_check_node_port: true, ..balancer }, vec![]),
            (ServiceForm { kind: ServiceType::NodePort, is_local: true, ..one }, vec![]),
        ] {
            let mut report = Audit::new().finish(Leaks::CleanAtOnce);
            report.observe_form(3, &form);
            let found: Vec<_> = report.findings.iter().map(|finding| finding.value.to_string()).collect();
            assert_eq!(found, expected, "{form:?}");
            assert!(report.findings.iter().all(|finding| finding.subject == Subject::Service(3)));
        }
    }
}
