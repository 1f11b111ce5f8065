// Command kube-apiserver is the kube-apiserver of the release that the module file requires, with Rangekeeper inside.
package main

import (
	"os"
	_ "time/tzdata" // as in the release: CronJobs name time zones

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	os.Exit(cli.Run(app.NewAPIServerCommand()))
}
