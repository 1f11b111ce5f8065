// Command kube-apiserver is the kube-apiserver of the release that the module file requires, with Rangekeeper inside.
package main

import (
	"os"
	_ "time/tzdata" // as in the released command: CronJobs name time zones

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"

	"github.com/rangekeeper/rangekeeper/controlplane/requesttimeout"
)

func main() {
	os.Exit(cli.Run(newCommand()))
}

// newCommand returns the release's command, which also stores the request timeout for the repair of IPAddress objects.
func newCommand() *cobra.Command {
	command := app.NewAPIServerCommand()
	command.PreRunE = func(command *cobra.Command, _ []string) error {
		timeout, err := command.Flags().GetDuration("request-timeout")
		if err != nil {
			return err
		}
		requesttimeout.Set(timeout)
		return nil
	}
	return command
}
