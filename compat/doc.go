// Package compat has no identifiers. Its folders are packages with the exported identifiers of the packages of
// k8s.io/kubernetes that allocate ClusterIPs and NodePorts; see README.md.
package compat
