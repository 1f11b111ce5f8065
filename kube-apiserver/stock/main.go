// Command apiserver is the kube-apiserver of the release that the module file
// requires, as a part of tests: the loops that Rangekeeper does the work of are off,
// unless --own-loops is given. All else is as released.
package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/cli"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/pkg/controlplane/reconcilers"
)

// loops are the post-start hooks that run the work under test. The first repair is
// part of its hook, so that a damaged etcd stays as it is, and a fresh one has no
// ranges. With the hooks run and a period of a day there would still be a first round.
var loops = []string{
	"start-system-namespaces-controller",  // the namespaces
	"bootstrap-controller",                // the kubernetes Service and its endpoints
	"start-service-ip-repair-controllers", // ClusterIPs and NodePorts
}

func main() {
	os.Exit(cli.Run(newCommand()))
}

func newCommand() *cobra.Command {
	// The release's own command keeps its options to itself; this one is made of the same
	// parts.
	s := options.NewServerRunOptions()
	components := s.GenericServerRunOptions.ComponentGlobalsRegistry
	var ownLoops bool
	c := &cobra.Command{
		Use:          "kube-apiserver",
		Short:        "A kube-apiserver without the loops that Rangekeeper does the work of",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(c *cobra.Command, _ []string) error {
			if !ownLoops && s.EndpointReconcilerType != string(reconcilers.NoneEndpointReconcilerType) {
				// The reconciler is asked to remove the endpoint at the end, hook or no hook.
				return errors.New("without --own-loops, --endpoint-reconciler-type=none is needed")
			}
			if err := components.Set(); err != nil {
				return err
			}
			rest.SetDefaultWarningHandler(rest.NoWarnings{})
			if err := logsapi.ValidateAndApply(s.Logs, components.FeatureGateFor(kube)); err != nil {
				return err
			}
			completed, err := s.Complete(c.Context())
			if err != nil {
				return err
			}
			if errs := completed.Validate(); len(errs) > 0 {
				return utilerrors.NewAggregate(errs)
			}
			return run(c.Context(), completed, ownLoops)
		},
	}
	c.SetContext(genericapiserver.SetupSignalContext())
	for _, f := range s.Flags().FlagSets {
		c.Flags().AddFlagSet(f)
	}
	c.Flags().BoolVar(&ownLoops, "own-loops", false, "run the loops for namespaces, the kubernetes Service, its endpoints and repair, as released")
	return c
}

// kube is the component whose version and feature gates all of the server goes by.
// Its constant is not in the same package in all releases.
const kube = "kube"

func run(ctx context.Context, o options.CompletedOptions, ownLoops bool) error {
	config, err := app.NewConfig(o)
	if err != nil {
		return err
	}
	if !ownLoops {
		config.KubeAPIs.ControlPlane.Generic.DisabledPostStartHooks.Insert(loops...)
	}
	completed, err := config.Complete()
	if err != nil {
		return err
	}
	chain, err := app.CreateServerChain(completed)
	if err != nil {
		return err
	}
	prepared, err := chain.PrepareRun()
	if err != nil {
		return err
	}
	return prepared.Run(ctx)
}
