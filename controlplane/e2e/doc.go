// Package e2e has no code: its tests run clusters whose kube-apiservers have Rangekeeper inside, `make dropin` builds
// them. What is checked is read from etcd, not from the servers.
package e2e
