package cli

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // so that kubeconfigs work that kubectl works with
	"k8s.io/client-go/rest"
)

// kubeconfig is how the Kubernetes API is reached: by kubectl's flags and defaults.
type kubeconfig struct {
	flags *genericclioptions.ConfigFlags
	// names are those of the flags.
	names []string
}

// shownFlags are the flags of kubectl that the help lists, with their usage; the others work as well.
var shownFlags = map[string]string{
	"kubeconfig":      "kubeconfig of the cluster to read over the Kubernetes API (default: as kubectl finds it)",
	"context":         "context of the kubeconfig",
	"as":              "user to impersonate",
	"as-group":        "group to impersonate, may be repeated",
	"request-timeout": "time limit of one request, such as 30s; 0 for none",
}

// addFlags adds kubectl's flags.
func (k *kubeconfig) addFlags(c *cobra.Command) {
	k.flags = genericclioptions.NewConfigFlags(false)
	k.flags.CacheDir = nil     // nothing is cached
	k.flags.Namespace = nil    // an audit reads all namespaces
	k.flags.AuthInfoName = nil // --user is etcd's
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	k.flags.AddFlags(set)
	set.VisitAll(func(f *pflag.Flag) {
		usage, isShown := shownFlags[f.Name]
		f.Usage, f.Hidden = usage, !isShown
		f.Shorthand = ""
		c.Flags().AddFlag(f)
		k.names = append(k.names, f.Name)
	})
	c.MarkFlagFilename("kubeconfig")
	completeNothing(c, "as", "as-group", "request-timeout")
	c.RegisterFlagCompletionFunc("context", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		config, err := k.flags.ToRawKubeConfigLoader().RawConfig()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return slices.Sorted(maps.Keys(config.Contexts)), cobra.ShellCompDirectiveNoFileComp
	})
}

// given returns the name of a flag of kubectl that the command line has, or "".
func (k *kubeconfig) given(c *cobra.Command) string {
	for _, name := range k.names {
		if c.Flags().Changed(name) {
			return name
		}
	}
	return ""
}

// config returns how to reach the server.
func (k *kubeconfig) config() (*rest.Config, error) {
	loader := k.flags.ToRawKubeConfigLoader()
	raw, err := loader.RawConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	context := cmp.Or(*k.flags.Context, raw.CurrentContext)
	if *k.flags.APIServer+*k.flags.ClusterName == "" && (len(raw.Clusters) == 0 || context == "") {
		if context != "" {
			return nil, fmt.Errorf("kubeconfig: there is no cluster of context %q", context)
		}
		// In a Pod kubectl needs no kubeconfig. Elsewhere it takes http://localhost:8080, where nothing has served for years.
		config, err := rest.InClusterConfig()
		switch {
		case err == nil:
			return config, nil
		case len(raw.Clusters) > 0:
			return nil, errors.New("kubeconfig: there is no current context; name one with --context")
		}
		return nil, errNoCluster
	}
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return config, nil
}

var errNoCluster = errors.New("no cluster: no kubeconfig at --kubeconfig, $KUBECONFIG or ~/.kube/config names one; " +
	"name a kubeconfig, or an etcd snapshot with --etcd-snapshot, or a running etcd with --endpoints")
