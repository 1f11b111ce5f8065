// Package snapshotfile reads and writes etcd snapshot files.
//
// An etcd snapshot is a bbolt database followed by its sha256, as
// `etcdctl snapshot save` writes it. This package opens such a file, plain or
// gzip-compressed, without ever writing to it ([Open]), reports which keys were
// changed in it at which revision ([Read]), and writes a changed copy
// that etcd restores ([WriteRepaired]).
//
// bbolt trusts the pages that it maps into memory: a damaged one can make it
// panic, read foreign memory or loop forever. This package therefore reads files
// itself, and checks every page before it uses it.
package snapshotfile
