package etcdstore

import (
	"fmt"
	"strings"
)

const kineHint = "(the store is kine, which accepts only the transactions of a kube-apiserver)"

// ExplainKine reports whether an error is that kine refuses a transaction, which is no error of etcd, and returns it
// with this cause. Errors of this package have the cause.
func ExplainKine(err error) (explained error, isKine bool) {
	text := err.Error()
	if !strings.Contains(text, "unsupported operations in txn request") {
		return err, false
	}
	if strings.Contains(text, kineHint) {
		return err, true
	}
	return fmt.Errorf("%w %s", err, kineHint), true
}
