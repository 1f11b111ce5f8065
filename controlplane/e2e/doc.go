// Package e2e tests clusters whose kube-apiservers have Rangekeeper inside. `make dropin` builds these. The tests check
// what etcd stores, not what the servers answer.
package e2e
