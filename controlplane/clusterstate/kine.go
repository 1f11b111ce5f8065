package clusterstate

import "strings"

// KineHint is what to add to the text of an error: why the store refuses, if it is kine, else "".
func KineHint(text string) string {
	if strings.Contains(text, "unsupported operations in txn request") {
		return " (the store is kine, which accepts only the transactions of a kube-apiserver)"
	}
	return ""
}
