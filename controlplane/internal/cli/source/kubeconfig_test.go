package source

import (
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
)

// kubectlFlags are those of kubectl that the commands have, too.
func kubectlFlags() (*genericclioptions.ConfigFlags, *pflag.FlagSet) {
	f := genericclioptions.NewConfigFlags(false)
	f.CacheDir, f.Namespace, f.AuthInfoName = nil, nil, nil
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.AddFlags(set)
	return f, set
}

func ourFlags() (*kubeconfig, *pflag.FlagSet) {
	k, c := new(kubeconfig), new(cobra.Command)
	k.addFlags(c)
	return k, c.Flags()
}

// TestKubectlFlags compares names, types and defaults with kubectl's.
func TestKubectlFlags(t *testing.T) {
	list := func(set *pflag.FlagSet) (all []string) {
		set.VisitAll(func(f *pflag.Flag) { all = append(all, f.Name+" "+f.Value.Type()+" "+f.DefValue+" "+f.NoOptDefVal) })
		return all
	}
	_, kubectl := kubectlFlags()
	_, ours := ourFlags()
	if want, got := list(kubectl), list(ours); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// twoClusters is a kubeconfig with two contexts, of which each has settings that the other lacks.
const twoClusters = `
apiVersion: v1
kind: Config
current-context: first
clusters:
- {name: one, cluster: {server: "https://one.example:6443", certificate-authority-data: b25l, tls-server-name: one}}
- {name: two, cluster: {server: "https://two.example:6443", insecure-skip-tls-verify: true, proxy-url: "http://proxy.example:1"}}
contexts:
- {name: first, context: {cluster: one, user: token, namespace: system}}
- {name: second, context: {cluster: two, user: exec}}
users:
- {name: token, user: {token: secret, as: somebody, as-groups: [some]}}
- name: exec
  user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: login, args: [now], interactiveMode: Never}}
`

// TestPasswordInURL refuses a password where it would be shown.
func TestPasswordInURL(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(twoClusters), 0o600); err != nil {
		t.Fatal(err)
	}
	k, flags := ourFlags()
	if err := flags.Parse([]string{"--kubeconfig", file, "--server", "https://root:secret@three.example"}); err != nil {
		t.Fatal(err)
	}
	if _, err := k.config(); err == nil || !strings.Contains(err.Error(), "the server three.example has") || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}

// TestKubectlConfig compares how the server is reached with kubectl's way, for each flag.
func TestKubectlConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(twoClusters), 0o600); err != nil {
		t.Fatal(err)
	}
	certificate, key := filepath.Join(t.TempDir(), "some.crt"), filepath.Join(t.TempDir(), "some.key")
	for _, name := range []string{certificate, key} {
		if err := os.WriteFile(name, []byte("content of "+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("KUBECONFIG", file)
	seen := map[string]bool{}
	var plain *rest.Config
	for _, args := range [][]string{
		nil,
		{"--kubeconfig", "/nonexistent"},
		{"--kubeconfig", file},
		{"--context", "second"},
		{"--context", "third"},
		{"--cluster", "two"},
		{"--cluster", "three"},
		{"--server", "https://three.example"},
		{"--server", "https://three.example", "--insecure-skip-tls-verify"},
		{"--context", "second", "--server", "http://three.example"},
		{"--token", "other"},
		{"--context", "second", "--token", "other"},
		{"--as", "other"},
		{"--as", "other", "--as-group", "a,b", "--as-group", "c"},
		{"--as", "other", "--as-uid", "7"},
		{"--as", "other", "--as-user-extra", "k=v", "--as-user-extra", "k=w=x", "--as-user-extra", "l=", "--as-user-extra", "none"},
		{"--as-uid", "7"},
		{"--context", "second", "--as-uid", "7"}, // nobody to impersonate
		{"--certificate-authority", certificate},
		{"--certificate-authority", "/nonexistent"},
		{"--context", "second", "--certificate-authority", certificate},
		{"--client-certificate", certificate},
		{"--client-certificate", certificate, "--client-key", key},
		{"--client-key", key},
		{"--insecure-skip-tls-verify"},
		{"--context", "second", "--insecure-skip-tls-verify=false"},
		{"--tls-server-name", "other"},
		{"--request-timeout", "7s"},
		{"--request-timeout", "7"},
		{"--request-timeout", "soon"},
		{"--disable-compression"},
		{"--proxy-url", "http://other.example:2"},
		{"--proxy-url", "no URL"},
	} {
		for _, arg := range args {
			if name, isFlag := strings.CutPrefix(arg, "--"); isFlag {
				name, _, _ = strings.Cut(name, "=")
				seen[name] = true
			}
		}
		kubectl, set := kubectlFlags()
		if err := set.Parse(args); err != nil {
			t.Fatal(err)
		}
		want, wantErr := kubectl.ToRESTConfig()
		ours, set := ourFlags()
		if err := set.Parse(args); err != nil {
			t.Fatal(err)
		}
		got, err := ours.loader().ClientConfig()
		if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
			t.Errorf("%v: %v, want %v", args, err, wantErr)
			continue
		}
		if err != nil {
			continue
		}
		if plain == nil {
			plain = want
		}
		if p, wantP := proxyOf(t, got), proxyOf(t, want); p != wantP || !reflect.DeepEqual(got, want) {
			t.Errorf("%v: %v by %q, want %v by %q", args, got, p, want, wantP)
		}
		config, err := ours.config()
		if err != nil || config.Host != want.Host || config.BearerToken != want.BearerToken {
			t.Errorf("%v: %v, %v, want %v", args, config, err, want)
		}
	}
	if plain == nil || plain.Host != "https://one.example:6443" || plain.BearerToken != "secret" {
		t.Errorf("without flags: %v", plain)
	}
	_, set := kubectlFlags()
	set.VisitAll(func(f *pflag.Flag) {
		if !seen[f.Name] {
			t.Errorf("--%s is not compared", f.Name)
		}
	})
}

// proxyOf takes the proxy, a function, out of a configuration, and returns its URL.
func proxyOf(t *testing.T, c *rest.Config) string {
	t.Helper()
	if c.Proxy == nil {
		return ""
	}
	url, err := c.Proxy(new(http.Request))
	if err != nil {
		t.Fatal(err)
	}
	c.Proxy = nil
	return url.String()
}
