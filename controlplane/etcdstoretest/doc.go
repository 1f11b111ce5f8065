// Package etcdstoretest holds the tests of go-bindings/etcdstore. They need an etcd server, which that module must not
// require.
package etcdstoretest
