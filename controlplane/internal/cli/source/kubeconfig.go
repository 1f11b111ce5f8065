package source

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // so that kubeconfigs work that kubectl works with
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/usage"
)

// kubeconfig is how the Kubernetes API is reached: by kubectl's flags and defaults. kubectl has them from package
// genericclioptions of cli-runtime, which would more than double the size of the plugin.
type kubeconfig struct {
	path      string
	overrides clientcmd.ConfigOverrides
	userExtra []string // KEY=VALUE
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
	k.overrides.ClusterDefaults = clientcmd.ClusterDefaults
	flags, none := clientcmd.RecommendedConfigOverrideFlags(""), clientcmd.FlagInfo{}
	flags.AuthOverrideFlags.Username, flags.AuthOverrideFlags.Password = none, none // kubectl has none either
	flags.ContextOverrideFlags.Namespace = none                                     // an audit reads all namespaces
	flags.ContextOverrideFlags.AuthInfoName = none                                  // --user is etcd's
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.StringVar(&k.path, clientcmd.RecommendedConfigPathFlag, "", "")
	set.StringArrayVar(&k.userExtra, "as-user-extra", nil, "")
	clientcmd.BindOverrideFlags(&k.overrides, set, flags)
	set.VisitAll(func(f *pflag.Flag) {
		usage, isShown := shownFlags[f.Name]
		f.Usage, f.Hidden = usage, !isShown
		c.Flags().AddFlag(f)
		k.names = append(k.names, f.Name)
	})
	c.MarkFlagFilename("kubeconfig")
	usage.CompleteNothing(c, "as", "as-group", "request-timeout")
	c.RegisterFlagCompletionFunc("context", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		config, err := k.loader().RawConfig()
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

// loader returns what the kubeconfig and the flags say.
func (k *kubeconfig) loader() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.DefaultClientConfig = &clientcmd.DefaultClientConfig
	rules.ExplicitPath = k.path
	overrides := k.overrides
	for _, text := range k.userExtra {
		if key, value, ok := strings.Cut(text, "="); ok { // kubectl ignores one without a value, too
			if overrides.AuthInfo.ImpersonateUserExtra == nil {
				overrides.AuthInfo.ImpersonateUserExtra = map[string][]string{}
			}
			overrides.AuthInfo.ImpersonateUserExtra[key] = append(overrides.AuthInfo.ImpersonateUserExtra[key], value)
		}
	}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &overrides)
}

// config returns how to reach the server.
func (k *kubeconfig) config() (*rest.Config, error) {
	loader := k.loader()
	raw, err := loader.RawConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	context := cmp.Or(k.overrides.CurrentContext, raw.CurrentContext)
	if k.overrides.ClusterInfo.Server+k.overrides.Context.Cluster == "" && (len(raw.Clusters) == 0 || context == "") {
		if context != "" {
			return nil, fmt.Errorf("kubeconfig: there is no cluster of context %q", context)
		}
		// In a Pod kubectl needs no kubeconfig. Elsewhere it takes http://localhost:8080, where nothing has served for
		// years.
		config, err := rest.InClusterConfig()
		switch {
		case err == nil:
			return config, nil
		case len(raw.Clusters) > 0:
			return nil, errors.New("kubeconfig: there is no current context; name one with --context")
		}
		return nil, ErrNoCluster
	}
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	// A password would stand in each report.
	if server, err := url.Parse(config.Host); err == nil && server.User != nil {
		return nil, fmt.Errorf("kubeconfig: the server %s has a user or a password in its URL, which belong in users", server.Host)
	}
	return config, nil
}

// ErrNoCluster: nothing names a cluster.
var ErrNoCluster = errors.New("no cluster: no kubeconfig at --kubeconfig, $KUBECONFIG or ~/.kube/config names one; " +
	"name a kubeconfig, or an etcd snapshot with --etcd-snapshot, or a running etcd with --endpoints; ETCDCTL_ENDPOINTS has no effect on this command")
