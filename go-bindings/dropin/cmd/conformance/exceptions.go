package main

// exception is a test of the reference that cannot pass, and why: it tests a fault of the reference that is listed in
// docs/differences.md, or something inside of the reference that does not exist here.
type exception struct {
	releases  []string
	pkg, test string
	reason    string
}

var exceptions []exception
